"""What the webhooks allow of ClusterNetworks, VlanConfigs, HostNetworkConfigs and the agents' reports.

Every refusal names the object, the field and what is allowed there.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.bonds import BOND_MODES, INTERVAL_MAX, parse_bond_settings
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.harvester import (
    MTU_MAX,
    MTU_MIN,
    VLAN_STATUSES,
    ClusterNetwork,
    HostNetworkConfig,
    Uplink,
    VlanConfig,
    VlanStatus,
    parse_mac,
    parse_tx_queue_length,
    parse_uplink_mtu,
)
from lanloom.api.l3 import VID_MAX, AnnotationError
from lanloom.api.linknames import interface_name
from lanloom.api.meta import is_label_key, is_label_value
from lanloom.api.resource import Resource
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit.l3 import has_addresses_on
from lanloom.features.vlan.rules.admit.lans import LISTS as LAN_LISTS
from lanloom.features.vlan.rules.admit.namespaces import LISTS, outsiders, parse_namespaces
from lanloom.features.vlan.rules.admit.vms import check_nodes_lost
from lanloom.features.vlan.rules.desired.adoption import parse_grant
from lanloom.features.vlan.rules.desired.names import (
    is_link,
    is_report_of,
    is_vlan_status_of,
    network_of_link,
    node_label,
    report_name,
    vlan_status_name,
)
from lanloom.features.vlan.rules.rollout.policy import parse_rollout
from lanloom.refusals import Denied, Malformed, Refusal
from lanloom.text import listed, quote


def check_cluster_network(
    new: ClusterNetwork, old: ClusterNetwork | None, reader: ClusterReader
) -> tuple[str, ...]:
    """Check that a ClusterNetwork may be created or changed so. Return warnings.

    Only annotations that changed are judged: others, such as the manager's, must get through next to a broken one.
    """
    if old is None:
        _check_name(new.metadata.name, reader)
    before = old.metadata.annotations if old is not None else {}
    changed = {key: text for key, text in new.metadata.annotations.items() if before.get(key) != text}
    warnings: tuple[str, ...] = ()
    try:
        for field, parse in _ANNOTATIONS.items():
            if field in changed:
                parse(changed[field])
        if names.ROLLOUT in changed:
            canary = parse_rollout(changed[names.ROLLOUT]).canary
            warnings += _unknown(f"{names.ROLLOUT} names canaries that are not nodes", canary, reader)
        if names.ADOPT_LINKS in changed:
            nodes = parse_grant(changed[names.ADOPT_LINKS]).nodes
            warnings += _unknown(f"{names.ADOPT_LINKS} names nodes that do not exist", nodes, reader)
        if any(field in changed for field in LISTS):
            warnings += outsiders(new, reader)
    except AnnotationError as error:
        verb = "create" if old is None else "update"
        raise Malformed(f"can't {verb} ClusterNetwork {new.metadata.name} because {error}") from None
    return warnings


_ANNOTATIONS: dict[str, Callable[[str], object]] = {
    names.UPLINK_MTU: partial(parse_uplink_mtu, names.UPLINK_MTU),
    names.ROLLOUT: parse_rollout,
    names.ADOPT_LINKS: parse_grant,
    **{field: partial(parse_namespaces, field) for field in (*LISTS, *LAN_LISTS)},
}
"""Annotations of a ClusterNetwork that users write, and what reads them."""


def cluster_network_faults(network: ClusterNetwork) -> Iterator[str]:
    """Yield what can't be so of a ClusterNetwork by itself, but for its roll-out policy, of which a condition tells."""
    yield from faults_of(lambda: _check_form(network.metadata.name))
    for field, parse in _ANNOTATIONS.items():
        if field != names.ROLLOUT and (text := network.metadata.annotations.get(field)) is not None:
            yield from faults_of(partial(parse, text))


def faults_of(*checks: Callable[[], object]) -> Iterator[str]:
    """Yield what the checks refuse, each once at the most."""
    for check in checks:
        try:
            check()
        except (AnnotationError, Refusal) as error:
            yield str(error)


def _unknown(title: str, named: Iterable[str], reader: ClusterReader) -> tuple[str, ...]:
    unknown = sorted(set(named) - set(reader.nodes()))
    return (f"{title}: {', '.join(unknown)}",) if unknown else ()


def _check_name(name: str, reader: ClusterReader) -> None:
    """Check the name: those of links are made from it."""
    title = f"can't create ClusterNetwork {quote(name)}"
    try:
        _check_form(name)
    except Denied as refusal:
        raise Denied(f"{title} because {refusal}") from None
    for other in reader.cluster_networks():
        taken = other.metadata.name
        same = taken != name and interface_name(taken, VID_MAX) == interface_name(name, VID_MAX)
        if same and reader.cluster_network(taken) is not None:
            raise Denied(
                f"{title} because its VLAN interfaces would have the same names as those of ClusterNetwork {taken} "
                f"({interface_name(name, VID_MAX)}); choose another metadata.name"
            )


def _check_form(name: str) -> None:
    if len(name) > names.CLUSTER_NETWORK_NAME_MAX or "." in name:
        raise Denied(
            f"metadata.name must have at most {names.CLUSTER_NETWORK_NAME_MAX} characters and no dot: the bridge "
            f"{quote(names.bridge_name(name))} is named after it"
        )


def check_cluster_network_deletion(old: ClusterNetwork, reader: ClusterReader) -> None:
    """Raise Denied for the deletion of a ClusterNetwork in use."""
    name = old.metadata.name
    title = f"can't delete ClusterNetwork {name}"
    if name == names.MGMT:
        raise Denied(f"{title} because it is the management network")
    configs = sorted({item.metadata.name for item in reader.configs_of(name)})
    if configs:
        raise Denied(f"{title} because the VlanConfigs {', '.join(configs)} belong to it; delete them first")
    nads = sorted({str(item.metadata.key) for item in reader.nads_of(name)})
    if nads:
        raise Denied(f"{title} because the networks {', '.join(nads)} use it; delete them first")


def check_host_network(new: HostNetworkConfig, old: HostNetworkConfig | None, reader: ClusterReader) -> None:
    """Raise Denied if Harvester would give addresses to nodes on a VLAN where a NAD of Lanloom's does."""
    if old is not None and new.spec == old.spec:
        return
    cluster_network, vid = new.spec.cluster_network, new.spec.vlanID
    for nad in reader.nads_on(cluster_network, vid):
        if has_addresses_on(nad, vid):
            verb = "create" if old is None else "update"
            raise Denied(
                f"can't {verb} HostNetworkConfig {new.metadata.name} because spec.vlanID is {vid} and "
                f"NetworkAttachmentDefinition {nad.metadata.key} already has node addresses on that VLAN of "
                f"{cluster_network}; choose another VLAN id, or remove the annotation {names.L3_CONNECTIVITY} there"
            )


Report = ClusterNetworkNode | VlanStatus

_NAMING = {
    CLUSTER_NETWORK_NODES.full_name: (report_name, is_report_of),
    VLAN_STATUSES.full_name: (vlan_status_name, is_vlan_status_of),
}


def check_report(report: Report, kind: Resource[Any], node: str) -> None:
    """Raise Denied unless the agent of `node` writes a report of its own node, under its own name.

    An agent whose node is not known is of the node "", which has none.
    """
    labels = report.metadata.labels
    name_of, _ = _NAMING[kind.full_name]
    name = name_of(labels.get(names.CLUSTER_NETWORK_LABEL, ""), node)
    own = labels.get(names.NODE_LABEL) == node_label(node) and report.metadata.name == name
    if not own or report.status.node not in ("", node):
        raise _foreign("write", report, kind, node)


def check_report_deletion(report: Report, kind: Resource[Any], node: str) -> None:
    """Raise Denied unless the agent of `node` deletes its own report, by its name or by all that is in it.

    More than it may write, because it has to make damaged reports again, and to clear up after others.
    """
    _, is_named_after = _NAMING[kind.full_name]
    own = is_named_after(report.metadata.name, node)
    labelled = report.metadata.labels.get(names.NODE_LABEL) == node_label(node)
    if not (own or (labelled and report.status.node in ("", node))):
        raise _foreign("delete", report, kind, node)


def _foreign(verb: str, report: Report, kind: Resource[Any], node: str) -> Denied:
    title = f"can't {verb} {kind.kind} {report.metadata.name} because"
    if not node:
        return Denied(
            f"{title} an agent may only {verb} its own node's, and the token of this one names neither a node nor a "
            f"known pod in namespace {names.LANLOOM_NAMESPACE}; if the agent has just started, try again in a moment"
        )
    return Denied(f"{title} the agent of node {quote(node)} may only {verb} its own node's")


def check_vlan_config(
    new: VlanConfig, old: VlanConfig | None, reader: ClusterReader, *, coexisting: bool = False
) -> tuple[str, ...]:
    """Check that a VlanConfig may be created or changed so. Return warnings.

    It may move to another cluster network if `coexisting` with Harvester's controller, which makes the uplinks again.
    """
    title = f"can't {'create' if old is None else 'update'} VlanConfig {new.metadata.name}"
    if old is not None and old.spec == replace(new.spec, description=old.spec.description):
        return ()  # the manager's own annotations must get through whatever became of the cluster since
    try:
        _check_target(new, old, reader, movable=coexisting)
        _check_uplink(new.spec.uplink)
        known = old.spec.uplink.nics if old is not None else ()
        others = (item.metadata.name for item in reader.cluster_networks())
        _check_links(new, known, (new.spec.cluster_network, *others))
        _check_selector(new, old)
        nodes = reader.matching(new.spec.node_selector)
        _check_hardware_address(new, nodes)
        _check_peers(new, nodes, reader, coexisting=coexisting)
        _check_nics_free(new, nodes, reader)
        if old is not None:
            stays = nodes if new.spec.cluster_network == old.spec.cluster_network else ()
            check_nodes_lost(old, set(reader.matching(old.spec.node_selector)) - set(stays), reader)
    except AnnotationError as error:
        raise Malformed(f"{title} because {error}") from None
    except Refusal as refusal:
        raise Denied(f"{title} because {refusal}") from None
    return () if nodes else ("spec.nodeSelector matches no node, so that no node gets this uplink",)


def vlan_config_faults(config: VlanConfig) -> Iterator[str]:
    """Yield what can't be so of a VlanConfig by itself."""
    spec = config.spec
    yield from faults_of(
        partial(_check_target_name, spec.cluster_network),
        partial(_check_uplink, spec.uplink),
        partial(_check_links, config, (), (spec.cluster_network,)),
        partial(_check_selector, config, None),
        partial(_check_hardware_address, config, ()),
    )


def check_vlan_config_deletion(old: VlanConfig, reader: ClusterReader) -> None:
    """Raise Denied for the deletion of a VlanConfig whose uplink VMs need."""
    try:
        check_nodes_lost(old, reader.matching(old.spec.node_selector), reader)
    except Refusal as refusal:
        raise Denied(f"can't delete VlanConfig {old.metadata.name} because {refusal}") from None


def _check_target(new: VlanConfig, old: VlanConfig | None, reader: ClusterReader, *, movable: bool) -> None:
    name = new.spec.cluster_network
    if old is not None and old.spec.cluster_network != name and not movable:
        raise Denied(
            f"spec.clusterNetwork is immutable (it is {quote(old.spec.cluster_network)}); create another VlanConfig"
        )
    _check_target_name(name)
    network = reader.cluster_network(name)
    if network is None or (old is None and network.metadata.is_deleting):
        raise Denied(f"spec.clusterNetwork {quote(name)} does not exist; create the ClusterNetwork first")


def _check_target_name(name: str) -> None:
    if not name:
        raise Denied("spec.clusterNetwork is missing; name the ClusterNetwork whose uplink this is")
    if name == names.MGMT:
        raise Denied(
            "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network"
        )


def _check_uplink(uplink: Uplink) -> None:
    if not uplink.nics:
        raise Denied("spec.uplink.nics is empty; name at least one NIC")
    for nic in uplink.nics:
        if not is_link(nic):
            raise Denied(f"spec.uplink.nics has {quote(nic)}, which is not the name of a NIC")
    if len(set(uplink.nics)) != len(uplink.nics):
        raise Denied("spec.uplink.nics names a NIC twice")
    mtu, miimon, mode = uplink.linkAttributes.mtu, uplink.bondOptions.miimon, uplink.bondOptions.mode
    if mtu and not MTU_MIN <= mtu <= MTU_MAX:
        raise Denied(f"spec.uplink.linkAttributes.mtu is {mtu}; it must be 0 or from {MTU_MIN} to {MTU_MAX}")
    if mode not in BOND_MODES:
        raise Denied(f"spec.uplink.bondOptions.mode is {quote(mode)}; allowed are {', '.join(BOND_MODES)}")
    if not -1 <= miimon <= INTERVAL_MAX:
        raise Denied(
            f"spec.uplink.bondOptions.miimon is {miimon}; it must be from -1 to {INTERVAL_MAX} milliseconds"
        )
    for error in parse_bond_settings(uplink.bondOptions, uplink.nics)[1]:
        raise Denied(f"spec.uplink.{error}")
    parse_tx_queue_length("spec.uplink.linkAttributes.txQLen", uplink.linkAttributes.txQLen)


def _check_links(new: VlanConfig, known: Iterable[str], others: Iterable[str]) -> None:
    """Refuse the loopback, which carries nothing, and bridges and bonds of these cluster networks and of `mgmt`."""
    networks = {names.MGMT, *others}
    for nic in new.spec.uplink.nics:
        if nic in known:
            continue
        if nic == "lo":
            raise Denied("spec.uplink.nics has lo, the loopback interface; name a NIC of the nodes")
        if network_of_link(nic) in networks:
            raise Denied(
                f"spec.uplink.nics has {nic}, a link of the cluster network {network_of_link(nic)} itself; name a NIC "
                "of the nodes"
            )


def _check_selector(new: VlanConfig, old: VlanConfig | None) -> None:
    """Refuse a selector of what can't be a label: it matches no node, today or ever."""
    known = old.spec.node_selector.items() if old is not None else ()
    for key, value in new.spec.node_selector.items():
        if (key, value) in known:
            continue
        if not is_label_key(key):
            raise Denied(
                f"spec.nodeSelector has the key {quote(key)}, which is not a valid label key; name a "
                "label of the nodes, such as kubernetes.io/hostname"
            )
        if value and not is_label_value(value):
            raise Denied(
                f"spec.nodeSelector[{quote(key)}] is {quote(value)}, which is not a valid label value; use at most 63 "
                "letters, digits, -, _ and ."
            )


def _check_hardware_address(new: VlanConfig, nodes: tuple[str, ...]) -> None:
    field = "spec.uplink.linkAttributes.hardwareAddr"
    text = new.spec.uplink.linkAttributes.hardwareAddr
    if text:
        parse_mac(field, text)
        if len(nodes) > 1:
            raise Denied(
                f"{field} is {quote(text)} but spec.nodeSelector matches {listed(nodes)}, which can't share one "
                "address; create a VlanConfig for each node"
            )


def _check_peers(new: VlanConfig, nodes: tuple[str, ...], reader: ClusterReader, *, coexisting: bool) -> None:
    """To Harvester's webhook, 0 is the default MTU, and differs from any other."""
    mine, mtu = set(nodes), new.spec.uplink.linkAttributes.mtu
    for other in sorted(reader.configs_of(new.spec.cluster_network), key=lambda item: item.metadata.name):
        if other.metadata.name == new.metadata.name or other.metadata.is_deleting:
            continue
        shared = sorted(mine & set(reader.matching(other.spec.node_selector)))
        if shared:
            raise Denied(
                f"spec.nodeSelector matches {listed(shared)}, which VlanConfig {other.metadata.name} already covers"
            )
        theirs = other.spec.uplink.linkAttributes.mtu
        if mtu and theirs and theirs != mtu:
            way = "" if coexisting else ", or set it to 0 there first, so that it follows"
            raise Denied(
                f"spec.uplink.linkAttributes.mtu is {mtu} but VlanConfig {other.metadata.name} of the same cluster "
                f"network has {theirs}; make them equal{way}"
            )


def _check_nics_free(new: VlanConfig, nodes: tuple[str, ...], reader: ClusterReader) -> None:
    mine, nics = set(nodes), set(new.spec.uplink.nics)
    for network in sorted(item.metadata.name for item in reader.cluster_networks()):
        if network == new.spec.cluster_network:
            continue
        for other in reader.configs_of(network):
            if other.metadata.name == new.metadata.name:
                continue  # it moves, with its NICs
            taken = sorted(nics & set(other.spec.uplink.nics))
            shared = sorted(mine & set(reader.matching(other.spec.node_selector))) if taken else []
            if shared and not other.metadata.is_deleting:
                raise Denied(
                    f"spec.uplink.nics has {', '.join(taken)}, which VlanConfig {other.metadata.name} of the cluster "
                    f"network {network} already uses on {listed(shared)}"
                )

"""What the webhooks allow of VlanConfigs.

Every refusal names the object, the field and what is allowed there.
"""

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.harvester import (
    BOND_MODES,
    MTU_MAX,
    MTU_MIN,
    Uplink,
    VlanConfig,
    parse_mac,
    parse_tx_queue_length,
)
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import is_label_key, is_label_value
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit_vms import check_nodes_lost
from lanloom.features.vlan.rules.names import is_link, network_of_link
from lanloom.refusals import Denied, Malformed, Refusal
from lanloom.text import listed, quote

MIIMON_MAX = 60_000
"""Milliseconds. A bond that looks at its links more seldom is of no use."""


def check_vlan_config(new: VlanConfig, old: VlanConfig | None, reader: ClusterReader) -> tuple[str, ...]:
    """Return whether a VlanConfig may be created or changed so; returns warnings."""
    title = f"can't {'create' if old is None else 'update'} VlanConfig {new.metadata.name}"
    if old is not None and old.spec == replace(new.spec, description=old.spec.description):
        return ()  # the manager's own annotations must get through whatever became of the cluster since
    try:
        _check_target(new, old, reader)
        _check_uplink(new.spec.uplink)
        _check_links(new, old, reader)
        _check_selector(new, old)
        nodes = reader.matching(new.spec.node_selector)
        _check_hardware_address(new, nodes)
        _check_peers(new, nodes, reader)
        _check_nics_free(new, nodes, reader)
        if old is not None:
            check_nodes_lost(new, set(reader.matching(old.spec.node_selector)) - set(nodes), reader)
    except AnnotationError as error:
        raise Malformed(f"{title} because {error}") from None
    except Refusal as refusal:
        raise Denied(f"{title} because {refusal}") from None
    return () if nodes else ("spec.nodeSelector matches no node, so that no node gets this uplink",)


def check_vlan_config_deletion(old: VlanConfig, reader: ClusterReader) -> None:
    """Whether a VlanConfig may be deleted: no VM may need the uplink."""
    try:
        check_nodes_lost(old, reader.matching(old.spec.node_selector), reader)
    except Refusal as refusal:
        raise Denied(f"can't delete VlanConfig {old.metadata.name} because {refusal}") from None


def _check_target(new: VlanConfig, old: VlanConfig | None, reader: ClusterReader) -> None:
    name = new.spec.cluster_network
    if old is not None and old.spec.cluster_network != name:
        raise Denied(
            f"spec.clusterNetwork is immutable (it is {quote(old.spec.cluster_network)}); create another VlanConfig"
        )
    if name == names.MGMT:
        raise Denied(
            "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network"
        )
    network = reader.cluster_network(name)
    if network is None or (old is None and network.metadata.is_deleting):
        raise Denied(f"spec.clusterNetwork {quote(name)} does not exist; create the ClusterNetwork first")


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
    if not -1 <= miimon <= MIIMON_MAX:
        raise Denied(
            f"spec.uplink.bondOptions.miimon is {miimon}; it must be from -1 to {MIIMON_MAX} milliseconds"
        )
    parse_tx_queue_length("spec.uplink.linkAttributes.txQLen", uplink.linkAttributes.txQLen)


def _check_links(new: VlanConfig, old: VlanConfig | None, reader: ClusterReader) -> None:
    """The loopback carries nothing, and a bridge or bond of a cluster network would be its own port."""
    networks = {
        names.MGMT,
        new.spec.cluster_network,
        *(item.metadata.name for item in reader.cluster_networks()),
    }
    known = old.spec.uplink.nics if old is not None else ()
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
    """A selector of what can't be a label matches no node, today or ever."""
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


def _check_peers(new: VlanConfig, nodes: tuple[str, ...], reader: ClusterReader) -> None:
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
            raise Denied(
                f"spec.uplink.linkAttributes.mtu is {mtu} but VlanConfig {other.metadata.name} of the same cluster "
                f"network has {theirs}; make them equal, or set it to 0 there first, so that it follows"
            )


def _check_nics_free(new: VlanConfig, nodes: tuple[str, ...], reader: ClusterReader) -> None:
    mine, nics = set(nodes), set(new.spec.uplink.nics)
    for network in sorted(item.metadata.name for item in reader.cluster_networks()):
        if network == new.spec.cluster_network:
            continue
        for other in reader.configs_of(network):
            taken = sorted(nics & set(other.spec.uplink.nics))
            shared = sorted(mine & set(reader.matching(other.spec.node_selector))) if taken else []
            if shared and not other.metadata.is_deleting:
                raise Denied(
                    f"spec.uplink.nics has {', '.join(taken)}, which VlanConfig {other.metadata.name} of the cluster "
                    f"network {network} already uses on {listed(shared)}"
                )

"""What the webhooks allow of NetworkAttachmentDefinitions, and what they let pass with a warning.

Every refusal names the object, the field and what is allowed there.

Harvester makes a NAD in its own namespace for the storage network, and labels it if the VLAN is to be exclusive. The
label counts in that namespace only: else a tenant who may write a NAD somewhere could take a VLAN from all others.
"""

from collections.abc import Callable, Iterator
from functools import partial

from lanloom.api import names
from lanloom.api.dualstack import parse_cidr6, parse_node_addresses, parse_subnet6, split_gateways
from lanloom.api.harvester import DEFAULT_MTU
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    mode4_of,
    parse_connectivity,
    parse_ip_pool,
    parse_modes,
)
from lanloom.api.l3annotations import l3_of
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config, read_config
from lanloom.api.routing import parse_address, parse_dns, parse_gateway, parse_routes, parse_routes6
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit.l3 import TooEarly, check_l3, nodes_that_left
from lanloom.features.vlan.rules.admit.nadconfig import LABELS, check_config, check_labels, derived_labels
from lanloom.features.vlan.rules.admit.uplinks import faults_of
from lanloom.features.vlan.rules.admit.vms import check_config_in_use, check_overlay
from lanloom.features.vlan.rules.desired.uplink import uplink_mtu
from lanloom.refusals import Denied, Malformed, Refusal
from lanloom.text import quote


def check_nad(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    reader: ClusterReader,
    *,
    coexisting: bool = False,
) -> tuple[str, ...]:
    """Check that a NAD may be created or changed so. Return warnings.

    Only what changed is checked against the cluster's present state, so that an unrelated edit never fails because a
    node joined or left. One of what is not judged here, such as others' annotations or the manager's label, passes
    also where the network was there before the webhooks and would be refused today. `coexisting` says whether
    Harvester's rules hold too.
    """
    if old is not None and _checked_fields(new) == _checked_fields(old):
        present = _previous(old)
        return nodes_that_left(present, reader) if present else ()
    verb = "create" if old is None else "update"
    title = f"can't {verb} NetworkAttachmentDefinition {new.metadata.key}"
    try:
        return _check_nad(new, old, reader, coexisting=coexisting)
    except AnnotationError as error:
        raise Malformed(f"{title} because {error}") from None
    except Refusal as refusal:
        kind = TooEarly if isinstance(refusal, TooEarly) else Denied
        raise kind(f"{title} because {refusal}") from None


def nad_faults(nad: NetworkAttachmentDefinition) -> Iterator[str]:
    """Yield what can't be so of a NAD by itself: of its configuration, its annotations, and its labels."""
    config = nad.spec.config
    broken = tuple(faults_of(partial(parse_config, config), partial(check_config, nad.metadata.key, config)))
    yield from dict.fromkeys(broken)
    if not broken:
        yield from faults_of(partial(check_labels, nad, None, parse_config(config)))
    annotated = dict.fromkeys(faults_of(partial(_check_annotations, nad), partial(l3_of, nad)))
    yield from (fault for fault in annotated if fault not in broken)


def _checked_fields(nad: NetworkAttachmentDefinition) -> tuple[object, ...]:
    """Return the parts of a NAD that may be refused. Labels count only where they contradict the configuration."""
    annotations, implied = nad.metadata.annotations, derived_labels(nad)
    keys = (names.L3_CONNECTIVITY, names.MODE, *_PARSERS)
    labels = {key: nad.metadata.labels.get(key) for key in LABELS}
    odd = {key: value for key, value in labels.items() if value not in (None, implied.get(key))}
    return nad.spec, {key: annotations.get(key) for key in keys}, odd


def _check_nad(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    reader: ClusterReader,
    *,
    coexisting: bool,
) -> tuple[str, ...]:
    network = parse_config(new.spec.config)
    reconfigured = old is None or old.spec.config != new.spec.config
    if reconfigured:
        check_config(new.metadata.key, new.spec.config)
    _check_annotations(new)
    value, before = l3_of(new), _previous(old)
    check_labels(new, old, network)
    if old is not None:
        _check_immutable(new, old, network)
        check_config_in_use(new, old, reader)
        check_overlay(old, before, value, reader)
    if network is None:
        return ()
    # Only its label names what an overlay network runs over.
    named = network.cluster_network or cluster_network_of(new)
    if named and (named != _carrying_network(old) or (value is not None and value != before)):
        _check_cluster_network(named, reader)
    if not network.cluster_network:
        return ()
    warnings: tuple[str, ...] = ()
    if reconfigured:
        check_storage_vlan(new, network, reader)
        warnings = network_warnings(new.spec.config, network, reader)
    if value is None:
        return warnings + _idle(new)
    return warnings + check_l3(new, value, before, network.cluster_network, reader, coexisting=coexisting)


def _carrying_network(nad: NetworkAttachmentDefinition | None) -> str:
    """Return the cluster network that carries a NAD as it is; empty for none, or a configuration that can't be read."""
    if nad is None:
        return ""
    try:
        network = parse_config(nad.spec.config)
    except AnnotationError:
        return ""
    return (network.cluster_network or cluster_network_of(nad)) if network is not None else ""


def _idle(nad: NetworkAttachmentDefinition) -> tuple[str, ...]:
    """Return a warning of annotations that do nothing because another is missing, perhaps misspelt."""
    annotations = nad.metadata.annotations
    idle = [key for key in (names.MODE, *_PARSERS) if key in annotations]
    if names.L3_CONNECTIVITY in annotations or not idle:
        return ()
    verb = "has" if len(idle) == 1 else "have"
    return (f'{", ".join(idle)} {verb} no effect without {names.L3_CONNECTIVITY}: "true"',)


def _check_annotations(nad: NetworkAttachmentDefinition) -> None:
    """Check values that are not in use now, too: they would come into force with another annotation."""
    annotations = nad.metadata.annotations
    on = parse_connectivity(annotations.get(names.L3_CONNECTIVITY))
    if names.MODE in annotations:
        parse_modes(names.MODE, annotations[names.MODE])
    unused = tuple(
        field
        for field, mode in ((names.NODE_IP_MAP, "static"), (names.IP_POOL, "pool"))
        if not on or mode4_of(annotations.get(names.MODE)) != mode
    )
    if not on or "," not in annotations.get(names.MODE, ""):
        unused = (*unused, names.IPV6_SUBNET)
    if not on:
        unused = (*unused, names.GATEWAY, names.ROUTES, names.DNS)
    for field in unused:
        if annotations.get(field, "").strip() not in ("", "{}"):
            _PARSERS[field](field, annotations[field])


def _parse_any_gateway(field: str, text: str) -> object:
    """Parse a gateway whose mode is not known yet: with a prefix length, or without. Raises AnnotationError."""
    four, six = split_gateways(field, text)
    if six:
        parse_cidr6(field, six if "/" in six else f"{six}/64")
    return parse_gateway(field, four, "dhcp", {}) if "/" in four or not four else parse_address(field, four)


_PARSERS: dict[str, Callable[[str, str], object]] = {
    names.NODE_IP_MAP: parse_node_addresses,
    names.IP_POOL: parse_ip_pool,
    names.IPV6_SUBNET: parse_subnet6,
    names.GATEWAY: _parse_any_gateway,
    names.ROUTES: lambda field, text: (parse_routes(field, text, {}), parse_routes6(field, text, {})),
    names.DNS: parse_dns,
}


def _check_immutable(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition, network: VmNetwork | None
) -> None:
    before, after = cluster_network_of(old), cluster_network_of(new)
    if not before or after == before:
        return
    if network is None:
        raise Denied(
            f"spec.config, of type {quote(read_config(new.spec.config).get('type'))}, names no bridge of its cluster "
            f"network {quote(before)} any more; the cluster network of a network is immutable; delete and recreate the "
            "network"
        )
    raise Denied(
        f"the cluster network of a network is immutable (it is {quote(before)}, not {quote(after)}); "
        "delete and recreate the network"
    )


def _check_cluster_network(name: str, reader: ClusterReader) -> None:
    network = reader.cluster_network(name)
    if network is None or network.metadata.is_deleting:
        raise Denied(f"its cluster network {quote(name)} does not exist; create the ClusterNetwork first")


def _previous(old: NetworkAttachmentDefinition | None) -> L3 | None:
    try:
        return l3_of(old) if old is not None else None
    except AnnotationError:
        return None


def network_warnings(text: str, network: VmNetwork, reader: ClusterReader) -> tuple[str, ...]:
    """Return the warnings of a new `spec.config` and of the VM network that it says."""
    found = (_management(network, reader), _mtu(text, network, reader), _small_mtu(text, network, reader))
    return tuple(warning for warning in found if warning)


def _management(network: VmNetwork, reader: ClusterReader) -> str:
    """Warn of the management VLAN, on which machines reach every node as an administrator does."""
    if network.cluster_network != names.MGMT:
        return ""
    ids = reader.reserved().vlan_ids
    if network.type == "UntaggedNetwork":
        if ids:
            return ""
        where = (
            f"the network carries the untagged frames of {names.MGMT}, which may be the management network"
        )
        return f"{where}: machines on it may reach the nodes there; to prevent this, use a VLAN id"
    held = sorted(
        vid for vid in ids if vid == network.vid or any(first <= vid <= last for first, last in network.trunk)
    )
    if not held:
        return ""
    field = "spec.config.vlanTrunk holds" if network.trunk else "spec.config.vlan is"
    return (
        f"{field} {held[0]}, the VLAN of the management network: machines on it reach the nodes there; to prevent "
        "this, choose other VLAN ids"
    )


def _mtu(text: str, network: VmNetwork, reader: ClusterReader) -> str:
    """Warn of an MTU above the uplink's, which drops larger frames."""
    mtu = _asked_mtu(text)
    found = reader.cluster_network(network.cluster_network)
    largest = uplink_mtu(found) if found is not None else 0
    if not largest or mtu <= largest:
        return ""
    return (
        f"spec.config.mtu is {mtu}, more than the MTU {largest} of the uplinks of {network.cluster_network}, which "
        f"drop larger frames; choose at most {largest}, or change the MTU of its VlanConfigs"
    )


def _small_mtu(text: str, network: VmNetwork, reader: ClusterReader) -> str:
    """Return why a port would shrink a bridge of others, and what the node has on it; empty if it would not."""
    name = network.cluster_network
    reports = [report.status for report in reader.statuses_of(name)]
    made_by_others = name == names.MGMT or any(status.mode == "beside" for status in reports)
    present = max((status.mtu for status in reports), default=0) or DEFAULT_MTU
    asked = _asked_mtu(text)
    if not made_by_others or (asked or DEFAULT_MTU) >= present:
        return ""
    field = "spec.config.mtu" if asked else "the default of spec.config.mtu"
    return (
        f"{field} is {asked or DEFAULT_MTU}, less than the MTU {present} of {names.bridge_name(name)}: unless an "
        "administrator has set the MTU of that bridge, it shrinks on each node that runs a pod or VM of this network, "
        "with all links of the node on it; those stay small afterwards, and lose their IPv6 addresses below 1280; to "
        f"prevent this, set spec.config.mtu to {present}, and a smaller MTU in the guest"
    )


def _asked_mtu(text: str) -> int:
    """Return the MTU of a configuration in bytes, 0 for none or one that can't be read."""
    try:
        mtu = read_config(text).get("mtu", 0)
    except AnnotationError:
        return 0
    return mtu if type(mtu) is int else 0


_SYSTEM_NETWORKS = {
    "storage-network.settings.harvesterhci.io": "storagenetwork-",
    "rwx-network.settings.harvesterhci.io": "rwx-network-",
}
"""By what Harvester knows the NADs of its own networks: an annotation that is `true`, or how the name begins."""


def check_storage_vlan(nad: NetworkAttachmentDefinition, network: VmNetwork, reader: ClusterReader) -> None:
    """Check that a NAD keeps off the exclusive VLANs of its cluster network. Harvester's own NADs are exempt."""
    if _is_system_network(nad):
        return
    for other in reader.exclusive_of(network.cluster_network):
        storage = _exclusive(other)
        if storage is None or other.metadata.key == nad.metadata.key:
            continue
        clash = _clash(network, storage)
        if clash:
            raise Denied(
                f"{clash} of the storage network, which uses it exclusively (label "
                f'{names.EXCLUSIVE_VLAN_LABEL}: "true"); choose other VLAN ids'
            )


def _is_system_network(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD is of Harvester's storage network, or of its network for shared volumes."""
    meta = nad.metadata
    return meta.namespace == names.HARVESTER_NAMESPACE and any(
        meta.annotations.get(annotation) == "true" or meta.name.startswith(prefix)
        for annotation, prefix in _SYSTEM_NETWORKS.items()
    )


def _exclusive(nad: NetworkAttachmentDefinition) -> VmNetwork | None:
    """Return the network of a NAD that has its VLAN for itself; None for any other."""
    meta = nad.metadata
    if meta.namespace != names.HARVESTER_NAMESPACE or meta.labels.get(names.EXCLUSIVE_VLAN_LABEL) != "true":
        return None
    try:
        return parse_config(nad.spec.config)
    except AnnotationError:
        return None


def _clash(network: VmNetwork, storage: VmNetwork) -> str:
    """Return the part of a network on the VLAN of another, empty for none. A trunk carries untagged frames as well."""
    if any(first <= storage.vid <= last for first, last in network.trunk):
        return f"spec.config.vlanTrunk holds {storage.vid}, the VLAN id"
    if network.vid != storage.vid:
        return ""
    return (
        f"spec.config.vlan is {storage.vid}, the VLAN id" if storage.vid else "it carries the untagged frames"
    )

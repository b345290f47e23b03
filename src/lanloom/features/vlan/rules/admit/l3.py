"""What the webhooks allow of node addresses, held against the cluster as it is, and the room that they need.

The parsers see to it that the annotations can be read, and fit each other. Whose NADs may change the nodes is in
`namespaces`.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.l3 import L3, AnnotationError, Route, mode4_of, parse_connectivity
from lanloom.api.l3annotations import l3_of
from lanloom.api.meta import Condition
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.routing import COVERED_MAX, addresses_covered
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit.namespaces import check_namespace
from lanloom.features.vlan.rules.desired.l3values import LEAST_MAX, least, no_room, room, size
from lanloom.features.vlan.rules.desired.reserved import subnets
from lanloom.features.vlan.rules.report.status import PASSING, READY
from lanloom.refusals import Denied, title_for, titles_for
from lanloom.text import listed, quote


def check_l3(
    nad: NetworkAttachmentDefinition,
    value: L3,
    before: L3 | None,
    cluster_network: str,
    reader: ClusterReader,
    *,
    coexisting: bool = False,
) -> tuple[str, ...]:
    """Check that a NAD may have the node addresses `value`, having had those of `before`. Return warnings.

    What did not change is not held against a cluster that has changed since.
    """
    if value == before:
        return nodes_that_left(value, reader)
    waiting = _waiting(cluster_network, reader, coexisting=coexisting)
    network = reader.cluster_network(cluster_network)
    if network is not None:
        check_namespace(nad.metadata.namespace, value, before, network)
    if before is None or before.vid != value.vid:
        _check_vlan_free(nad, value.vid, cluster_network, reader)
    if before is None or (value.source and not before.source):
        check_room(nad, cluster_network, reader)
    _check_routes(value, before, reader)
    _check_all_routes(nad, value, before, cluster_network, reader)
    _check_subnet(value, before, reader)
    if value.addresses and (before is None or before.addresses != value.addresses):
        if not waiting or reader.covered(cluster_network):
            _check_map_nodes(value, cluster_network, reader)
        return waiting
    return waiting + nodes_that_left(value, reader)


class TooEarly(Denied):
    """Node addresses on a cluster network whose uplinks are being built at this moment, alongside Harvester."""


def _waiting(cluster_network: str, reader: ClusterReader, *, coexisting: bool) -> tuple[str, ...]:
    """Return the warning of a cluster network whose uplinks do not work yet: nodes get the addresses when they do.

    So one file may hold both, in any order. Alongside Harvester its rule holds, which refuses that. `mgmt` must work:
    its agents say which VLANs are the management network's own, and no file makes its uplinks. Raises Denied.
    """
    if reader.is_usable(cluster_network):
        return ()
    name, remedy = quote(cluster_network), _remedy(cluster_network)
    if cluster_network != names.MGMT and not coexisting:
        return (
            f"nodes get addresses of this network when its cluster network {name} is ready: no node has a working "
            f"uplink for it yet; {remedy}",
        )
    refusal = TooEarly if uplinks_come(cluster_network, reader) else Denied
    raise refusal(f"its cluster network {name} is not ready: no node has a working uplink for it; {remedy}")


def uplinks_come(cluster_network: str, reader: ClusterReader) -> frozenset[str]:
    """Return the nodes that shall carry the cluster network, and have still to say how they fare with the uplink."""
    reported = {item.status.node: item.status.conditions for item in reader.statuses_of(cluster_network)}
    return frozenset(
        node
        for selector in _selectors(cluster_network, reader)
        for node in reader.matching(selector)
        if node not in reported or _is_passing(reported[node])
    )


def _selectors(cluster_network: str, reader: ClusterReader) -> Iterable[Mapping[str, str]]:
    """Return what selects the nodes of a cluster network: all are on `mgmt`, whose uplinks the installer makes."""
    if cluster_network == names.MGMT:
        return ({},)
    configs = reader.configs_of(cluster_network)
    return tuple(item.spec.node_selector for item in configs if not item.metadata.is_deleting)


def _is_passing(conditions: Iterable[Condition]) -> bool:
    return any(item.type == READY and item.reason in PASSING for item in conditions)


def _remedy(cluster_network: str) -> str:
    if cluster_network == names.MGMT:
        return "check that Lanloom's agents run"
    return "create a VlanConfig for it, or check its conditions"


def nodes_that_left(value: L3, reader: ClusterReader) -> tuple[str, ...]:
    """Return the warning that addresses are of nodes which are no longer there, if so."""
    known = reader.nodes()
    gone = sorted(node for node in value.addresses if node not in known)
    return (f"{names.NODE_IP_MAP} names nodes that no longer exist: {listed(gone)}",) if gone else ()


def _check_vlan_free(
    nad: NetworkAttachmentDefinition, vid: int, cluster_network: str, reader: ClusterReader
) -> None:
    if cluster_network == names.MGMT and vid in reader.reserved().vlan_ids:
        raise Denied(
            f"spec.config.vlan is {vid}, the VLAN of the management network itself, whose addresses belong to the "
            "installer; choose another VLAN id"
        )
    for other in reader.nads_on(cluster_network, vid):
        if other.metadata.key != nad.metadata.key and has_addresses_on(other, vid):
            title = title_for(nad.metadata.namespace, NADS.kind, *other.metadata.key)
            raise Denied(
                f"spec.config.vlan is {vid} and {title} already has node addresses on that VLAN of "
                f"{cluster_network}; only one network per VLAN can have node addresses"
            )
    for config in reader.host_networks_of(cluster_network):
        if config.spec.vlanID == vid and not config.metadata.is_deleting:
            raise Denied(
                f"spec.config.vlan is {vid} and Harvester's HostNetworkConfig {config.metadata.name} already gives "
                f"nodes addresses on that VLAN of {cluster_network}; delete that one, or choose another VLAN id"
            )


def has_addresses_on(nad: NetworkAttachmentDefinition, vid: int) -> bool:
    """Return whether a NAD has node addresses on that VLAN.

    Its label rules most others out without a look at their JSON.
    """
    if nad.metadata.is_deleting:
        return False
    if nad.metadata.labels.get(names.VLAN_ID_LABEL, str(vid)) != str(vid):
        return False
    try:
        network = parse_config(nad.spec.config)
        on = parse_connectivity(nad.metadata.annotations.get(names.L3_CONNECTIVITY))
    except AnnotationError:
        return False
    return on and network is not None and network.type == "L2VlanNetwork" and network.vid == vid


def _check_map_nodes(value: L3, cluster_network: str, reader: ClusterReader) -> None:
    expected = reader.covered(cluster_network)
    if value.addresses.keys() == expected:
        return
    unknown = sorted(value.addresses.keys() - expected)
    missing = sorted(expected - value.addresses.keys())
    if unknown:
        lacking = f", and has no address for {listed(missing)}" if missing else ""
        raise Denied(
            f"{names.NODE_IP_MAP} names {listed(unknown)}, which the cluster network {cluster_network} does not "
            f"cover{lacking}; allowed are {listed(sorted(expected)) or 'no nodes'}"
        )
    if missing:
        raise Denied(
            f"{names.NODE_IP_MAP} has no address for {listed(missing)}; every node of {cluster_network} needs one"
        )


def _check_subnet(value: L3, before: L3 | None, reader: ClusterReader) -> None:
    """Refuse a subnet that takes what is sent to its addresses away from hosts that have them elsewhere."""
    known = subnets(before) if before is not None else ()
    for subnet in subnets(value):
        holder = "" if subnet in known else reader.reserved().holder(subnet)
        if holder:
            field = names.NODE_IP_MAP if value.addresses else names.GATEWAY
            field = names.IPV6_SUBNET if str(subnet) == value.subnet6 else field
            raise Denied(f"{field} uses the subnet {subnet}, which overlaps {holder}; choose another subnet")


def _check_routes(value: L3, before: L3 | None, reader: ClusterReader) -> None:
    """Refuse a route over a VLAN to what the nodes need: it would cut them off from it, and from each other."""
    known = {*before.routing.routes, *before.routing.routes6} if before is not None else set()
    for route in (*value.routing.routes, *value.routing.routes6):
        holder = "" if route in known else reader.reserved().holder(ip_network(route.to))
        if holder:
            raise Denied(
                f"{names.ROUTES} has a route to {route.to}, which overlaps {holder}; choose destinations "
                "that do not overlap it"
            )


def _check_all_routes(
    nad: NetworkAttachmentDefinition,
    value: L3,
    before: L3 | None,
    cluster_network: str,
    reader: ClusterReader,
) -> None:
    """Several networks could have a default route in parts between them."""
    if not set(value.routing.routes) - set(before.routing.routes if before is not None else ()):
        return
    others = {
        other.metadata.key: routes
        for other in reader.nads_with_addresses(cluster_network)
        if other.metadata.key != nad.metadata.key and (routes := _routes(other))
    }
    found = addresses_covered(
        [*value.routing.routes, *(route for routes in others.values() for route in routes)]
    )
    if found >= COVERED_MAX:
        others_named = titles_for(
            nad.metadata.namespace, ((key.namespace, str(key)) for key in sorted(others))
        )
        raise Denied(
            f"{names.ROUTES} and those of {listed(others_named)} together cover {found} addresses, which "
            "is half of IPv4 or more: a default route, which belongs to the management network; name the subnets that "
            "are behind the VLANs"
        )


def _routes(nad: NetworkAttachmentDefinition) -> tuple[Route, ...]:
    if names.ROUTES not in nad.metadata.annotations:
        return ()
    try:
        value = l3_of(nad)
    except AnnotationError:
        return ()
    return value.routing.routes if value is not None else ()


_CIDR, _CIDR6 = "255.255.255.255/32", f"{':'.join(['ffff'] * 8)}/128"
"""As long as an address from a pool can be."""


def check_room(nad: NetworkAttachmentDefinition, cluster_network: str, reader: ClusterReader) -> None:
    """Check that what the manager writes at the least, for this network and the others, fits.

    Raises AnnotationError: with so many networks, one more or less a moment ago does not change the verdict.
    """
    network = reader.cluster_network(cluster_network)
    allowed = room(network.metadata.annotations if network is not None else {})
    known, mine = reader.nads_with_addresses(cluster_network), nad.metadata
    every = [
        nad,
        *(
            item
            for item in known
            if (item.metadata.name, item.metadata.namespace) != (mine.name, mine.namespace)
        ),
    ]
    if len(every) * LEAST_MAX <= allowed and all(map(_is_plain, every)):
        return  # nearly always: no configuration has to be read
    pooled = any(mode4_of(item.metadata.annotations.get(names.MODE)) == "pool" for item in every)
    nodes = reader.covered(cluster_network) if pooled else frozenset()
    needed = sum(_size(item, nodes) for item in every)
    if needed > allowed:
        raise no_room(cluster_network, needed, allowed)


def _is_plain(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether no more than LEAST_MAX has to be written of a network."""
    meta = nad.metadata
    return mode4_of(meta.annotations.get(names.MODE)) != "pool" and names.CLUSTER_NETWORK_LABEL in meta.labels


def _size(nad: NetworkAttachmentDefinition, nodes: frozenset[str]) -> int:
    """Return the bytes that a network needs at the least, with an address from its pool for each of the nodes."""
    try:
        value = l3_of(nad)
    except AnnotationError:
        return 0
    if value is None:
        return 0
    if value.source is not None:
        six = dict.fromkeys(nodes, _CIDR6) if value.source.second else {}
        value = replace(value, addresses=dict.fromkeys(nodes, _CIDR), addresses6=six)
    return size(least(nad, value))

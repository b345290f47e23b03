"""What the webhooks allow of node addresses, held against the cluster as it is.

That the annotations can be read, and fit each other, is what their parsers see to.
"""

from ipaddress import IPv4Network

from lanloom.api import names
from lanloom.api.l3 import L3, AnnotationError, parse_connectivity, quote
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.routing import subnet_of
from lanloom.vlan.rules.cluster import usable_nodes
from lanloom.vlan.rules.refusal import Refused, World, listed


def check_l3(
    nad: NetworkAttachmentDefinition, value: L3, before: L3 | None, cluster_network: str, world: World
) -> tuple[str, ...]:
    """Whether a NAD may have the node addresses `value`, having had those of `before`; returns warnings.

    What did not change is not held against a cluster that has changed since.
    """
    if value == before:
        return nodes_that_left(value, world)
    if not any(usable_nodes((report,)) for report in world.statuses_of(cluster_network)):
        raise Refused(
            f"its cluster network {quote(cluster_network)} is not ready: no node has a working uplink for it; "
            f"{_remedy(cluster_network)}"
        )
    if before is None or before.vid != value.vid:
        _check_vlan_free(nad, value.vid, cluster_network, world)
    _check_routes(value, before, world)
    if value.addresses and (before is None or before.addresses != value.addresses):
        _check_map_nodes(value, cluster_network, world)
        _check_subnet(value, world)
        return ()
    if before is None or before.routing.gateway != value.routing.gateway:
        _check_subnet(value, world)
    return nodes_that_left(value, world)


def _remedy(cluster_network: str) -> str:
    if cluster_network == names.MGMT:
        return "see whether Lanloom's agents run"
    return "create a VlanConfig for it, or see its conditions"


def nodes_that_left(value: L3, world: World) -> tuple[str, ...]:
    """The warning that addresses are of nodes which are no longer there, if so."""
    known = world.nodes()
    gone = sorted(node for node in value.addresses if node not in known)
    return (f"{names.NODE_IP_MAP} names nodes that have left: {listed(gone)}",) if gone else ()


def _check_vlan_free(nad: NetworkAttachmentDefinition, vid: int, cluster_network: str, world: World) -> None:
    if cluster_network == names.MGMT and vid in world.reserved().vlan_ids:
        raise Refused(
            f"spec.config.vlan is {vid}, the VLAN of the management network itself, whose addresses belong to the "
            "installer; choose another VLAN id"
        )
    for other in world.nads_of(cluster_network):
        if other.metadata.key != nad.metadata.key and _l3_vlan(other, vid):
            raise Refused(
                f"spec.config.vlan is {vid} and {other.metadata.key} already has node addresses on that VLAN of "
                f"{cluster_network}; only one network may"
            )


def _l3_vlan(nad: NetworkAttachmentDefinition, vid: int) -> bool:
    """Whether a NAD has node addresses on that VLAN. Its label rules most others out without a look at their JSON."""
    if nad.metadata.is_leaving:
        return False
    if nad.metadata.labels.get(names.VLAN_ID_LABEL, str(vid)) != str(vid):
        return False
    try:
        network = parse_config(nad.spec.config)
        on = parse_connectivity(nad.metadata.annotations.get(names.L3_CONNECTIVITY))
    except AnnotationError:
        return False
    return on and network is not None and network.type == "L2VlanNetwork" and network.vid == vid


def covered(cluster_network: str, world: World) -> frozenset[str]:
    """The nodes that carry a cluster network: all for `mgmt`, else those that its VlanConfigs match."""
    if cluster_network == names.MGMT:
        return frozenset(world.matching({}))
    selectors = (config.spec.node_selector for config in world.configs_of(cluster_network))
    return frozenset().union(*(world.matching(selector) for selector in selectors))


def _check_map_nodes(value: L3, cluster_network: str, world: World) -> None:
    expected = covered(cluster_network, world)
    if value.addresses.keys() == expected:
        return
    unknown = sorted(value.addresses.keys() - expected)
    if unknown:
        raise Refused(
            f"{names.NODE_IP_MAP} names {listed(unknown)}, which the cluster network {cluster_network} does not "
            f"cover; allowed are {listed(sorted(expected)) or 'no nodes'}"
        )
    missing = sorted(expected - value.addresses.keys())
    if missing:
        raise Refused(
            f"{names.NODE_IP_MAP} has no address for {listed(missing)}; every node of {cluster_network} needs one"
        )


def _check_subnet(value: L3, world: World) -> None:
    subnet = subnet_of(value.addresses, value.routing.gateway)
    holder = world.reserved().holder(subnet) if subnet is not None else ""
    if holder:
        field = names.NODE_IP_MAP if value.addresses else names.GATEWAY
        raise Refused(f"{field} uses the subnet {subnet}, which holds {holder}; choose another subnet")


def _check_routes(value: L3, before: L3 | None, world: World) -> None:
    """A route to the management network over a VLAN would cut the nodes off from each other."""
    known = set(before.routing.routes) if before is not None else set()
    for route in value.routing.routes:
        holder = "" if route in known else world.reserved().holder(IPv4Network(route.to))
        if holder:
            raise Refused(
                f"{names.ROUTES} has a route to {route.to}, which holds {holder}; choose destinations without it"
            )

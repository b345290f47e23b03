"""The L3 configuration that a NAD asks for: node addresses on its VLAN, with mode, map, pool and routing."""

from lanloom.api import names
from lanloom.api.dualstack import NO_ADDRESSES, parse_node_addresses, parse_subnet6, refuse_addresses6
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    PoolSource,
    Routing,
    parse_connectivity,
    parse_ip_pool,
    parse_modes,
)
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import l3_vid
from lanloom.api.routing import RoutingFields, parse_routing

ROUTING = RoutingFields(names.GATEWAY, names.ROUTES, names.DNS)
"""The annotations of a NAD that hold its routing."""


def may_have_addresses(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD asks for node addresses, readably or not: `l3_of` returns None for all others."""
    return not nad.metadata.is_deleting and nad.metadata.annotations.get(names.L3_CONNECTIVITY) not in (
        None,
        "false",
    )


def l3_of(nad: NetworkAttachmentDefinition) -> L3 | None:
    """Return the L3 configuration that a NAD asks for, or None. Raises AnnotationError."""
    annotations = nad.metadata.annotations
    if not may_have_addresses(nad) or not parse_connectivity(annotations.get(names.L3_CONNECTIVITY)):
        return None
    vid = l3_vid(nad.spec.config)
    mode, mode6 = parse_modes(names.MODE, annotations.get(names.MODE))
    four, six = NO_ADDRESSES
    if mode == "static":
        four, six = parse_node_addresses(names.NODE_IP_MAP, annotations.get(names.NODE_IP_MAP))
    refuse_addresses6(names.NODE_IP_MAP, mode6, six)
    source = parse_ip_pool(names.IP_POOL, annotations.get(names.IP_POOL)) if mode == "pool" else None
    if source is not None:
        refuse_addresses6(names.IP_POOL, mode6, {source.network: source.second} if source.second else {})
    subnet6 = parse_subnet6(names.IPV6_SUBNET, annotations.get(names.IPV6_SUBNET), mode6) if mode6 else ""
    routing = parse_routing(annotations, ROUTING, mode, four, six, subnet6)
    if source is not None and not (source.second or mode6):
        _refuse_six(source, routing)
    return L3(
        vid=vid,
        mode=mode,
        mode6=mode6,
        subnet6=subnet6,
        addresses=four,
        addresses6=six,
        routing=routing,
        source=source,
    )


def _refuse_six(source: PoolSource, routing: Routing) -> None:
    """Refuse what needs IPv6 addresses where nodes get none."""
    routes = tuple(route.to for route in routing.routes6)
    parts = ((names.GATEWAY, (routing.gateway6,)), (names.ROUTES, routes), (names.DNS, routing.dns6))
    for field, asked in parts:
        if any(asked):
            raise AnnotationError(
                field,
                f"has {asked[0]}, but nodes have no IPv6 addresses; add a pool of IPv6 to {names.IP_POOL}, such as "
                f"{source.network}/pool4,{source.network}/pool6",
            )

"""The L3 configurations of networks: as a NAD asks for them, and as an agent finds them.

An agent finds them on the ClusterNetwork, or in the NAD where the ClusterNetwork says so. Both go through the same
parsers. While a NAD and its ClusterNetwork disagree, a change is on its way, and what the node has stays as it is.
"""

from collections.abc import Iterable, Mapping

from msgspec import structs

from lanloom.api import names
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    parse_connectivity,
    parse_ip_pool,
    parse_mode,
    parse_node_ip_map,
)
from lanloom.api.l3keys import L3Entry, decode, network_suffix
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import l3_vid
from lanloom.api.routing import RoutingFields, parse_routing

_ROUTING = RoutingFields(names.GATEWAY, names.ROUTES, names.DNS)


def l3_of(nad: NetworkAttachmentDefinition) -> L3 | None:
    """The L3 configuration that a NAD asks for, or None. Raises AnnotationError."""
    annotations = nad.metadata.annotations
    if nad.metadata.is_deleting or not parse_connectivity(annotations.get(names.L3_CONNECTIVITY)):
        return None
    vid = l3_vid(nad.spec.config)
    mode = parse_mode(names.MODE, annotations.get(names.MODE))
    addresses = (
        parse_node_ip_map(names.NODE_IP_MAP, annotations.get(names.NODE_IP_MAP)) if mode == "static" else {}
    )
    return L3(
        vid=vid,
        mode=mode,
        addresses=addresses,
        routing=parse_routing(annotations, _ROUTING, mode, addresses),
        source=parse_ip_pool(names.IP_POOL, annotations.get(names.IP_POOL)) if mode == "pool" else None,
    )


def with_leases(nad: NetworkAttachmentDefinition, value: L3, leases: Mapping[str, str]) -> L3:
    """What a NAD with mode pool asks for, with the addresses that its nodes have been given.

    Raises AnnotationError where its gateway or routes do not fit these.
    """
    routing = parse_routing(nad.metadata.annotations, _ROUTING, value.mode, leases)
    return structs.replace(value, addresses=dict(leases), routing=routing, source=None)


class Unsettled(AnnotationError):
    """A NAD and its ClusterNetwork say different things: one of both has not arrived."""


def l3_entries(
    annotations: Mapping[str, str], nads: Iterable[NetworkAttachmentDefinition]
) -> dict[str, L3Entry]:
    """The L3 configurations of a ClusterNetwork by suffix, with the values that its NADs have themselves."""
    entries = decode(annotations)
    if not any(entry.in_nad for entry in entries.values()):
        return entries
    known = {network_suffix(nad.metadata.key): nad for nad in nads}
    return {
        suffix: _completed(entry, known.get(suffix)) if entry.in_nad else entry
        for suffix, entry in entries.items()
    }


def _completed(entry: L3Entry, nad: NetworkAttachmentDefinition | None) -> L3Entry:
    settled = entry.value
    try:
        value = l3_of(nad) if nad is not None else None
    except AnnotationError as error:
        return L3Entry(None, error, entry.vid)
    if value is None or settled is None or (value.vid, value.mode) != (settled.vid, settled.mode):
        problem = "is not what its cluster network says yet"
        return L3Entry(None, Unsettled(names.L3_CONNECTIVITY, problem), entry.vid)
    return L3Entry(value, None, entry.vid)

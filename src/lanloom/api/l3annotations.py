"""L3 configurations in annotations: the one that a NAD asks for, and those of many networks in one ClusterNetwork.

A NAD asks for node addresses on its VLAN, with mode, map, pool and routing. On the ClusterNetwork, networks are side by
side.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from lanloom.api import names
from lanloom.api.dualstack import (
    NO_ADDRESSES,
    join_addresses,
    join_gateways,
    parse_node_addresses,
    parse_subnet6,
    refuse_addresses6,
)
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    PoolSource,
    Routing,
    parse_connectivity,
    parse_ip_pool,
    parse_modes,
    parse_vid,
)
from lanloom.api.meta import Key
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


_KEY_NAME_MAX = 63
_KINDS = ("l3connectivity", "vlan-id", "mode", "ipmap", "gateway", "routes", "dns", "l3values", "subnet6")
_BEGINS = tuple(f"{names.PREFIX}{kind}-" for kind in _KINDS)
_LONGEST_KIND = max(len(kind) for kind in _KINDS)

HARVESTERS = frozenset({f"{names.PREFIX}vlan-id-set-str", f"{names.PREFIX}vlan-id-set-str-hash"})
"""Annotations that Harvester's controller writes on a ClusterNetwork: no keys of Lanloom's, although they look it."""

IN_NAD = "nad"
"""The value of `l3values-<suffix>`: the NAD itself has the network's map, gateway, routes and DNS servers."""


class L3Entry(NamedTuple):
    """One network's L3 annotations on a ClusterNetwork as an agent reads them: the value, or why it can't be used.

    With `in_nad` the value has no more than VLAN id and mode: the rest is in the NAD's own annotations.
    """

    value: L3 | None
    error: AnnotationError | None
    vid: int
    """The VLAN id where at least that can be read, else 0."""
    in_nad: bool = False


def network_suffix(nad: Key) -> str:
    """Return what tells one NAD's annotations on a ClusterNetwork from another's: `<namespace>-<name>`.

    Where that would be ambiguous (a dash in the namespace), too long for an annotation key, or make a key of
    Harvester's, a hash follows after an underscore, which no Kubernetes name contains; so two NADs never share one.
    """
    plain = f"{nad.namespace}-{nad.name}"
    longest = _KEY_NAME_MAX - _LONGEST_KIND - 1
    free = f"{names.PREFIX}vlan-id-{plain}" not in HARVESTERS
    if "-" not in nad.namespace and len(plain) <= longest and free:
        return plain
    digest = hashlib.sha256(f"{nad.namespace}/{nad.name}".encode()).hexdigest()[:10]
    return f"{plain[: longest - 11]}_{digest}"


def legacy_suffixes(nad: Key) -> tuple[str, str]:
    """Return the suffixes under which the source design's own keys speak of a NAD: its map's, and all others'."""
    return f"{nad.namespace}-{nad.name}", nad.name


def is_l3_key(key: str) -> bool:
    """Return whether an annotation key of a ClusterNetwork is one of the L3 keys that the manager owns."""
    return key.startswith(_BEGINS) and key not in _BEGINS and key not in HARVESTERS


def suffix_of_key(key: str) -> str:
    """Return the suffix of an L3 key."""
    name = key.removeprefix(names.PREFIX)
    return next(name.removeprefix(f"{kind}-") for kind in _KINDS if name.startswith(f"{kind}-"))


def encode_reference(nad: Key, value: L3) -> dict[str, str]:
    """Return the annotations that say which NAD holds a VLAN, and that its other values are to be read there."""
    suffix = network_suffix(nad)
    return _encode_small(suffix, value) | {f"{names.PREFIX}l3values-{suffix}": IN_NAD}


def values_in_nads(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the suffixes of the networks whose values are to be read in their NADs."""
    prefix = f"{names.PREFIX}l3values-"
    return frozenset(key.removeprefix(prefix) for key in annotations if key.startswith(prefix))


def _encode_small(suffix: str, value: L3) -> dict[str, str]:
    return {
        f"{names.PREFIX}l3connectivity-{suffix}": "true",
        f"{names.PREFIX}vlan-id-{suffix}": str(value.vid),
        f"{names.PREFIX}mode-{suffix}": value.modes,
    }


def encode(nad: Key, value: L3) -> dict[str, str]:
    """Return the annotations that carry a NAD's whole L3 configuration on its ClusterNetwork."""
    suffix = network_suffix(nad)
    annotations = _encode_small(suffix, value)
    if value.addresses:
        annotations[f"{names.PREFIX}ipmap-{suffix}"] = join_addresses(value.addresses, value.addresses6)
    if value.subnet6:
        annotations[f"{names.PREFIX}subnet6-{suffix}"] = value.subnet6
    return annotations | _encode_routing(suffix, value.routing)


def _encode_routing(suffix: str, value: Routing) -> dict[str, str]:
    fields, routes = _routing_fields(suffix), (*value.routes, *value.routes6)
    texts = {
        fields.gateway: join_gateways(value.gateway, value.gateway6),
        fields.routes: json.dumps(msgspec.to_builtins(routes)) if routes else "",
        fields.dns: ",".join([*value.dns, *value.dns6]),
    }
    return {key: text for key, text in texts.items() if text}


def _routing_fields(suffix: str) -> RoutingFields:
    return RoutingFields(*(f"{names.PREFIX}{kind}-{suffix}" for kind in ("gateway", "routes", "dns")))


def decode(annotations: Mapping[str, str]) -> dict[str, L3Entry]:
    """Return every network's L3 configuration by suffix, each valid or with its error; switched-off ones are left out.

    The source design's own keys, whose suffix is the bare name (but `<namespace>-<name>` for the map), are read too.
    """
    prefix = f"{names.PREFIX}l3connectivity-"
    suffixes = sorted(key.removeprefix(prefix) for key in annotations if key.startswith(prefix))
    entries = {}
    for suffix in suffixes:
        entry = _decode_one(annotations, suffix, suffixes)
        if entry is not None:
            entries[suffix] = entry
    return entries


def _decode_one(annotations: Mapping[str, str], suffix: str, suffixes: list[str]) -> L3Entry | None:
    vid = 0
    try:
        if not parse_connectivity(annotations[f"{names.PREFIX}l3connectivity-{suffix}"]):
            return None
        vid_field = f"{names.PREFIX}vlan-id-{suffix}"
        vid = parse_vid(vid_field, annotations.get(vid_field))
        mode_field = f"{names.PREFIX}mode-{suffix}"
        mode, mode6 = parse_modes(mode_field, annotations.get(mode_field))
        if f"{names.PREFIX}l3values-{suffix}" in annotations:
            return L3Entry(L3(vid=vid, mode=mode, mode6=mode6), None, vid, in_nad=True)
        four, six = NO_ADDRESSES
        if mode != "dhcp":
            map_field = _map_field(annotations, suffix, suffixes)
            if mode == "static" or map_field in annotations:
                four, six = parse_node_addresses(map_field, annotations.get(map_field), pooled=mode == "pool")
        subnet_field = f"{names.PREFIX}subnet6-{suffix}"
        subnet6 = parse_subnet6(subnet_field, annotations.get(subnet_field), mode6) if mode6 else ""
        routing = parse_routing(annotations, _routing_fields(suffix), mode, four, six, subnet6)
    except AnnotationError as error:
        return L3Entry(None, error, vid)
    value = L3(
        vid=vid, mode=mode, mode6=mode6, subnet6=subnet6, addresses=four, addresses6=six, routing=routing
    )
    return L3Entry(value, None, vid)


def _map_field(annotations: Mapping[str, str], suffix: str, suffixes: list[str]) -> str:
    """Return the key of a network's map.

    Where the suffix is a bare name, the one map that can be no other network's.
    """
    field = f"{names.PREFIX}ipmap-{suffix}"
    if field in annotations:
        return field
    candidates = [key for key in annotations if _is_map_of(key, suffix, suffixes)]
    return candidates[0] if len(candidates) == 1 else field


def _is_map_of(key: str, suffix: str, suffixes: list[str]) -> bool:
    """Return whether a key is `ipmap-<namespace>-<suffix>`, and no longer suffix (`my-nad`, where `nad` is one) claims
    it.
    """
    title = key.removeprefix(f"{names.PREFIX}ipmap-")
    if title == key or not (title == suffix or title.endswith(f"-{suffix}")):
        return False  # before all suffixes are asked: a cluster network has hundreds of both
    claims = [item for item in suffixes if title == item or title.endswith(f"-{item}")]
    return max(claims, key=len) == suffix

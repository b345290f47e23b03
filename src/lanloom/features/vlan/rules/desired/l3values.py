"""The L3 configurations of networks: as a NAD asks for them, as the manager writes them, and as an agent finds them.

An agent finds them on the ClusterNetwork, or in the NAD where the ClusterNetwork says so. Both go through the same
parsers. While a NAD and its ClusterNetwork disagree, a change is on its way, and what the node has stays as it is.

Kubernetes allows an object 256 KiB of annotations, and refuses every patch that would exceed them. So the manager
plans for a part of that. Which NAD holds which VLAN is always written on the ClusterNetwork; the map, gateway, routes
and DNS servers of a network only while all of it fits. Of the others the agents read these in the NAD. Networks that
need room get it in the order of their age, so manager, agents and `lanloom vlan plan` decide alike.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from lanloom.api import names
from lanloom.api.dualstack import NodeAddresses
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.l3 import L3, AnnotationError
from lanloom.api.l3annotations import (
    ROUTING,
    L3Entry,
    decode,
    encode,
    encode_reference,
    is_l3_key,
    l3_of,
    network_suffix,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.routing import parse_routing

ANNOTATIONS_MAX = 256 * 1024
"""Bytes of all keys and values of an object's annotations: the limit of Kubernetes."""

L3_MAX = 192 * 1024
"""Bytes that L3 annotations of a ClusterNetwork may have."""

RESERVE = 48 * 1024
"""Bytes for what the manager writes besides: the MTU, the nodes of mgmt, and how far a roll-out is."""

LEAST_MAX = 350
"""Bytes that a network needs at the most where its values are in its NAD: four keys of the longest kind."""

_RESERVED = (names.MTU_SOURCE, names.UPLINK_MTU, names.MATCHED_NODES, names.NODE_VLANS, names.ROLLOUT_STATE)
"""What RESERVE is for. It does not count, because a roll-out that changed the room would change what it rolls out."""


class Holder(NamedTuple):
    """A NAD that holds a VLAN, and its L3 configuration."""

    nad: NetworkAttachmentDefinition
    value: L3


class Layout(Struct, frozen=True):
    """L3 annotations that fit, whose they are, and the NADs for which there is no room."""

    annotations: dict[str, str]
    holders: dict[Key, L3]
    rejected: tuple[tuple[NetworkAttachmentDefinition, AnnotationError], ...]


def size(annotations: Mapping[str, str]) -> int:
    """Return the bytes of annotations as Kubernetes counts them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def room(annotations: Mapping[str, str]) -> int:
    """Return the bytes that L3 annotations may have in addition to what users wrote on a ClusterNetwork."""
    others = {key: value for key, value in annotations.items() if not is_l3_key(key) and key not in _RESERVED}
    return max(0, min(L3_MAX, ANNOTATIONS_MAX - RESERVE - size(others)))


def least(nad: NetworkAttachmentDefinition, value: L3) -> Mapping[str, str]:
    """Return the fewest annotations by which an agent learns of a network with node addresses.

    Addresses from a pool are nowhere else, and agents do not see a NAD without the label of its cluster network.
    """
    return _least(nad, value, encode(nad.metadata.key, value))


def _least(nad: NetworkAttachmentDefinition, value: L3, whole: Mapping[str, str]) -> Mapping[str, str]:
    if value.mode == "pool" or names.CLUSTER_NETWORK_LABEL not in nad.metadata.labels:
        return whole
    return min(whole, encode_reference(nad.metadata.key, value), key=size)


def lay_out(network: ClusterNetwork, holders: Iterable[Holder], kept: Mapping[str, str]) -> Layout:
    """Return the L3 annotations of a ClusterNetwork in addition to those that are kept.

    `holders` are in the order of their age.
    A network that is there already always keeps what is least: it fits, as it is there. So no newcomer, and no
    annotation of others, takes addresses away.
    """
    present = network.metadata.annotations
    allowed, used = room(present), size(kept)
    by_age = tuple(holders)
    written: dict[Key, _Texts] = {}
    rejected = []
    for nad, value in sorted(by_age, key=lambda item: not _is_present(item.nad, present)):
        whole = encode(nad.metadata.key, value)
        texts = _Texts(whole, _least(nad, value, whole))
        needed = used + size(texts.least)
        if needed > allowed and not _is_present(nad, present):
            rejected.append((nad, no_room(network.metadata.name, needed, allowed)))
        else:
            written[nad.metadata.key], used = texts, needed
    values = {nad.metadata.key: value for nad, value in by_age if nad.metadata.key in written}
    return Layout(_completed((written[key] for key in values), allowed - used), values, tuple(rejected))


class _Texts(NamedTuple):
    """A network's annotations: all of them, and the fewest."""

    whole: Mapping[str, str]
    least: Mapping[str, str]


def _completed(written: Iterable[_Texts], spare: int) -> dict[str, str]:
    """Return the annotations of all networks, with all values of those for which they fit."""
    found: dict[str, str] = {}
    for texts in written:
        more = size(texts.whole) - size(texts.least)
        fits = more <= spare
        spare -= more if fits else 0
        found |= texts.whole if fits else texts.least
    return found


def _is_present(nad: NetworkAttachmentDefinition, annotations: Mapping[str, str]) -> bool:
    return f"{names.PREFIX}l3connectivity-{network_suffix(nad.metadata.key)}" in annotations


def no_room(cluster_network: str, needed: int, allowed: int) -> AnnotationError:
    """Return the reason why a ClusterNetwork can't hold another network with node addresses."""
    problem = (
        f'is "true", but ClusterNetwork {cluster_network} would need {needed} bytes of annotations for its networks '
        f"with node addresses and at most {allowed} are allowed; disable node addresses of another of its networks, "
        "or use another cluster network"
    )
    return AnnotationError(names.L3_CONNECTIVITY, problem)


def with_leases(nad: NetworkAttachmentDefinition, value: L3, leases: NodeAddresses) -> L3:
    """Return the configuration of a NAD with mode pool, with the addresses that its nodes have.

    Raises AnnotationError where its gateway or routes do not fit these.
    """
    four, six = leases
    routing = parse_routing(nad.metadata.annotations, ROUTING, value.mode, four, six, value.subnet6)
    return structs.replace(value, addresses=dict(four), addresses6=dict(six), routing=routing, source=None)


class Unsettled(AnnotationError):
    """A NAD and its ClusterNetwork say different things: one of both has not arrived."""


def l3_entries(
    annotations: Mapping[str, str], nads: Iterable[NetworkAttachmentDefinition]
) -> dict[str, L3Entry]:
    """Return the L3 configurations of a ClusterNetwork by suffix, with the values that its NADs have themselves."""
    entries = decode(annotations)
    if not any(entry.in_nad for entry in entries.values()):
        return entries
    known = {network_suffix(nad.metadata.key): nad for nad in nads}
    return {
        suffix: _from_nad(entry, known.get(suffix)) if entry.in_nad else entry
        for suffix, entry in entries.items()
    }


def _from_nad(entry: L3Entry, nad: NetworkAttachmentDefinition | None) -> L3Entry:
    settled = entry.value
    try:
        value = l3_of(nad) if nad is not None else None
    except AnnotationError as error:
        return L3Entry(None, error, entry.vid)
    if value is None or settled is None or (value.vid, value.modes) != (settled.vid, settled.modes):
        problem = "does not match its cluster network yet"
        return L3Entry(None, Unsettled(names.L3_CONNECTIVITY, problem), entry.vid)
    return L3Entry(value, None, entry.vid)

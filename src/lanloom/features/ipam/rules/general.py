"""Properties of a network apart from its subnets: name, MAC prefix, tags, and connections of node groups."""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.rules.model import Connection, Network
from lanloom.features.ipam.rules.names import check_name
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

MODES = ("bridged", "routed", "openvswitch")
"""How NICs are connected."""

_MAC_PREFIX = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){2}")
_TAG = re.compile(r"[A-Za-z0-9_.+*/:@-]{1,128}")
_GROUP = re.compile(r"[A-Za-z0-9._-]{1,253}")
_LINK = re.compile(r"[!-+\-.0-<>-~]{1,253}")  # printable ASCII without / , =
_VLANS = re.compile(r"\.?[0-9]{1,4}(:[0-9]{1,4})*|(:[0-9]{1,4})+")
_VLAN_MAX = 4094


class Rename(Struct, frozen=True, kw_only=True):
    """Another name for users. The object's own name, which NICs hold, stays."""

    name: str


class SetMacPrefix(Struct, frozen=True, kw_only=True):
    """The first three octets of the MAC addresses of new NICs; empty for the cluster's own."""

    prefix: str


class AddTags(Struct, frozen=True, kw_only=True):
    """Further tags."""

    tags: tuple[str, ...]


class RemoveTags(Struct, frozen=True, kw_only=True):
    """Tags to be taken away."""

    tags: tuple[str, ...]


class Connect(Struct, frozen=True, kw_only=True):
    """A node group that is to be connected."""

    connection: Connection


class Disconnect(Struct, frozen=True, kw_only=True):
    """A node group that is to be disconnected."""

    group: str


def rename(network: Network, step: Rename) -> Network:
    """Give a network another name; whether another network has it is not known here. Raises Malformed, Denied."""
    check_name(step.name, "a network")
    if step.name == network.name:
        raise Denied(f"network {network.name} has that name already; choose another one")
    return replace(network, name=step.name)


def set_mac_prefix(network: Network, step: SetMacPrefix) -> Network:
    """Set the MAC prefix. Raises Malformed."""
    return replace(network, mac_prefix=check_mac_prefix(step.prefix))


def add_tags(network: Network, step: AddTags) -> Network:
    """Add tags, in order; those that the network has stay once. Raises Malformed."""
    tags = (check_tag(tag) for tag in step.tags)
    return replace(network, tags=tuple(sorted({*network.tags, *tags})))


def remove_tags(network: Network, step: RemoveTags) -> Network:
    """Take tags away. Raises Denied for one that the network does not have."""
    if missing := [tag for tag in step.tags if tag not in network.tags]:
        known = listed(network.tags) or "none"
        raise Denied(f"network {network.name} has no tag {quote(missing[0])}; its tags are: {known}")
    return replace(network, tags=tuple(tag for tag in network.tags if tag not in step.tags))


def connect(network: Network, step: Connect) -> Network:
    """Connect a node group. Raises Malformed, and Denied if it is connected."""
    check_connection(step.connection)
    if any(one.group == step.connection.group for one in network.connections):
        raise Denied(
            f"network {network.name} is connected to node group {step.connection.group} already; disconnect it first"
        )
    return replace(network, connections=(*network.connections, step.connection))


def effective(own: Connection, connections: Iterable[Connection]) -> Connection:
    """Return how a NIC is connected: as it says itself, else as its network is, where all node groups have the same."""
    ways = {(one.mode, one.link, one.vlan) for one in connections}
    if own.mode or len(ways) != 1:
        return own
    mode, link, vlan = ways.pop()
    return Connection(group=own.group, mode=mode, link=own.link or link, vlan=own.vlan or vlan)


def disconnect(network: Network, step: Disconnect) -> Network:
    """Disconnect a node group. Raises Denied if it is not connected."""
    left = tuple(one for one in network.connections if one.group != step.group)
    if left == network.connections:
        known = listed(one.group for one in network.connections) or "none"
        raise Denied(
            f"network {network.name} is not connected to node group {quote(step.group)}; it is connected to: {known}"
        )
    return replace(network, connections=left)


def mac_prefix_step(text: str) -> SetMacPrefix:
    """`--mac-prefix`, where `none` takes it away. Raises Malformed, also for an empty text."""
    if not text:
        raise Malformed("--mac-prefix needs a value; write three octets such as aa:00:00, or none")
    return SetMacPrefix(prefix="" if text == "none" else check_mac_prefix(text))


def check_mac_prefix(text: str) -> str:
    """Return the prefix in lower case; empty stays empty. Raises Malformed."""
    prefix = text.lower()
    if not prefix:
        return prefix
    if not _MAC_PREFIX.fullmatch(prefix):
        raise Malformed(f"{quote(text)} is not a MAC prefix; write three octets such as aa:00:00")
    if int(prefix[:2], 16) & 1:
        raise Malformed(f"{quote(text)} is the prefix of multicast addresses; make the first octet even")
    return prefix


def check_tag(text: str) -> str:
    """Return the tag itself. Raises Malformed."""
    if not _TAG.fullmatch(text):
        raise Malformed(
            f"{quote(text)} is not a tag; use up to 128 letters, digits and the characters _ . + * / : @ -"
        )
    return text


def is_group(text: str) -> bool:
    """Return whether a node group can be called so."""
    return _GROUP.fullmatch(text) is not None


def check_connection(one: Connection) -> None:
    """Raise Malformed for a connection that can never be."""
    if not is_group(one.group):
        raise Malformed(
            f"{quote(one.group)} is not a node group; use letters, digits, dots, dashes and underscores"
        )
    check_mode(one.mode)
    if not _LINK.fullmatch(one.link):
        raise Malformed(f"{quote(one.link)} is not a link; name a bridge, a switch or a routing table")
    if one.vlan:
        check_vlan(one.vlan)


def check_mode(text: str) -> str:
    """Return how NICs are connected: one of `MODES`. Raises Malformed."""
    if text not in MODES:
        raise Malformed(f"{quote(text)} is not a mode of a NIC; choose one of {', '.join(MODES)}")
    return text


def check_vlan(text: str) -> str:
    """Return a VLAN id; or, as Ganeti writes them for Open vSwitch, `.10` untagged, `:20:30` tagged, `.10:20` both.

    Raises Malformed.
    """
    numbers = re.findall("[0-9]+", text) if _VLANS.fullmatch(text) else []
    if not numbers or not all(1 <= int(number) <= _VLAN_MAX for number in numbers):
        raise Malformed(
            f"{quote(text)} is not a VLAN id; write one from 1 to {_VLAN_MAX}, or several as .10:20:30"
        )
    return text

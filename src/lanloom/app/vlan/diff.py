"""The difference between two forms of one cluster network on a node, in an operator's words."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.node.vlanids import VlanIds, render, subtract
from lanloom.vlan.rules.network import Interface, NodeNetwork

Verb = Literal["add", "change", "remove"]


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that changes: what kind of thing, its name on the node, and what was and what will be said of it."""

    verb: Verb
    kind: str
    name: str
    before: str = ""
    after: str = ""


class _Fact(NamedTuple):
    """A thing that a node has."""

    kind: str
    name: str


def changes(before: NodeNetwork | None, after: NodeNetwork | None) -> tuple[Change, ...]:
    """What changes between two forms; None where the node does not carry the network."""
    old, new = _facts(before), _facts(after)
    found = [*_id_changes(before, after)]
    for fact in (*new, *(fact for fact in old if fact not in new)):
        was, will = old.get(fact), new.get(fact)
        if was != will:
            verb: Verb = "add" if was is None else "remove" if will is None else "change"
            told = (was or "", will or "") if fact.kind != _PROFILE else ("", "")
            found.append(Change(verb=verb, kind=fact.kind, name=fact.name, before=told[0], after=told[1]))
    return tuple(sorted(found, key=lambda item: _ORDER.index(item.kind)))


_PROFILE = "profile"
"""Its content differs from node to node and is told to nobody."""

_ORDER = ("bond", "NICs", "bridge", "MTU", "VLAN ids", "interface", _PROFILE, "problem")


def _facts(network: NodeNetwork | None) -> dict[_Fact, str]:
    if network is None:
        return {}
    facts = {} if network.foreign else _uplink_facts(network)
    for item in network.interfaces:
        facts[_Fact("interface", item.name)] = _address(item)
        facts[_Fact(_PROFILE, item.file)] = item.content.decode(errors="replace")
    for problem in (*network.problems, *network.uplink_problems):
        facts[_Fact("problem", f"{problem.reason} of {problem.network}")] = problem.message
    return facts


def _uplink_facts(network: NodeNetwork) -> dict[_Fact, str]:
    bond = f"{network.mode}, miimon {network.miimon}"
    if network.mac:
        bond += f", address {network.mac}"
    if network.tx_queue_length is not None:
        bond += f", queue of {network.tx_queue_length}"
    return {
        _Fact("bond", network.bond): bond,
        _Fact("NICs", network.bond): ", ".join(network.nics),
        _Fact("bridge", network.bridge): "with VLAN filtering",
        _Fact("MTU", f"{network.bond} and {network.bridge}"): str(network.mtu),
    }


def _address(item: Interface) -> str:
    table = f", routing table {item.table}" if item.table else ""
    return f"{item.address or 'address by DHCP'} of {item.network}{table}"


def _id_changes(before: NodeNetwork | None, after: NodeNetwork | None) -> Iterator[Change]:
    known = after or before
    if known is None:
        return
    ids: tuple[tuple[str, VlanIds, VlanIds], ...] = (
        (known.bond, before.uplink_ids if before else (), after.uplink_ids if after else ()),
        (known.bridge, before.bridge_ids if before else (), after.bridge_ids if after else ()),
    )
    for link, old, new in ids:
        if gone := subtract(old, new):
            yield Change(verb="remove", kind="VLAN ids", name=link, before=render(gone))
        if added := subtract(new, old):
            yield Change(verb="add", kind="VLAN ids", name=link, after=render(added))

"""The difference between two forms of a network, in an administrator's words."""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import IPRange, format_address, subtract
from lanloom.features.ipam.rules.model import Network, Pool, Subnet

Sign = Literal["+", "~", "-"]


class Difference(Struct, frozen=True):
    """One thing that is new (+), different (~) or gone (-)."""

    sign: Sign
    text: str


def differences(before: Network | None, after: Network | None) -> Iterator[Difference]:
    """Return the differences; None stands for no network. General ones first, then each subnet with its contents."""
    sign: Sign = "+" if before is None else "-"
    if before is None or after is None:
        yield Difference(sign, f"network {(before or after or _NOTHING).name}")
    yield from _general(before or _NOTHING, after or _NOTHING, named=None not in (before, after))
    old = {subnet.uuid: subnet for subnet in (before or _NOTHING).subnets}
    new = {subnet.uuid: subnet for subnet in (after or _NOTHING).subnets}
    for uuid in dict.fromkeys((*new, *old)):
        yield from _subnet(old.get(uuid), new.get(uuid))


_NOTHING = Network(id="", name="")


def _general(before: Network, after: Network, *, named: bool) -> Iterator[Difference]:
    if named and before.name != after.name:
        yield Difference("~", f"name {before.name} → {after.name}")
    if before.mac_prefix and after.mac_prefix and before.mac_prefix != after.mac_prefix:
        yield Difference("~", f"MAC prefix {before.mac_prefix} → {after.mac_prefix}")
    else:
        yield from _entries("MAC prefix", _prefix(before), _prefix(after))
    yield from _entries("tag", dict.fromkeys(before.tags, ""), dict.fromkeys(after.tags, ""))
    yield from _entries(
        "namespace", dict.fromkeys(before.namespaces, ""), dict.fromkeys(after.namespaces, "")
    )
    yield from _entries("quota of namespace", _quota(before), _quota(after))
    yield from _entries(
        "force of namespace",
        dict.fromkeys(before.force_namespaces, ""),
        dict.fromkeys(after.force_namespaces, ""),
    )
    yield from _entries("sticky addresses of", dict(before.sticky_for), dict(after.sticky_for))
    yield from _entries("node group", _groups(before), _groups(after))


def _prefix(network: Network) -> dict[str, str]:
    return {network.mac_prefix: ""} if network.mac_prefix else {}


def _quota(network: Network) -> dict[str, str]:
    return {name: str(limit) for name, limit in network.quota.items()}


def _groups(network: Network) -> dict[str, str]:
    return {
        item.group: f"mode {item.mode}, link {item.link}" + (f", VLAN {item.vlan}" if item.vlan else "")
        for item in network.connections
    }


def _subnet(before: Subnet | None, after: Subnet | None) -> Iterator[Difference]:
    one = after or before
    if one is None:
        return
    if before is not None and after is not None:
        if changes := list(_changes(before, after)):
            yield Difference("~", f"subnet {before.cidr}: {'; '.join(changes)}")
    else:
        yield Difference("-" if after is None else "+", f"subnet {one.cidr}{_brackets(*_traits(one))}")
    where = f"subnet {one.cidr}"
    yield from _entries(f"{where}: pool", _pools(before), _pools(after))
    yield from _ranges(f"{where}: reserved", _external(before), _external(after))


def _changes(before: Subnet, after: Subnet) -> Iterator[str]:
    values = (
        ("CIDR", str(before.cidr), str(after.cidr)),
        ("gateway", _gateway(before), _gateway(after)),
        ("dhcp", _truth(before), _truth(after)),
        ("lease", _lease(before), _lease(after)),
        ("name", before.name, after.name),
    )
    for what, old, new in values:
        if old != new:
            yield f"{what} {old or 'none'} → {new or 'none'}"


def _traits(subnet: Subnet) -> Iterator[str]:
    yield f"gateway {_gateway(subnet)}" if subnet.gateway is not None else ""
    yield "dhcp" if subnet.dhcp else ""
    yield f"lease {_lease(subnet)}" if subnet.lease_seconds else ""
    yield f"name {subnet.name}" if subnet.name else ""


def _pools(subnet: Subnet | None) -> dict[str, str]:
    return {
        str(pool.range): ", ".join(filter(None, _pool(pool))) for pool in (subnet.pools if subnet else ())
    }


def _pool(pool: Pool) -> tuple[str, ...]:
    return (f"name {pool.name}" if pool.name else "", "disabled" if pool.disabled else "")


def _external(subnet: Subnet | None) -> tuple[IPRange, ...]:
    return subnet.external if subnet else ()


def _gateway(subnet: Subnet) -> str:
    return "" if subnet.gateway is None else format_address(subnet.gateway)


def _lease(subnet: Subnet) -> str:
    return f"{subnet.lease_seconds} s" if subnet.lease_seconds else ""


def _truth(subnet: Subnet) -> str:
    return "true" if subnet.dhcp else "false"


def _entries(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for key in dict.fromkeys((*before, *after)):
        if key not in after:
            yield Difference("-", f"{what} {key}{_brackets(before[key])}")
        elif key not in before:
            yield Difference("+", f"{what} {key}{_brackets(after[key])}")
        elif before[key] != after[key]:
            yield Difference("~", f"{what} {key}: {before[key] or 'none'} → {after[key] or 'none'}")


def _ranges(what: str, before: tuple[IPRange, ...], after: tuple[IPRange, ...]) -> Iterator[Difference]:
    gone, come = set(before) - set(after), set(after) - set(before)  # of thousands of ranges few differ
    for item in subtract(gone, come):
        yield Difference("-", f"{what} {item}")
    for item in subtract(come, gone):
        yield Difference("+", f"{what} {item}")


def _brackets(*traits: str) -> str:
    text = ", ".join(filter(None, traits))
    return f" ({text})" if text else ""

"""Steps on networks as hypothesis draws them: an option of the command line, and what it means to the oracle."""

from collections.abc import Callable
from ipaddress import ip_network
from typing import NamedTuple

from hypothesis import strategies as st

from tests.features.ipam.rules.naive_network import IP, IPNetwork, NaiveNetwork

V4, V6 = ip_network("10.0.0.0/26"), ip_network("2001:db8::/120")
NAMES = st.sampled_from(["", "a", "b", "c"])
NOWHERE: list[IPNetwork] = []
RARELY = st.sampled_from([False, False, False, True])


class StepCase(NamedTuple):
    """A step as an option, and the same for the oracle."""

    kind: str
    option: str
    naive: Callable[[NaiveNetwork], None]


addresses = st.integers(0, 63).map(lambda n: V4[n]) | st.integers(0, 255).map(lambda n: V6[n])


@st.composite
def cidrs(draw: st.DrawFn, near: list[IPNetwork]) -> IPNetwork:
    """A network: anywhere, or one that is around or inside of one of those near."""
    if near and not draw(RARELY):
        base = draw(st.sampled_from(near))
        address = base[draw(st.integers(0, base.num_addresses - 1))]
        length = base.prefixlen + draw(st.integers(-2, 2))
    else:
        address = draw(addresses)
        length = draw(st.integers(27, 32)) + (94 if address.version == 6 else 0)
    least, most = (26, 32) if address.version == 4 else (120, 128)
    return ip_network((address, min(max(length, least), most)), strict=False)


@st.composite
def ranges(draw: st.DrawFn, near: list[IPNetwork]) -> tuple[str, set[IP]]:
    """A range, and its addresses: mostly in one of those near."""
    anywhere = not near or not draw(st.integers(0, 5))
    every = draw(st.sampled_from([V4, V6])) if anywhere else draw(st.sampled_from(near))
    first = draw(st.integers(0, every.num_addresses - 1))
    last = min(first + draw(st.sampled_from([0, 0, 1, 2, 4, 7, 12, 39])), every.num_addresses - 1)
    return f"{every[first]}-{every[last]}", {every[number] for number in range(first, last + 1)}


def gateways(cidr: IPNetwork) -> st.SearchStrategy[IP | None]:
    """None, an address inside, or any at all."""
    inside = st.integers(0, cidr.num_addresses - 1).map(lambda number: cidr[number])
    return st.none() | inside | inside | addresses


def param(key: str, value: object) -> str:
    """`key=value`, or `-key` for what is none."""
    return f",{key}={value}" if value else f",-{key}"


@st.composite
def added_subnets(draw: st.DrawFn) -> StepCase:
    """A new subnet."""
    cidr, name, dhcp, pool = draw(cidrs(NOWHERE)), draw(NAMES), draw(RARELY), draw(st.booleans())
    gateway = draw(gateways(cidr))
    flags = (",dhcp" if dhcp else "") + (",pool" if pool else "")
    option = f"add:cidr={cidr}{param('gateway', gateway)}{param('name', name)}{flags}"
    return StepCase("subnet", option, lambda net: net.add_subnet(cidr, gateway, dhcp, name, pool))


@st.composite
def changed_subnets(draw: st.DrawFn, near: list[IPNetwork], idents: list[str]) -> StepCase:
    """A subnet that is modified or removed."""
    ident = draw(st.sampled_from(idents))
    if draw(RARELY):
        option = draw(st.sampled_from([f"{ident}:remove", f"remove:{ident}"]))
        return StepCase("subnet", option, lambda net: net.remove_subnet(ident))
    cidr = draw(cidrs(near))
    possible = {"cidr": st.just(cidr), "gateway": gateways(cidr), "dhcp": RARELY, "name": NAMES}
    keys = draw(st.lists(st.sampled_from(sorted(possible)), min_size=1, max_size=3, unique=True))
    changes = {key: draw(possible[key]) for key in keys}
    texts = (param(key, str(value).lower() if key == "dhcp" else value) for key, value in changes.items())
    option = f"{ident}:modify{''.join(texts)}"
    return StepCase("subnet", option, lambda net: net.modify_subnet(ident, **changes))


@st.composite
def pools(
    draw: st.DrawFn, near: list[IPNetwork], idents: list[str], present: list[tuple[str, set[IP]]]
) -> StepCase:
    """A pool that is added, modified or removed."""
    what, name, disabled = draw(st.sampled_from("aaamrrrn")), draw(NAMES), draw(RARELY)
    text, members = draw(
        ranges(near) if what == "a" or not present else ranges(near) | st.sampled_from(present)
    )
    flags = param("name", name) + f",disabled={str(disabled).lower()}"
    if what == "a":
        if draw(RARELY):
            ident = draw(st.sampled_from(idents))
            return StepCase(
                "pool", f"add:subnet={ident}{flags}", lambda net: net.add_pool(ident, name, disabled)
            )
        return StepCase("pool", f"add:{text}{flags}", lambda net: net.add_pool(members, name, disabled))
    if what == "m":
        change = {"name": name, "disabled": disabled}
        return StepCase("pool", f"{text}:modify{flags}", lambda net: net.modify_pool(members, **change))
    if what == "n":
        label = name or "z"
        return StepCase("pool", f"{label}:remove", lambda net: net.remove_pool(label))
    option = draw(st.sampled_from([f"remove:{text}", f"{text}:remove"]))
    return StepCase("pool", option, lambda net: net.remove_pool(members))


@st.composite
def reserved(draw: st.DrawFn, near: list[IPNetwork]) -> StepCase:
    """A range that is reserved, or no longer."""
    text, members = draw(ranges(near))
    if draw(st.booleans()):
        return StepCase("add", text, lambda net: net.add_reserved(members))
    return StepCase("remove", text, lambda net: net.remove_reserved(members))

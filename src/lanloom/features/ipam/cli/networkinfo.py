"""The output of `lanloom network info` and `lanloom network usage` for people."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from lanloom.cli.console import console as make_console
from lanloom.features.ipam.cli.grammar.fields import (
    BLOCKS,
    LETTERS,
    bar,
    map_text,
    percent,
    readable,
)
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.names import pool_title

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.features.ipam.cli.grammar.fields import Described, Glyphs
    from lanloom.features.ipam.commands.networkviews import NetworkUsage, PoolUsage
    from lanloom.features.ipam.rules.addresses import IPRange
    from lanloom.features.ipam.rules.model import Nic, Pool, Subnet, Usage

ROW = 64
"""Addresses in a line of a map, as Ganeti has it."""

LARGEST_SHOWN = 4096
"""Addresses of a map that is shown; of a larger pool runs are."""

RUNS = 20
"""So many runs are shown of a larger pool."""

GOING = "Being deleted"

Line = tuple[int, str]
"""How far to the right, and what."""


def print_network(of: "Described") -> None:
    """Print everything of a network."""
    console = make_console()
    console.print(f"Network {of.network.name}", style="bold", markup=False)
    for indent, text in _lines(of):
        console.print(Padding(Text(text), (0, 0, 0, indent), expand=False))


def _lines(of: "Described") -> Iterator[Line]:
    network = of.network
    yield 2, f"UUID: {network.uuid}"
    yield 2, f"Serial number: {of.serial_no}"
    yield 2, f"Added: {of.ctime or '-'}, modified: {of.mtime or '-'}"
    if of.deleted:
        yield 2, f"{GOING} since {of.deleted}: it gives no addresses, and remains until no NIC owns one of it"
    yield 2, f"MAC prefix: {network.mac_prefix or '-'}"
    yield 2, f"Tags: {', '.join(network.tags) or '-'}"
    for subnet in network.subnets:
        yield from _subnet(of, subnet)
    if not network.subnets:
        yield 2, "No subnet: L2 only"
    for item in network.connections:
        vlan = f", VLAN {item.vlan}" if item.vlan else ""
        yield 2, f"Connected to node group {item.group}: mode {item.mode}, link {item.link}{vlan}"
    if not network.connections:
        yield 2, "Connected to no node group"
    yield 2, f"Serves namespaces: {', '.join(network.namespaces) or 'all'}"
    if network.force_namespaces:
        yield 2, f"Admits force of namespaces: {', '.join(network.force_namespaces)}"
    for kind, period in sorted(network.sticky_for.items()):
        yield 2, f"Keeps addresses for the name of a {kind}: {period} after its end"
    for name, used, limit in of.shares:
        yield 2, f"Namespace {name}: {share_text(used, limit)}"
    yield from _others(of)
    yield 2, f"NICs: {len(of.nics)}"
    for nic in of.nics:
        yield 4, _nic(nic)


def _others(of: "Described") -> Iterator[Line]:
    """Yield what others on the network's wires have."""
    others = of.ledger.others
    for peer in others.peers:
        yield 2, f"Shares a wire and addresses with network {peer.network.name}"
    if others.held:
        yield 2, f"Addresses of others: {len(others.held)}"
    for address, holder in islice(others.held.items(), RUNS):
        yield 4, f"{format_address(address)}: {holder.title(holder.namespace)}"


def share_text(used: int, limit: int | None) -> str:
    """Return a namespace's addresses in words."""
    return f"{used} used" + (f" of {limit}" if limit is not None else "")


def _subnet(of: "Described", subnet: "Subnet") -> Iterator[Line]:
    yield 2, f"Subnet {subnet.cidr}" + (f" ({subnet.name})" if subnet.name else "")
    yield 4, f"UUID: {subnet.uuid or '-'}"
    yield 4, f"Gateway: {'-' if subnet.gateway is None else format_address(subnet.gateway)}"
    lease = f", leases of {subnet.lease_seconds} s" if subnet.lease_seconds else ""
    yield 4, f"DHCP: {'yes' if subnet.dhcp else 'no'}{lease}"
    yield 4, f"Externally reserved: {', '.join(map(str, subnet.reserved)) or '-'}"
    for pool in subnet.pools:
        yield from _pool(of, pool)


def _pool(of: "Described", pool: "Pool") -> Iterator[Line]:
    usage = of.ledger.usage(pool)
    yield 4, f"Pool {pool_title(pool)}" + (", disabled" if pool.disabled else "") + f": {counts(usage)}"
    if pool.range.size <= LARGEST_SHOWN:
        drawn = map_text(pool.range, of.ledger.reserved_runs(pool))
        yield from ((6, line) for line in map_lines(pool.range, drawn))
    elif runs := list(islice(of.ledger.reserved_runs(pool), RUNS + 1)):
        more = ", and more" if len(runs) > RUNS else ""
        yield 6, f"not free: {', '.join(map(str, runs[:RUNS]))}{more}"


def counts(usage: "Usage") -> str:
    """Return a pool's numbers in words."""
    used, reserved, free, size = map(readable, (usage.used, usage.reserved, usage.free, usage.size))
    text = f"{used} used, {reserved} reserved, {free} free of {size}"
    return f"{text} ({percent(usage)})" if usage.taken else text


def map_lines(over: "IPRange", drawn: str) -> Iterator[str]:
    """Yield a map in lines with the numbers of their first and last addresses."""
    width = len(str(over.size - 1))
    for start in range(0, len(drawn), ROW):
        row = drawn[start : start + ROW]
        yield f"{start:>{width}} {row} {start + len(row) - 1}"


def _nic(nic: "Nic") -> str:
    addresses = ", ".join(map(format_address, nic.ips)) or "no address"
    return f"{nic.owner}, NIC {nic.index}: {addresses}"


SMALL = 256
"""Addresses of a pool whose map is drawn."""

WIDEST = 100
"""Columns of a bar on a wide terminal, or where the output is no terminal."""

NARROWEST = 10
"""Columns of a bar in any case."""

_MARGIN = 2
_COLOURS = {"": "green", "nearly full": "yellow", "full": "red"}


def print_usage(networks: Iterable["NetworkUsage"]) -> None:
    """Draw the pools of networks."""
    console, found = make_console(), list(networks)
    glyphs = BLOCKS if (console.encoding or "").lower().startswith("utf") else LETTERS
    for index, item in enumerate(found):
        if index:
            console.print()
        title = f"{item.network}: {counts(item.total)}" if item.pools else f"{item.network}: no pool"
        console.print(title, style="bold", markup=False)
        if item.deleted:
            _print(console, Text(f"{GOING} since {item.deleted}"))
        for pool in item.pools:
            _print_pool(console, pool, glyphs)
        for name, used, limit in item.shares:
            _print(console, Text(f"namespace {name}: {share_text(used, limit)}"))
        for hold in item.holds:
            _print(console, Text(f"{', '.join(hold.ips)}: held for {hold.owner} until {hold.until}"))
    if any(item.pools for item in found):
        console.print(
            f"\n{glyphs.used} used  {glyphs.reserved} reserved  {glyphs.free} free", style="dim", markup=False
        )
    elif not found:
        console.print("No network exists; add one with `lanloom network add`.", markup=False)


def _print_pool(console: "Console", item: "PoolUsage", glyphs: "Glyphs") -> None:
    width = max(min(console.width, WIDEST) - 2 * _MARGIN - len(" 100 %"), NARROWEST)
    colour = "dim" if item.pool.disabled else _COLOURS[item.warning]
    head = f"{pool_title(item.pool)} in {item.subnet.cidr}: {counts(item.usage)}"
    _print(console, Text.assemble(head, (_mark(item), f"bold {colour}")))
    _print(console, Text(f"{bar(item.usage, width, glyphs)} {percent(item.usage)}", colour))
    if item.map is not None and item.pool.range.size <= SMALL:
        for line in map_lines(item.pool.range, item.map):
            _print(console, Text(line, "dim"))


def _mark(item: "PoolUsage") -> str:
    return " disabled" if item.pool.disabled else f" ! {item.warning}" if item.warning else ""


def _print(console: "Console", text: Text) -> None:
    console.print(Padding(text, (0, 0, 0, _MARGIN), expand=False))

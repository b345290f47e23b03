"""Networks in tests: made and changed by the options of the command line, shown as lines of text."""

from collections.abc import Mapping, Sequence
from itertools import count

from lanloom.features.ipam.cli.grammar.syntax import add_steps, modify_steps
from lanloom.features.ipam.rules.addresses import format_address, parse_address
from lanloom.features.ipam.rules.change import Change, apply
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet

Owned = Mapping[str, Sequence[str]]
"""Keys of NICs and their addresses."""


def uuid(number: int) -> str:
    """The UUID of the n-th subnet that was made."""
    return f"00000000-0000-4000-8000-{number:012}"


def network_with(*subnets: str, pools: Sequence[str] = (), reserved: str | None = None) -> Network:
    """The network `net1`, as `network add` makes it of these options."""
    numbers = count(1)
    empty = Network(id="net1", name="net1")
    steps = add_steps(subnets, pools, reserved)
    return apply(empty, steps, Ledger(empty), lambda: uuid(next(numbers))).network


def ledger_for(network: Network, owned: Owned | None = None) -> Ledger:
    """NICs that own addresses."""
    return Ledger(network, {nic: [parse_address(text) for text in ips] for nic, ips in (owned or {}).items()})


def modified(
    network: Network,
    subnets: Sequence[str] = (),
    pools: Sequence[str] = (),
    add: str | None = None,
    remove: str | None = None,
    owned: Owned | None = None,
) -> Change:
    """What `network modify` makes of it with these options."""
    numbers = count(len(network.subnets) + 1)
    steps = modify_steps(subnets, pools, add, remove)
    return apply(network, steps, ledger_for(network, owned), lambda: uuid(next(numbers)))


def lines(network: Network) -> list[str]:
    """A line for each subnet, and below it one for each pool and reserved range."""
    return [line for subnet in network.subnets for line in _subnet_lines(subnet)]


def _subnet_lines(subnet: Subnet) -> list[str]:
    words = [str(subnet.cidr)]
    words += [] if subnet.gateway is None else ["via", format_address(subnet.gateway)]
    words += ["dhcp"] if subnet.dhcp else []
    words += [f"({subnet.name})"] if subnet.name else []
    return [
        " ".join(words),
        *map(_pool_line, subnet.pools),
        *(f"  reserved {item}" for item in subnet.external),
    ]


def _pool_line(pool: Pool) -> str:
    label = f" ({pool.name})" if pool.name else ""
    return f"  pool {pool.range}{label}" + (" disabled" if pool.disabled else "")

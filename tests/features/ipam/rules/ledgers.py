"""Networks in short for tests of ledgers, and addresses that are given out."""

from collections.abc import Sequence

from lanloom.features.ipam.rules.addresses import format_address, parse_address, parse_cidr, parse_range
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet

A, B = "default/a-0", "default/b-0"


def network(*subnets: Subnet) -> Network:
    """A network with those subnets."""
    return Network(id="net1", name="net1", subnets=subnets)


def subnet(cidr: str, *pools: str | Pool, gateway: str = "", external: Sequence[str] = ()) -> Subnet:
    """A subnet; a pool may be given as a range."""
    return Subnet(
        uuid=cidr,
        cidr=parse_cidr(cidr)[0],
        gateway=parse_address(gateway) if gateway else None,
        pools=tuple(Pool(range=parse_range(item)) if isinstance(item, str) else item for item in pools),
        external=tuple(map(parse_range, external)),
    )


def next_texts(ledger: Ledger, count: int, request: str = "pool", owner: str = A) -> list[str]:
    """The next addresses that a NIC gets, committed."""
    operation = ledger.begin()
    found = [format_address(operation.take_next(owner, request)) for _ in range(count)]
    operation.commit()
    return found


def give(ledger: Ledger, owner: str, *texts: str) -> None:
    """A NIC gets those very addresses, whatever is reserved."""
    operation = ledger.begin()
    for text in texts:
        operation.take(parse_address(text), owner, force=True)
    operation.commit()


SMALL = network(subnet("192.0.2.0/29", "192.0.2.0/29", gateway="192.0.2.1"))

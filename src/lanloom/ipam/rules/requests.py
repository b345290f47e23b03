"""What a NIC asks for, and which addresses it gets.

Explicit ones are taken first, then automatic ones by index; all of them or none.
"""

from collections.abc import Sequence

from lanloom.ipam.rules.addresses import Address, find_address, version_of
from lanloom.ipam.rules.ledger import AUTOMATIC, Operation
from lanloom.ipam.rules.model import Network

Request = Address | str
"""An address, or `pool`, `pool4`, `pool6` or the name of pools, for the lowest free one there."""


def parse_requests(ips: Sequence[str]) -> tuple[Request, ...]:
    """Requests as they are written. Raises Malformed for what is neither an address nor a name."""
    return tuple(text if (address := find_address(text)) is None else address for text in ips)


def settle(
    operation: Operation,
    network: Network,
    owner: str,
    held: Sequence[Address],
    wanted: Sequence[Request],
    *,
    force: bool = False,
    given_up: Sequence[Address] = (),
) -> tuple[Address, ...]:
    """The addresses of a NIC, in the order of `wanted`; takes and releases them in `operation`.

    `held` is what the NIC owns in this network now. A wanted address that it has is kept, and needs no force. An
    automatic entry keeps what the NIC has, unless that is among `given_up`; first the one of its own index. Raises
    Refused (OutsideSubnets, AddressInUse, AddressReserved, Exhausted); the operation is then to be aborted.
    """
    found: dict[int, Address] = {index: item for index, item in enumerate(wanted) if isinstance(item, int)}
    for address in found.values():
        if address not in held:
            operation.take(address, owner, force=force)
    spare = [address for address in held if address not in found.values() and address not in given_up]
    names = [(index, item) for index, item in enumerate(wanted) if isinstance(item, str)]
    for index, request in names:
        if index < len(held) and held[index] in spare and _fits(network, held[index], request):
            found[index] = held[index]
            spare.remove(held[index])
    for index, request in names:
        if index in found:
            continue
        kept = next((address for address in spare if _fits(network, address, request)), None)
        if kept is None:
            found[index] = operation.take_next(owner, request)
        else:
            found[index] = kept
            spare.remove(kept)
    for address in held:
        if address not in found.values():
            operation.release(address, owner)
    return tuple(found[index] for index in range(len(wanted)))


def _fits(network: Network, address: Address, request: str) -> bool:
    """Whether an address that the NIC has is what an automatic entry asks for; also where its pool was taken away."""
    if request in AUTOMATIC:
        return AUTOMATIC[request] in (None, version_of(address))
    around = [pool.name for pool in network.pools() if address in pool.range]
    return not around or request in around

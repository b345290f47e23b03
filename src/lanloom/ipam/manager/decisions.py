"""Which addresses one NIC gets, or why it gets none: the rules of requests, with refusals as values."""

from msgspec import Struct

from lanloom.api.ipam import Nic
from lanloom.ipam.rules.addresses import Address, find_addresses
from lanloom.ipam.rules.errors import Exhausted, IpamError
from lanloom.ipam.rules.ledger import Ledger, Operation
from lanloom.ipam.rules.requests import parse_requests, settle

NOT_READY = "NetworkNotReady"
NETWORK_MISSING = "NetworkMissing"
MALFORMED = "Malformed"


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of a NIC. `ips` are its addresses; None if it is refused what it asks for and keeps what it has.

    `operation` holds what was taken and must be aborted or committed; None where nothing was taken.
    """

    nic: Nic
    ips: tuple[Address, ...] | None = None
    reason: str = ""
    message: str = ""
    operation: Operation | None = None


def decide(ledger: Ledger, nic: Nic, held: tuple[Address, ...], problem: tuple[str, str] | None) -> Decision:
    """What a NIC gets in the network of the ledger, where it has `held`.

    `problem` is why the network gives nothing away at all, as reason and message.
    """
    spec = nic.spec
    if not spec.ips or not spec.network:
        return Decision(nic=nic, ips=())
    if problem is not None:
        return Decision(nic=nic, reason=problem[0], message=problem[1])
    operation = ledger.begin()
    try:
        ips = settle(
            operation,
            ledger.network,
            str(nic.metadata.key),
            held,
            parse_requests(spec.ips),
            force=spec.force,
            given_up=find_addresses(spec.release),
        )
    except IpamError as error:
        operation.abort()
        several = isinstance(error, Exhausted) and len(spec.ips) > 1
        hint = f" (the NIC asks for {len(spec.ips)}, and gets all of them or none)" if several else ""
        return Decision(nic=nic, reason=type(error).__name__, message=f"{error}{hint}")
    return Decision(nic=nic, ips=ips, operation=operation)

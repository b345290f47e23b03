"""What the users of addresses forbid when a subnet changes.

An operation and an edit of the object are judged by the same function, so that nothing can be done to one that can't
be done to the other.
"""

from collections.abc import Iterable
from itertools import islice

from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Pool, Subnet
from lanloom.ipam.rules.names import pool_title
from lanloom.ipam.rules.ranges import IPRange, subtract

_NAMED = 3
"""How many owners a message names."""


def check_users(network: str, old: Subnet | None, new: Subnet | None, ledger: Ledger) -> None:
    """Raises Refused if somebody's address keeps a subnet from becoming another, from coming or from going.

    `old` is None for a new subnet, `new` for one that is removed.
    """
    if old is not None:
        _check_cut(network, old, new, ledger)
    if new is not None and _has_new_gateway(old, new):
        _check_gateway(network, new, ledger)


def kept_note(pool: Pool, gone: Iterable[IPRange], ledger: Ledger) -> tuple[str, ...]:
    """What to tell of addresses that NICs own in parts of a pool that are no longer pooled."""
    owned = users(ledger, gone)
    return (f"NICs keep addresses that are no longer in pool {pool_title(pool)}: {owned}",) if owned else ()


def users(ledger: Ledger, ranges: Iterable[IPRange]) -> str:
    """Who owns addresses of some ranges, for a message: a few of them; empty for nobody. Never walks a range."""
    owned = (pair for item in ranges for pair in ledger.owned_in(item))
    found = list(islice(owned, _NAMED + 1))
    texts = [f"{format_address(address)} (NIC {owner})" for address, owner in found[:_NAMED]]
    return ", ".join(texts) + (" and others" if len(found) > _NAMED else "")


def _check_cut(network: str, old: Subnet, new: Subnet | None, ledger: Ledger) -> None:
    if new is not None and new.cidr.version != old.cidr.version:
        raise Refused(
            f"network {network}: {old.title()} can't change to the other IP version ({new.cidr}); add a subnet for that"
        )
    cut = (old.cidr.range,) if new is None else subtract((old.cidr.range,), (new.cidr.range,))
    if owned := users(ledger, cut):
        what = "be removed" if new is None else f"become {new.cidr}"
        raise Refused(
            f"network {network}: {old.title()} can't {what} while NICs own addresses that it would lose: {owned}; "
            "take these addresses from the NICs first"
        )


def _has_new_gateway(old: Subnet | None, new: Subnet) -> bool:
    """By force, a NIC may own the gateway. That hinders only changes that have to do with the gateway."""
    return old is None or (old.cidr, old.gateway) != (new.cidr, new.gateway)


def _check_gateway(network: str, subnet: Subnet, ledger: Ledger) -> None:
    if subnet.gateway is not None and (owner := ledger.owner_of(subnet.gateway)):
        raise Refused(
            f"network {network}: {subnet.title()}: gateway {format_address(subnet.gateway)} is used by NIC {owner}; "
            "choose another one, or take the address from the NIC first"
        )

"""What NICs ask for: the addresses that settle their requests, and their MAC addresses.

Explicit addresses are taken first, those of all NICs of the operation; then automatic ones by index. All or none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import Address, find_address, format_address, version_of
from lanloom.features.ipam.rules.ledger import (
    AddressInUse,
    AddressReserved,
    Exhausted,
    Operation,
    OutsideSubnets,
    UnknownPool,
)
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.names import check_name
from lanloom.features.ipam.rules.shares import (
    check_quota,
    check_served,
    limit_of,
    may_force,
    namespace_of,
    reserved_remedy,
)
from lanloom.poolrequests import AUTOMATIC
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

DEFAULT_PREFIX = "aa:00:00"
"""The first three octets where a network says nothing; Ganeti's default too, locally administered."""

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_TAILS = 1 << 24
_TRIES = 64
"""So many random tails are tried before all are searched for a free one."""


def parse_mac(text: str) -> str:
    """Return a MAC address of one NIC, in lower case. Raises Malformed, also for one of a group and for all zeros."""
    mac = text.lower()
    if not _MAC.fullmatch(mac):
        raise Malformed(
            f"{quote(text)} is not a MAC address; write one such as {DEFAULT_PREFIX}:12:34:56, or auto"
        )
    if int(mac[:2], 16) & 1:
        raise Malformed(f"{quote(text)} is the MAC address of a group; the second digit of a NIC's is even")
    if not mac.strip("0:"):
        raise Malformed(f"{quote(text)} is not a valid MAC address of a NIC; write another one, or auto")
    return mac


class Macs:
    """The MAC addresses that are taken, those of the operation too. `rng` makes new ones."""

    def __init__(self, taken: Iterable[str], rng: Random) -> None:
        self._taken = {mac.lower() for mac in taken}
        self._rng = rng

    def take(self, mac: str) -> str:
        """Return that very address. Raises Denied if a NIC has it."""
        if mac in self._taken:
            raise Denied(f"MAC address {mac} is already used by a NIC; choose another one, or mac=auto")
        self._taken.add(mac)
        return mac

    def generate(self, prefix: str) -> str:
        """Return a new one that begins with three octets, by default `DEFAULT_PREFIX`. Raises Exhausted."""
        prefix = prefix.lower() or DEFAULT_PREFIX
        start = self._rng.randrange(_TAILS)
        for offset in range(_TAILS):
            tail = (start + offset) % _TAILS if offset >= _TRIES else self._rng.randrange(_TAILS)
            mac = f"{prefix}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
            if mac not in self._taken:
                return self.take(mac)
        raise Exhausted(
            f"every MAC address that begins with {prefix} is used; give the network another mac_prefix"
        )


Request = Address | str
"""An address, or `pool`, `pool4`, `pool6` or the name of pools, for the lowest free one there."""

MOST = 64
"""An instance has no more NICs, and a NIC no more addresses; a higher number is a slip."""

CHOOSE_ANOTHER = "choose another one, or pool"
"""The remedy for an address that another NIC has."""


class Claim(Struct, frozen=True, kw_only=True):
    """The requests of one NIC (`owner` is its key) in a network, and its addresses there.

    `held` is what the NIC owns there now, `given_up` what an automatic entry neither keeps nor gets. `force` takes what
    is externally reserved, where the network lets the owner's namespace do so.
    """

    owner: str
    wanted: tuple[Request, ...]
    held: tuple[Address, ...] = ()
    given_up: tuple[Address, ...] = ()
    force: bool = False


def parse_requests(ips: Sequence[str]) -> tuple[Request, ...]:
    """Parse requests. Raises Malformed for one that is neither an address nor a name, and for one twice."""
    requests = tuple(_parse(text) for text in ips)
    _check_once(requests)
    return requests


def format_request(request: Request) -> str:
    """Return a request in its canonical form."""
    return request if isinstance(request, str) else format_address(request)


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
    """Return the addresses of a NIC, in the order of `wanted`, taken and released in `operation`.

    See `settle_all`.
    """
    claim = Claim(owner=owner, wanted=tuple(wanted), held=tuple(held), given_up=tuple(given_up), force=force)
    return settle_all(operation, network, (claim,))[0]


def settle_all(
    operation: Operation, network: Network, claims: Iterable[Claim]
) -> tuple[tuple[Address, ...], ...]:
    """Return the addresses of several NICs of a network, each in the order of its `wanted`.

    A wanted address that the NIC has is kept, and needs no force. An automatic entry keeps what the NIC has, unless
    that is given up; first the one of its own index. What is neither wanted nor kept is released. Raises Malformed for
    an address twice on a NIC, and Refused (OutsideSubnets, AddressInUse, AddressReserved, Exhausted,
    NamespaceNotAllowed, QuotaExceeded); the operation is then to be aborted.
    """
    settled = [(claim, _take_explicit(operation, network, claim)) for claim in claims]
    found = tuple(_take_automatic(operation, network, claim, explicit) for claim, explicit in settled)
    if network.quota:
        _check_quotas(operation, network, zip((claim for claim, _ in settled), found, strict=True))
    return found


def _check_quotas(
    operation: Operation, network: Network, settled: Iterable[tuple[Claim, tuple[Address, ...]]]
) -> None:
    """Raise QuotaExceeded for a namespace that ends with more addresses than before, and than it may have.

    What a NIC gives up for another address counts as given back, although that happens at the commit only.
    """
    more: Counter[str] = Counter()
    for claim, ips in settled:
        more[namespace_of(claim.owner)] += len(ips) - len(set(claim.held))
    for namespace, count in more.items():
        if limit_of(network.quota, namespace) is not None:
            check_quota(network, namespace, operation.used_by_others(namespace), count)


def _take_explicit(operation: Operation, network: Network, claim: Claim) -> dict[int, Address]:
    _check_once(claim.wanted)
    explicit = {index: item for index, item in enumerate(claim.wanted) if isinstance(item, int)}
    for address in explicit.values():
        if address not in claim.held:
            check_served(network, namespace_of(claim.owner))
            _take(operation, network, address, claim)
    return explicit


def _take(operation: Operation, network: Network, address: Address, claim: Claim) -> None:
    namespace = namespace_of(claim.owner)
    try:
        operation.take(address, claim.owner, force=claim.force and may_force(network, namespace))
    except OutsideSubnets as error:
        known = listed(str(subnet.cidr) for subnet in network.subnets) or "none"
        raise OutsideSubnets(f"{error}; its subnets are: {known}") from None
    except AddressInUse as error:
        raise AddressInUse(f"{error}; {CHOOSE_ANOTHER}", error.owner, error.ip) from None
    except AddressReserved as error:
        raise AddressReserved(f"{error}; {reserved_remedy(network, namespace, 'use --force')}") from None


def _take_automatic(
    operation: Operation, network: Network, claim: Claim, explicit: Mapping[int, Address]
) -> tuple[Address, ...]:
    names = {index: item for index, item in enumerate(claim.wanted) if isinstance(item, str)}
    found = {**explicit, **_kept(network, claim, names, explicit)}
    missing = [(index, request) for index, request in names.items() if index not in found]
    if missing:
        check_served(network, namespace_of(claim.owner))
    passed: list[Address] = []
    for number, (index, request) in enumerate(missing):
        try:
            found[index] = _next(operation, network, claim, request, passed)
        except Exhausted as error:
            earlier = sum(other == request for _, other in missing[:number])
            asked = sum(other == request for _, other in missing)
            some = f"{asked} addresses wanted, {earlier} free: " if earlier else ""
            kept_from = (
                f"; spec.release keeps the NIC from {listed(map(format_address, passed))}" if passed else ""
            )
            raise Exhausted(f"{some}{error}{kept_from}") from None
    for address in passed:
        operation.put_back(address)
    for address in set(claim.held).difference(found.values()):
        operation.release(address, claim.owner)
    return tuple(found[index] for index in range(len(claim.wanted)))


def _kept(
    network: Network, claim: Claim, names: Mapping[int, str], explicit: Mapping[int, Address]
) -> dict[int, Address]:
    """Return which automatic entries keep which of the NIC's addresses."""
    spare = [
        address
        for address in claim.held
        if address not in explicit.values() and address not in claim.given_up
    ]
    kept: dict[int, Address] = {}
    for index, request in names.items():
        own = claim.held[index] if index < len(claim.held) else None
        if own in spare and _fits(network, own, request):
            kept[index] = own
            spare.remove(own)
    for index, request in names.items():
        other = next((address for address in spare if _fits(network, address, request)), None)
        if index not in kept and other is not None:
            kept[index] = other
            spare.remove(other)
    return kept


def _next(
    operation: Operation, network: Network, claim: Claim, request: str, passed: list[Address]
) -> Address:
    """Return the lowest free address, or an error that says why there is none.

    One that is given up is none: it would be given up again at the next look. Such are taken, and `passed`.
    """
    automatic = request in AUTOMATIC
    if automatic:
        pools = list(network.pools(version=AUTOMATIC[request]))
    else:
        pools = list(network.pools(request))
        if not pools:
            _refuse_name(network, request)
    if all(pool.disabled for pool in pools):
        raise Exhausted(_nothing_to_give(network, request, some=bool(pools)))
    while (address := operation.take_next(claim.owner, request)) in claim.given_up:
        passed.append(address)
    return address


def _refuse_name(network: Network, request: str) -> None:
    known = sorted({pool.name for pool in network.pools() if pool.name})
    names = f"its pools are: {listed(known)}" if known else "it has no named pool"
    raise UnknownPool(f"network {network.name} has no pool {quote(request)}; {names}")


def _nothing_to_give(network: Network, request: str, *, some: bool) -> str:
    """Return why no pool can be asked: there is none (`some` is false), or all of them are disabled."""
    if request not in AUTOMATIC:
        return f"pool {request} of network {network.name} is disabled; enable it, or name another pool or an address"
    version = AUTOMATIC[request]
    kind = "pool" if version is None else f"IPv{version} pool"
    if some:
        return f"every {kind} of network {network.name} is disabled; enable one, or name an address"
    return f"network {network.name} has no {kind}; add one with --pool, or name an address"


def _fits(network: Network, address: Address, request: str) -> bool:
    """Return whether an address of the NIC satisfies an automatic entry, even if its pool was removed."""
    if request in AUTOMATIC:
        return AUTOMATIC[request] in (None, version_of(address))
    around = [pool.name for pool in network.pools() if address in pool.range]
    return not around or request in around


def _parse(text: str) -> Request:
    address = find_address(text)
    if address is not None:
        return address
    if text not in AUTOMATIC:
        try:
            check_name(text, "a pool")
        except Malformed:
            raise Malformed(
                f"{quote(text)} is neither an IP address nor pool, pool4, pool6 or the name of a pool; "
                "write one such as 192.0.2.10 or pool"
            ) from None
    return text


def _check_once(wanted: Sequence[Request]) -> None:
    seen: set[Address] = set()
    for item in wanted:
        if isinstance(item, int) and item in seen:
            raise Malformed(f"IP {format_address(item)} is requested twice on one NIC; remove one of them")
        if isinstance(item, int):
            seen.add(item)

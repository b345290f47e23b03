"""Names of networks, subnets and pools: which are allowed, what each refers to, and names of objects made from them.

A name is never taken for anything else that stands in its place: an address, a range, a CIDR, a UUID or a word of the
options. So what an identifier means never depends on what else exists.
"""

import re
from collections.abc import Collection, Iterator
from hashlib import sha256

from lanloom.features.ipam.rules.addresses import IPRange, find_address, parse_cidr, parse_range
from lanloom.features.ipam.rules.model import Network, Pool, Subnet
from lanloom.poolrequests import AUTOMATIC
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

RESERVED_WORDS = frozenset([*AUTOMATIC, "none", "auto", "add", "remove", "modify"])
"""Words that options give a meaning to."""

NAME_MAX = 253
"""Longest name: that of an object, because a network may be called by its object's name."""

OBJECT_NAME_MAX = 63
"""Longest name that is an object's own, so that it can be the value of a label as well."""

LISTED = 20
"""How many things a message lists at the most."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_FOUR_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+){3}")
"""Texts that are meant as IPv4 addresses, even if a number is too large for one."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SLUG_MAX = 40


def check_name(text: str, what: str) -> str:
    """Return the name itself. `what` it is of (`a subnet`) is for the message. Raises Malformed."""
    if why := _why_not(text):
        raise Malformed(f"{quote(text)} can't be the name of {what}: {why}")
    return text


def is_name(text: str) -> bool:
    """Return whether a text can be a name."""
    return not _why_not(text)


def is_uuid(text: str) -> bool:
    """Return whether a text has the form of a UUID."""
    return _UUID.fullmatch(text) is not None


def is_range(text: str) -> bool:
    """Return whether a text stands for addresses, rightly written or not, and so can't be a name."""
    head, dash, tail = text.partition("-")
    single = find_address(head) is not None and (not dash or find_address(tail) is not None)
    return single or "/" in text or ":" in text


def object_name(name: str) -> str:
    """Return the name of the object of a new network.

    It is the network's name if objects can have it, else one made from it.
    """
    if len(name) <= OBJECT_NAME_MAX and _OBJECT_NAME.fullmatch(name):
        return name
    return _hashed(name)


def imported_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the name here of something called `name` elsewhere: the same if it is allowed and not in `taken`.

    Else other characters become dashes, and a hash of the old name is added where that is not enough. An empty name
    stays empty.
    """
    if not name:
        return name
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")
    fitting = (one for one in (name, plain) if not _why_not(one) and one not in taken)
    return next(fitting, "") or _hashed(name)


def find_subnet(network: Network, ident: str) -> Subnet:
    """Return the subnet with that UUID, name or CIDR, in this order. Raises Denied."""
    for subnet in network.subnets:
        if subnet.uuid and subnet.uuid.lower() == ident.lower():
            return subnet
    for subnet in network.subnets:
        if subnet.name and subnet.name == ident:
            return subnet
    if "/" in ident:
        cidr, _ = parse_cidr(ident)
        for subnet in network.subnets:
            if subnet.cidr == cidr:
                return subnet
    known = listed(_subnet_names(network)) or "none"
    raise Denied(f"network {network.name} has no subnet {quote(ident)}; its subnets are: {known}")


def find_pools(network: Network, ident: str | IPRange) -> tuple[Pool, ...]:
    """Return the pools with that name, or the one of exactly that range. Raises Denied where there is none."""
    wanted = _pool_ident(ident)
    found = tuple(pool for pool in network.pools() if wanted and wanted in (pool.name, pool.range))
    if not found:
        known = listed(map(pool_title, network.pools())) or "none"
        raise Denied(f"network {network.name} has no pool {_quoted(wanted)}; its pools are: {known}")
    return found


def find_pool(network: Network, ident: str | IPRange) -> Pool:
    """Return the only pool with that name or range.

    Raises Denied, which lists the ranges where several share the name.
    """
    found = find_pools(network, ident)
    if len(found) > 1:
        ranges = listed(str(pool.range) for pool in found)
        raise Denied(
            f"network {network.name} has {len(found)} pools with the name {found[0].name}; "
            f"name one of them by its range: {ranges}"
        )
    return found[0]


def pool_title(pool: Pool) -> str:
    """Return a pool in a message."""
    return f"{pool.range} ({pool.name})" if pool.name else str(pool.range)


def _pool_ident(ident: str | IPRange) -> str | IPRange:
    return parse_range(ident) if isinstance(ident, str) and is_range(ident) else ident


def _why_not(text: str) -> str:
    """Return why a text can't be a name; empty if it can."""
    if not _NAME.fullmatch(text) or text.startswith("-"):
        return "use letters, digits, dots, dashes and underscores, and begin with no dash"
    if len(text) > NAME_MAX:
        return f"it has more than {NAME_MAX} characters; choose a shorter one"
    if text in RESERVED_WORDS:
        return "the word is reserved for options; choose another one"
    if is_uuid(text):
        return "it would be taken for a UUID; choose another one"
    if is_range(text) or _FOUR_NUMBERS.fullmatch(text):
        return "it would be taken for addresses; choose another one"
    return ""


def _hashed(name: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_SLUG_MAX].strip("-")
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{slug or 'network'}-{digest}"


def _subnet_names(network: Network) -> Iterator[str]:
    for subnet in network.subnets:
        yield f"{subnet.cidr} ({subnet.name})" if subnet.name else str(subnet.cidr)


def _quoted(wanted: str | IPRange) -> str:
    return quote(wanted) if isinstance(wanted, str) else str(wanted)

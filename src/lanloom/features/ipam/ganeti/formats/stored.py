"""Networks and NICs of Ganeti's files as values, whichever of the two forms they have.

Only what can't be read at all is Malformed here; `verify` reports what should not be so. Reservations are strings of
bits: the first character is the first address, and 1 is reserved.
"""

import re
from collections.abc import Iterable
from uuid import UUID, uuid5

from msgspec import Struct

from lanloom.features.ipam.ganeti.formats import fields
from lanloom.features.ipam.ganeti.formats.fields import Raw
from lanloom.features.ipam.rules.addresses import Address, Cidr, IPRange
from lanloom.refusals import Malformed

LARGEST = 1 << 16
"""Pools of more addresses have no string: their reservations follow from the NICs."""

_ONES = re.compile("1+")


def are_bits(text: str) -> bool:
    """Return whether a text holds nothing but bits."""
    return not text.strip("01")


def runs(text: str, first: Address) -> tuple[IPRange, ...]:
    """Return the ranges that are reserved, in order; `first` is the address of the first bit."""
    return tuple(IPRange(first + found.start(), first + found.end() - 1) for found in _ONES.finditer(text))


def bits_of_addresses(around: IPRange, addresses: Iterable[Address]) -> str:
    """Return the bits of a range in which those of `addresses` that are in it are reserved."""
    found = bytearray(b"0") * around.size
    for address in addresses:
        if address in around:
            found[address - around.first] = 0x31
    return found.decode()


def bits_of_ranges(around: IPRange, ranges: Iterable[IPRange]) -> str:
    """Return the bits of a range in which `ranges` are reserved."""
    found = bytearray(b"0") * around.size
    for item in ranges:
        if common := item.common(around):
            at = common.first - around.first
            found[at : at + common.size] = b"1" * common.size
    return found.decode()


def difference(one: str, other: str, first: Address) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
    """Return the addresses that only the one string reserves, and those that only the other does.

    Both have one length.
    """
    if one == other:
        return (), ()
    pairs = list(enumerate(zip(one, other, strict=True)))
    only = tuple(first + at for at, (a, b) in pairs if a > b)
    return only, tuple(first + at for at, (a, b) in pairs if a < b)


OLD = ("network", "network6", "gateway", "gateway6", "reservations", "ext_reservations")
"""The fields that the form with subnets replaces, in the order in which Ganeti declares them."""

NEW = "subnets"
BEFORE = "old_form"
"""Members of the old form that subnets can't express (see `conversion`)."""

LONGEST, SHORTEST = 16, 30
"""The IPv4 networks that Ganeti supports: /16 to /30."""

_SUBNETS = UUID("6f2a1c1e-94d3-5b1c-8a55-0d1f5e0b7a41")


class StoredPool(Struct, frozen=True, kw_only=True):
    """A pool. `reservations` is empty where it is not stored."""

    range: IPRange
    name: str = ""
    reservations: str = ""


class StoredSubnet(Struct, frozen=True, kw_only=True):
    """A subnet. `external` is all that is externally reserved, edges and gateway included where they are."""

    uuid: str
    cidr: Cidr
    gateway: Address | None = None
    dhcp: bool = False
    name: str = ""
    pools: tuple[StoredPool, ...] = ()
    external: tuple[IPRange, ...] = ()


class StoredNetwork(Struct, frozen=True, kw_only=True):
    """A network. `title` is its name in messages; `problems` are what is wrong with it that its subnets don't show.

    `uuid` is the key under which it is stored, where there is one; `own_uuid` is what it says itself.
    """

    title: str
    uuid: str
    own_uuid: str
    name: str
    mac_prefix: str
    tags: tuple[str, ...]
    subnets: tuple[StoredSubnet, ...]
    new: bool
    problems: tuple[str, ...] = ()

    def subnet_of(self, address: Address) -> StoredSubnet | None:
        """Return the subnet that contains an address."""
        return next((subnet for subnet in self.subnets if address in subnet.cidr.range), None)


def subnet_uuid(network: str, cidr: Cidr) -> str:
    """Return the UUID of a subnet that a network had in its old form: the same wherever and whenever it is upgraded."""
    return str(uuid5(_SUBNETS, f"{network}/{cidr}"))


def network_at(raw: Raw, place: str, uuid: str = "") -> StoredNetwork:
    """Return a network in either form; `uuid` is the key under which it is stored. Raises Malformed."""
    name = fields.text(raw, "name", place)
    own = fields.text(raw, "uuid", place)
    new = NEW in raw
    if new and (both := [key for key in OLD if key in raw]):
        raise Malformed(
            f"{place} has both {NEW} and {both[0]}, which belong to different forms; remove one of them"
        )
    if not new and BEFORE in raw:
        raise Malformed(
            f"{place} has {BEFORE} but no {NEW}, so it has neither form; restore it from a backup"
        )
    subnets, problems = (_new(raw, place), ()) if new else _old(raw, place, uuid or own)
    return StoredNetwork(
        title=f"network {name}" if name and name.isprintable() else place,
        uuid=uuid or own,
        own_uuid=own,
        name=name,
        mac_prefix=fields.text(raw, "mac_prefix", place),
        tags=fields.texts(raw, "tags", place),
        subnets=subnets,
        new=new,
        problems=problems,
    )


def _old(raw: Raw, place: str, uuid: str) -> tuple[tuple[StoredSubnet, ...], tuple[str, ...]]:
    """Return the subnets of a network of the old form, and what is wrong with it."""
    cidr, cidr6 = fields.cidr(raw, "network", place), fields.cidr(raw, "network6", place)
    if cidr is None:
        raise Malformed(f"{place} has neither a network nor subnets; add one of them")
    if cidr.version != 4 or not LONGEST <= cidr.length <= SHORTEST:
        raise Malformed(f"{place}.network {cidr} is not an IPv4 network from /{LONGEST} to /{SHORTEST}")
    if cidr6 is not None and cidr6.version != 6:
        raise Malformed(f"{place}.network6 {cidr6} is not an IPv6 network")
    gateway6 = fields.address(raw, "gateway6", place)
    if gateway6 is not None and cidr6 is None:
        raise Malformed(f"{place} has a gateway6 but no network6; add network6, or remove gateway6")
    reservations, external = (_bits(raw, key, place) for key in ("reservations", "ext_reservations"))
    size = cidr.range.size
    misfit = f"{place}.ext_reservations has {len(external)} bits for the {size} addresses of {cidr}"
    problems = (misfit,) if external and len(external) != size else ()
    first = StoredSubnet(
        uuid=subnet_uuid(uuid, cidr),
        cidr=cidr,
        gateway=fields.address(raw, "gateway", place),
        pools=(StoredPool(range=cidr.range, reservations=reservations),),
        external=runs(external, cidr.first),
    )
    if cidr6 is None:
        return (first,), problems
    second = StoredSubnet(uuid=subnet_uuid(uuid, cidr6), cidr=cidr6, gateway=gateway6)
    return (first, second), problems


def _new(raw: Raw, place: str) -> tuple[StoredSubnet, ...]:
    items = fields.sequence(raw[NEW], f"{place}.{NEW}")
    return tuple(_subnet(item, f"{place}.{NEW}[{index}]") for index, item in enumerate(items))


def _subnet(value: object, place: str) -> StoredSubnet:
    raw = fields.mapping(value, place)
    cidr = fields.cidr(raw, "cidr", place)
    if cidr is None:
        raise Malformed(f"{place} has no cidr; add one")
    pools, external = (fields.sequence(raw.get(key) or [], f"{place}.{key}") for key in ("pools", "external"))
    return StoredSubnet(
        uuid=fields.text(raw, "uuid", place),
        cidr=cidr,
        gateway=fields.address(raw, "gateway", place),
        dhcp=fields.flag(raw, "dhcp", place),
        name=fields.text(raw, "name", place),
        pools=tuple(_pool(item, f"{place}.pools[{index}]") for index, item in enumerate(pools)),
        external=tuple(
            fields.range_of(item, f"{place}.external[{index}]") for index, item in enumerate(external)
        ),
    )


def _pool(value: object, place: str) -> StoredPool:
    raw = fields.mapping(value, place)
    return StoredPool(
        range=fields.range_of(raw.get("range"), f"{place}.range"),
        name=fields.text(raw, "name", place),
        reservations=_bits(raw, "reservations", place),
    )


def _bits(raw: Raw, key: str, place: str) -> str:
    found = fields.text(raw, key, place)
    if not are_bits(found):
        raise Malformed(f"{place}.{key} must contain only 0 and 1")
    return found

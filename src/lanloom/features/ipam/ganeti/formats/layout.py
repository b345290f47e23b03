"""A network's members in the old form and with subnets, and where each of them stands in the object.

What the subnets can't tell of the old form (an unusual order, a null where Ganeti leaves a field out, a CIDR with host
bits) is kept beside them as `old_form`, so that a downgrade gives back the very bytes of before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lanloom.features.ipam.ganeti.formats.fields import Raw, mapping, texts
from lanloom.features.ipam.ganeti.formats.stored import (
    BEFORE,
    LARGEST,
    NEW,
    OLD,
    StoredPool,
    StoredSubnet,
    bits_of_ranges,
)
from lanloom.features.ipam.rules.addresses import format_address, parse_address
from lanloom.features.ipam.rules.ranges import IPRange, parse_cidr
from lanloom.refusals import Malformed

Value = Any
"""What JSON can say."""


def subnet_value(subnet: StoredSubnet) -> dict[str, Value]:
    """A subnet as it is stored, without what is not set, as Ganeti does it."""
    gateway = {} if subnet.gateway is None else {"gateway": format_address(subnet.gateway)}
    name = {"name": subnet.name} if subnet.name else {}
    value = {
        "cidr": str(subnet.cidr),
        "dhcp": subnet.dhcp,
        "external": [range_value(item) for item in subnet.external],
        "pools": [_pool_value(pool) for pool in subnet.pools],
        "uuid": subnet.uuid,
    }
    return dict(sorted({**value, **gateway, **name}.items()))


def range_value(item: IPRange) -> dict[str, Value]:
    """A range as it is stored."""
    return {"end": format_address(item.last), "size": item.size, "start": format_address(item.first)}


def old_values(subnets: Sequence[StoredSubnet]) -> dict[str, Value]:
    """The fields of the old form, of subnets that it can say; without those that are not set."""
    values: dict[str, Value] = {}
    for subnet, suffix in zip(subnets, ("", "6"), strict=False):
        values[f"network{suffix}"] = str(subnet.cidr)
        if subnet.gateway is not None:
            values[f"gateway{suffix}"] = format_address(subnet.gateway)
    first = subnets[0]
    values["reservations"] = first.pools[0].reservations or "0" * first.cidr.range.size
    values["ext_reservations"] = bits_of_ranges(first.cidr.range, first.external)
    return {key: values[key] for key in OLD if key in values}


def memory(raw: Raw, subnets: Sequence[StoredSubnet]) -> dict[str, Value]:
    """What must be kept of a network of the old form beside its subnets; mostly nothing."""
    plain = old_values(subnets)
    odd = {
        key: raw[key]
        for key in OLD
        if key in raw and (key not in plain or raw[key] != plain[key]) and _same(key, raw, plain)
    }
    keys = list(raw)
    back = old_order(new_order(keys), [key for key in OLD if key in plain or key in odd])
    return {"order": keys, "values": odd} if odd or back != keys else {}


def restored(raw: Raw, subnets: Sequence[StoredSubnet], place: str) -> tuple[dict[str, Value], list[str]]:
    """The fields of the old form, and the order of all members with them. Raises Malformed."""
    plain = old_values(subnets)
    if raw.get(BEFORE) is None:
        return plain, old_order([key for key in raw if key != BEFORE], list(plain))
    kept = mapping(raw[BEFORE], f"{place}.{BEFORE}")
    odd = mapping(kept.get("values") or {}, f"{place}.{BEFORE}.values")
    order = list(dict.fromkeys(texts(kept, "order", f"{place}.{BEFORE}")))
    values = {**plain, **{key: odd[key] for key in OLD if key in odd and _same(key, odd, plain)}}
    values = {key: value for key, value in values.items() if key in order or not _is_empty(key, value)}
    present = [key for key in raw if key not in (NEW, BEFORE)]
    before = [key for key in order if key in values or key in present]
    left = [key for key in (*values, *present) if key not in before]
    return values, [*before, *left] if order != sorted(order) else sorted((*before, *left))


def new_order(keys: Sequence[str]) -> list[str]:
    """The keys with `subnets` instead of the fields of the old form."""
    rest = [key for key in keys if key not in OLD]
    return _with(rest, keys, NEW, next((i for i, key in enumerate(keys) if key in OLD), len(keys)))


def with_memory(keys: Sequence[str]) -> list[str]:
    """The keys with `old_form` where it belongs."""
    return _with(list(keys), keys, BEFORE, list(keys).index(NEW) + 1)


def old_order(keys: Sequence[str], values: Sequence[str]) -> list[str]:
    """The keys with the fields of the old form instead of `subnets`."""
    rest = [key for key in keys if key != NEW]
    if rest == sorted(rest):
        return sorted((*rest, *values))
    at = list(keys).index(NEW)
    return [*keys[:at], *values, *keys[at + 1 :]]


def _with(rest: list[str], keys: Sequence[str], more: str, at: int) -> list[str]:
    if list(keys) == sorted(keys):
        return sorted((*rest, more))
    return [*rest[:at], more, *rest[at:]]


def _pool_value(pool: StoredPool) -> dict[str, Value]:
    bits = pool.reservations or ("0" * pool.range.size if pool.range.size <= LARGEST else None)
    name = {"name": pool.name} if pool.name else {}
    return {**name, "range": range_value(pool.range), "reservations": bits}


def _same(key: str, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    """Whether two values of an old field mean the same."""
    return _meaning(key, one.get(key)) == _meaning(key, other.get(key))


def _is_empty(key: str, value: Value) -> bool:
    return _meaning(key, value) is None


def _meaning(key: str, value: Value) -> object:
    """What a value of an old field stands for; None for nothing."""
    if not isinstance(value, str) or not value:
        return None
    if key.endswith("reservations"):
        return value if "1" in value else None
    try:
        return parse_cidr(value)[0] if key.startswith("network") else parse_address(value)
    except Malformed:
        return value

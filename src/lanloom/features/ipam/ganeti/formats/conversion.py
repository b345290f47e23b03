"""Between the old form and the one with subnets.

An upgrade makes one subnet with one pool over all of it, and the IPv6 network as a second. Reservations are recomputed
from the NICs. A network that has the new form already stays as it is. A downgrade names and refuses everything that the
old form can't express.

What subnets can't express of the old form (an unusual order, a null where Ganeti leaves a field out, a CIDR with host
bits) is kept next to them as `old_form`. So a downgrade gives back the very bytes of before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lanloom.features.ipam.ganeti.formats.config import check_runtime, config_of, corrections, counted
from lanloom.features.ipam.ganeti.formats.fields import Raw, mapping, printable, texts
from lanloom.features.ipam.ganeti.formats.stored import (
    BEFORE,
    LARGEST,
    LONGEST,
    NEW,
    OLD,
    SHORTEST,
    StoredNetwork,
    StoredPool,
    StoredSubnet,
    bits_of_ranges,
    network_at,
)
from lanloom.features.ipam.ganeti.formats.text import (
    Changed,
    Members,
    NetworkEdit,
    Style,
    config_edits,
    decode,
    ips_downgrade,
    ips_upgrade,
    rendered,
    runtime_edits,
    style_of,
)
from lanloom.features.ipam.rules.addresses import IPRange, format_address, parse_address, parse_cidr
from lanloom.refusals import Denied, Malformed

Value = Any
"""A value of JSON."""


def subnet_value(subnet: StoredSubnet) -> dict[str, Value]:
    """Return a subnet as it is stored, without what is not set, as Ganeti does it."""
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
    """Return a range as it is stored."""
    return {"end": format_address(item.last), "size": item.size, "start": format_address(item.first)}


def old_values(subnets: Sequence[StoredSubnet]) -> dict[str, Value]:
    """Return the fields of the old form, of subnets that it can say; without those that are not set."""
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
    """Return the members of the old form that subnets can't express; mostly none."""
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
    """Return the fields of the old form, and the order of all members with them. Raises Malformed."""
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
    """Return the keys with `subnets` instead of the fields of the old form."""
    rest = [key for key in keys if key not in OLD]
    return _with(rest, keys, NEW, next((i for i, key in enumerate(keys) if key in OLD), len(keys)))


def with_memory(keys: Sequence[str]) -> list[str]:
    """Return the keys with `old_form` where it belongs."""
    return _with(list(keys), keys, BEFORE, list(keys).index(NEW) + 1)


def old_order(keys: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return the keys with the fields of the old form instead of `subnets`."""
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
    """Return whether two values of an old field mean the same."""
    return _meaning(key, one.get(key)) == _meaning(key, other.get(key))


def _is_empty(key: str, value: Value) -> bool:
    return _meaning(key, value) is None


def _meaning(key: str, value: Value) -> object:
    """Interpret a value of an old field; None if it is empty."""
    if not isinstance(value, str) or not value:
        return None
    if key.endswith("reservations"):
        return value if "1" in value else None
    try:
        return parse_cidr(value)[0] if key.startswith("network") else parse_address(value)
    except Malformed:
        return value


Subnets = Callable[[str, Raw], Sequence[StoredSubnet]]
"""The subnets of a network of the old form, given the key under which it is stored."""


def upgrade_config(text: str) -> Changed:
    """Return a `config.data` with subnets. Raises Malformed, and Denied for bits that can't be put into place."""
    data = decode(text)
    config = config_of(data)
    style = style_of(text)
    notes: list[str] = []
    old = {key: network for key, network in config.networks.items() if not network.new}
    for network in old.values():
        _refuse_misfits(network)
    subnets = {key: counted(network, config) for key, network in old.items()}
    for key in subnets:
        notes += _normalised(config.networks[key], data["networks"][key])
        notes += corrections(config.networks[key], subnets[key], config)
    edits = config_edits(text, data, _up_edit(style, lambda key, _: subnets[key]), ips_upgrade(style))
    return edits.changed((_up_step(config.networks[key], item) for key, item in subnets.items()), notes)


def upgrade_runtime(text: str) -> Changed:
    """Return a KVM runtime file with subnets. Raises Malformed, and Denied for bits that can't be put into place.

    The reservations in it are those of the moment when the machine was started, and stay.
    """
    data = decode(text)
    check_runtime(data)
    style = style_of(text)

    def subnets(_key: str, raw: Raw) -> Sequence[StoredSubnet]:
        network = network_at(raw, "netinfo")
        _refuse_misfits(network)
        return network.subnets

    edits = runtime_edits(text, data, _up_edit(style, subnets), ips_upgrade(style))
    return edits.changed()


def _normalised(network: StoredNetwork, raw: Raw) -> Iterator[str]:
    """Yield the CIDRs that were given with host bits."""
    for key in ("network", "network6"):
        if raw.get(key) and parse_cidr(raw[key])[1]:
            yield f"{network.title}: {key} {raw[key]} has host bits; its subnet is {parse_cidr(raw[key])[0]}"


def _up_step(network: StoredNetwork, subnets: Sequence[StoredSubnet]) -> str:
    """Describe the conversion of a network."""
    pool, external = subnets[0].pools[0], sum(item.size for item in subnets[0].external)
    more = f", {subnets[1].cidr} another one without a pool" if len(subnets) > 1 else ""
    return (
        f"{network.title}: {subnets[0].cidr} becomes a subnet with a pool of {pool.range.size} addresses, "
        f"{pool.reservations.count('1')} of them used and {external} externally reserved{more}"
    )


def _refuse_misfits(network: StoredNetwork) -> None:
    """Refuse external reservations that do not fit: they can't be computed, so the administrator must correct them."""
    if network.problems:
        raise Denied(f"{network.problems[0]}; correct it first")


def _up_edit(style: Style, subnets: Subnets) -> NetworkEdit:
    def edit(found: Members, raw: Raw, key: str) -> str | None:
        if NEW in raw:
            return None
        new = subnets(key, raw)
        kept = memory(raw, new)
        values = {NEW: [subnet_value(subnet) for subnet in new], BEFORE: kept}
        order = new_order(list(raw))
        order = with_memory(order) if kept else order
        return rendered(found, style, values, order)

    return edit


_SUBNET = {"cidr", "dhcp", "external", "gateway", "name", "pools", "uuid"}
_POOL = {"name", "range", "reservations"}


def downgrade_config(text: str) -> Changed:
    """Return a `config.data` of the old form. Raises Malformed, and Denied with everything that can't be said in it."""
    data = decode(text)
    config = config_of(data)
    raws = data.get("networks") or {}
    reasons = [
        reason
        for key, network in config.networks.items()
        if network.new
        for reason in network_reasons(network, raws[key])
    ]
    reasons += [f"{nic} has {len(nic.ips)} addresses" for nic in config.nics if len(nic.ips) > 1]
    _refuse(reasons)
    style = style_of(text)
    edit = _down_edit(style, lambda network: counted(network, config))
    edits = config_edits(text, data, edit, ips_downgrade(style))
    return edits.changed(_down_step(network) for network in config.networks.values() if network.new)


def downgrade_runtime(text: str) -> Changed:
    """Return a KVM runtime file of the old form.

    Raises Malformed, and Denied with everything that can't be said in it.
    """
    data = decode(text)
    check_runtime(data)
    reasons = []
    for index, raw in enumerate(data[1]):
        if len(raw.get("ips") or []) > 1:
            reasons.append(f"NIC {index} has {len(raw['ips'])} addresses")
        if NEW in (raw.get("netinfo") or {}):
            network = network_at(raw["netinfo"], f"nics[{index}].netinfo")
            reasons += network_reasons(network, raw["netinfo"])
    _refuse(reasons)
    style = style_of(text)
    edits = runtime_edits(
        text, data, _down_edit(style, lambda network: network.subnets), ips_downgrade(style)
    )
    return edits.changed()


def network_reasons(network: StoredNetwork, raw: Raw) -> Iterator[str]:
    """Return why a network can't be said in the old form."""
    title = network.title
    if not network.subnets or network.subnets[0].cidr.version == 6:
        yield f"{title} does not begin with an IPv4 subnet, which the old form requires"
    for version in (4, 6):
        many = [subnet for subnet in network.subnets if subnet.cidr.version == version]
        if len(many) > 1:
            yield f"{title} has {len(many)} IPv{version} subnets: {', '.join(str(item.cidr) for item in many)}"
    for subnet, item in zip(network.subnets, raw[NEW], strict=True):
        here = f"{title}: subnet {subnet.cidr}"
        yield from _subnet_reasons(subnet, here)
        yield from _unknown(item, _SUBNET, here)
        for index, pool in enumerate(item.get("pools") or []):
            yield from _unknown(pool, _POOL, f"{here}: pool {index}")


def _subnet_reasons(subnet: StoredSubnet, here: str) -> Iterator[str]:
    if subnet.name:
        yield f"{here} has a name, {printable(subnet.name)}"
    if subnet.dhcp:
        yield f"{here} has dhcp"
    if any(pool.name for pool in subnet.pools):
        yield f"{here} has pools with names"
    if subnet.cidr.version == 6:
        if subnet.pools:
            yield f"{here} has a pool, which the old form does not allow for IPv6"
        if subnet.external:
            yield f"{here} has externally reserved addresses, which the old form does not allow for IPv6"
        return
    if not LONGEST <= subnet.cidr.length <= SHORTEST:
        yield f"{here} has a prefix length outside of /{LONGEST} to /{SHORTEST}"
    if [pool.range for pool in subnet.pools] != [subnet.cidr.range]:
        yield f"{here} does not have a single pool of its whole range"
    if any(not subnet.cidr.range.covers(item) for item in subnet.external):
        yield f"{here} has externally reserved addresses outside of it"


def _unknown(raw: Raw, known: set[str], here: str) -> Iterator[str]:
    if more := sorted(raw.keys() - known):
        yield f"{here} has unknown fields: {', '.join(map(printable, more))}"


def _down_step(network: StoredNetwork) -> str:
    """Describe the conversion of a network."""
    more = f", {network.subnets[1].cidr} its network6" if len(network.subnets) > 1 else ""
    return f"{network.title}: {network.subnets[0].cidr} becomes its network{more}"


def _refuse(reasons: Sequence[str]) -> None:
    if reasons:
        raise Denied("\n".join(("the old form can't represent all of this file:", *reasons)))


def _down_edit(style: Style, subnets: Callable[[StoredNetwork], Sequence[StoredSubnet]]) -> NetworkEdit:
    def edit(found: Members, raw: Raw, key: str) -> str | None:
        if NEW not in raw:
            return None
        place = f"networks[{key}]" if key else "netinfo"
        values, order = restored(raw, subnets(network_at(raw, place, key)), place)
        return rendered(found, style, values, order)

    return edit

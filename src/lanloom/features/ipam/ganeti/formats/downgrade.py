"""Back to the form that Ganeti knows, for what that can say; everything else is named and refused."""

from collections.abc import Callable, Iterator, Sequence

from lanloom.features.ipam.ganeti.formats.config import check_runtime, config_of, counted
from lanloom.features.ipam.ganeti.formats.editing import (
    Changed,
    NetworkEdit,
    config_edits,
    ips_downgrade,
    rendered,
    runtime_edits,
)
from lanloom.features.ipam.ganeti.formats.fields import Raw, printable
from lanloom.features.ipam.ganeti.formats.layout import restored
from lanloom.features.ipam.ganeti.formats.stored import (
    LONGEST,
    NEW,
    SHORTEST,
    StoredNetwork,
    StoredSubnet,
    network_at,
)
from lanloom.features.ipam.ganeti.formats.text import (
    Members,
    Style,
    decode,
    style_of,
)
from lanloom.refusals import Denied

_SUBNET = {"cidr", "dhcp", "external", "gateway", "name", "pools", "uuid"}
_POOL = {"name", "range", "reservations"}


def downgrade_config(text: str) -> Changed:
    """A `config.data` of the old form. Raises Malformed, and Denied with everything that can't be said in it."""
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
    edit = _network_edit(style, lambda network: counted(network, config))
    edits = config_edits(text, data, edit, ips_downgrade(style))
    return edits.changed(_step(network) for network in config.networks.values() if network.new)


def downgrade_runtime(text: str) -> Changed:
    """A KVM runtime file of the old form. Raises Malformed, and Denied with everything that can't be said in it."""
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
        text, data, _network_edit(style, lambda network: network.subnets), ips_downgrade(style)
    )
    return edits.changed()


def network_reasons(network: StoredNetwork, raw: Raw) -> Iterator[str]:
    """Why a network can't be said in the old form."""
    title = network.title
    if not network.subnets or network.subnets[0].cidr.version == 6:
        yield f"{title} does not begin with an IPv4 subnet, which every network of Ganeti's must have"
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
            yield f"{here} has a pool, which IPv6 can't have there"
        if subnet.external:
            yield f"{here} has externally reserved addresses, which IPv6 can't have there"
        return
    if not LONGEST <= subnet.cidr.length <= SHORTEST:
        yield f"{here} is not from /{LONGEST} to /{SHORTEST}"
    if [pool.range for pool in subnet.pools] != [subnet.cidr.range]:
        yield f"{here} does not have one pool over all of it"
    if any(not subnet.cidr.range.covers(item) for item in subnet.external):
        yield f"{here} has externally reserved addresses outside of it"


def _unknown(raw: Raw, known: set[str], here: str) -> Iterator[str]:
    if more := sorted(raw.keys() - known):
        yield f"{here} has fields that nobody knows: {', '.join(map(printable, more))}"


def _step(network: StoredNetwork) -> str:
    """What becomes of a network."""
    more = f", {network.subnets[1].cidr} its network6" if len(network.subnets) > 1 else ""
    return f"{network.title}: {network.subnets[0].cidr} becomes its network{more}"


def _refuse(reasons: Sequence[str]) -> None:
    if reasons:
        raise Denied("\n".join(("the old form can't represent all of this file:", *reasons)))


def _network_edit(style: Style, subnets: Callable[[StoredNetwork], Sequence[StoredSubnet]]) -> NetworkEdit:
    def edit(found: Members, raw: Raw, key: str) -> str | None:
        if NEW not in raw:
            return None
        place = f"networks[{key}]" if key else "netinfo"
        values, order = restored(raw, subnets(network_at(raw, place, key)), place)
        return rendered(found, style, values, order)

    return edit

"""From the old form to the one with subnets: one subnet with one pool over all of it, and the IPv6 network as a second.

Reservations are recomputed from the NICs. What has the new form already stays as it is.
"""

from collections.abc import Callable, Iterator, Sequence

from lanloom.features.ipam.ganeti.formats.config import check_runtime, config_of, corrections, counted
from lanloom.features.ipam.ganeti.formats.editing import (
    Changed,
    NetworkEdit,
    config_edits,
    ips_upgrade,
    rendered,
    runtime_edits,
)
from lanloom.features.ipam.ganeti.formats.fields import Raw
from lanloom.features.ipam.ganeti.formats.layout import (
    memory,
    new_order,
    subnet_value,
    with_memory,
)
from lanloom.features.ipam.ganeti.formats.stored import (
    BEFORE,
    NEW,
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
from lanloom.features.ipam.rules.ranges import parse_cidr
from lanloom.refusals import Denied

Subnets = Callable[[str, Raw], Sequence[StoredSubnet]]
"""The subnets of a network of the old form, given the key under which it is stored."""


def upgrade_config(text: str) -> Changed:
    """A `config.data` with subnets. Raises Malformed, and Denied for bits that can't be put into place."""
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
    edits = config_edits(text, data, _network_edit(style, lambda key, _: subnets[key]), ips_upgrade(style))
    return edits.changed((_step(config.networks[key], item) for key, item in subnets.items()), notes)


def upgrade_runtime(text: str) -> Changed:
    """A KVM runtime file with subnets. Raises Malformed, and Denied for bits that can't be put into place.

    The reservations in it are those of the moment when the machine was started, and stay.
    """
    data = decode(text)
    check_runtime(data)
    style = style_of(text)

    def subnets(_key: str, raw: Raw) -> Sequence[StoredSubnet]:
        network = network_at(raw, "netinfo")
        _refuse_misfits(network)
        return network.subnets

    edits = runtime_edits(text, data, _network_edit(style, subnets), ips_upgrade(style))
    return edits.changed()


def _normalised(network: StoredNetwork, raw: Raw) -> Iterator[str]:
    """The CIDRs that were given with host bits."""
    for key in ("network", "network6"):
        if raw.get(key) and parse_cidr(raw[key])[1]:
            yield f"{network.title}: {key} {raw[key]} has host bits; its subnet is {parse_cidr(raw[key])[0]}"


def _step(network: StoredNetwork, subnets: Sequence[StoredSubnet]) -> str:
    """What becomes of a network."""
    pool, external = subnets[0].pools[0], sum(item.size for item in subnets[0].external)
    more = f", {subnets[1].cidr} another one without a pool" if len(subnets) > 1 else ""
    return (
        f"{network.title}: {subnets[0].cidr} becomes a subnet with a pool of {pool.range.size} addresses, "
        f"{pool.reservations.count('1')} of them used and {external} externally reserved{more}"
    )


def _refuse_misfits(network: StoredNetwork) -> None:
    """External reservations can't be computed anew: those that don't fit are for the administrator to mend."""
    if network.problems:
        raise Denied(f"{network.problems[0]}; correct it first")


def _network_edit(style: Style, subnets: Subnets) -> NetworkEdit:
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

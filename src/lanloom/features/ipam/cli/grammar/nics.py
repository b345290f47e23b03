"""The NICs of an instance, before and after `--net` options.

Each option is applied in turn to what those before it left. Inside of one, indices of addresses mean the list before
it: first what it sets, then what it takes away, so that later addresses move down. Nothing is allocated here.
`addresses_now` computes the addresses that the NICs would get now.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.cli.grammar.net_option import AUTO, NONE, NetStep
from lanloom.features.ipam.rules.addresses import Address, find_address, find_addresses, format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.names import is_uuid
from lanloom.features.ipam.rules.requests import (
    DEFAULT_PREFIX,
    MOST,
    Claim,
    Macs,
    parse_requests,
    settle_all,
)
from lanloom.refusals import Denied
from lanloom.text import quote


class WantedNic(Struct, frozen=True, kw_only=True):
    """A NIC as it is or is to be. `key` is its object's, empty for one that there is not yet.

    `ips` are what it asks for: where it has its addresses, these themselves. `held` is what it owns in its network, in
    the order of `ips`; `release` what of that an automatic entry must not keep. `network` is a network's id.
    """

    key: str = ""
    uuid: str = ""
    name: str = ""
    network: str = ""
    ips: tuple[str, ...] = ()
    held: tuple[Address, ...] = ()
    release: tuple[str, ...] = ()
    force: bool = False
    mac: str = ""
    mode: str = ""
    link: str = ""
    vlan: str = ""


class NicContext(Struct, frozen=True, kw_only=True):
    """The context of a NIC's changes.

    `find` has the network that a user names (raises Denied), `by_id` the one of that id, or None. `macs` are taken by
    other NICs; `force` is for addresses that are externally reserved.
    """

    find: Callable[[str], Network]
    by_id: Callable[[str], Network | None]
    macs: Macs
    force: bool = False


def apply(nics: Sequence[WantedNic], steps: Iterable[NetStep], context: NicContext) -> tuple[WantedNic, ...]:
    """Return the NICs after the steps, in order of their index.

    Raises Denied, which quotes the option, and Malformed.
    """
    after = list(nics)
    for step in steps:
        try:
            _apply(after, step, context)
        except Denied as error:
            raise type(error)(f"{step.title}: {error}") from None
    return tuple(after)


def addresses_now(
    nics: Sequence[WantedNic], ledger_of: Callable[[str], Ledger]
) -> tuple[tuple[Address, ...], ...]:
    """Return the addresses that each NIC would get now, all of them or none.

    `ledger_of` has a network's ledger by its id.
    Each NIC must have a key. The ledgers are left as they were. Raises Denied and Malformed.
    """
    found: dict[int, tuple[Address, ...]] = dict.fromkeys(range(len(nics)), ())
    for network in dict.fromkeys(nic.network for nic in nics if nic.network):
        ledger = ledger_of(network)
        mine = [index for index, nic in enumerate(nics) if nic.network == network]
        operation = ledger.begin()
        try:
            claims = [_claim(nics[index], ledger) for index in mine]
            found.update(zip(mine, settle_all(operation, ledger.network, claims), strict=True))
        finally:
            operation.abort()
    return tuple(found[index] for index in range(len(nics)))


def has_its_addresses(nic: WantedNic) -> bool:
    """Return whether a NIC asks for nothing but what it has."""
    return nic.ips == tuple(map(format_address, nic.held))


def _claim(nic: WantedNic, ledger: Ledger) -> Claim:
    granted = [address for address in ledger.addresses_of(nic.key) if address not in nic.held]
    return Claim(
        owner=nic.key,
        wanted=parse_requests(nic.ips),
        held=(*nic.held, *granted),
        given_up=find_addresses(nic.release),
        force=nic.force,
    )


def _apply(nics: list[WantedNic], step: NetStep, context: NicContext) -> None:
    if step.action == "add":
        at = len(nics) if step.ident in ("", "-1") else int(step.ident)
        if at > len(nics):
            raise Denied(f"the next NIC is {len(nics)}; add it as {len(nics)}, or at the end as -1")
        if len(nics) >= MOST:
            raise Denied(f"an instance has {MOST} NICs at most; remove one first")
        nics.insert(at, _new(step, context))
        _check_name(nics, at)
        return
    at = _find(nics, step.ident)
    if step.action == "remove":
        del nics[at]
        return
    nics[at] = _modified(nics[at], step, context)
    _check_name(nics, at)


def _find(nics: Sequence[WantedNic], ident: str) -> int:
    """Return the NIC with that index (-1 is the last one), UUID or name."""
    if ident in ("", "-1"):
        ident = str(len(nics) - 1)
    called = [(str(index), nic.uuid.lower(), nic.name) for index, nic in enumerate(nics)]
    for own in zip(*called, strict=True):
        wanted = ident.lower() if is_uuid(ident) else ident
        if wanted in own:
            return own.index(wanted)
    known = ", ".join(f"{index} ({nic.name})" if nic.name else str(index) for index, nic in enumerate(nics))
    raise Denied(f"NIC {quote(ident)} does not exist; NICs are: {known or 'none'}")


def _new(step: NetStep, context: NicContext) -> WantedNic:
    network = context.find(step.network) if step.network else None
    return WantedNic(
        name=step.name or "",
        network=network.id if network else "",
        ips=tuple(text for _, text in sorted(step.ips.items())),
        force=context.force,
        mac=_mac(step.mac or AUTO, network, context),
        mode=step.mode or "",
        link=step.link or "",
        vlan=step.vlan or "",
    )


def _modified(nic: WantedNic, step: NetStep, context: NicContext) -> WantedNic:
    old = context.by_id(nic.network)
    network = old if step.network is None else context.find(step.network) if step.network else None
    new = _with_ips(_moved(nic, network.id) if network else _unplugged(nic, step), step.ips)
    if new.ips and not new.network:
        raise Denied("addresses belong to a network; name it with network=…, or remove them with ip0=none")
    if new.network and (step.mode or step.link or step.vlan):
        raise Denied("mode, link and vlan come from the network; omit them, or remove it with network=none")
    changes = {
        key: text for key in ("name", "mode", "link", "vlan") if (text := getattr(step, key)) is not None
    }
    new = replace(new, **changes)
    if step.mac not in (None, nic.mac) or (step.mac is None and _prefix(old) != _prefix(network)):
        new = replace(new, mac=_mac(step.mac or AUTO, network, context))
    insisting = context.force and not has_its_addresses(nic)
    return replace(new, force=context.force) if new != nic or insisting else nic


def _moved(nic: WantedNic, network: str) -> WantedNic:
    """Return the NIC on another network, which decides on mode, link and VLAN, and of which it owns nothing yet."""
    if nic.network == network:
        return nic
    return replace(nic, network=network, held=(), release=(), mode="", link="", vlan="")


def _unplugged(nic: WantedNic, step: NetStep) -> WantedNic:
    """Return the NIC without a network if the option says so. A network that is gone is kept."""
    return nic if step.network is None else replace(nic, network="", held=(), release=())


def _with_ips(nic: WantedNic, ips: Mapping[int, str]) -> WantedNic:
    """Return the NIC with the addresses that an option sets, without those that it removes."""
    before, entries, released = nic.ips, list(nic.ips), set(nic.release)
    held = set(map(format_address, nic.held))
    _check_indices(before, ips)
    for index, request in sorted(ips.items()):
        if index == len(entries):
            entries.append("")
        if entries[index] == request and find_address(request) is not None:
            continue
        if request in held and (request in before or request in released):
            raise Denied(
                f"IP {request} already belongs to this NIC and is not free until the change is made; "
                "keep its index, or remove the address first, in a separate change"
            )
        if entries[index] in held:
            released.add(entries[index])
        entries[index] = request
    left = tuple(entry for entry in entries if entry != NONE)
    return replace(nic, ips=left, release=tuple(sorted(released.difference(left))))


def _check_indices(before: Sequence[str], ips: Mapping[int, str]) -> None:
    """Check that appends follow without a gap, and that only what is there is taken away. Raises Denied."""
    has = f"the NIC has {len(before)} address{'' if len(before) == 1 else 'es'}"
    for index in sorted(index for index in ips if index >= len(before)):
        if ips[index] == NONE:
            raise Denied(f"{has}, so there is no ip{index} to remove")
        if index > len(before) and index - 1 not in ips:
            raise Denied(f"{has}, so the next one is ip{len(before)}; leave no gap before ip{index}")


def _mac(wanted: str, network: Network | None, context: NicContext) -> str:
    """Return that MAC address, or with `auto` a new one of the network's prefix."""
    if wanted != AUTO:
        return context.macs.take(wanted)
    return context.macs.generate(network.mac_prefix if network else "")


def _prefix(network: Network | None) -> str:
    return (network.mac_prefix if network else "").lower() or DEFAULT_PREFIX


def _check_name(nics: Sequence[WantedNic], at: int) -> None:
    name = nics[at].name
    twin = next((index for index, nic in enumerate(nics) if name and nic.name == name and index != at), None)
    if twin is not None:
        raise Denied(f"NIC {twin} has the name {name} already; choose another one")

"""What a NIC's spec may say: what can be judged of it alone, and what its network makes of its requests."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lanloom.api.ipam import INSTANCE, NODE, POD, VIRTUAL_MACHINE, Network, Nic
from lanloom.ipam.rules.addresses import Address, find_address, format_address, parse_address, shown
from lanloom.ipam.rules.errors import AddressInUse, AddressReserved, Malformed, OutsideSubnets, Refused
from lanloom.ipam.rules.general import check_mode, check_vlan
from lanloom.ipam.rules.ledger import AUTOMATIC
from lanloom.ipam.rules.macs import parse_mac
from lanloom.ipam.rules.model import Network as NetworkModel
from lanloom.ipam.rules.names import NAME_MAX, is_uuid
from lanloom.ipam.rules.net_option import MOST
from lanloom.ipam.rules.requests import parse_requests
from lanloom.ipam.wire import network_of
from lanloom.ipam.worlds import Surroundings, World, look_around
from lanloom.kube.ports import Client

KINDS = (INSTANCE, VIRTUAL_MACHINE, POD, NODE)

_OWNER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_NETWORK = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_WORD = re.compile(r"[!-~]{1,253}")


async def judge_nic(client: Client, world: World, new: Nic | None, old: Nic | None) -> tuple[str, ...]:
    """Warnings for who asked for the change. Raises Malformed, Refused, KubeError. To delete one is never refused."""
    if new is None:
        return ()
    if old is not None:
        # Also of one that is leaving: its address waits for just this owner's end.
        check_owner_stays(new, old)
    if new.metadata.is_leaving or (old is not None and old.spec == new.spec):
        return ()
    with _at(new):
        check_nic(new)
    if not new.spec.network:
        return ()
    asked = _asked(new, old)
    around = world.around(new.spec.network, asked)
    with suppress(Refused):
        if around.network is not None:
            return _judge(new, asked, around)
    return _judge(new, asked, await look_around(client, new.spec.network, around.holders))


def check_owner_stays(new: Nic, old: Nic) -> None:
    """A NIC has one owner for life; only a uid that was not known yet may be filled in. Raises Refused."""
    before, after = old.spec.owner, new.spec.owner
    if (before.kind, before.name) != (after.kind, after.name) or before.uid not in ("", after.uid):
        raise Refused(
            f"Nic {new.metadata.key}: spec.owner can't change: the NIC is that of {before.kind} {before.name}; "
            "delete it, and create one for the other owner"
        )


def check_nic(nic: Nic) -> None:
    """What must hold of a NIC by itself. Raises Malformed, which begins with the field."""
    spec = nic.spec
    _check_owner(nic)
    for name, text, check in (
        ("mac", spec.mac, parse_mac),
        ("mode", spec.mode, check_mode),
        ("vlan", spec.vlan, check_vlan),
    ):
        with _field(name):
            if text:
                check(text)
    if spec.uuid and not is_uuid(spec.uuid):
        raise Malformed(
            f"spec.uuid: {shown(spec.uuid)} is no UUID; leave it out, and the object's own is used"
        )
    for field, text in (("link", spec.link), ("interface", spec.interface), ("name", spec.name)):
        if text and not _WORD.fullmatch(text):
            raise Malformed(
                f"spec.{field}: {shown(text)} is no name; use up to 253 characters without blanks"
            )
    _check_requests(nic)


def _check_owner(nic: Nic) -> None:
    owner = nic.spec.owner
    if owner.kind not in KINDS:
        raise Malformed(
            f"spec.owner.kind: {shown(owner.kind)} is no kind of owner; choose one of {', '.join(KINDS)}"
        )
    if len(owner.name) > NAME_MAX or not _OWNER.fullmatch(owner.name):
        raise Malformed(
            f"spec.owner.name: {shown(owner.name)} is no name; use letters, digits, dots, dashes and underscores"
        )
    if owner.uid and not _WORD.fullmatch(owner.uid):
        raise Malformed(f"spec.owner.uid: {shown(owner.uid)} is no uid; take that of the owner's object")


def _check_requests(nic: Nic) -> None:
    spec = nic.spec
    if spec.network and (len(spec.network) > NAME_MAX or not _NETWORK.fullmatch(spec.network)):
        raise Malformed(f"spec.network: {shown(spec.network)} is no name of a Network; name the object")
    if spec.ips and not spec.network:
        raise Malformed("spec.ips: addresses belong to a network; say which one in spec.network")
    if len(spec.ips) > MOST:
        raise Malformed(f"spec.ips has {len(spec.ips)} entries; a NIC has {MOST} addresses at most")
    with _field("ips"):
        parse_requests(spec.ips)
    with _field("release"):
        for text in spec.release:
            parse_address(text)


def _asked(new: Nic, old: Nic | None) -> dict[Address, int]:
    """The addresses that a NIC asks for and has not been judged for yet, each with its place."""
    same = old is not None and old.spec.network == new.spec.network and (new.spec.force or not old.spec.force)
    before = set(old.spec.ips) if old is not None and same else set()
    if new.status.network == new.spec.network:
        before.update(new.status.ips)
    known = {find_address(text) for text in before}
    found = {find_address(text): index for index, text in enumerate(new.spec.ips)}
    return {item: index for item, index in found.items() if item is not None and item not in known}


def _judge(nic: Nic, asked: dict[Address, int], around: Surroundings) -> tuple[str, ...]:
    """Warnings. Raises Refused for an address that the NIC can't get."""
    if around.network is None:
        return (f"there is no Network {nic.spec.network} yet; the NIC gets addresses when there is",)
    try:
        network = network_of(around.network)
    except Malformed:
        return ()  # the allocator says what is wrong there
    for address, index in asked.items():
        with _at(nic), _field(f"ips[{index}]"):
            _check_address(nic, address, network, around)
    return tuple(_unknown_pools(nic, network, around.network))


def _check_address(nic: Nic, address: Address, network: NetworkModel, around: Surroundings) -> None:
    text, subnet = format_address(address), network.subnet_of(address)
    if subnet is None:
        raise OutsideSubnets(
            f"network {network.name} does not contain {text}; choose one of {_subnets(network)}"
        )
    holder = around.holders.get(address)
    if holder is not None and holder != nic.metadata.key:
        raise AddressInUse(f"IP {text} is already used by an instance (NIC {holder}); choose another one")
    if not nic.spec.force and any(address in item for item in subnet.reserved):
        raise AddressReserved(
            f"IP {text} of network {network.name} is externally reserved; choose another one, or set spec.force"
        )


def _subnets(network: NetworkModel) -> str:
    known = [str(subnet.cidr) for subnet in network.subnets[:5]]
    return (
        ", ".join(known) + (", …" if len(network.subnets) > 5 else "")
        or "another network, as it has no subnet"
    )


def _unknown_pools(nic: Nic, network: NetworkModel, item: Network) -> Iterator[str]:
    known = {pool.name for pool in network.pools()}
    for text in dict.fromkeys(nic.spec.ips):
        if text not in AUTOMATIC and text not in known and find_address(text) is None:
            yield f"Network {item.metadata.name} has no pool {text} yet; the NIC gets addresses when it has"


@contextmanager
def _at(nic: Nic) -> Iterator[None]:
    """Puts the object before the message."""
    with _prefixed(f"Nic {nic.metadata.key}: "):
        yield


@contextmanager
def _field(name: str) -> Iterator[None]:
    with _prefixed(f"spec.{name}: "):
        yield


@contextmanager
def _prefixed(prefix: str) -> Iterator[None]:
    try:
        yield
    except (Malformed, Refused) as error:
        raise type(error)(f"{prefix}{error}") from None

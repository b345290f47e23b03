"""The IPv6 address that a node makes itself from router advertisements (SLAAC), and what the agent makes of it.

Everybody on a VLAN can advertise any prefix. So the NAD names the subnet, which the webhook holds against reserved
ranges, and addresses of any other prefix are removed again. So is an address of DHCPv6, of which NetworkManager asks if
a router says so: it may be any, and so one that the node needs elsewhere. NetworkManager makes every address of a
prefix of the MAC address (EUI-64), which tells it from those that other programs put on the link.

NetworkManager tells neither why there is no address nor that another host has it: it removes such an address, and tries
again at the next advertisement. So what was seen of an interface is kept until it has its address.
"""

from collections.abc import Mapping
from ipaddress import IPv6Interface, IPv6Network

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.names import IPV6_SUBNET
from lanloom.features.vlan.rules.desired.activation import too_small
from lanloom.features.vlan.rules.desired.network import Interface, Problem, has_carrier
from lanloom.features.vlan.rules.desired.profile import subnet6_of
from lanloom.node.ports import Connection, Link, LinkState
from lanloom.node.steps import RemoveAddress6
from lanloom.text import listed

ROUTER_SECONDS = 20.0
"""Seconds that routers may take to answer: NetworkManager asks three times, four seconds apart, after two seconds in
which it looks for other hosts with its link-local address."""

_EUI64 = 0xFFFE << 24


class Awaited(Struct, frozen=True, kw_only=True):
    """An interface that waits for its address: since when (seconds of the loop), and what was seen meanwhile.

    `tentative` is the address while the kernel asks whether another host has it, and `duplicate` when one does.
    `refused` are the prefixes that a router advertises instead.
    """

    content: bytes
    since: float
    tentative: str = ""
    duplicate: str = ""
    refused: tuple[str, ...] = ()


def made_address(item: Interface, link: Link | None) -> str:
    """Return the address that the node made itself in its subnet, a CIDR; empty while it can't be used."""
    own = _own(item, link)
    return own if link is not None and own not in link.tentative6 else ""


def _own(item: Interface, link: Link | None) -> str:
    subnet = subnet6_of(item.content)
    if not subnet or link is None:
        return ""
    return next((each for each in link.addresses6 if _is_made(each) and _is_within(each, subnet)), "")


def refused_addresses(item: Interface, link: Link | None) -> tuple[str, ...]:
    """Return the addresses that the node made itself of prefixes which its network does not name."""
    subnet = subnet6_of(item.content)
    if not subnet or link is None:
        return ()
    return tuple(each for each in link.addresses6 if _is_made(each) and not _is_within(each, subnet))


def removals(item: Interface, connection: Connection, observed: LinkState) -> tuple[RemoveAddress6, ...]:
    """Return the steps that remove refused addresses, and that of a DHCPv6 server, which a router may point to."""
    link = observed.links.get(item.name)
    refused = refused_addresses(item, link)
    if link is not None and connection.leased6 and subnet6_of(item.content):
        refused += tuple(each for each in link.addresses6 if each == f"{connection.leased6}/128")
    return tuple(RemoveAddress6(link=item.name, address=each) for each in refused)


def _is_made(cidr: str) -> bool:
    address = IPv6Interface(cidr)
    return address.network.prefixlen == 64 and int(address.ip) & (0xFFFF << 24) == _EUI64


def _is_within(cidr: str, subnet: str) -> bool:
    return IPv6Interface(cidr).ip in IPv6Network(subnet)


def followed(
    before: Awaited | None, item: Interface, connection: Connection, observed: LinkState, now: float
) -> Awaited | None:
    """Return what is known of an interface after another look at it; None for one that waits for no address."""
    link = observed.links.get(item.name)
    ready = connection.phase == "active" and connection.applied and has_carrier(item, observed)
    if not (subnet6_of(item.content) and ready) or too_small(item, observed) or made_address(item, link):
        return None
    if before is None or before.content != item.content:
        before = Awaited(content=item.content, since=now)
    own = _own(item, link)
    refused = {str(IPv6Interface(each).network) for each in refused_addresses(item, link)}
    return replace(
        before,
        tentative=own,
        duplicate=before.tentative if before.tentative and not own else before.duplicate,
        refused=tuple(sorted(refused)) or before.refused,
    )


def problem_of(item: Interface, awaited: Awaited | None, now: float) -> Problem | None:
    """Return why an interface has no address, for a report; None while it may still come."""
    if awaited is None or awaited.content != item.content:
        return None
    subnet, vlan = subnet6_of(item.content), f"VLAN {item.vid}"
    if awaited.duplicate:
        address = awaited.duplicate.partition("/")[0]
        return _problem(
            item,
            "DuplicateAddress",
            f"another host on {vlan} already has {address}, which this node makes of its MAC address; correct that "
            "host",
        )
    if now - awaited.since < ROUTER_SECONDS:
        return None
    if awaited.refused:
        return _problem(
            item,
            "UnexpectedPrefix",
            f"a router on {vlan} advertises {listed(awaited.refused)} and not {subnet}; such addresses are removed; "
            f"correct the router, or {IPV6_SUBNET}",
        )
    return _problem(
        item,
        "RouterTimeout",
        f"no router on {vlan} advertises {subnet} for addresses; the node keeps listening; check the switch port and "
        f"the router, or correct {IPV6_SUBNET}",
    )


def _problem(item: Interface, reason: str, message: str) -> Problem:
    return Problem(vid=item.vid, network=item.network, mode=modes_of(item), reason=reason, message=message)


def modes_of(item: Interface) -> str:
    """Return the modes of both families, for a report."""
    return f"{item.mode},slaac" if subnet6_of(item.content) else item.mode


class MadeAddresses:
    """What one host's agent has seen of interfaces that wait for their addresses, by UUID."""

    def __init__(self) -> None:
        self._awaited: dict[str, Awaited] = {}

    def update(
        self,
        interfaces: tuple[Interface, ...],
        connections: Mapping[str, Connection],
        observed: LinkState,
        now: float,
    ) -> None:
        """Take note of what there is now."""
        found = {
            item.uuid: followed(self._awaited.get(item.uuid), item, connections[item.uuid], observed, now)
            for item in interfaces
        }
        self._awaited = {uuid: awaited for uuid, awaited in found.items() if awaited is not None}

    def problem(self, item: Interface, now: float) -> Problem | None:
        """Return why an interface has no address, for a report."""
        return problem_of(item, self._awaited.get(item.uuid), now)

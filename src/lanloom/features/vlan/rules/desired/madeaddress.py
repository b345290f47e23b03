"""The IPv6 address that a node makes of router advertisements (SLAAC) or gets by DHCPv6, and what becomes of it.

Every host on a VLAN can advertise any prefix, and lease any address. So the NAD names the subnet, which the webhook
holds against reserved ranges, and addresses of any other prefix are removed again. With SLAAC, so is an address of
DHCPv6, of which NetworkManager asks if a router says so: it may be any, and so one that the node needs elsewhere.
NetworkManager makes every address of a prefix of the MAC address (EUI-64), which tells it from those that other
programs put on the link; it tells which one is leased.

NetworkManager tells neither why there is no address nor that another host has it: it removes such an address, and tries
again at the next advertisement, or when the lease is to be renewed. So what was seen of an interface is kept until it
has its address.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Interface, IPv6Network

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.l3 import join_modes
from lanloom.api.names import IPV6_SUBNET, bridge_name
from lanloom.api.subnets import IPV6_MTU_MIN
from lanloom.features.vlan.rules.desired.names import network_of_profile
from lanloom.features.vlan.rules.desired.network import Interface, Problem, has_carrier
from lanloom.features.vlan.rules.desired.profile import DHCP_TIMEOUT, address6_of, mode6_of, subnet6_of
from lanloom.node.ports import Connection, Link, LinkState
from lanloom.node.steps import RemoveAddress6
from lanloom.text import listed

ROUTER_SECONDS = 20.0
"""Seconds that routers may take to answer: NetworkManager asks three times, four seconds apart, after two seconds in
which it looks for other hosts with its link-local address."""

LEASE6_SECONDS = float(DHCP_TIMEOUT)
"""Seconds that a DHCPv6 server may take to give an address."""

KEPT_SECONDS = 5.0
"""Seconds in which an address that was leased gets onto the link, and the kernel finds out whether another host has it.

That takes a second, so the agent may well see neither the address nor its end.
"""

_EUI64 = 0xFFFE << 24


UNEXPECTED_PREFIX = "UnexpectedPrefix"


class Awaited(Struct, frozen=True, kw_only=True):
    """An interface that waits for its address: since when (seconds of the loop), and what was seen meanwhile.

    `tentative` is the address while the kernel asks whether another host has it, and `duplicate` when one does.
    `refused` are the prefixes that a router advertises instead, or the address that a DHCPv6 server gives instead.
    `leased` is an address of the subnet that such a server gave, which the link has not had since the time `leased_at`.
    """

    content: bytes
    since: float
    tentative: str = ""
    duplicate: str = ""
    refused: tuple[str, ...] = ()
    leased: str = ""
    leased_at: float = 0


def too_small(item: Interface, observed: LinkState | None) -> Link | None:
    """Return the bridge if it is too small for an IPv6 address: the kernel has no IPv6 on links below its minimum."""
    if observed is None or not (address6_of(item.content) or subnet6_of(item.content)):
        return None
    bridge = observed.links.get(bridge_name(network_of_profile(item.file)))
    return bridge if bridge is not None and bridge.mtu < IPV6_MTU_MIN else None


def own_address6(item: Interface, connection: Connection, link: Link | None) -> str:
    """Return the IPv6 address of the profile, or that the node made or was given; empty while it can't be used."""
    if stated := address6_of(item.content):
        usable = link is not None and stated in link.addresses6 and stated not in link.tentative6
        return stated if usable else ""
    return made_address(item, connection, link)


def made_address(item: Interface, connection: Connection, link: Link | None) -> str:
    """Return the address of its subnet that the node made or was given, a CIDR; empty while it can't be used."""
    own = _own(item, connection, link)
    return own if link is not None and own not in link.tentative6 else ""


def _own(item: Interface, connection: Connection, link: Link | None) -> str:
    subnet = subnet6_of(item.content)
    return next((each for each in _candidates(item, connection, link) if _is_within(each, subnet)), "")


def refused_addresses(item: Interface, connection: Connection, link: Link | None) -> tuple[str, ...]:
    """Return the addresses that the node made or was given of prefixes which its network does not name."""
    subnet = subnet6_of(item.content)
    return tuple(each for each in _candidates(item, connection, link) if not _is_within(each, subnet))


def other_addresses6(item: Interface, connection: Connection, link: Link) -> Iterator[str]:
    """Yield the IPv6 addresses of a link that come from neither the profile nor a router or DHCPv6 server."""
    own = {address6_of(item.content), *_candidates(item, connection, link)}
    yield from (each for each in link.addresses6 if not (each in own or _is_leased(each, connection)))


def _candidates(item: Interface, connection: Connection, link: Link | None) -> Iterator[str]:
    """Yield the addresses of a link that come from where the network says."""
    found = link.addresses6 if link is not None else ()
    match mode6_of(item.content):
        case "slaac":
            yield from filter(_is_made, found)
        case "dhcp6":
            yield from (each for each in found if _is_leased(each, connection))
        case _:
            pass


def removals(item: Interface, connection: Connection, observed: LinkState) -> tuple[RemoveAddress6, ...]:
    """Return the steps that remove refused addresses, and with SLAAC that of a DHCPv6 server.

    A router may point to one.
    """
    link = observed.links.get(item.name)
    refused = refused_addresses(item, connection, link)
    if link is not None and mode6_of(item.content) == "slaac":
        refused += tuple(each for each in link.addresses6 if _is_leased(each, connection))
    return tuple(RemoveAddress6(link=item.name, address=each) for each in refused)


def _is_made(cidr: str) -> bool:
    address = IPv6Interface(cidr)
    return address.network.prefixlen == 64 and int(address.ip) & (0xFFFF << 24) == _EUI64


def _is_leased(cidr: str, connection: Connection) -> bool:
    return cidr == f"{connection.leased6}/128"


def _is_within(cidr: str, subnet: str) -> bool:
    return IPv6Interface(cidr).ip in IPv6Network(subnet)


def followed(
    before: Awaited | None,
    item: Interface,
    connection: Connection,
    observed: LinkState,
    now: float,
    held: str = "",
) -> Awaited | None:
    """Return what is known of an interface after another look at it; None for one that waits for no address.

    `held` is the last address that it had, whose lease has ended: NetworkManager goes on telling that.
    """
    link = observed.links.get(item.name)
    ready = connection.phase == "active" and connection.applied and has_carrier(item, observed)
    able = not too_small(item, observed) and link is not None and link.ipv6
    waits = mode6_of(item.content) and ready and able
    if not waits or made_address(item, connection, link):
        return None
    if before is None or before.content != item.content:
        before = Awaited(content=item.content, since=now)
    own = _own(item, connection, link)
    refused = {_refusal(each) for each in refused_addresses(item, connection, link)}
    leased = "" if own else _unused_lease(item, connection, held)
    return replace(
        before,
        leased=leased,
        leased_at=before.leased_at if leased == before.leased else now,
        tentative=own,
        duplicate=before.tentative if before.tentative and not own else before.duplicate,
        refused=tuple(sorted(refused)) or before.refused,
    )


def _unused_lease(item: Interface, connection: Connection, held: str) -> str:
    """Return the address of the subnet that a DHCPv6 server gave, a CIDR; empty for one that the link has had."""
    if mode6_of(item.content) != "dhcp6" or not connection.leased6:
        return ""
    given = f"{connection.leased6}/128"
    return given if given != held and _is_within(given, subnet6_of(item.content)) else ""


def _refusal(cidr: str) -> str:
    """Return the prefix that a router advertises, or the address that a DHCPv6 server gave."""
    network = IPv6Interface(cidr).network
    return str(network if network.prefixlen < 128 else network.network_address)


def problem_of(item: Interface, awaited: Awaited | None, now: float) -> Problem | None:
    """Return why an interface has no address, for a report; None while it may still come."""
    if awaited is None or awaited.content != item.content:
        return None
    leased = mode6_of(item.content) == "dhcp6"
    if awaited.duplicate:
        address = awaited.duplicate.partition("/")[0]
        whence = "a DHCPv6 server gave" if leased else "this node makes of its MAC address"
        return _problem(
            item,
            "DuplicateAddress",
            f"another host on VLAN {item.vid} already has {address}, which {whence}; correct that host"
            + (" or the server's range" if leased else ""),
        )
    if awaited.leased and now - awaited.leased_at >= KEPT_SECONDS:
        address = awaited.leased.partition("/")[0]
        return _problem(
            item,
            "DuplicateAddress",
            f"a DHCPv6 server gave {address}, which {item.name} does not keep: another host on VLAN {item.vid} most "
            "likely has it; correct that host or the server's range",
        )
    if leased:
        return _no_lease(item, awaited, now)
    return _no_router(item, awaited) if now - awaited.since >= ROUTER_SECONDS else None


def _no_router(item: Interface, awaited: Awaited) -> Problem:
    subnet, vlan = subnet6_of(item.content), f"VLAN {item.vid}"
    if awaited.refused:
        return _problem(
            item,
            UNEXPECTED_PREFIX,
            f"a router on {vlan} advertises {listed(awaited.refused)} and not {subnet}; such addresses are removed; "
            f"correct the router, or {IPV6_SUBNET}",
        )
    return _problem(
        item,
        "RouterTimeout",
        f"no router on {vlan} advertises {subnet} for addresses; the node keeps listening; check the switch port and "
        f"the router, or correct {IPV6_SUBNET}",
    )


def _no_lease(item: Interface, awaited: Awaited, now: float) -> Problem | None:
    subnet, vlan = subnet6_of(item.content), f"VLAN {item.vid}"
    if awaited.refused:
        return _problem(
            item,
            UNEXPECTED_PREFIX,
            f"a DHCPv6 server on {vlan} gives {listed(awaited.refused)}, which is not in {subnet}; it is removed; "
            f"correct the server, which is asked again when the lease is to be renewed, or {IPV6_SUBNET}",
        )
    if now - awaited.since < LEASE6_SECONDS:
        return None
    return _problem(
        item,
        "DHCPTimeout",
        f"no DHCPv6 server on {vlan} gives an address; the node keeps asking; check the switch port and the server",
    )


def _problem(item: Interface, reason: str, message: str) -> Problem:
    return Problem(vid=item.vid, network=item.network, mode=modes_of(item), reason=reason, message=message)


def modes_of(item: Interface) -> str:
    """Return the modes of both families, for a report."""
    return join_modes(item.mode, mode6_of(item.content))


class MadeAddresses:
    """What one host's agent has seen of interfaces that wait for their addresses, by UUID."""

    def __init__(self) -> None:
        self._awaited: dict[str, Awaited] = {}
        self._held: dict[str, str] = {}

    def update(
        self,
        interfaces: tuple[Interface, ...],
        connections: Mapping[str, Connection],
        observed: LinkState,
        now: float,
    ) -> None:
        """Take note of what there is now."""
        held = {
            item.uuid: made_address(item, connections[item.uuid], observed.links.get(item.name))
            or self._held.get(item.uuid, "")
            for item in interfaces
        }
        found = {
            item.uuid: followed(
                self._awaited.get(item.uuid), item, connections[item.uuid], observed, now, held[item.uuid]
            )
            for item in interfaces
        }
        self._held = held
        self._awaited = {uuid: awaited for uuid, awaited in found.items() if awaited is not None}

    def problem(self, item: Interface, now: float) -> Problem | None:
        """Return why an interface has no address, for a report."""
        return problem_of(item, self._awaited.get(item.uuid), now)

"""The requests to NetworkManager that bring the profiles on disk into force, and make them usable.

A reload does not apply an edited profile to a device that is up, and an invalid file is skipped without an error; so
the state of every profile is observed, by UUID, and corrected.

NetworkManager calls a connection active until a request changes it, and checks nothing twice: an address whose routes
were removed, or that lost them while its link was set down and up, is unreachable. So the kernel is read for everything
that makes an address usable (`missing_part`), and the one list serves repair and report.

Other programs put addresses on a sub-interface: keepalived, kube-vip and MetalLB, a DNS cache of the node. They are
theirs. Only the address that the profile or the lease gave (`own_address`) is reported as the node's, repaired, or
judged.

A leased address must not take the node's management network over (`conflict`). A route to the lease's subnet that is
longer than the management network's own draws its traffic into the VLAN, and an address that a host of the management
network has makes that host unreachable. The webhook refuses such static addresses; a lease can only be validated when
it is there.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Interface, IPv4Network, ip_interface
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.api.clusternetworknode import Management
from lanloom.features.vlan.rules.desired.madeaddress import other_addresses6, own_address6
from lanloom.features.vlan.rules.desired.network import Interface, is_down
from lanloom.features.vlan.rules.desired.profile import (
    DHCP_METRIC,
    STATIC_METRIC,
    Profile,
    address6_of,
    read,
    routing_rules,
    routing_rules6,
)
from lanloom.features.vlan.rules.desired.reserved import LINK_LOCAL_SUBNET, LINK_LOCAL_TITLE
from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Link, LinkState, Route, Rule
from lanloom.node.steps import PromoteSecondaries, RestoreRoutes, SetMaster

Verb = Literal["load", "reapply", "activate", "restore"]
"""`restore` is a reapply of what was applied already, because a part of it went away meanwhile."""


class Action(Struct, frozen=True):
    """One request to NetworkManager about one interface.

    `kind` (as of `drift.Drift`) and `text` say what another program did to it, where that is the reason. `direct`
    restores routes and rules without NetworkManager, whose own restore would remove the addresses of others, and
    `release` takes the interface out of another link, which it does not do. What is asked for `once` does not help
    where it did not help at once.
    """

    verb: Verb
    interface: Interface
    kind: Literal["", "link", "address", "route"] = ""
    text: str = ""
    direct: tuple[RestoreRoutes, ...] | None = None
    once: bool = False
    release: SetMaster | None = None


def actions(
    interfaces: Iterable[Interface],
    connections: Mapping[str, Connection],
    observed: LinkState | None = None,
    before: Container[str] = (),
) -> tuple[Action, ...]:
    """Return the request for each interface; none for one that is in force or on its way.

    With `observed` also what NetworkManager does not look at: whether it is up, its routes, its MTU. (On a
    bridge of ours the plan sets it up, which loses less; the installer's links are NetworkManager's to change.)
    `before` are the UUIDs of the profiles that were in force: one of them that is not any more, and has not failed,
    lost its sub-interface to another program.
    """
    candidates = (
        _action(item, connections.get(item.uuid, Connection(uuid=item.uuid)), observed, item.uuid in before)
        for item in interfaces
    )
    return tuple(action for action in candidates if action is not None)


def promotions(
    interfaces: Iterable[Interface], observed: Mapping[str, Link]
) -> tuple[PromoteSecondaries, ...]:
    """Return the steps that let addresses of other programs outlive the node's own one of their subnet.

    NetworkManager removes that at an edit, or at another lease, and the kernel by default all others of the subnet
    with it.
    """
    links = (observed.get(item.name) for item in interfaces)
    return tuple(
        PromoteSecondaries(link=link.name)
        for link in links
        if link is not None and link.kind == "vlan" and len(link.addresses) > 1 and not link.promotes
    )


def _action(
    item: Interface, connection: Connection, observed: LinkState | None, before: bool
) -> Action | None:
    if connection.phase == "absent":
        return Action("load", item)
    if connection.phase in ("inactive", "failed"):
        if before and connection.phase == "inactive" and observed and item.name not in observed.links:
            return Action("activate", item, "link", f"{item.name} was gone")
        return Action("activate", item)
    if not connection.applied:
        return Action("reapply" if connection.device == item.name else "activate", item)
    if connection.phase != "active":
        return None
    if observed is not None and is_down(item, observed):
        return Action("activate", item, "link", f"{item.name} was down")  # a reapply would not set it up
    if observed is not None and (master := master_of(item, observed)):
        release = SetMaster(link=item.name, master="", named=True)
        return Action("restore", item, "link", f"{item.name} was put into {master}", (), release=release)
    if missing := missing_part(item, connection, observed):
        verb: Verb = "activate" if missing.reactivates else "restore"
        alone = missing.reactivates or missing.kind == "address"  # which only NetworkManager gives
        direct = None if alone else _direct_routes(item, connection, observed)
        return Action(verb, item, missing.kind, f"{missing.what} was gone", direct, missing.once)
    if observed is not None and (instead := _strange_mtu(item, observed)):
        direct = _direct_routes(item, connection, observed)
        return Action("restore", item, "link", f"{item.name} had the MTU {instead}", direct)
    return None


def _direct_routes(
    item: Interface, connection: Connection, observed: LinkState | None
) -> tuple[RestoreRoutes, ...] | None:
    """Return what to restore of routes and rules where other programs have addresses, which must stay; else None.

    Also None where the node's own address is gone: only NetworkManager gives it.
    """
    link = observed.links.get(item.name) if observed is not None else None
    own = own_address(item, connection)
    if link is None or observed is None or own not in link.addresses:
        return None
    own6 = own_address6(item, connection, link)
    if len(link.addresses) < 2 and not {*link.addresses6} - {own6, address6_of(item.content)}:
        return None
    _, subnet = _of_address(own)
    four, six = _of_host(item, observed)
    steps = [
        RestoreRoutes(
            link=item.name,
            source=own.partition("/")[0],
            metric=DHCP_METRIC if item.mode == "dhcp" else STATIC_METRIC,
            routes=four.lost_routes(link, subnet),
            rules=four.lost_rules(observed),
        )
    ]
    if own6:
        routes, rules = six.lost_routes(link), six.lost_rules(observed)
        steps.append(
            RestoreRoutes(link=item.name, source="", metric=STATIC_METRIC, routes=routes, rules=rules)
        )
    return tuple(step for step in steps if step.routes or step.rules)


def _strange_mtu(interface: Interface, observed: LinkState) -> str:
    link = observed.links.get(interface.name)
    bridge = observed.links.get(link.parent) if link is not None else None
    if link is None or bridge is None or link.mtu == bridge.mtu:
        return ""
    return f"{link.mtu} instead of {bridge.mtu}"


def master_of(interface: Interface, observed: LinkState) -> str:
    """Return the link that another program put a sub-interface into; the host gets no packets by it then."""
    link = observed.links.get(interface.name)
    return link.master if link is not None else ""


Kind = Literal["link", "address", "route"]

VIDS = 4096
"""As many sub-interfaces as a bridge can have."""


class MissingPart(NamedTuple):
    """One thing that is missing: its kind (as of `drift.Drift`), and its name for an operator.

    `reactivates` where NetworkManager must activate the profile once more: it does not put this back in place. Where
    another program may keep it from doing so, it is asked `once`.
    """

    kind: Kind
    what: str
    reactivates: bool = False
    once: bool = False


def own_address(item: Interface, connection: Connection) -> str:
    """Return the address that the profile or its lease gives, a CIDR; empty while there is no lease."""
    return item.address or (connection.lease.address if connection.lease else "")


def other_addresses(item: Interface, connection: Connection, observed: LinkState) -> tuple[str, ...]:
    """Return the addresses that other programs put on the sub-interface, as CIDRs in order."""
    link = observed.links.get(item.name)
    if link is None:
        return ()
    own = own_address(item, connection)
    found = (*(each for each in link.addresses if each != own), *other_addresses6(item, connection, link))
    return tuple(sorted(found))


def missing_part(item: Interface, connection: Connection, observed: LinkState | None) -> MissingPart | None:
    """Return the first thing that an active connection lacks.

    Without `observed`, what NetworkManager itself can tell.
    """
    address = own_address(item, connection)
    if not address or address not in connection.addresses:
        return MissingPart("address", _address(item, address))
    link = observed.links.get(item.name) if observed is not None else None
    if link is None or observed is None or not link.up:
        return None
    if address not in link.addresses:
        return MissingPart("address", _address(item, address))
    if (address6 := address6_of(item.content)) and address6 not in link.addresses6:
        disabled = not link.ipv6
        return MissingPart("address", _address(item, address6), reactivates=disabled, once=disabled)
    address6 = own_address6(item, connection, link)
    return next(_routes(item, address, address6, link, observed), None)


def _address(item: Interface, address: str) -> str:
    return f"the address {address} of {item.name}" if address else f"the address of {item.name}"


def _routes(
    item: Interface, address: str, address6: str, link: Link, observed: LinkState
) -> Iterator[MissingPart]:
    """Yield what an address lacks, also that of IPv6; none of it before there is one, and it can be used."""
    four, six = _of_host(item, observed)
    yield from _local(item, address, link)
    yield from _missing_of(item, four, _of_address(address)[1], link, observed)
    if address6:
        yield from _local(item, address6, link)
        yield from _missing_of(item, six, six.subnet, link, observed)


def _local(item: Interface, address: str, link: Link) -> Iterator[MissingPart]:
    """Yield the route to an address of the node's own. The kernel makes that of IPv6 when no other host has it."""
    own, _ = _of_address(address)
    if own not in link.routes:
        yield MissingPart(
            "route", f"the local route of {own.to.partition('/')[0]} on {item.name}", reactivates=True
        )


def _missing_of(
    item: Interface, asked: "_Asked", subnet: Route | None, link: Link, observed: LinkState
) -> Iterator[MissingPart]:
    if subnet is not None and subnet not in link.routes:
        yield MissingPart("route", f"the route to {subnet.to} of {item.name}")
    if asked.lost_gateway(link) or asked.lost_rules(observed):
        yield MissingPart("route", f"the {asked.title} of {item.name} (table {asked.table})")
    for route in asked.routes:
        if route not in link.routes:
            yield MissingPart("route", f"the route to {route.to} by {route.via} of {item.name}")


# A host is looked at every second while anything happens on it, and these are the same at each look.


@lru_cache(2 * VIDS)
def _of_address(address: str) -> tuple[Route, Route | None]:
    """Return the host's own route and that to the subnet, which an address with the longest prefix has not."""
    interface = ip_interface(address)
    whole = interface.max_prefixlen
    subnet = Route(str(interface.network), MAIN_TABLE) if interface.network.prefixlen < whole else None
    return Route(f"{interface.ip}/{whole}", LOCAL_TABLE), subnet


class _Asked(NamedTuple):
    """What a profile asks for of one IP version: the rules and the route of its gateway, and its other routes.

    `subnet` is that of the addresses, of IPv6 alone: that of IPv4 is the lease's.
    """

    title: str
    rules: frozenset[Rule] = frozenset()
    gateway: tuple[Route, ...] = ()
    routes: tuple[Route, ...] = ()
    subnet: Route | None = None

    @property
    def table(self) -> int:
        """The table of the gateway."""
        return self.gateway[0].table

    def lost_gateway(self, link: Link) -> tuple[Route, ...]:
        """Return the route of the gateway if it is gone. One of IPv4 may have been given another router."""
        return tuple(
            route
            for route in self.gateway
            if not (route in link.routes if route.version == 6 else route.table in link.tables)
        )

    def lost_rules(self, observed: LinkState) -> tuple[Rule, ...]:
        """Return the rules that are gone."""
        return tuple(sorted(self.rules - observed.rules))

    def lost_routes(self, link: Link, subnet: Route | None = None) -> tuple[Route, ...]:
        """Return all routes that are gone, that to the subnet first: routers are there."""
        routes = (*filter(None, (subnet or self.subnet,)), *self.routes)
        return (*(route for route in routes if route not in link.routes), *self.lost_gateway(link))


@lru_cache(VIDS)
def _of_profile(content: bytes) -> tuple[_Asked, _Asked]:
    """Return what a profile asks for of IPv4 and of IPv6; nothing if Lanloom did not write it."""
    profile = read(content)
    if profile is None:
        return _Asked(_GATEWAY), _Asked(_GATEWAY6)
    rules, routing = routing_rules(profile), profile.routing
    four = _Asked(
        _GATEWAY,
        frozenset(rules),
        _default("0.0.0.0/0", rules, routing.gateway),
        tuple(Route(route.to, MAIN_TABLE, route.via) for route in routing.routes),
    )
    rules6 = routing_rules6(profile)
    six = _Asked(
        _GATEWAY6,
        frozenset(rules6),
        _default("::/0", rules6, routing.gateway6),
        tuple(Route(route.to, MAIN_TABLE, route.via) for route in routing.routes6),
        _subnet6(profile),
    )
    return four, six


def _of_host(item: Interface, observed: LinkState) -> tuple[_Asked, _Asked]:
    """Return what a profile asks for, without the IPv6 gateway where the kernel can't have one next to another."""
    four, six = _of_profile(item.content)
    return four, six._replace(rules=frozenset(), gateway=()) if observed.lack6 else six


_GATEWAY, _GATEWAY6 = "gateway", "IPv6 gateway"


def _default(to: str, rules: Iterable[Rule], gateway: str) -> tuple[Route, ...]:
    via = gateway.partition("/")[0]
    return tuple(Route(to, rule.table, via) for rule in rules if rule.table != MAIN_TABLE)


def _subnet6(profile: Profile) -> Route | None:
    """Return the route to the subnet of IPv6: of the static address, or of the one that the node makes or is given."""
    if profile.address6:
        return _of_address(profile.address6)[1]
    return Route(profile.subnet6, MAIN_TABLE) if profile.subnet6 else None


ADDRESS_CONFLICT = "AddressConflict"
"""The reason of a VLAN whose DHCP server leases addresses of the node's management network."""


def conflict(
    item: Interface, connection: Connection, observed: LinkState | None, own: Management | None
) -> str:
    """Return the problem with an interface's lease, for a report; empty if there is none.

    `own` is the node's management network, None where it isn't known. Link-local addresses are no VLAN's either.
    An address that another program put on the interface is no lease, wherever it lies.
    """
    address = own_address(item, connection)
    if item.mode != "dhcp" or connection.phase not in ("activating", "active") or not address:
        return ""
    needed = {LINK_LOCAL_SUBNET: LINK_LOCAL_TITLE}
    if own is not None:
        title = "this node's management network {} of " + own.interface
        needed |= {subnet: title.format(subnet) for subnet in _networks(own, observed)}
    leased = IPv4Interface(address).network
    taken = next((title for subnet, title in needed.items() if subnet.overlaps(leased)), "")
    server = connection.lease.server if connection.lease else ""
    return _message(item, address, server, taken) if taken else ""


def _networks(own: Management, observed: LinkState | None) -> Iterator[IPv4Network]:
    link = observed.links.get(own.interface) if observed is not None else None
    known = (own.cidr, *(link.addresses if link is not None else ()))
    yield from (IPv4Interface(text).network for text in known if text)


def _message(item: Interface, address: str, server: str, taken: str) -> str:
    server_name = f"the DHCP server {server}" if server else "a DHCP server"
    return (
        f"{server_name} on VLAN {item.vid} leased {address}, which overlaps {taken}; "
        "the lease was dropped and is requested again at growing intervals; correct the range of the DHCP server, "
        "or the VLAN id of the network"
    )

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
from ipaddress import IPv4Interface, IPv4Network
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.api.clusternetworknode import Management
from lanloom.api.names import bridge_name
from lanloom.api.subnets import IPV6_MTU_MIN
from lanloom.features.vlan.rules.desired.names import network_of_profile
from lanloom.features.vlan.rules.desired.network import Interface, is_down
from lanloom.features.vlan.rules.desired.profile import (
    DHCP_METRIC,
    STATIC_METRIC,
    address6_of,
    read,
    routing_rules,
    subnet6_of,
)
from lanloom.features.vlan.rules.desired.reserved import LINK_LOCAL_SUBNET, LINK_LOCAL_TITLE
from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Link, LinkState, Route, Rule
from lanloom.node.steps import PromoteSecondaries, RestoreRoutes

Verb = Literal["load", "reapply", "activate", "restore"]
"""`restore` is a reapply of what was applied already, because a part of it went away meanwhile."""


class Action(Struct, frozen=True):
    """One request to NetworkManager about one interface.

    `kind` (as of `drift.Drift`) and `text` say what another program did to it, where that is the reason. `direct`
    restores routes without a request to NetworkManager, whose own restore would remove the addresses of others.
    """

    verb: Verb
    interface: Interface
    kind: Literal["", "link", "address", "route"] = ""
    text: str = ""
    direct: RestoreRoutes | None = None


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
    if missing := missing_part(item, connection, observed):
        verb: Verb = "activate" if missing.reactivates else "restore"
        alone = missing.reactivates or missing.kind == "address"  # which only NetworkManager gives
        direct = None if alone else _direct_routes(item, connection, observed)
        return Action(verb, item, missing.kind, f"{missing.what} was gone", direct)
    if observed is not None and (instead := _strange_mtu(item, observed)):
        direct = _direct_routes(item, connection, observed)
        return Action("restore", item, "link", f"{item.name} had the MTU {instead}", direct)
    return None


def _direct_routes(
    item: Interface, connection: Connection, observed: LinkState | None
) -> RestoreRoutes | None:
    """Return the routes to restore where other programs have addresses, which must stay; else None.

    Also None where the node's own address is gone: only NetworkManager gives it.
    """
    link = observed.links.get(item.name) if observed is not None else None
    own = own_address(item, connection)
    if link is None or observed is None or own not in link.addresses or len(link.addresses) < 2:
        return None
    _, subnet = _of_address(own)
    asked = (*((subnet,) if subnet else ()), *_of_profile(item.content).routes)
    lost = [route for route in asked if route not in link.routes]
    if item.table and item.table not in link.tables:
        lost += _of_profile(item.content).gateway
    return RestoreRoutes(
        link=item.name,
        source=own.partition("/")[0],
        metric=DHCP_METRIC if item.mode == "dhcp" else STATIC_METRIC,
        routes=tuple(lost),
    )


def _strange_mtu(interface: Interface, observed: LinkState) -> str:
    link = observed.links.get(interface.name)
    bridge = observed.links.get(link.parent) if link is not None else None
    if link is None or bridge is None or link.mtu == bridge.mtu:
        return ""
    return f"{link.mtu} instead of {bridge.mtu}"


Kind = Literal["link", "address", "route"]

VIDS = 4096
"""As many sub-interfaces as a bridge can have."""


class MissingPart(NamedTuple):
    """One thing that is missing: its kind (as of `drift.Drift`), and its name for an operator.

    `reactivates` where NetworkManager must activate the profile once more: it does not put this back in place.
    """

    kind: Kind
    what: str
    reactivates: bool = False


def own_address(item: Interface, connection: Connection) -> str:
    """Return the address that the profile or its lease gives, a CIDR; empty while there is no lease."""
    return item.address or (connection.lease.address if connection.lease else "")


def other_addresses(item: Interface, connection: Connection, observed: LinkState) -> tuple[str, ...]:
    """Return the addresses that other programs put on the sub-interface, as CIDRs in order."""
    link = observed.links.get(item.name)
    own = own_address(item, connection)
    return tuple(sorted(each for each in (link.addresses if link else ()) if each != own))


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
        return MissingPart("address", _address(item, address6))
    return next(_routes(item, address, link, observed), None)


def _address(item: Interface, address: str) -> str:
    return f"the address {address} of {item.name}" if address else f"the address of {item.name}"


def _routes(item: Interface, address: str, link: Link, observed: LinkState) -> Iterator[MissingPart]:
    own, subnet = _of_address(address)
    if own not in link.routes:
        yield MissingPart(
            "route", f"the local route of {own.to.partition('/')[0]} on {item.name}", reactivates=True
        )
    if subnet is not None and subnet not in link.routes:
        yield MissingPart("route", f"the route to {subnet.to} of {item.name}")
    asked = _of_profile(item.content)
    if item.table and not (item.table in link.tables and observed.rules >= asked.rules):
        yield MissingPart("route", f"the gateway of {item.name} (table {item.table})")
    for route in asked.routes:
        if route not in link.routes:
            yield MissingPart("route", f"the route to {route.to} by {route.via} of {item.name}")


# A host is looked at every second while anything happens on it, and these are the same at each look.


@lru_cache(VIDS)
def _of_address(address: str) -> tuple[Route, Route | None]:
    """Return the host's own route and that to the subnet, which an address with a prefix of 32 bits has not."""
    interface = IPv4Interface(address)
    subnet = Route(str(interface.network), MAIN_TABLE) if interface.network.prefixlen < 32 else None
    return Route(f"{interface.ip}/32", LOCAL_TABLE), subnet


class _Asked(NamedTuple):
    """What a profile asks for: the rules and the route of its gateway, and its other routes."""

    rules: frozenset[Rule] = frozenset()
    gateway: tuple[Route, ...] = ()
    routes: tuple[Route, ...] = ()


@lru_cache(VIDS)
def _of_profile(content: bytes) -> _Asked:
    """Return what a profile asks for; nothing if Lanloom did not write it."""
    profile = read(content)
    if profile is None:
        return _Asked()
    rules, routing = routing_rules(profile), profile.routing
    via = routing.gateway.partition("/")[0]
    return _Asked(
        frozenset(rules),
        tuple(Route("0.0.0.0/0", rule.table, via) for rule in rules if rule.table != MAIN_TABLE),
        tuple(Route(route.to, MAIN_TABLE, route.via) for route in routing.routes),
    )


ADDRESS_CONFLICT = "AddressConflict"
"""The reason of a VLAN whose DHCP server leases addresses of the node's management network."""


def too_small(item: Interface, observed: LinkState | None) -> Link | None:
    """Return the bridge if it is too small for an IPv6 address: the kernel has no IPv6 on links below its minimum."""
    if observed is None or not (address6_of(item.content) or subnet6_of(item.content)):
        return None
    bridge = observed.links.get(bridge_name(network_of_profile(item.file)))
    return bridge if bridge is not None and bridge.mtu < IPV6_MTU_MIN else None


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

"""What a VLAN sub-interface lacks so that its node answers under its address: the one list for repair and for report.

NetworkManager calls a connection active for as long as nobody tells it otherwise, and looks at nothing twice: an
address whose routes somebody took away, or that lost them while its link was set down and up, answers nobody. So the
kernel is looked at for everything that makes an address usable.
"""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Interface
from typing import Literal, NamedTuple

from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Link, LinkState, Route, Rule
from lanloom.vlan.rules.network import Interface
from lanloom.vlan.rules.profile import read, routing_rules

Kind = Literal["link", "address", "route"]

VIDS = 4096
"""As many sub-interfaces as a bridge can have."""


class Lack(NamedTuple):
    """One thing that is missing: its kind (as of `drift.Drift`), and its name for an operator.

    `anew` where NetworkManager must activate the profile once more: it does not put this back in place.
    """

    kind: Kind
    what: str
    anew: bool = False


def lack(item: Interface, connection: Connection, observed: LinkState | None) -> Lack | None:
    """The first thing that an active connection lacks. Without `observed`, what NetworkManager itself can tell."""
    if not connection.addresses or item.address not in ("", *connection.addresses):
        return Lack("address", _address(item, item.address))
    link = observed.links.get(item.name) if observed is not None else None
    if link is None or observed is None or not link.up:
        return None
    address = item.address or connection.addresses[0]
    if address not in link.addresses:
        return Lack("address", _address(item, address))
    return next(_routes(item, address, link, observed), None)


def _address(item: Interface, address: str) -> str:
    return f"the address {address} of {item.name}" if address else f"the address of {item.name}"


def _routes(item: Interface, address: str, link: Link, observed: LinkState) -> Iterator[Lack]:
    own, subnet = _of_address(address)
    if own not in link.routes:
        yield Lack("route", f"the local route of {own.to.partition('/')[0]} on {item.name}", anew=True)
    if subnet is not None and subnet not in link.routes:
        yield Lack("route", f"the route to {subnet.to} of {item.name}")
    rules, routes = _of_profile(item.content)
    if item.table and not (item.table in link.tables and observed.rules >= rules):
        yield Lack("route", f"the gateway of {item.name} (table {item.table})")
    for route in routes:
        if route not in link.routes:
            yield Lack("route", f"the route to {route.to} by {route.via} of {item.name}")


# A host is looked at every second while anything happens on it, and these are the same at each look.


@lru_cache(VIDS)
def _of_address(address: str) -> tuple[Route, Route | None]:
    """The host's own route and that to the subnet, which an address with a prefix of 32 bits has not."""
    interface = IPv4Interface(address)
    subnet = Route(str(interface.network), MAIN_TABLE) if interface.network.prefixlen < 32 else None
    return Route(f"{interface.ip}/32", LOCAL_TABLE), subnet


@lru_cache(VIDS)
def _of_profile(content: bytes) -> tuple[frozenset[Rule], tuple[Route, ...]]:
    """The rules of the gateway and the routes that a profile asks for; none of one that nobody of ours wrote."""
    profile = read(content)
    if profile is None:
        return frozenset(), ()
    routes = (Route(route.to, MAIN_TABLE, route.via) for route in profile.routing.routes)
    return frozenset(routing_rules(profile)), tuple(routes)

"""What a VLAN sub-interface lacks so that its node answers under its address: the one list for repair and for report.

NetworkManager calls a connection active for as long as nobody tells it otherwise, and looks at nothing twice: an
address whose routes somebody took away, or that lost them while its link was set down and up, answers nobody. So the
kernel is looked at for everything that makes an address usable.
"""

from collections.abc import Iterator
from ipaddress import IPv4Interface
from typing import Literal, NamedTuple

from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Link, LinkState, Route
from lanloom.vlan.rules.network import Interface
from lanloom.vlan.rules.profile import Profile, read, routing_rules

Kind = Literal["link", "address", "route"]


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
    return next(_routes(item, IPv4Interface(address), link, observed), None)


def _address(item: Interface, address: str) -> str:
    return f"the address {address} of {item.name}" if address else f"the address of {item.name}"


def _routes(item: Interface, address: IPv4Interface, link: Link, observed: LinkState) -> Iterator[Lack]:
    if Route(f"{address.ip}/32", LOCAL_TABLE) not in link.routes:
        yield Lack("route", f"the local route of {address.ip} on {item.name}", anew=True)
    if address.network.prefixlen < 32 and Route(str(address.network), MAIN_TABLE) not in link.routes:
        yield Lack("route", f"the route to {address.network} of {item.name}")
    profile = read(item.content)
    if profile is None:
        return  # nothing that asking for it once more would mend
    if item.table and not _has_gateway(item, profile, link, observed):
        yield Lack("route", f"the gateway of {item.name} (table {item.table})")
    for route in profile.routing.routes:
        if Route(route.to, MAIN_TABLE, route.via) not in link.routes:
            yield Lack("route", f"the route to {route.to} by {route.via} of {item.name}")


def _has_gateway(item: Interface, profile: Profile, link: Link, observed: LinkState) -> bool:
    """Whether the table of its own has its default route, and the rules are there."""
    return item.table in link.tables and observed.rules.issuperset(routing_rules(profile))

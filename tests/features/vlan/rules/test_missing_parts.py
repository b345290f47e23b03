"""What an address of either IP version lacks, and how it is put back: the whole matrix."""

from ipaddress import ip_interface
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from lanloom.api.l3 import Mode6, Routing
from lanloom.api.l3 import Route as ConfiguredRoute
from lanloom.features.vlan.rules.desired.activation import Action, actions, missing_part, other_addresses
from lanloom.features.vlan.rules.desired.kernel import fitted, lack_of_ipv6
from lanloom.features.vlan.rules.desired.network import Interface
from lanloom.features.vlan.rules.desired.profile import Profile, read, render, routing_rules, routing_rules6
from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Lease, Link, LinkState, Route, Rule
from tests.features.vlan.agent.rollback.test_revisions import OLD

UUID = "2c41a89b-f183-5aa8-9d7b-2212089be4fa"
LINK = "clust-4afb.2012"
FOUR, STATED, MADE, LEASED = (
    "192.168.1.10/24",
    "fd00:1::10/64",
    "fd00:1::1122:33ff:fe44:5566/64",
    "fd00:1::99/128",
)
SUBNET6 = "fd00:1::/64"
ROUTING = Routing(
    gateway="192.168.1.1/24",
    routes=(ConfiguredRoute("10.9.0.0/16", "192.168.1.2"),),
    gateway6="fd00:1::1/64",
    routes6=(ConfiguredRoute("fd00:20::/48", "fd00:1::2"),),
)
OWN6: dict[Mode6, str] = {"": STATED, "slaac": MADE, "dhcp6": LEASED}
"""The IPv6 address of a node, by what it comes from."""


class Host(NamedTuple):
    """One interface, and everything on the host that belongs to it."""

    item: Interface
    connection: Connection
    state: LinkState

    def without(self, *lost: Route | Rule) -> "Host":
        """The same host, without some routes and rules."""
        link = self.state.links[LINK]
        tables = {route.table for route in lost if isinstance(route, Route) and route.to == "0.0.0.0/0"}
        damaged = replace(
            link,
            routes=link.routes - {*lost},
            tables=tuple(table for table in link.tables if table not in tables),
        )
        state = replace(self.state, links={LINK: damaged}, rules=self.state.rules - {*lost})
        return self._replace(state=state)

    def change(self, **fields: object) -> "Host":
        """The same host, with another link."""
        link = replace(self.state.links[LINK], **fields)
        return self._replace(state=replace(self.state, links={LINK: link}))

    def actions(self) -> tuple[Action, ...]:
        """What is asked for."""
        return actions((self.item,), {UUID: self.connection}, self.state)

    def missing(self) -> str:
        """The name of what is missing; empty for nothing."""
        found = missing_part(self.item, self.connection, self.state)
        return found.what if found is not None else ""


def profile(mode6: Mode6 = "", routing: Routing = ROUTING) -> Profile:
    """A profile with addresses and gateways of both IP versions."""
    return Profile(
        cluster_network="cluster-1",
        vid=2012,
        uuid=UUID,
        mode="static",
        address=FOUR,
        address6="" if mode6 else STATED,
        mode6=mode6,
        subnet6=SUBNET6 if mode6 else "",
        routing=routing,
    )


TABLE = routing_rules(profile())[1].table
RULES = {4: routing_rules(profile()), 6: routing_rules6(profile())}
SUBNETS = {4: Route("192.168.1.0/24", MAIN_TABLE), 6: Route(SUBNET6, MAIN_TABLE)}
BEYOND = {
    4: Route("10.9.0.0/16", MAIN_TABLE, "192.168.1.2"),
    6: Route("fd00:20::/48", MAIN_TABLE, "fd00:1::2"),
}
DEFAULTS = {4: Route("0.0.0.0/0", TABLE, "192.168.1.1"), 6: Route("::/0", TABLE, "fd00:1::1")}


def local(address: str) -> Route:
    """The route to an address of the host's own."""
    found = ip_interface(address)
    return Route(f"{found.ip}/{found.max_prefixlen}", LOCAL_TABLE)


def host(mode6: Mode6 = "") -> Host:
    """A host on which nothing is missing."""
    own6 = OWN6[mode6]
    item = Interface(
        vid=2012,
        name=LINK,
        network="default/vlan2012",
        mode="static",
        address=FOUR,
        uuid=UUID,
        file="cluster-1-vlan2012.nmconnection",
        content=render(profile(mode6)),
        table=TABLE,
    )
    both = (SUBNETS, BEYOND, DEFAULTS)
    link = Link(
        name=LINK,
        index=1,
        kind="vlan",
        up=True,
        addresses=(FOUR,),
        addresses6=(own6,),
        tables=(TABLE,),
        routes=frozenset({local(FOUR), local(own6), *(each[version] for each in both for version in (4, 6))}),
    )
    said = Connection(
        uuid=UUID,
        phase="active",
        addresses=(FOUR,),
        device=LINK,
        leased6=LEASED.partition("/")[0] if mode6 == "dhcp6" else "",
        lease=Lease(address=FOUR),
    )
    return Host(item, said, LinkState({LINK: link}, rules=frozenset({*RULES[4], *RULES[6]})))


def parts(mode6: Mode6) -> list[tuple[Route | Rule, str]]:
    """Everything that can be missing of each IP version, and what it is called."""
    named: list[tuple[Route | Rule, str]] = []
    for version, address in ((4, FOUR), (6, OWN6[mode6])):
        gateway = f"the {'IPv6 ' if version == 6 else ''}gateway of {LINK} (table {TABLE})"
        beyond, own = BEYOND[version], address.partition("/")[0]
        named += [
            (local(address), f"the local route of {own} on {LINK}"),
            (SUBNETS[version], f"the route to {SUBNETS[version].to} of {LINK}"),
            (DEFAULTS[version], gateway),
            *((rule, gateway) for rule in RULES[version]),
            (beyond, f"the route to {beyond.to} by {beyond.via} of {LINK}"),
        ]
    return named


@pytest.mark.parametrize("mode6", OWN6)
def test_each_part_is_named(mode6: Mode6) -> None:
    """Whatever is missing is named, and restored by NetworkManager; the route to an address by an activation alone."""
    whole = host(mode6)
    assert whole.missing() == "" and whole.actions() == ()
    for part, name in parts(mode6):
        damaged = whole.without(part)
        assert damaged.missing() == name
        (action,) = damaged.actions()
        verb = "activate" if isinstance(part, Route) and part.table == LOCAL_TABLE else "restore"
        assert (action.verb, action.kind, action.text, action.direct) == (
            verb,
            "route",
            f"{name} was gone",
            None,
        )


@pytest.mark.parametrize("mode6", OWN6)
@pytest.mark.parametrize(
    "others", [{"addresses": ("10.8.0.1/32",)}, {"addresses6": ("fd00:1::250/128",)}], ids=["IPv4", "IPv6"]
)
def test_addresses_of_others_stay(mode6: Mode6, others: dict[str, tuple[str, ...]]) -> None:
    """Next to others' addresses of either IP version, all that is lost is restored without NetworkManager."""
    whole = host(mode6)
    link = whole.state.links[LINK]
    whole = whole.change(**{field: (*getattr(link, field), *more) for field, more in others.items()})
    assert whole.actions() == ()
    for part, name in parts(mode6):
        (action,) = whole.without(part).actions()
        if isinstance(part, Route) and part.table == LOCAL_TABLE:
            assert (action.verb, action.direct) == ("activate", None)
            continue
        assert (action.verb, action.text) == ("restore", f"{name} was gone")
        (step,) = action.direct or ()
        assert (*step.routes, *step.rules) == (part,)
        assert step.source == ("192.168.1.10" if part.version == 4 else "")
    lost = [part for part, _ in parts(mode6) if isinstance(part, Rule) or part.table != LOCAL_TABLE]
    (action,) = whole.without(*lost).actions()
    restored = [part for step in action.direct or () for part in (*step.routes, *step.rules)]
    assert sorted(map(repr, restored)) == sorted(map(repr, lost))
    for step, version in zip(action.direct or (), (4, 6), strict=True):
        assert step.routes[0] == SUBNETS[version], "the routers are in the subnet"


@pytest.mark.parametrize("mode6", OWN6)
def test_no_route_without_an_address(mode6: Mode6) -> None:
    """Nothing of IPv6 is missing while its address can't be used: the kernel has no route to a tentative one."""
    lost = [part for part, _ in parts(mode6) if part.version == 6]
    damaged = host(mode6).without(*lost)
    assert damaged.missing()
    assert damaged.change(tentative6=(OWN6[mode6],)).missing() == ""
    gone = damaged.change(addresses6=()).missing()
    assert gone == ("" if mode6 else f"the address {STATED} of {LINK}")
    assert damaged.change(addresses6=("fd00:7::7/64",)).missing() == gone, (
        "another program's is not the node's"
    )


def test_what_a_network_does_not_ask_for() -> None:
    """A network of IPv4 alone, and one without gateways and routes, lack nothing of what they never had."""
    bare = profile(routing=Routing())
    whole = host()
    lost = [part for part, _ in parts("") if part not in (local(FOUR), local(STATED), *SUBNETS.values())]
    item = replace(whole.item, content=render(bare), table=0)
    assert whole.without(*lost)._replace(item=item).missing() == ""
    four = replace(whole.item, content=render(replace(profile(), address6="", routing=Routing())), table=0)
    assert host().without(*lost, local(STATED), SUBNETS[6])._replace(item=four).missing() == ""


def test_an_address_of_one_host() -> None:
    """A static address with a prefix of 128 bits has no neighbours, and needs no route to a subnet."""
    alone = replace(profile(), address6="fd00:1::10/128", routing=Routing())
    item = replace(host().item, content=render(alone), table=0)
    found = host().without(SUBNETS[6]).change(addresses6=("fd00:1::10/128",))._replace(item=item)
    assert found.missing() == ""


@pytest.mark.parametrize("mode6", OWN6)
def test_a_kernel_without_routing_tables_of_ipv6(mode6: Mode6) -> None:
    """A gateway that the kernel can't have is not missed, nor given to it with what is lost; all else is restored."""
    whole = host(mode6)
    bare = whole.without(DEFAULTS[6], *RULES[6])
    bare = bare._replace(state=replace(bare.state, lack6="rules"))
    assert bare.missing() == "" and bare.actions() == ()
    assert "IPv6 gateway" in lack_of_ipv6(bare.item, bare.state.links[LINK], bare.state)
    assert lack_of_ipv6(whole.item, whole.state.links[LINK], whole.state) == ""
    assert bare.without(BEYOND[6]).missing() == f"the route to {BEYOND[6].to} by {BEYOND[6].via} of {LINK}"
    (action,) = bare.change(addresses=(FOUR, "10.8.0.1/32")).without(BEYOND[6]).actions()
    assert action.direct is not None
    assert [(step.routes, step.rules) for step in action.direct] == [((BEYOND[6],), ())]


def test_an_activation_that_can_not_help() -> None:
    """Where IPv6 is disabled, a profile with a static address of it is activated once."""
    disabled = host().change(ipv6=False, addresses6=())
    (action,) = disabled.actions()
    assert (action.verb, action.once) == ("activate", True)
    failed = host()._replace(connection=Connection(uuid=UUID, phase="failed"))
    assert [(action.verb, action.once) for action in failed.actions()] == [("activate", False)]


@pytest.mark.parametrize("mode6", OWN6)
def test_addresses_of_other_programs(mode6: Mode6) -> None:
    """Those of both IP versions are listed apart from the node's own, also while it waits for its own."""
    whole, others = host(mode6), ("192.168.1.250/32", "fd00:1::250/128")
    link = whole.state.links[LINK]
    shared = whole.change(addresses=(FOUR, others[0]), addresses6=(*link.addresses6, others[1]))
    waiting = shared.change(tentative6=link.addresses6)
    for found in (shared, waiting):
        assert other_addresses(found.item, found.connection, found.state) == others
    assert other_addresses(whole.item, whole.connection, whole.state) == ()
    assert other_addresses(whole.item, whole.connection, LinkState({})) == ()


def test_a_kernel_without_ipv6() -> None:
    """Its profiles have no static IPv6, which would take IPv4 down with it; the network still asks for that."""
    four, made6 = profile(), host("slaac").item
    network = replace(OLD.network, interfaces=(host().item, made6))
    assert fitted((network,), "") == fitted((network,), "rules") == (network,)
    (found,) = fitted((network,), "all")
    bare, made = found.interfaces
    kept = replace(four.routing, gateway6="", routes6=(), dns6=())
    assert read(bare.content) == replace(four, address6="", routing=kept)
    assert made == made6
    without = replace(host().state, lack6="all")
    for item in found.interfaces:
        assert "ipv6.disable=1" in lack_of_ipv6(item, None, without)
    assert lack_of_ipv6(replace(bare, lacks6=False), None, without) == ""

"""The cluster network mgmt: a guest on the installer's bridge."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import Management
from lanloom.features.vlan.rules.desired.foreign import uplink_port
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.owned import Added, named_links, recorded
from lanloom.features.vlan.rules.desired.plan import carried_networks, plan
from lanloom.features.vlan.rules.desired.reserved import management
from lanloom.features.vlan.rules.report.status import node_status
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import AddVlans, RemoveVlans
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
)
from tests.features.vlan.rules.ground import Ground

NODE = "node1"
DHCP = nad("vlan2014", "mgmt", 2014, mode="dhcp")
VMS = nad("vms", "mgmt", 2015)


def one(*nads: dict[str, Any], management: Management | None = None) -> tuple[NodeNetwork, ...]:
    """What a node should carry of mgmt with these NADs."""
    return (
        cluster_of([node(NODE), cluster_network("mgmt"), *nads])
        .managed()
        .on_node(NODE, management=management)
    )


def host(address: str = "10.115.252.135/23", vid: int = 2021) -> FakeHost:
    """A host with the installer's links."""
    found = FakeHost(NODE, ("eth0", "eth1"), switch=FakeSwitch(), now=lambda: 0.0)
    found.plant_management(address, vid=vid)
    return found


def links(*items: Link, routed: frozenset[str] = frozenset()) -> LinkState:
    """A host with these links."""
    return LinkState({link.name: link for link in items}, routed)


BRIDGE = Link(name="mgmt-br", index=2, kind="bridge", up=True)
EVERYTHING = links(
    BRIDGE,
    Link(
        name="mgmt-br.2021", index=3, kind="vlan", parent="mgmt-br", vlan_id=2021, addresses=("10.0.0.5/16",)
    ),
    Link(
        name="mgmt-br.2014", index=9, kind="vlan", parent="mgmt-br", vlan_id=2014, addresses=("10.14.0.5/16",)
    ),
    Link(name="eth5", index=1, addresses=("192.168.0.5/24",)),
    routed=frozenset({"eth5", "mgmt-br.2014", "mgmt-br.2021"}),
)


@pytest.mark.parametrize(
    ("observed", "files", "expected"),
    [
        (host().kernel.state(), (), ("mgmt-br.2021", 2021, "10.115.252.135/23")),
        (host(vid=0).kernel.state(), (), ("mgmt-br", 0, "10.115.252.135/23")),
        (EVERYTHING, ("mgmt-vlan2014.nmconnection",), ("mgmt-br.2021", 2021, "10.0.0.5/16")),
        (LinkState(EVERYTHING.links), ("mgmt-vlan2014.nmconnection",), ("mgmt-br.2021", 2021, "10.0.0.5/16")),
        (
            links(BRIDGE, EVERYTHING.links["eth5"], routed=frozenset({"eth5"})),
            (),
            ("eth5", 0, "192.168.0.5/24"),
        ),
        (
            links(
                replace(BRIDGE, addresses=("10.1.0.5/16",)),
                EVERYTHING.links["mgmt-br.2021"],
                routed=frozenset({"mgmt-br.2021"}),
            ),
            (),
            ("mgmt-br.2021", 2021, "10.0.0.5/16"),
        ),
        (
            links(replace(BRIDGE, addresses=("10.1.0.250/32", "10.1.0.5/16", "10.1.0.251/16"))),
            (),
            ("mgmt-br", 0, "10.1.0.5/16"),
        ),
        (links(replace(BRIDGE, addresses=("10.1.0.5/32",))), (), ("mgmt-br", 0, "10.1.0.5/32")),
        (
            links(replace(BRIDGE, addresses=("10.1.0.5/32",), onlink=("10.1.0.0/24", "10.9.0.0/16"))),
            (),
            ("mgmt-br", 0, "10.1.0.5/24"),
        ),
        (links(BRIDGE, EVERYTHING.links["eth5"]), (), None),
        (links(), (), None),
    ],
)
def test_the_management_network_is_what_the_default_route_or_the_bridge_tells(
    observed: LinkState, files: tuple[str, ...], expected: tuple[str, int, str] | None
) -> None:
    """First what the default route goes out of, on the bridge before elsewhere; never a sub-interface of Lanloom's.

    A virtual address (/32) is not the node's own where there is another one.
    """
    found = management(observed, named_links(files, {}))
    assert (found and (found.interface, found.vlan_id, found.cidr)) == expected


SIX = Link(
    name="mgmt-br.2021", index=3, kind="vlan", parent="mgmt-br", vlan_id=2021, addresses6=("fd00:21::5/64",)
)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (
            links(BRIDGE, SIX),
            Management(
                vlan_id=2021, interface=SIX.name, subnets6=("fd00:21::/64",), other_addresses=SIX.addresses6
            ),
        ),
        (
            links(BRIDGE, Link(name="cni0", index=1, addresses=("10.42.0.1/24",)), SIX),
            Management(
                vlan_id=2021, interface=SIX.name, subnets6=("fd00:21::/64",), other_addresses=SIX.addresses6
            ),
        ),
        (
            links(replace(BRIDGE, addresses=("10.1.0.5/16",)), SIX),
            Management(interface="mgmt-br", cidr="10.1.0.5/16"),
        ),
        (
            links(
                Link(
                    name="eth5",
                    index=1,
                    addresses=("192.168.0.5/24",),
                    addresses6=("fd00:5::5/64", "fd00:5::6/64", "fd00:5::7/128", "fd00:6::5/56"),
                ),
                routed=frozenset({"eth5"}),
            ),
            Management(
                interface="eth5",
                cidr="192.168.0.5/24",
                subnets6=("fd00:5::/64", "fd00:6::/56"),
                other_addresses=("fd00:5::5/64", "fd00:5::6/64", "fd00:5::7/128", "fd00:6::5/56"),
            ),
        ),
        (
            links(BRIDGE, EVERYTHING.links["mgmt-br.2014"], SIX, routed=frozenset({SIX.name})),
            Management(
                vlan_id=2021, interface=SIX.name, subnets6=("fd00:21::/64",), other_addresses=SIX.addresses6
            ),
        ),
        (
            links(replace(BRIDGE, onlink=("fd00:7::/64",))),
            Management(interface="mgmt-br", subnets6=("fd00:7::/64",)),
        ),
        (
            links(
                replace(
                    BRIDGE,
                    addresses=("10.1.0.250/32", "10.1.0.5/16", "10.1.0.251/16"),
                    addresses6=("fd00:7::5/64",),
                    onlink=("fd00:7::/64",),
                )
            ),
            Management(
                interface="mgmt-br",
                cidr="10.1.0.5/16",
                subnets6=("fd00:7::/64",),
                other_addresses=("10.1.0.250/32", "10.1.0.251/16", "fd00:7::5/64"),
            ),
        ),
    ],
)
def test_the_management_network_of_ipv6(observed: LinkState, expected: Management) -> None:
    """Its subnets of IPv6 and its other addresses are known, also of a link with IPv6 alone if none with IPv4 is it."""
    assert management(observed) == expected


def test_a_sub_interface_that_outlives_its_profile() -> None:
    """It is never the management network, also on a node where no other link has IPv4: the record names it."""
    observed = links(BRIDGE, EVERYTHING.links["mgmt-br.2014"], SIX)
    record = {"mgmt": Added(links={2014: EVERYTHING.links["mgmt-br.2014"].index})}
    found = management(observed, named_links((), record))
    assert found == Management(
        vlan_id=2021, interface=SIX.name, subnets6=("fd00:21::/64",), other_addresses=SIX.addresses6
    )


def test_the_management_vlan_of_a_node_with_ipv6_alone() -> None:
    """It is carried for no network, as that of a node with IPv4."""
    (found,) = one(nad("own", "mgmt", 2021, mode="dhcp"), management=management(links(BRIDGE, SIX)))
    assert [problem.reason for problem in found.problems] == ["ManagementVlan"]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ((("mgmt-bo", "bond"), ("bond1", "bond"), ("tap0", "tun")), "mgmt-bo"),
        ((("bond7", "bond"), ("eth0", ""), ("tap0", "tun")), "bond7"),
        ((("eth0", ""), ("tap0", "tun"), ("vethx", "veth")), "eth0"),
        ((("eth0", "veth"), ("tap0", "tun")), "eth0"),
        ((("eth0", ""), ("eth1", "")), None),
        ((("veth0", "veth"), ("veth1", "veth")), None),
        ((("tap0", "tun"),), None),
        ((), None),
    ],
)
def test_the_uplink_is_the_one_port_that_leads_out(
    ports: tuple[tuple[str, str], ...], expected: str | None
) -> None:
    """mgmt-bo, else the only bond, else the only NIC; none where that is unknown."""
    items = [Link(name=name, index=5, kind=kind, master="mgmt-br") for name, kind in ports]
    port = uplink_port(links(BRIDGE, Link(name="bond9", index=4, kind="bond"), *items), "mgmt")
    assert (port.name if port else None) == expected


def test_ids_are_recorded_before_they_are_added() -> None:
    """A plan says what will be Lanloom's; what the bridge already carries never is."""
    state = host().kernel.state()
    todo = plan(one(DHCP, VMS, nad("own", "mgmt", 2021)), state, {})
    assert todo.added == {
        "mgmt": Added(bridge=((2014, 2014),), uplink=((2014, 2015),), port="mgmt-bo", links={2014: 0})
    }
    assert todo.steps == (
        (
            "mgmt",
            (
                AddVlans(link="mgmt-bo", ids=((2014, 2015),), foreign=True),
                AddVlans(link="mgmt-br", ids=((2014, 2014),), self_=True, foreign=True),
            ),
        ),
    )


def test_only_what_was_added_is_taken_away() -> None:
    """An id that the installer's bridge had before stays when the last network that wants it goes."""
    ground = Ground()
    ground.kernel.apply(AddVlans(link="mgmt-br", ids=((2014, 2014),), self_=True, foreign=True))
    ground.reach(one(DHCP, VMS))
    index = ground.kernel.links["mgmt-br.2014"].index
    added = Added(uplink=((2014, 2015),), port="mgmt-bo", links={2014: index})
    assert ground.added == {"mgmt": added}
    (group,) = ground.plan(()).steps
    assert group == ("mgmt", (RemoveVlans(link="mgmt-bo", ids=((2014, 2015),), foreign=True),))
    ground.reach(())
    assert ground.kernel.links["mgmt-br"].self_vlans == ((1, 1), (2014, 2014), (2021, 2021))


def test_a_bridge_that_was_made_anew_owes_nothing() -> None:
    """What was recorded of a bridge that is gone counts no more, so its successor's ids are not taken for Lanloom's."""
    record = Added(bridge=((2014, 2014),), uplink=((2014, 2014),), port="mgmt-bo", links={2014: 0})
    assert plan((), links(), {}, {"mgmt": record}).added == {}
    assert plan(one(DHCP), links(), {}, {"mgmt": record}).added == {}
    fresh = plan((), host().kernel.state(), {}, {"mgmt": record})
    assert (fresh.added, fresh.empty) == ({}, True)


def test_another_uplink_owes_nothing() -> None:
    """Ids that were added to one port are not taken from another that is the uplink now."""
    ground = Ground()
    ground.kernel.apply(AddVlans(link="mgmt-bo", ids=((2015, 2015),), foreign=True))
    record = Added(uplink=((2015, 2015),), port="eth7")
    assert plan((), ground.kernel.state(), {}, {"mgmt": record}).empty
    now = {"mgmt": Added(uplink=((2015, 2015),), port="mgmt-bo")}
    assert not plan((), ground.kernel.state(), {}, now).empty


def test_the_management_vlan_has_no_other_addresses() -> None:
    """Whether desired already knows the management network or only the plan sees it, nothing is done about its VLAN."""
    state, own = host().kernel.state(), nad("own", "mgmt", 2021, mode="dhcp")
    early = one(own, management=management(state))
    (problem,) = early[0].problems
    assert (problem.vid, problem.reason, early[0].interfaces) == (2021, "ManagementVlan", ())
    assert plan(early, state, {}).empty
    late = one(own)
    todo = plan(late, state, {})
    assert [(item.vid, item.reason) for item in todo.problems["mgmt"]] == [(2021, "ManagementVlan")]
    assert (todo.empty, todo.added) == (True, {})


@pytest.mark.parametrize(
    ("asked", "clash"),
    [
        (
            {"mode": "static", "addresses": {NODE: "10.115.253.9/28"}},
            "its subnet 10.115.253.0/28 overlaps this node's management network 10.115.252.0/23",
        ),
        (
            {"mode": "dhcp", "more": {names.GATEWAY: "169.254.1.1/24"}},
            "its subnet 169.254.1.0/24 overlaps the link-local addresses 169.254.0.0/16",
        ),
        (
            {"mode": "dhcp", "more": {names.ROUTES: '[{"to": "10.112.0.0/14", "via": "192.168.1.1"}]'}},
            "its route to 10.112.0.0/14 overlaps this node's management network 10.115.252.0/23",
        ),
    ],
)
def test_what_the_node_needs_is_on_no_vlan(asked: dict[str, Any], clash: str) -> None:
    """An agent gives no sub-interface a subnet or a route that the node needs itself, and keeps what the VLAN has."""
    (found,) = one(nad("own", "mgmt", 7, **asked), management=management(host().kernel.state()))
    (problem,) = found.problems
    assert (problem.vid, problem.reason, problem.keep) == (7, "ReservedRange", True)
    assert problem.message == f"{clash}; choose others"
    assert found.interfaces == ()


def test_subnets_of_ipv6_that_the_node_needs_are_on_no_vlan() -> None:
    """A subnet of IPv6 within that of the management link is refused like one of IPv4."""
    addresses = json.dumps({NODE: ["192.168.1.9/24", "fd00:21:0:0:1::9/80"]})
    (found,) = one(
        nad("own", "mgmt", 7, mode="static", addresses=addresses), management=management(links(BRIDGE, SIX))
    )
    assert [(problem.vid, problem.reason, problem.keep) for problem in found.problems] == [
        (7, "ReservedRange", True)
    ]
    clash = "its subnet fd00:21:0:0:1::/80 overlaps this node's management network fd00:21::/64"
    assert found.problems[0].message == f"{clash}; choose others"


def test_the_management_vlan_is_never_added() -> None:
    """Where the installer's uplink lacks the management VLAN, that is the installer's business."""
    ground = Ground()
    ground.kernel.change("mgmt-bo", vlans=((1, 1),))
    todo = ground.plan(one(nad("vms", "mgmt", 2021), VMS))
    assert todo.steps == (("mgmt", (AddVlans(link="mgmt-bo", ids=((2015, 2015),), foreign=True),)),)


def test_the_management_vlan_stays_even_where_lanloom_added_it() -> None:
    """An id that becomes the management VLAN after Lanloom added it is not taken away."""
    record = Added(bridge=((2021, 2021),), uplink=((2021, 2021),), port="mgmt-bo")
    assert plan((), host().kernel.state(), {}, {"mgmt": record}).empty


def test_a_link_of_the_installer_s_is_no_sub_interface_of_ours() -> None:
    """A VLAN link that was there before keeps its VLAN to itself; others are carried."""
    ground = Ground()
    todo = ground.plan(one(nad("three", "mgmt", 3, mode="dhcp"), DHCP))
    (problem,) = todo.problems["mgmt"]
    assert (problem.vid, problem.reason, problem.network) == (3, "ForeignLink", "mgmt-br.3")
    assert [name for name, _ in todo.write_files] == ["mgmt-vlan2014.nmconnection"]
    ground.reach(one(nad("three", "mgmt", 3, mode="dhcp"), DHCP))
    assert ground.plan(one(nad("three", "mgmt", 3, mode="dhcp"), DHCP)).empty
    ground.reach(())
    assert "mgmt-br.3" in ground.kernel.links


def test_a_sub_interface_whose_profile_is_gone_is_still_ours() -> None:
    """An operator removes the profile but not its link: it is known from the record, and the profile comes back."""
    ground = Ground()
    ground.reach(one(DHCP))
    ground.files.clear()
    todo = ground.plan(one(DHCP))
    assert (todo.problems, [name for name, _ in todo.write_files]) == ({}, ["mgmt-vlan2014.nmconnection"])


@pytest.mark.parametrize("gone", [["mgmt-br"], ["mgmt-bo"]])
def test_what_the_installer_has_not_made_is_missing(gone: list[str]) -> None:
    """Without the bridge or its uplink nothing is done or taken away, and the node is not ready."""
    ground = Ground()
    ground.reach(one(DHCP))
    for name in gone:
        ground.kernel.delete(name)
    todo = ground.plan(one(DHCP))
    (problem,) = todo.problems["mgmt"]
    assert (problem.reason, todo.empty) == ("UplinkMissing", True)
    status = node_status(NODE, one(DHCP)[0], (problem,), ground.kernel.state(), {}, (), 0.0)
    conditions = {item.type: (item.status, item.reason) for item in status.conditions}
    assert conditions == {"ready": ("False", "UplinkMissing"), "L3Ready": ("False", "UplinkMissing")}


def test_the_report_tells_the_management_network() -> None:
    """The status of mgmt has its bridge, its uplink port, and the management network as observed."""
    ground = Ground()
    ground.reach(one(DHCP))
    state = ground.kernel.state()
    own = management(state, named_links(ground.files, ground.added))
    status = node_status(NODE, one(DHCP)[0], (), state, {}, (), 0.0, own=own)
    assert (status.bridge, status.uplink, status.vlan_ids) == ("mgmt-br", "mgmt-bo", "1,2014,2021")
    assert status.management == Management(vlan_id=2021, interface="mgmt-br.2021", cidr="10.115.252.135/23")


def test_mgmt_is_reported_where_it_carries_nothing() -> None:
    """The cluster network alone, without any VM network, makes a report with the management network in it."""
    (network,) = one()
    state = host().kernel.state()
    status = node_status(NODE, network, (), state, {}, (), 0.0, own=management(state))
    assert [(item.type, item.status) for item in status.conditions] == [
        ("ready", "True"),
        ("L3Ready", "True"),
    ]
    assert status.management is not None


def test_mgmt_stays_while_nobody_knows_its_nodes() -> None:
    """Where the annotation got lost, a node that carries VLANs of mgmt keeps them, and another begins nothing."""
    lost = cluster_of([node(NODE), cluster_network("mgmt"), DHCP])
    ground = Ground()
    ground.reach(one(DHCP))
    carried = carried_networks(ground.kernel.state(), ground.files, ground.added)
    assert "mgmt" in carried
    assert [item.cluster_network for item in lost.on_node(NODE, carried)] == ["mgmt"]
    assert lost.on_node(NODE, carried_networks(Ground().kernel.state())) == ()


_IDS = st.lists(st.tuples(st.integers(-5, 5000), st.integers(-5, 5000)), max_size=4)


@given(_IDS, _IDS)
def test_a_record_is_read_as_lawful_ids(bridge: list[tuple[int, int]], uplink: list[tuple[int, int]]) -> None:
    """What is no VLAN id that Lanloom would add is left out of a record, whatever wrote it."""
    raw = msgspec.json.encode({"mgmt": {"bridge": bridge, "uplink": uplink, "port": "mgmt-bo"}})
    found = recorded(raw).get("mgmt", Added())
    for first, last in (*found.bridge, *found.uplink):
        assert 2 <= first <= last <= 4094


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"mgmt": {"bridge": 7}}',
        b'{"../x": {"port": "a"}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_record_that_can_t_be_read_takes_nothing_away(raw: bytes | None) -> None:
    """A record that is missing or damaged is an empty one."""
    assert recorded(raw) == {}


def test_a_record_is_read_as_it_was_written() -> None:
    """What was recorded comes back."""
    record = Added(bridge=((2, 5),), uplink=((2, 9),), port="mgmt-bo", links={2: 7})
    assert recorded(msgspec.json.encode({"mgmt": record})) == {"mgmt": record}

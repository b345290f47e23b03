"""What a report says of links, addresses, routes and gateways that are not as they should be."""

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.features.vlan.rules.desired.names import routing_table
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem
from lanloom.features.vlan.rules.report.status import (
    leftover_status,
    node_status,
)
from lanloom.node.netlink.dump import OPERSTATES
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Link,
    LinkState,
    Route,
)
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.reports import (
    DHCP,
    LEASED,
    NODE,
    NOW,
    STATIC,
    built,
    carrying,
    report_of,
    said,
)


def test_a_nic_that_is_missing_is_no_reason_to_fail_addresses() -> None:
    """A NIC that can't be used makes the uplink not ready; what works without it is reported as it is."""
    problem = Problem(vid=0, network="eth9", reason="UplinkMissing", message="the NIC eth9 does not exist")
    interface, conditions, _ = report_of(DHCP, said("active", *LEASED), problems=(problem,))
    assert conditions["ready"].reason == "UplinkMissing"
    assert interface.state == "Ready"


def test_what_the_report_shows_of_the_links() -> None:
    """Bridge, uplink, MTU and VLAN ids are those of the kernel."""
    status = node_status(NODE, DHCP, (), built(), said("active", *LEASED), (), NOW)
    assert (status.bridge, status.uplink, status.mtu, status.vlan_ids) == (
        "cluster-1-br",
        "cluster-1-bo",
        1500,
        "1,2012",
    )
    bare = node_status(NODE, DHCP, (), LinkState({"eth1": Link(name="eth1", index=1)}), {}, (), NOW)
    assert (bare.bridge, bare.uplink, bare.mtu, bare.vlan_ids) == ("", "", 0, "")


def test_a_network_that_can_t_be_let_go_of() -> None:
    """A bridge that is still in use after its network went is reported with the reason."""
    problem = Problem(vid=0, network="cluster-1-br", reason="BridgeInUse", message="tap0 is on it", keep=True)
    status = leftover_status(NODE, "cluster-1", (problem,), (), NOW)
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ready", "False", "BridgeInUse")
    assert status.bridge == "cluster-1-br"


def test_an_interface_that_is_down_is_not_ready() -> None:
    """An address on a sub-interface that an operator set down is no use, whatever NetworkManager says."""
    ground = Ground()
    ground.reach((DHCP,))
    ground.kernel.change("clust-4afb.2012", up=False)
    interface, conditions, delay = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "InterfaceDown")
    assert (conditions["L3Ready"].reason, delay) == ("InterfaceDown", 1.0)


def test_an_interface_that_is_down_with_its_bridge_is_not_ready() -> None:
    """An address does not answer while the bridge below it is down, and while there is no such link."""
    ground = carrying(DHCP, *LEASED)
    ground.kernel.set_up("cluster-1-br", False)
    interface, _, _ = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "InterfaceDown")
    ground.kernel.delete("clust-4afb.2012")
    interface, _, _ = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "Activating")


@pytest.mark.parametrize("wanted", [DHCP, STATIC], ids=["dhcp", "static"])
@pytest.mark.parametrize("damage", ["unplugged", "deleted", "lower layer"])
def test_an_address_is_not_ready_while_no_frame_passes(wanted: NodeNetwork, damage: str) -> None:
    """An address is no use without a carrier below it, however long NetworkManager keeps it."""
    own = LEASED[0] if wanted is DHCP else "192.168.1.10/24"
    kernel = carrying(wanted, own).kernel
    if damage == "unplugged":
        kernel.plug("eth1", False)
    elif damage == "deleted":
        kernel.delete("eth1")
    links = kernel.state()
    if damage == "lower layer":
        name = wanted.interfaces[0].name
        links = LinkState({**links.links, name: replace(links.links[name], operstate="LOWERLAYERDOWN")})
    said_so = said("active", own, wanted=wanted)
    interface, conditions, _ = report_of(wanted, said_so, links=links)
    assert (interface.state, interface.reason, interface.address) == ("Pending", "UplinkDown", own)
    assert (conditions["L3Ready"].status, conditions["L3Ready"].reason) == ("False", "UplinkDown")


@pytest.mark.parametrize("operstate", OPERSTATES)
@pytest.mark.parametrize(
    ("link", "uplink"),
    [("eth1", True), ("cluster-1-bo", True), ("clust-4afb.2012", False)],
    ids=["NIC", "bond", "sub-interface"],
)
def test_frames_pass_in_two_operational_states(link: str, uplink: bool, operstate: str) -> None:
    """Every link that frames pass counts by its operational state; what is below `L3Ready` alone leaves `ready`."""
    links = carrying(DHCP, *LEASED).kernel.state()
    links = LinkState({**links.links, link: replace(links.links[link], operstate=operstate)})
    _, conditions, _ = report_of(DHCP, said("active", *LEASED), links=links)
    passes = operstate in ("UP", "UNKNOWN")
    assert (conditions["L3Ready"].status == "True") == passes
    assert (conditions["ready"].status == "True") == (passes or not uplink)


@pytest.mark.parametrize(
    ("route", "name"),
    [
        (Route("10.115.8.2/32", LOCAL_TABLE), "the local route of 10.115.8.2 on clust-4afb.2012"),
        (Route("10.115.8.0/21", MAIN_TABLE), "the route to 10.115.8.0/21 of clust-4afb.2012"),
    ],
)
def test_an_address_without_its_routes_is_not_ready(route: Route, name: str) -> None:
    """An address that does not answer for want of a route is reported so, with the route."""
    ground = carrying(DHCP, *LEASED)
    ground.kernel.lose_routes("clust-4afb.2012", [route])
    interface, conditions, delay = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "RouteMissing")
    assert interface.message == f"{name} is gone; it is being restored"
    assert (conditions["L3Ready"].status, conditions["L3Ready"].reason) == ("False", "RouteMissing")
    assert delay == 1.0


def test_an_address_that_the_kernel_does_not_have_is_not_ready() -> None:
    """What NetworkManager believes to be there does not count where the kernel has it not."""
    interface, _, _ = report_of(DHCP, said("active", *LEASED), links=carrying().kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "Activating")


def test_a_nic_without_a_carrier_beside_one_that_works() -> None:
    """A bond with one dead leg is ready, and says which leg is dead."""
    wanted = replace(DHCP, nics=("eth1", "eth2"))
    ground = Ground()
    ground.reach((wanted,))
    ground.kernel.plug("eth2", False)
    _, conditions, _ = report_of(wanted, said("active", *LEASED), links=ground.kernel.state())
    ready = conditions["ready"]
    assert (ready.status, ready.reason) == ("True", "UplinkDegraded")
    assert ready.message == "no carrier on eth2; check the cables and the switch"


def test_ids_that_are_missing_are_no_working_uplink() -> None:
    """A node whose bridge lacks a VLAN id is not ready, although everything is up."""
    ground = Ground()
    ground.reach((DHCP,))
    ground.kernel.change("cluster-1-bo", vlans=((1, 1),))
    _, conditions, _ = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (conditions["ready"].status, conditions["ready"].reason) == ("False", "Configuring")
    assert conditions["ready"].message == "VLAN ids 2012 are not on cluster-1-br yet"


def test_the_table_of_a_gateway_is_shown() -> None:
    """An operator finds the number of the routing table in the report."""
    objects = [
        node(NODE),
        cluster_network("cluster-1"),
        vlan_config("one", "cluster-1"),
        nad("vlan2012", "cluster-1", 2012, mode="dhcp", more={names.GATEWAY: "10.115.15.254/21"}),
    ]
    (wanted,) = cluster_of(objects).managed().on_node(NODE)
    interface, _, _ = report_of(wanted, said("active", *LEASED, wanted=wanted))
    assert interface.table == routing_table("cluster-1", 2012)
    assert report_of(DHCP, said("active", *LEASED))[0].table == 0


def test_the_address_that_was_asked_for_is_shown() -> None:
    """Where another program put an address next to it, the report shows the one that belongs there."""
    connections = said("active", "10.0.0.1/8", "192.168.1.10/24", wanted=STATIC)
    interface, _, _ = report_of(STATIC, connections)
    assert interface.address == "192.168.1.10/24"


def test_an_uplink_that_can_t_be_read_is_not_ready() -> None:
    """What can't be used of a VlanConfig is reported, also where the node works without it."""
    complaint = Problem(vid=0, network="one", reason="InvalidConfig", message="no such MAC address")
    wanted = replace(DHCP, uplink_problems=(complaint,))
    problems = Ground().plan((wanted,)).problems["cluster-1"]
    ground = carrying(wanted, *LEASED)
    interface, conditions, _ = report_of(
        wanted, said("active", *LEASED), links=ground.kernel.state(), problems=problems
    )
    assert (conditions["ready"].status, conditions["ready"].reason) == ("False", "InvalidConfig")
    assert interface.state == "Ready"

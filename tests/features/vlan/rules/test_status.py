"""What a node reports, and when it looks again."""

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import VlanInterface
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.names import routing_table
from lanloom.features.vlan.rules.network import NodeNetwork, Problem
from lanloom.features.vlan.rules.status import (
    RESYNC_SECONDS,
    leftover_status,
    node_status,
    recheck_after,
)
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Connection,
    Lease,
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

NOW = 1_767_225_600.0
NODE = "node1"


def network(mode: str = "dhcp", addresses: dict[str, str] | None = None) -> NodeNetwork:
    """What the node should carry: VLAN 2012 on cluster-1."""
    objects = [
        node(NODE),
        cluster_network("cluster-1"),
        vlan_config("one", "cluster-1"),
        nad("vlan2012", "cluster-1", 2012, mode=mode, addresses=addresses),
    ]
    return cluster_of(objects).managed().on_node(NODE)[0]


DHCP, STATIC = network(), network("static", {NODE: "192.168.1.10/24"})
MISSING = network("static", {"node2": "192.168.1.11/24"})
LEASED = ("10.115.8.2/21",)


def carrying(wanted: NodeNetwork = DHCP, *addresses: str) -> Ground:
    """A node that carries the network, with these addresses on each of its sub-interfaces."""
    ground = Ground()
    ground.reach((wanted,))
    for item in wanted.interfaces:
        ground.kernel.change(item.name, addresses=addresses)
    return ground


def built(*addresses: str, plugged: bool = True) -> LinkState:
    """The links of a node that carries the network."""
    ground = carrying(DHCP, *addresses)
    ground.kernel.plug("eth1", plugged)
    return ground.kernel.state()


def said(phase: str, *addresses: str, wanted: NodeNetwork = DHCP, **fields: object) -> dict[str, Connection]:
    """What NetworkManager says of the profile."""
    uuid = wanted.interfaces[0].uuid
    return {uuid: Connection(uuid=uuid, phase=phase, addresses=addresses, **fields)}  # type: ignore[arg-type]


def report_of(
    wanted: NodeNetwork,
    connections: dict[str, Connection] | None,
    *,
    links: LinkState | None = None,
    problems: tuple[Problem, ...] = (),
) -> tuple[VlanInterface, dict[str, Condition], float]:
    """The only interface of the report, its conditions by type, and when the next look is due."""
    known = (connections or {}).values()
    links = links or built(*(address for item in known for address in item.addresses))
    status = node_status(NODE, wanted, problems, links, connections, (), NOW)
    return status.interfaces[0], {item.type: item for item in status.conditions}, recheck_after(status)


@pytest.mark.parametrize(
    ("wanted", "connections", "state", "reason", "message"),
    [
        (DHCP, said("active", *LEASED), "Ready", "Assigned", ""),
        (DHCP, said("active"), "Pending", "Activating", "is waiting for an answer of a DHCP server"),
        (DHCP, said("activating"), "Pending", "Activating", "is waiting for an answer of a DHCP server"),
        (DHCP, said("inactive"), "Pending", "Activating", "has not brought clust-4afb.2012 up yet"),
        (
            DHCP,
            said("absent"),
            "Failed",
            "ProfileRejected",
            "does not accept the profile cluster-1-vlan2012.nmconnection",
        ),
        (
            DHCP,
            said("failed", reason="ip-config-unavailable"),
            "Failed",
            "DHCPTimeout",
            "no DHCP server answered on VLAN 2012",
        ),
        (
            DHCP,
            said("failed", reason="unknown"),
            "Failed",
            "ActivationFailed",
            "could not bring clust-4afb.2012 up (unknown)",
        ),
        (DHCP, said("failed"), "Failed", "ActivationFailed", "(no reason given)"),
        (
            DHCP,
            said("absent", reason="vlan.id: must be below 4095"),
            "Failed",
            "ProfileRejected",
            "the profile cluster-1-vlan2012.nmconnection: vlan.id: must be below 4095",
        ),
        (
            DHCP,
            said("failed", reason="ip-address-duplicate"),
            "Failed",
            "DuplicateAddress",
            "another host on VLAN 2012 already has the address that the DHCP server gave; correct that host",
        ),
        (
            STATIC,
            said("failed", wanted=STATIC, reason="ip-address-duplicate"),
            "Failed",
            "DuplicateAddress",
            "already has 192.168.1.10/24; choose another address",
        ),
        (
            DHCP,
            said("active", *LEASED, lease=Lease(server="10.115.8.1", expiry=int(NOW) - 1)),
            "Pending",
            "LeaseExpired",
            "the lease of 10.115.8.2/21 ended at 2025-12-31T23:59:59Z; check the DHCP server 10.115.8.1",
        ),
        (
            DHCP,
            said("active", *LEASED, lease=Lease(server="10.115.8.1", expiry=int(NOW))),
            "Ready",
            "Assigned",
            "",
        ),
        (
            DHCP,
            None,
            "Failed",
            "NetworkManagerMissing",
            "NetworkManager does not respond; check that it runs",
        ),
        (DHCP, {}, "Failed", "ProfileRejected", "does not accept the profile"),
        (STATIC, said("active", "192.168.1.10/24", wanted=STATIC), "Ready", "Assigned", ""),
        (
            STATIC,
            said("active", *LEASED, wanted=STATIC),
            "Pending",
            "Activating",
            "waiting for the address 192.168.1.10/24",
        ),
        (
            STATIC,
            said("active", "192.168.1.10/24", wanted=STATIC, applied=False),
            "Pending",
            "Activating",
            "waiting for the address",
        ),
        (
            STATIC,
            said("failed", wanted=STATIC, reason="ip-config-unavailable"),
            "Failed",
            "DuplicateAddress",
            "another host on VLAN 2012 already has 192.168.1.10/24; choose another address",
        ),
        (MISSING, {}, "Failed", "MissingAddress", "node-ip-map has no address for node node1; add one"),
    ],
)
def test_what_is_said_of_an_interface(
    wanted: NodeNetwork, connections: dict[str, Connection] | None, state: str, reason: str, message: str
) -> None:
    """Each state of a profile has its state, reason and message, and L3Ready says the same."""
    interface, conditions, _ = report_of(wanted, connections)
    assert (interface.state, interface.reason) == (state, reason)
    assert message in interface.message
    ready = state == "Ready"
    assert conditions["L3Ready"].status == str(ready)
    assert conditions["L3Ready"].reason == ("AddressesAssigned" if ready else reason)
    assert conditions["ready"].reason == "UplinkReady"


def test_a_lease_is_shown() -> None:
    """Address, server and expiry of a lease are in the report."""
    lease = Lease(server="10.115.8.1", expiry=int(NOW) + 3600)
    interface, _, _ = report_of(DHCP, said("active", *LEASED, lease=lease))
    assert interface.address == LEASED[0]
    assert interface.lease is not None
    assert (interface.lease.server, interface.lease.expiry) == ("10.115.8.1", "2026-01-01T01:00:00Z")


def test_an_uplink_without_a_cable() -> None:
    """A network of whose NICs none has a carrier is not ready, and says where to look."""
    _, conditions, delay = report_of(DHCP, said("active", *LEASED), links=built(plugged=False))
    assert (conditions["ready"].status, conditions["ready"].reason) == ("False", "UplinkDown")
    assert (
        conditions["ready"].message == "none of the NICs eth1 has a carrier; check the cables and the switch"
    )
    assert delay == 1.0


def test_an_uplink_that_is_not_there_yet() -> None:
    """Before its bridge is built a network is being configured."""
    _, conditions, delay = report_of(DHCP, said("inactive"), links=Ground().kernel.state())
    assert conditions["ready"].reason == "Configuring"
    assert delay == 1.0


def test_obstacles_come_first() -> None:
    """What forbids to build the uplink is the reason of the network and of each of its interfaces."""
    problem = Problem(
        vid=0, network="cluster-1-br", reason="ForeignLink", message="it is not ours", keep=True
    )
    interface, conditions, delay = report_of(DHCP, {}, problems=(problem,))
    assert (conditions["ready"].reason, conditions["ready"].message) == ("ForeignLink", "it is not ours")
    assert (interface.state, interface.reason) == ("Failed", "ForeignLink")
    assert delay == 5.0


def test_a_nic_that_is_missing_is_no_reason_to_fail_addresses() -> None:
    """A NIC that can't be used makes the uplink not ready; what works without it is reported as it is."""
    problem = Problem(vid=0, network="eth9", reason="UplinkMissing", message="the NIC eth9 does not exist")
    interface, conditions, _ = report_of(DHCP, said("active", *LEASED), problems=(problem,))
    assert conditions["ready"].reason == "UplinkMissing"
    assert interface.state == "Ready"


def test_a_node_at_rest_is_looked_at_seldom() -> None:
    """Where all is well the next look is due after the usual period."""
    _, _, delay = report_of(DHCP, said("active", *LEASED))
    assert delay == RESYNC_SECONDS


def test_an_unchanged_report_stays_equal() -> None:
    """The same observation later gives the same report, so that nothing is written for it."""
    links, connections = built(), said("active", *LEASED)
    first = node_status(NODE, DHCP, (), links, connections, (), NOW)
    assert node_status(NODE, DHCP, (), links, connections, first.conditions, NOW + 60) == first


def test_the_report_s_hash_tells_the_configuration() -> None:
    """Reports of different configurations have different hashes."""
    hashes = {wanted.digest for wanted in (DHCP, STATIC, MISSING, network())}
    assert len(hashes) == 3


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
    """An address on a sub-interface that somebody set down is no use, whatever NetworkManager says."""
    ground = Ground()
    ground.reach((DHCP,))
    ground.kernel.change("clust-4afb.2012", up=False)
    interface, conditions, delay = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "InterfaceDown")
    assert (conditions["L3Ready"].reason, delay) == ("InterfaceDown", 1.0)


def test_an_interface_that_is_down_with_its_bridge_is_not_ready() -> None:
    """An address answers nobody while the bridge below it is down, and while there is no such link."""
    ground = carrying(DHCP, *LEASED)
    ground.kernel.set_up("cluster-1-br", False)
    interface, _, _ = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "InterfaceDown")
    ground.kernel.delete("clust-4afb.2012")
    interface, _, _ = report_of(DHCP, said("active", *LEASED), links=ground.kernel.state())
    assert (interface.state, interface.reason) == ("Pending", "Activating")


@pytest.mark.parametrize(
    ("route", "name"),
    [
        (Route("10.115.8.2/32", LOCAL_TABLE), "the local route of 10.115.8.2 on clust-4afb.2012"),
        (Route("10.115.8.0/21", MAIN_TABLE), "the route to 10.115.8.0/21 of clust-4afb.2012"),
    ],
)
def test_an_address_without_its_routes_is_not_ready(route: Route, name: str) -> None:
    """An address that answers nobody for want of a route is told so, with the route."""
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


HELD = Problem(vid=0, network="", reason="Held", message="the roll-out has not reached it")
ROLLED_BACK = Problem(vid=0, network="", reason="RolledBack", message="it cut the node off")


def _withheld(problem: Problem, *, plugged: bool = True, leased: bool = True) -> dict[str, tuple[str, str]]:
    connections = said("active", *(LEASED if leased else ()))
    links = built(*LEASED, plugged=plugged)
    status = node_status(NODE, DHCP, (), links, connections, (), NOW, revision="abc", withheld=problem)
    assert status.revision == "abc"
    return {item.type: (item.status, item.reason) for item in status.conditions}


def test_a_node_that_is_held_works_but_has_not_what_it_should_have() -> None:
    """The uplink of the form that it carries is as good as it is; its addresses are not the present ones."""
    assert _withheld(HELD) == {"ready": ("True", "UplinkReady"), "L3Ready": ("False", "Held")}


def test_a_node_that_rolled_back_is_not_ready() -> None:
    """A node that can't take up the configuration fails, although it works as it was before."""
    assert set(_withheld(ROLLED_BACK).values()) == {("False", "RolledBack")}


@pytest.mark.parametrize("problem", [HELD, ROLLED_BACK])
def test_what_fails_is_told_before_what_is_withheld(problem: Problem) -> None:
    """A node that fails in the form that it carries says that first."""
    found = _withheld(problem, plugged=False, leased=False)
    assert found == {"ready": ("False", "UplinkDown"), "L3Ready": ("False", "Activating")}


def test_a_vlan_with_an_obstacle_of_its_own_fails_alone() -> None:
    """An obstacle of one VLAN makes neither the uplink nor the other VLANs fail."""
    objects = [
        node(NODE),
        cluster_network("mgmt"),
        nad("three", "mgmt", 3, mode="dhcp"),
        nad("vlan2014", "mgmt", 2014, mode="dhcp"),
    ]
    wanted = cluster_of(objects).managed().on_node(NODE)
    ground = Ground()
    ground.kernel.change("eth0", master="mgmt-bo")
    problems = ground.plan(wanted).problems["mgmt"]
    ground.reach(wanted)
    ground.kernel.change(wanted[0].interfaces[1].name, addresses=LEASED)
    uuid = wanted[0].interfaces[1].uuid
    connections = {uuid: Connection(uuid=uuid, phase="active", addresses=LEASED)}
    status = node_status(NODE, wanted[0], problems, ground.kernel.state(), connections, (), NOW)
    assert [(item.vlan_id, item.reason) for item in status.interfaces] == [
        (3, "ForeignLink"),
        (2014, "Assigned"),
    ]
    assert [(item.status, item.reason) for item in status.conditions] == [
        ("True", "UplinkReady"),
        ("False", "ForeignLink"),
    ]


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
    """Where somebody put another address beside it, the report shows the one that belongs there."""
    connections = said("active", "10.0.0.1/8", "192.168.1.10/24", wanted=STATIC)
    interface, _, _ = report_of(STATIC, connections)
    assert interface.address == "192.168.1.10/24"


def test_an_uplink_that_can_t_be_read_is_not_ready() -> None:
    """What can't be used of a VlanConfig is told, also where the node works without it."""
    complaint = Problem(vid=0, network="one", reason="InvalidConfig", message="no such MAC address")
    wanted = replace(DHCP, uplink_problems=(complaint,))
    problems = Ground().plan((wanted,)).problems["cluster-1"]
    ground = carrying(wanted, *LEASED)
    interface, conditions, _ = report_of(
        wanted, said("active", *LEASED), links=ground.kernel.state(), problems=problems
    )
    assert (conditions["ready"].status, conditions["ready"].reason) == ("False", "InvalidConfig")
    assert interface.state == "Ready"

"""What a node reports, and when it looks again."""

import pytest

from lanloom.api.harvester import VlanInterface
from lanloom.api.meta import Condition
from lanloom.node.ports import Connection, Lease, Link, LinkState
from lanloom.vlan.rules.desired import NodeNetwork, Problem
from lanloom.vlan.rules.status import RESYNC_SECONDS, leftover_status, look_again, node_status
from tests.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config
from tests.vlan.rules.ground import Ground

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


def built(*, plugged: bool = True) -> LinkState:
    """The links of a node that carries the network."""
    ground = Ground()
    ground.reach((DHCP,))
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
    obstacles: tuple[Problem, ...] = (),
) -> tuple[VlanInterface, dict[str, Condition], float]:
    """The only interface of the report, its conditions by type, and when the next look is due."""
    status = node_status(NODE, wanted, obstacles, links or built(), connections, (), NOW)
    return status.interfaces[0], {item.type: item for item in status.conditions}, look_again(status)


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
        (DHCP, None, "Failed", "NetworkManagerMissing", "NetworkManager does not answer; see that it runs"),
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
    obstacle = Problem(
        vid=0, network="cluster-1-br", reason="ForeignLink", message="it is not ours", keep=True
    )
    interface, conditions, delay = report_of(DHCP, {}, obstacles=(obstacle,))
    assert (conditions["ready"].reason, conditions["ready"].message) == ("ForeignLink", "it is not ours")
    assert (interface.state, interface.reason) == ("Failed", "ForeignLink")
    assert delay == 5.0


def test_a_nic_that_is_missing_is_no_reason_to_fail_addresses() -> None:
    """A NIC that can't be used makes the uplink not ready; what works without it is reported as it is."""
    obstacle = Problem(vid=0, network="eth9", reason="UplinkMissing", message="the NIC eth9 does not exist")
    interface, conditions, _ = report_of(DHCP, said("active", *LEASED), obstacles=(obstacle,))
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

"""What a node reports, and when it looks again."""

from typing import Any

import pytest

from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem
from lanloom.features.vlan.rules.report.status import (
    RESYNC_SECONDS,
    node_status,
)
from lanloom.node.ports import (
    Connection,
    Lease,
)
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
)
from tests.features.vlan.rules.ground import Ground
from tests.features.vlan.rules.reports import DHCP, LEASED, NODE, NOW, STATIC, built, network, report_of, said

VIP = "10.115.8.250/32"

MISSING = network("static", {"node2": "192.168.1.11/24"})


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
            said("failed", reason="NetworkManager refused ActivateConnection: File exists"),
            "Failed",
            "ActivationFailed",
            "File exists); VLAN 2012 of the bridge has a link in another network namespace",
        ),
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
            said("active", lease=Lease(address=LEASED[0], server="10.115.8.1", expiry=int(NOW) - 1)),
            "Pending",
            "LeaseExpired",
            "the lease of 10.115.8.2/21 ended at 2025-12-31T23:59:59Z; check the DHCP server 10.115.8.1",
        ),
        (
            DHCP,
            said("active", lease=Lease(address=LEASED[0], server="10.115.8.1", expiry=int(NOW))),
            "Pending",
            "Activating",
            "is waiting for an answer of a DHCP server",
        ),
        (  # the clock was set: the kernel, which counts seconds, removes the address when the lease ends
            DHCP,
            said("active", *LEASED, lease=Lease(address=LEASED[0], server="10.115.8.1", expiry=int(NOW) - 1)),
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
        (DHCP, said("active", VIP, *LEASED), "Ready", "Assigned", ""),
        (DHCP, said("active", VIP, lease=None), "Pending", "Activating", "is waiting for an answer"),
        (
            DHCP,
            said("active", VIP, lease=Lease(address=LEASED[0])),
            "Pending",
            "Activating",
            "is waiting for",
        ),
        (STATIC, said("active", "192.168.1.10/24", wanted=STATIC), "Ready", "Assigned", ""),
        (STATIC, said("active", VIP, "192.168.1.10/24", wanted=STATIC), "Ready", "Assigned", ""),
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


@pytest.mark.parametrize(("wanted", "own"), [(DHCP, LEASED[0]), (STATIC, "192.168.1.10/24")])
@pytest.mark.parametrize("others", [(), (VIP,), ("10.0.0.9/8", VIP, "169.254.20.10/32")])
def test_addresses_of_other_programs(wanted: NodeNetwork, own: str, others: tuple[str, ...]) -> None:
    """The report names the address of profile or lease as the node's, and others apart, in any order."""
    for addresses in ((*others, own), (own, *others)):
        lease = Lease(address=own) if wanted is DHCP else None
        interface, _, _ = report_of(wanted, said("active", *addresses, wanted=wanted, lease=lease))
        assert (interface.address, set(interface.other_addresses)) == (own, set(others))
        assert interface.state == "Ready"


def test_a_lease_is_shown() -> None:
    """Address, server and expiry of a lease are in the report."""
    lease = Lease(address=LEASED[0], server="10.115.8.1", expiry=int(NOW) + 3600)
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


@pytest.mark.parametrize(("phase", "addresses"), [("active", LEASED), ("inactive", ())])
def test_addresses_outlive_an_obstacle(phase: Any, addresses: tuple[str, ...]) -> None:
    """Where the uplink became another program's, the column shows the addresses that are up all the same."""
    problem = Problem(vid=0, network="cluster-1-br", reason="ForeignLink", message="not ours", keep=True)
    status = node_status(NODE, DHCP, (problem,), built(), said(phase, *addresses), (), NOW)
    assert (status.interfaces[0].state, status.addresses) == ("Failed", ",".join(addresses))


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
    lease = Lease(address=LEASED[0])
    connections = {uuid: Connection(uuid=uuid, phase="active", addresses=LEASED, lease=lease)}
    status = node_status(NODE, wanted[0], problems, ground.kernel.state(), connections, (), NOW)
    assert [(item.vlan_id, item.reason) for item in status.interfaces] == [
        (3, "ForeignLink"),
        (2014, "Assigned"),
    ]
    assert [(item.status, item.reason) for item in status.conditions] == [
        ("True", "UplinkReady"),
        ("False", "ForeignLink"),
    ]

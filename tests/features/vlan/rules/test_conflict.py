"""Which leases would take a node's management network over."""

import pytest
from msgspec.structs import replace

from lanloom.api.clusternetworknode import Management
from lanloom.features.vlan.rules.desired.activation import conflict
from lanloom.node.ports import (
    Connection,
    ConnectionPhase,
    Lease,
    Link,
    LinkState,
)
from tests.features.vlan.agent.rollback.test_revisions import OLD

ITEM = replace(OLD.network.interfaces[0], mode="dhcp", address="")
OWN = Management(vlan_id=2021, interface="mgmt-br.2021", cidr="172.16.0.11/24")


def _connection(leased: str = "", *others: str, phase: ConnectionPhase = "active") -> Connection:
    lease = Lease(address=leased, server="172.16.0.99") if leased else None
    return Connection(
        uuid=ITEM.uuid, phase=phase, addresses=(*others, leased) if leased else others, lease=lease
    )


def _observed(*addresses: str, management: tuple[str, ...] = (OWN.cidr,)) -> LinkState:
    links = (
        Link(name=ITEM.name, index=7, kind="vlan", addresses=addresses),
        Link(name=OWN.interface, index=5, kind="vlan", addresses=management),
    )
    return LinkState({link.name: link for link in links})


@pytest.mark.parametrize(
    "address",
    ["172.16.0.12/24", "172.16.0.11/32", "172.16.0.130/25", "172.16.5.1/16", "172.16.0.1/32", "10.0.0.1/0"],
    ids=["same subnet", "own address", "half of it", "wider", "one host", "everything"],
)
def test_a_lease_that_overlaps_the_management_network(address: str) -> None:
    """An overlap of any kind is a conflict, whether the kernel has the leased address yet or not."""
    assert conflict(ITEM, _connection(address), _observed(), OWN)
    assert conflict(ITEM, _connection(address), _observed(address), OWN)
    assert conflict(ITEM, _connection(address, phase="activating"), _observed(), OWN)


@pytest.mark.parametrize("phase", ["activating", "active"])
@pytest.mark.parametrize("address", ["172.16.0.12/24", "169.254.20.10/32", "10.0.0.1/0"])
def test_an_address_of_another_program(address: str, phase: ConnectionPhase) -> None:
    """An address that another program put on the sub-interface is no lease, and takes no VLAN down."""
    assert not conflict(ITEM, _connection("", address, phase=phase), _observed(address), OWN)
    assert not conflict(ITEM, _connection("192.168.1.7/24", address, phase=phase), _observed(address), OWN)


@pytest.mark.parametrize("address", ["172.16.1.12/24", "192.168.1.100/24", "172.15.255.254/32"])
def test_a_lease_beside_the_management_network(address: str) -> None:
    """A subnet of its own is none."""
    assert not conflict(ITEM, _connection(address), _observed(address), OWN)


def test_a_management_network_of_ipv6_alone() -> None:
    """No lease of IPv4 overlaps it, and link-local ones are refused as ever."""
    alone = Management(interface=OWN.interface, subnets6=("fd00:21::/64",))
    assert not conflict(ITEM, _connection("172.16.0.12/24"), _observed(management=()), alone)
    assert conflict(ITEM, _connection("169.254.8.2/16"), _observed(management=()), alone)


def test_every_address_of_the_management_link_counts() -> None:
    """A second address of the management link is protected like the first."""
    second = _observed("10.9.0.7/24", management=(OWN.cidr, "10.9.0.1/16"))
    assert conflict(ITEM, _connection("10.9.0.7/24"), second, OWN)


@pytest.mark.parametrize("own", [OWN, None], ids=["known", "unknown"])
def test_link_local_addresses_are_no_vlan_s(own: Management | None) -> None:
    """A lease of link-local addresses, where metadata services and DNS caches of nodes are, is a conflict."""
    message = conflict(ITEM, _connection("169.254.8.2/16"), _observed(), own)
    assert "overlaps the link-local addresses 169.254.0.0/16" in message


def test_what_is_not_judged() -> None:
    """A static address, a connection that is down, and a node whose management network is unknown have no conflict."""
    found = _connection(OWN.cidr)
    assert not conflict(replace(ITEM, mode="static"), found, _observed(OWN.cidr), OWN)
    assert not conflict(ITEM, _connection(phase="inactive"), _observed(OWN.cidr), OWN)
    assert not conflict(ITEM, found, _observed(OWN.cidr), None)


def test_the_message_names_all_that_an_operator_needs() -> None:
    """The message names the server, the VLAN, the address, the management network, and the remedy."""
    message = conflict(ITEM, _connection("172.16.0.130/25"), _observed(), OWN)
    named = (
        "172.16.0.99",
        f"VLAN {ITEM.vid}",
        "172.16.0.130/25",
        "172.16.0.0/24",
        OWN.interface,
        "correct the range",
    )
    assert all(item in message for item in named)

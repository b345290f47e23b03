"""Addresses, names and DHCP networks of a lab."""

import pytest

from lanloom_lab.errors import BadOption
from lanloom_lab.plan import (
    NODES_MAX,
    DhcpNetwork,
    NodeSpec,
    check_node_name,
    next_place,
    parse_dhcp,
)


def test_places_give_distinct_addresses() -> None:
    """No two nodes share an InternalIP, a hardware address or a port of the switch."""
    nodes = [NodeSpec(f"node{place}", place) for place in range(NODES_MAX)]
    assert len({node.address for node in nodes}) == NODES_MAX
    assert len({node.mac(nic) for node in nodes for nic in ("eth0", "eth1", "eth2")}) == 3 * NODES_MAX
    assert len({node.port(nic) for node in nodes for nic in ("eth0", "eth1", "eth2")}) == 3 * NODES_MAX


def test_a_port_is_a_valid_link_name() -> None:
    """The port of the last node's last NIC fits into the 15 characters of a link's name."""
    assert len(NodeSpec("x" * 32, NODES_MAX - 1).port("eth2")) <= 15


def test_a_removed_place_is_given_again() -> None:
    """A new node takes the lowest place that is free."""
    assert next_place((NodeSpec("a", 0), NodeSpec("c", 2))) == 1


def test_a_full_lab_is_said() -> None:
    """When the management network is full, the message says so."""
    with pytest.raises(BadOption, match="200 nodes already"):
        next_place(tuple(NodeSpec(f"node{place}", place) for place in range(NODES_MAX)))


def test_a_dhcp_network_is_read() -> None:
    """`VID=CIDR` gives a server on the first address and a range from .100 to .200."""
    network = parse_dhcp("2012=192.168.1.0/24")
    assert network == DhcpNetwork(2012, "192.168.1.0/24")
    assert (network.server, network.range) == ("192.168.1.1/24", ("192.168.1.100", "192.168.1.200"))


def test_a_small_dhcp_network_keeps_its_range_inside() -> None:
    """In a /25 the range ends before the broadcast address."""
    assert parse_dhcp("30=10.0.0.0/25").range == ("10.0.0.100", "10.0.0.120")


@pytest.mark.parametrize(
    "text",
    ["", "1=10.0.0.0/24", "4095=10.0.0.0/24", "x=10.0.0.0/24", "30", "30=10.0.0.1/24", "30=10.0.0.0/26"],
)
def test_a_bad_dhcp_network_is_refused(text: str) -> None:
    """What is not a VLAN id from 2 to 4094 and a network of at least a /25 is refused."""
    with pytest.raises(BadOption):
        parse_dhcp(text)


@pytest.mark.parametrize("network", ["172.31.0.0/16", "192.168.0.0/16"])
def test_the_management_switch_keeps_its_networks(network: str) -> None:
    """A DHCP network that overlaps one of the management switch is refused."""
    with pytest.raises(BadOption, match="overlaps"):
        parse_dhcp(f"30={network}")


@pytest.mark.parametrize("name", ["", "Node1", "-a", "a-", "a/b", "..", "a" * 33, "a\n"])
def test_a_bad_node_name_is_refused(name: str) -> None:
    """A name that could not be a host's and a directory's is refused."""
    with pytest.raises(BadOption):
        check_node_name(name)

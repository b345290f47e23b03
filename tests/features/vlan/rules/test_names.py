"""Names on a node."""

import uuid

from hypothesis import example, given
from hypothesis import strategies as st

from lanloom.api.linknames import interface_name
from lanloom.api.names import CLUSTER_NETWORK_NAME_MAX, LINK_NAME_MAX
from lanloom.features.vlan.rules.desired.names import (
    node_label,
    parse_profile_file,
    profile_file,
    profile_uuid,
    report_name,
)

NETWORKS = st.from_regex(rf"[a-z0-9]([-a-z0-9]{{0,{CLUSTER_NETWORK_NAME_MAX - 2}}}[a-z0-9])?", fullmatch=True)
VIDS = st.integers(2, 4094)
NODES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]{1,60}){0,3}", fullmatch=True)


@given(NETWORKS, VIDS)
@example("cluster-1", 2012)
@example("c" * 12, 4094)
def test_an_interface_name_is_a_link_s_name(network: str, vid: int) -> None:
    """It has at most 15 characters, tells the VLAN id, and is the readable form where that fits."""
    name = interface_name(network, vid)
    assert len(name) <= LINK_NAME_MAX
    assert name.endswith(f".{vid}")
    assert name == f"{network}-br.{vid}" or len(f"{network}-br.{vid}") > LINK_NAME_MAX
    assert name == interface_name(network, vid)


@given(NETWORKS, VIDS, VIDS)
def test_vlans_of_a_network_have_different_names(network: str, left: int, right: int) -> None:
    """Two VLANs of a cluster network never share an interface name."""
    assert (interface_name(network, left) == interface_name(network, right)) == (left == right)


def test_usual_networks_have_different_names() -> None:
    """A hundred cluster networks that begin alike have different interface names."""
    names = {interface_name(f"cluster-{number}", 2012) for number in range(100)}
    assert len(names) == 100


def test_documented_names() -> None:
    """The names that the documentation shows."""
    assert interface_name("cluster-1", 2012) == "clust-4afb.2012"
    assert interface_name("mgmt", 2014) == "mgmt-br.2014"
    assert profile_file("cluster-1", 2012) == "cluster-1-vlan2012.nmconnection"


@given(NETWORKS, VIDS)
def test_a_profile_s_file_tells_its_vlan(network: str, vid: int) -> None:
    """Cluster network and VLAN id can be read back from the name of a profile's file."""
    assert parse_profile_file(profile_file(network, vid)) == (network, vid)


def test_other_files_tell_nothing() -> None:
    """Files of another form are no VLAN's."""
    for name in (
        "office.nmconnection",
        "-vlan1.nmconnection",
        "a-vlan01.nmconnection",
        "a-vlan1.nmconnection.tmp",
    ):
        assert parse_profile_file(name) is None


@given(st.tuples(NODES, NODES, NETWORKS, VIDS), st.tuples(NODES, NODES, NETWORKS, VIDS))
def test_a_uuid_belongs_to_one_profile(
    left: tuple[str, str, str, int], right: tuple[str, str, str, int]
) -> None:
    """Cluster, node, cluster network and VLAN id together decide a profile's UUID."""
    assert (profile_uuid(*left) == profile_uuid(*right)) == (left == right)
    assert uuid.UUID(profile_uuid(*left)).version == 5


@given(NETWORKS, NODES, NETWORKS, NODES)
@example("a", "b-c", "a-b", "c")
@example("a", "n" * 250 + "1", "a", "n" * 250 + "2")
def test_a_report_s_name_belongs_to_one_node_and_network(
    network: str, node: str, other: str, other_node: str
) -> None:
    """Names of reports are DNS names and differ wherever cluster network or node do."""
    name = report_name(network, node)
    assert len(name) <= 253
    assert ".-" not in name
    assert (name == report_name(other, other_node)) == ((network, node) == (other, other_node))


@given(NODES)
def test_a_node_s_label_is_a_label(node: str) -> None:
    """A node's name as a label has at most 63 characters and is the name itself where that fits."""
    label = node_label(node)
    assert len(label) <= 63
    assert label == node or len(node) > 63
    assert label[0].isalnum()
    assert label[-1].isalnum()

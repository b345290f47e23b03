"""The ClusterNetwork that the name of a bridge implies, and what it must not have."""

import msgspec
import pytest

from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VlanConfig
from lanloom.dummy.rules.harvester import cluster_network_body, implied_cluster_network, uplink_fault
from tests.dummy.rules.made import UID, isolated


def test_a_cluster_network_is_marked() -> None:
    """The ClusterNetwork of a bridge says for whom it was made, and has no uplink."""
    body = cluster_network_body(isolated(), "dummy")
    made = msgspec.convert(body, CLUSTER_NETWORKS.type)
    assert (made.metadata.name, made.metadata.labels) == ("dummy", {UID_LABEL: UID})
    assert "spec" not in body


@pytest.mark.parametrize(
    ("bridge", "implied"),
    [
        ("dummy-br", "dummy"),
        ("abcdefghijkl-br", "abcdefghijkl"),
        ("br-dummy", ""),
        ("br0", ""),
        ("-br", ""),
        ("Dummy-br", ""),
        ("a_b-br", ""),
        ("a--br", ""),
        ("a-br-br", "a-br"),
    ],
)
def test_a_bridge_s_name_implies_a_cluster_network(bridge: str, implied: str) -> None:
    """`<name>-br` implies `<name>`, where a ClusterNetwork can be called so."""
    assert implied_cluster_network(bridge) == implied


def config(name: str, cluster_network: str) -> VlanConfig:
    """A VlanConfig that gives a cluster network an uplink."""
    raw = {"metadata": {"name": name}, "spec": {"clusterNetwork": cluster_network}}
    return msgspec.convert(raw, VLAN_CONFIGS.type)


def test_a_bridge_with_an_uplink_is_not_isolated() -> None:
    """A ClusterNetwork with VlanConfigs is refused, and the message names them; others do not matter."""
    configs = [config("two", "dummy"), config("one", "dummy"), config("three", "other")]
    assert "dummy-br, the bridge of ClusterNetwork dummy, which has an uplink by VlanConfig one, two;" in (
        uplink_fault("dummy-br", configs)
    )
    assert not uplink_fault("dummy-br", [config("three", "other")])
    assert not uplink_fault("br0", [config("three", "")])
    assert " and 4 more;" in uplink_fault("dummy-br", [config(f"c{number}", "dummy") for number in range(9)])

"""The revision of a configuration: of what nodes have, and of nothing that agents do not see."""

from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork
from lanloom.features.vlan.rules.rollout.policy import (
    may_carry,
    revision,
)
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    vlan_config,
)
from tests.features.vlan.rules.rolling import NEW

POLICY = {names.ROLLOUT: "{}"}
L3_KEY = names.PREFIX + "mode-default-x"


def revision_of(*objects: dict[str, Any], annotations: dict[str, str] | None = None) -> str:
    """The revision of cluster-1 with these objects."""
    cluster = cluster_of(objects)
    return revision(POLICY if annotations is None else annotations, cluster.configs, cluster.nads)


def test_a_revision_is_of_what_nodes_carry() -> None:
    """Uplinks, networks and addresses make another revision; their order, and what is of no network, does not."""
    config, network, other = vlan_config("a", "cluster-1"), nad("x", "cluster-1", 5), nad("y", "cluster-1", 6)
    base = revision_of(config, network)
    assert revision_of(config, other, network) == revision_of(other, network, config)
    assert revision_of(config, network, annotations=POLICY | {"example.org/note": "mine"}) == base
    others = {
        revision_of(config),
        revision_of(network),
        revision_of(config, network, other),
        revision_of(vlan_config("a", "cluster-1", nics=("eth2",)), network),
        revision_of(config, nad("x", "cluster-1", 6)),
        revision_of(config, network, annotations=POLICY | {L3_KEY: "dhcp"}),
    }
    assert len(others | {base}) == 7


def test_what_agents_do_not_see_does_not_count() -> None:
    """Objects that are being deleted are gone, and a NAD without its label is none, for the manager as for agents."""
    config, network, bare = vlan_config("a", "cluster-1"), nad("x", "cluster-1", 5), nad("y", "cluster-1", 6)
    del bare["metadata"]["labels"]
    gone = nad("z", "cluster-1", 7)
    leaving = vlan_config("b", "cluster-1")
    for item in (gone, leaving):
        item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert revision_of(config, network, bare, gone, leaving) == revision_of(config, network)


def test_without_a_policy_there_is_no_revision() -> None:
    """A revision in every report would make a change for one node cost a write by each."""
    assert revision_of(vlan_config("a", "cluster-1"), annotations={L3_KEY: "dhcp"}) == ""


def network_with(**annotations: str) -> ClusterNetwork:
    """cluster-1 with these annotations."""
    named = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return cluster_of([cluster_network("cluster-1", **named)]).networks[0]


@pytest.mark.parametrize(
    ("network", "node1", "node2"),
    [
        (network_with(), True, True),
        (network_with(rollout="{}"), False, False),
        (network_with(rollout="{", rollout_state='{"revision": "new", "released": ["node1"]}'), True, False),
        (network_with(rollout="{}", rollout_state='{"revision": "new", "released": ["*"]}'), True, True),
        (
            network_with(rollout="{}", rollout_state='{"revision": "new", "released": ["n..node1"]}'),
            True,
            False,
        ),
        (network_with(rollout="{}", rollout_state='{"revision": "old", "released": ["*"]}'), False, False),
        (network_with(rollout="{}", rollout_state="{"), False, False),
        (network_with(rollout="{}", rollout_state="[" * 100_000), False, False),
    ],
    ids=["no policy", "no state", "released", "all", "a range", "another revision", "broken", "hostile"],
)
def test_who_may_carry_it(network: ClusterNetwork, node1: bool, node2: bool) -> None:
    """Under a policy only who is released for the present revision; none by a state that can't be read."""
    assert (may_carry(network, "node1", NEW), may_carry(network, "node2", NEW)) == (node1, node2)

"""`lanloom harvester` as its users call it, and what `doctor` says before and after."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lanloom.api import core, names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.features.vlan.checks import check as check_harvester
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.cli.cluster import Cluster, served
from tests.embedded.engine.running import running_engine
from tests.features.vlan.cluster import cluster_network, node, vlan_config

pytestmark = pytest.mark.slow

FINALIZER = f"{names.HARVESTER_FINALIZERS}manager-node-controller"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A node and a VlanConfig that Harvester's controller left with its finalizers, and no processes of Lanloom."""
    with served(tmp_path) as made:
        made.do(_fill)
        yield made


def left_behind(body: dict[str, Any]) -> dict[str, Any]:
    """The object with a finalizer of that controller, and one of another controller."""
    return {**body, "metadata": {**body["metadata"], "finalizers": [FINALIZER, "example.com/hold"]}}


async def _fill(client: Client) -> None:
    await client.create(core.NODES, left_behind(node("node1", ready=True)))
    await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    await client.create(VLAN_CONFIGS, left_behind(vlan_config("one", "cluster-1")))


async def _finalizers(client: Client) -> list[tuple[str, ...]]:
    found = (await client.get(core.NODES, "node1"), await client.get(VLAN_CONFIGS, "one"))
    return [item.metadata.finalizers for item in found]


async def test_a_cluster_without_kinds_of_harvester() -> None:
    """Where the kinds are not installed, doctor names them, and not objects of them."""
    async with running_engine() as engine:
        assert await check_harvester(LocalClient(engine)) == ()


def test_adopt(cluster: Cluster) -> None:
    """A dry run shows what a run does; the finalizers of others stay, and doctor is content afterwards."""
    (check,) = cluster.do(check_harvester)
    assert (check.result, "Node node1" in check.found) == ("failed", True)
    assert "lanloom harvester adopt" in check.remedy
    dry = cluster.lanloom("harvester", "adopt", "--dry-run", columns=120)
    assert dry.exit_code == 3
    assert "~ Node node1: without the finalizers of Harvester's network controller" in dry.output
    assert "Nothing was changed." in dry.output
    assert cluster.do(_finalizers) == [(FINALIZER, "example.com/hold")] * 2
    done = cluster.lanloom("harvester", "adopt", "--output", "json")
    assert done.exit_code == 0
    assert {item["object"] for item in json.loads(done.output)["done"]} == {"Node node1", "VlanConfig one"}
    assert cluster.do(_finalizers) == [("example.com/hold",)] * 2
    assert cluster.lanloom("harvester", "adopt").output == "Nothing is left to do.\n"
    (check,) = cluster.do(check_harvester)
    assert check.result == "ok"


def test_hand_over_checks_first(cluster: Cluster) -> None:
    """VlanConfigs that Harvester's webhook would refuse are named with the remedy, and nothing is written."""
    large = vlan_config("large", "cluster-1", uplink={"linkAttributes": {"mtu": 9000}})
    cluster.do(lambda client: client.create(VLAN_CONFIGS, large))
    done = cluster.lanloom("harvester", "hand-over", columns=300)
    assert done.exit_code == 1
    assert "large has 9000, one has 0" in done.output
    found = cluster.do(lambda client: client.get(VLAN_CONFIGS, "large"))
    assert names.CLUSTER_NETWORK_LABEL not in found.metadata.labels


def test_hand_over_waits(cluster: Cluster) -> None:
    """What can be done without the controller is done, and what it waits for is reported with the remedy."""
    done = cluster.lanloom("harvester", "hand-over", columns=300)
    assert done.exit_code == 3
    assert "VlanConfig one: changed (has the label that Harvester's webhook asks for)" in done.output
    assert "harvester-network-controller.enabled: true" in done.output

"""`lanloom vlan` as its users call it."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml

from lanloom.api import core, names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork, VlanConfig
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.report.status import L3_READY, READY
from lanloom.features.vlan.views import read_objects
from lanloom.kube.conditions import find
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config
from tests.features.vlan.views.fixture import (
    NODES,
    STATIC,
    interface,
    report,
)
from tests.harness.servers.eventually import eventually

pytestmark = pytest.mark.slow

FAILED = interface(
    "node3",
    state="Failed",
    address="",
    reason="DuplicateAddress",
    message="another host has 192.168.1.12; choose another address",
)
REPORTS = (*(report(name, interface(name)) for name in NODES[:2]), report("node3", FAILED))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes, cluster-1 on all of them, and static addresses on its VLAN 2012; its manager is at rest."""
    with served(tmp_path, manager=True) as made:
        made.do(_fill)
        yield made


async def _fill(client: Client) -> None:
    for index, name in enumerate(NODES):
        await client.create(core.NODES, node(name, address=f"10.0.0.{index + 1}"))
    await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    await client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
    # Before the reports: those of nodes that the manager has not seen would be deleted.
    await eventually(partial(client.get, VLAN_CONFIGS, "one"), _matches_all_nodes)
    for each in REPORTS:
        await _write_report(client, each)
    # Before the NAD: the label of one that came earlier would follow ten seconds later.
    await eventually(partial(client.get, CLUSTER_NETWORKS, "cluster-1"), _is_ready)
    body = nad("vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC)
    await client.create(NADS, body, "default")
    await _settled(client)


async def _write_report(client: Client, report: ClusterNetworkNode) -> None:
    """Write a node's report, as its agent would."""
    metadata = {"name": report.metadata.name, "labels": report.metadata.labels}
    await client.create(CLUSTER_NETWORK_NODES, {"metadata": metadata})
    status = {"status": msgspec.to_builtins(report.status)}
    await client.patch(CLUSTER_NETWORK_NODES, report.metadata.name, status, subresource="status")


def _matches_all_nodes(config: VlanConfig) -> bool:
    text = config.metadata.annotations.get(names.MATCHED_NODES, "[]")
    return set(msgspec.json.decode(text)) == set(NODES)


def _is_ready(network: ClusterNetwork) -> bool:
    found = find(network.status.conditions, READY)
    return found is not None and found.status == "True"


async def _settled(client: Client) -> None:
    """Waits until the manager has written all that it derives."""

    async def is_written() -> bool:
        network = await client.get(CLUSTER_NETWORKS, "cluster-1")
        labels = (await client.get(NADS, "vlan2012", "default")).metadata.labels
        derived = any("l3connectivity" in key for key in network.metadata.annotations)
        reported = find(network.status.conditions, L3_READY) is not None
        return derived and reported and labels.get(names.READY_LABEL) == "true"

    await eventually(is_written, bool)


def test_list(cluster: Cluster) -> None:
    """The list has a row for the network with its count and reason, names the remedy, and exits with 1."""
    done = cluster.lanloom("vlan", "list")
    row = next(line for line in done.output.splitlines() if "2012" in line)
    assert row.split() == ["default/vlan2012", "cluster-1", "2012", "static", "2/3", "DuplicateAddress"]
    assert "choose another address" in " ".join(done.output.split())
    assert max(map(len, done.output.splitlines())) <= 80
    assert done.exit_code == 1
    (data,) = json.loads((cluster.lanloom("vlan", "list", "--output", "json")).output)
    assert (data["network"], data["ready"], data["total"]) == ("default/vlan2012", 2, 3)


def test_show(cluster: Cluster) -> None:
    """A NAD and its cluster network are shown with each node's address, state and remedy."""
    done = cluster.lanloom("vlan", "show", "vlan2012")
    row = next(line for line in done.output.splitlines() if "node1" in line)
    assert row.split() == ["node1", "clust-4afb.2012", STATIC["node1"], "Ready"]
    assert "node3: another host has 192.168.1.12" in done.output
    assert done.exit_code == 1
    whole = cluster.lanloom("vlan", "show", "cluster-1")
    assert "cluster-1-bo" in whole.output
    assert STATIC["node2"] in whole.output
    for text in (done.output, whole.output):
        assert max(map(len, text.splitlines())) <= 80
    status = cluster.lanloom("status")
    assert status.output.endswith("For details of one network, run `lanloom vlan show cluster-1`.\n")
    data = json.loads((cluster.lanloom("vlan", "show", "cluster-1", "-o", "json")).output)
    assert [node["node"] for node in data["nodes"]] == list(NODES)


def test_an_unknown_name(cluster: Cluster) -> None:
    """A name that nothing has is answered with the names that there are; a shell completes them."""
    done = cluster.lanloom("vlan", "show", "nonsense")
    assert done.exit_code == 1
    assert done.stderr == "Error: network nonsense does not exist; there are cluster-1, default/vlan2012\n"


def test_completion(cluster: Cluster) -> None:
    """A shell completes the names of networks from the cluster."""
    assert cluster.offered("lanloom vlan show cl") == ["plain,cluster-1"]


CHANGES = (
    nad("vlan2013", "cluster-1", 2013, mode="dhcp"),
    vlan_config("one", "cluster-1", nics=("eth1", "eth2"), uplink={"linkAttributes": {"mtu": 9000}}),
)


def test_plan(cluster: Cluster, tmp_path: Path) -> None:
    """A plan names each change of each node, exits with 3, and changes nothing."""
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all(CHANGES))
    before = cluster.do(read_objects)
    done = cluster.lanloom("vlan", "plan", "-f", str(manifest))
    assert done.exit_code == 3
    lines = done.output.splitlines()
    assert lines[:2] == [
        "+ NetworkAttachmentDefinition default/vlan2013: created",
        "~ VlanConfig one: changed",
    ]
    assert "cluster-1 on node1, node2, node3" in lines
    assert "  ~ MTU of cluster-1-bo and cluster-1-br: 1500 → 9000" in lines
    assert "  + VLAN ids 2013 of cluster-1-br" in lines
    assert max(map(len, lines)) <= 80
    data = json.loads((cluster.lanloom("vlan", "plan", "-f", str(manifest), "-o", "json")).output)
    assert [node["node"] for node in data["nodes"]] == list(NODES)
    assert cluster.do(read_objects) == before


def test_plans_exit_codes(cluster: Cluster) -> None:
    """0 where no node would change, 1 for what would be refused or can't be read, 2 for wrong usage."""
    body = yaml.safe_dump(
        {"apiVersion": NADS.api_version, "kind": NADS.kind, "metadata": {"name": "vlan2012"}}
    )
    unchanged = cluster.lanloom("vlan", "plan", "-f", "-", given=body)
    assert unchanged.exit_code == 0
    assert "No node would change." in unchanged.output
    twin = yaml.safe_dump(nad("twin", "cluster-1", 2012, mode="dhcp"))
    refused = cluster.lanloom("vlan", "plan", "-f", "-", given=twin)
    assert refused.exit_code == 1
    assert "only one network per VLAN can have node addresses" in " ".join(refused.output.split())
    unreadable = cluster.lanloom("vlan", "plan", "-f", "-", given="a: [")
    assert unreadable.exit_code == 1
    assert unreadable.stderr.startswith("Error: standard input is not valid YAML")
    removed = cluster.lanloom("vlan", "plan", "--delete", "-f", "-", given=body)
    assert removed.exit_code == 3
    assert (cluster.lanloom("vlan", "plan")).exit_code == 2
    assert (cluster.lanloom("vlan", "plan", "-f", "/nowhere")).exit_code == 2

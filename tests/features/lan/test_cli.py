"""`lanloom lan list` and `show` as their users call them, on a server with a manager."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import Result

from lanloom.api.core import NODES, PODS
from lanloom.api.lan import LAN, LAN_NODES, LANS, READY
from lanloom.api.multus import MULTUS_NETWORKS
from lanloom.kube.conditions import find
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.lan.samples import entry

pytestmark = pytest.mark.slow

Raw = dict[str, Any]

SPEC = {"ns": "blue", "bridge": "br0", "vxlan": "vx0", "vni": 222, "defaultVxlanDev": "eth0"}


async def reaches(client: Client, name: str, reason: str) -> LAN:
    """The LAN, as soon as the manager says so."""
    async with asyncio.timeout(30):
        while True:
            lan = await client.get(LANS, name, "default")
            ready = find(lan.status.conditions, READY)
            if ready is not None and ready.reason == reason:
                return lan
            await asyncio.sleep(0.05)


async def fill(client: Client) -> None:
    """A LAN on two nodes, one that no node carries, and one that is being deleted and used."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for name in ("node1", "node2"):
        await client.create(NODES, {"metadata": {"name": name}})
        await client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")
    blue = await client.create(
        LANS, {"metadata": {"name": "blue"}, "spec": SPEC | {"spokes": ["web", "db"]}}, "default"
    )
    own: Raw = {"ns": "red", "vni": 223, "spokes": ["x"], "replication": "multicast"}
    own |= {"portSecurity": True, "maxLearnedMacs": 20, "mtu": 1400}
    own |= {
        "spokeOptions": {"x": {"isolated": True, "portSecurity": False, "maxLearnedMacs": 3, "mtu": 1300}}
    }
    await client.create(LANS, {"metadata": {"name": "red"}, "spec": SPEC | own}, "default")
    entries = [
        entry(blue, mtu=8950),
        entry(blue, address="10.0.0.2", ready=False, message="eth0 is down", spokes=()),
    ]
    for name, item in zip(("node1", "node2"), entries, strict=True):
        await client.create(LAN_NODES, {"metadata": {"name": name}})
        eth0 = {"name": "eth0", "mtu": 1500, "addresses": ["IPv4", "IPv6-link-local"]}
        status = {"lans": [msgspec.to_builtins(item)], "underlays": [eth0]}
        await client.patch(LAN_NODES, name, {"status": status}, subresource="status")
    await reaches(client, "blue", "NodesNotReady")
    await reaches(client, "red", "Ready")
    going = {"ns": "going", "vni": 224, "spokes": ["g"]}
    await client.create(LANS, {"metadata": {"name": "going"}, "spec": SPEC | going}, "default")
    await reaches(client, "going", "Ready")
    meta = {"name": "user", "annotations": {MULTUS_NETWORKS: "k8slan-veth-g"}}
    await client.create(
        PODS, {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "x"}]}}, "default"
    )
    await client.delete(LANS, "going", "default")
    await reaches(client, "going", "DeletionBlocked")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with these LANs."""
    with served(tmp_path_factory.mktemp("served"), manager=True) as made:
        made.do(fill)
        yield made


def is_tidy(done: Result) -> bool:
    """Whether nothing is wider than the terminal."""
    return max(map(len, done.output.splitlines())) <= 80


def row(done: Result, name: str) -> list[str]:
    """The words of the row of a LAN."""
    return next(line.split() for line in done.output.splitlines() if line.split()[1:2] == [name])


def test_list(cluster: Cluster) -> None:
    """Each LAN has a row with its reason, nodes, MTU and spokes; the first that is not ready is explained."""
    done = cluster.lanloom("lan", "list")
    assert row(done, "blue") == ["default", "blue", "NodesNotReady", "222", "1/2", "1450", "1/2"]
    assert row(done, "red") == ["default", "red", "Ready", "223", "0/0", "-", "0/1"]
    assert "default/blue: NodesNotReady: node2: eth0 is down" in done.output
    assert is_tidy(done)
    assert done.exit_code == 1


def test_counters(cluster: Cluster) -> None:
    """Each node whose agent tells nothing is named; the command fails then, and JSON has the same."""
    done = cluster.lanloom("lan", "counters", "blue")
    assert "node1: no agent of LANs runs there as a pod" in done.output and done.exit_code == 1
    data = json.loads(cluster.lanloom("lan", "counters", "blue", "-o", "json").output)
    assert (data["lan"], data["spokes"], [item["node"] for item in data["silent"]]) == (
        "default/blue",
        [],
        ["node1"],
    )
    assert cluster.lanloom("lan", "counters", "red").exit_code == 0
    assert "there is no LAN" in cluster.lanloom("lan", "counters", "none").output


def test_list_for_programs(cluster: Cluster) -> None:
    """JSON has everything; fields are chosen as everywhere."""
    data = {item["name"]: item for item in json.loads(cluster.lanloom("lan", "list", "-o", "json").output)}
    assert [node["address"] for node in data["blue"]["nodes"]] == ["10.0.0.1", "10.0.0.2"]
    assert data["going"]["users"] == ["Pod default/user"]
    done = cluster.lanloom("lan", "list", "-o", "name,replication", "--no-headers", "--separator=:")
    assert "red:multicast" in done.output.splitlines()


def test_show(cluster: Cluster) -> None:
    """One LAN shows its nodes, its spokes with their NADs, and what happened to it."""
    done = cluster.lanloom("lan", "show", "default/blue")
    for text in (
        "VNI 222 at port 4789",
        "underlay eth0; MTU 1450, as node2 allows no more",
        "k8slan-veth-web",
        "k8slan-mac-db",
        "node1",
    ):
        assert text in done.output
    assert "eth0 is down" in done.output
    assert is_tidy(done)
    assert done.exit_code == 1
    assert cluster.lanloom("lan", "show", "red").exit_code == 0


def test_show_options(cluster: Cluster) -> None:
    """One LAN shows its own options, and for each spoke those that hold for it."""
    done = cluster.lanloom("lan", "show", "red")
    words = " ".join(done.output.split())
    assert "port security, at most 20 learned MAC addresses on each node, interfaces with MTU 1400" in words
    data = json.loads(cluster.lanloom("lan", "show", "red", "-o", "json").output)
    assert data["spokes"][0]["options"] == "isolated, 3 MACs, MTU 1300"
    assert is_tidy(done)


def test_show_what_does_not_exist(cluster: Cluster) -> None:
    """A name that no LAN has is answered with those that there are."""
    done = cluster.lanloom("lan", "show", "green")
    assert 'there is no LAN "green"; there are default/blue, default/going, default/red' in done.output
    assert done.exit_code == 1


def test_what_keeps_a_lan(cluster: Cluster) -> None:
    """A LAN that is being deleted names its users, in `show` and in `why-not-deleted`, with the remedy."""
    done = cluster.lanloom("lan", "show", "going")
    assert "Kept by" in done.output and "Pod default/user" in done.output
    assert "lanloom why-not-deleted lan/default/going" in done.output
    why = cluster.lanloom("why-not-deleted", "lan/default/going")
    assert "Pod default/user" in why.output
    assert "lanloom.io/force-delete" in why.output
    nad = cluster.lanloom("why-not-deleted", "nad/default/k8slan-veth-g")
    assert "belongs to LAN" in nad.output

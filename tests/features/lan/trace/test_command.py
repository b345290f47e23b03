"""`lanloom lan trace` as its users call it, on a server with a manager."""

import json
from collections.abc import Iterator

import msgspec
import pytest

from lanloom.api.core import NODES, PODS
from lanloom.api.lan import LAN_NODES, LANS, Spoke
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.lan.samples import entry

pytestmark = pytest.mark.slow

SPEC = {"ns": "blue", "bridge": "br0", "vxlan": "vx0", "vni": 222, "defaultVxlanDev": "eth0"}


async def start(client: Client, name: str, spoke: str, node: str) -> None:
    """A pod that runs on a node at a spoke."""
    nad = f"k8slan-veth-{spoke}"
    interfaces = [{"name": f"default/{nad}", "interface": "net1", "mac": f"02:00:00:00:00:0{node[-1]}"}]
    annotations = {MULTUS_NETWORKS: f"{nad}@net1", NETWORK_STATUS: json.dumps(interfaces)}
    meta = {"name": name, "annotations": annotations}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
    await client.create(PODS, {"metadata": meta, "spec": spec}, "default")
    await client.patch(PODS, name, {"status": {"phase": "Running"}}, "default", subresource="status")


async def fill(client: Client) -> None:
    """A LAN with a pod on each of two nodes; a third node has an endpoint of another IP version."""
    blue = await client.create(
        LANS, {"metadata": {"name": "blue"}, "spec": SPEC | {"spokes": ["web", "db", "old", "vm"]}}, "default"
    )
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    addresses = {"web": "10.115.0.11", "db": "10.115.0.12", "old": "2001:db8::3"}
    for number, (spoke, address) in enumerate(addresses.items(), 1):
        name = f"node{number}"
        await client.create(NODES, {"metadata": {"name": name}})
        await client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")
        item = entry(blue, address=address, spokes=(Spoke(name=spoke, mode="veth"),))
        await client.create(LAN_NODES, {"metadata": {"name": name}})
        status = {"lans": [msgspec.to_builtins(item)]}
        await client.patch(LAN_NODES, name, {"status": status}, subresource="status")
        await start(client, spoke, spoke, name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with this LAN."""
    with served(tmp_path_factory.mktemp("served"), manager=True) as made:
        made.do(fill)
        yield made


def test_passes(cluster: Cluster) -> None:
    """The hops between two pods are shown, with the unseen ones."""
    done = cluster.lanloom("lan", "trace", "blue", "--from", "default/web", "--to", "default/db")
    assert "LAN default/blue: from Pod default/web to Pod default/db" in done.output
    assert "Nothing is known to stop the frame. Not seen: hop 8." in done.output
    assert "--live" in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    assert done.exit_code == 0


def test_stops(cluster: Cluster) -> None:
    """The hop where the frame stops is named with the reason, and the exit code tells programs."""
    done = cluster.lanloom("lan", "trace", "blue", "--from", "web", "--to", "old", columns=200)
    assert "The frame stops at hop 5, vxlan vx0 on node1: node3 has the endpoint 2001:db8::3" in done.output
    assert "stops here" in done.output
    assert done.exit_code == 1


def test_size(cluster: Cluster) -> None:
    """A packet that is too large stops at the first interface."""
    words = ("lan", "trace", "blue", "--from", "default/web", "--to", "default/db", "--size")
    assert "a packet of 1500 bytes" in cluster.lanloom(*words, "1500", columns=200).output
    assert cluster.lanloom(*words, "1500").exit_code == 1
    assert cluster.lanloom(*words, "1450").exit_code == 0
    assert cluster.lanloom(*words, "67").exit_code == 2


def test_for_programs(cluster: Cluster) -> None:
    """JSON has the verdict and all hops."""
    done = cluster.lanloom("lan", "trace", "blue", "--from", "web", "--to", "old", "-o", "json")
    data = json.loads(done.output)
    assert (data["lan"], data["passes"]) == ("default/blue", False)
    (stop,) = [hop for hop in data["hops"] if hop["state"] == "stops"]
    assert (stop["node"], stop["kind"], stop["name"]) == ("node1", "vxlan", "vx0")
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("words", "error", "status"),
    [
        (("green", "--from", "web", "--to", "db"), 'there is no LAN "green"; there are default/blue', 1),
        (("blue", "--from", "nil", "--to", "db"), "--from: there is no Pod default/nil", 1),
        (("blue", "--from", "A B", "--to", "db"), '--from is "A B"; give a pod as NAMESPACE/NAME', 2),
        (("blue", "--from", "web", "--to", "web"), "--from and --to are the same spoke (spoke web)", 2),
        (("blue", "--from", "web", "--to", "db", "--live"), "--live needs --node", 2),
        (
            ("blue", "--from", "web", "--to", "db", "--live", "--node", "node3"),
            '--node is "node3", but the frame passes node1, node2',
            1,
        ),
    ],
)
def test_wrong_words(cluster: Cluster, words: tuple[str, ...], error: str, status: int) -> None:
    """A wrong name is refused with what there is."""
    done = cluster.lanloom("lan", "trace", *words, columns=200, environment={"NODE_NAME": ""})
    assert error in done.output
    assert done.exit_code == status


def test_completion(cluster: Cluster) -> None:
    """A shell is offered the spokes and pods of the LAN."""
    offered = cluster.offered("lanloom lan trace blue --from d")
    assert offered == [f"plain,{name}" for name in ("db", "default/db", "default/old", "default/web")]

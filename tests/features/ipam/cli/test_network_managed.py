"""The specification's commands on a server with webhooks, which judge each change again, and on Kubernetes."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lanloom.api.core import CRDS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS, NicSpec
from lanloom.api.lan import LANS
from lanloom.features.ipam.state import read_state
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from tests.cli.cluster import Cluster, served
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

pytestmark = pytest.mark.slow

COMMANDS = (
    "add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.100,name=pool1 net1",
    "add --network 198.51.100.0/24 --gateway 198.51.100.1 net2",
    "add net-l2",
    "modify --subnet add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true net1",
    "modify --subnet add:cidr=2001::/64,gateway=2001::1,dhcp=true net1",
    "modify --subnet 2001::/64:remove net1",
    "modify --subnet 10.0.0.0/24:modify,dhcp=false,name=foo net1",
    "modify --subnet 192.0.2.0/24:modify,cidr=192.0.2.0/22 net1",
    "modify --subnet 192.0.0.0/22:modify,gateway=192.0.2.40 net1",
    "modify --pool add:10.0.0.100 net1",
    "modify --pool add:10.0.0.0/27 net1",
    "modify --subnet add:cidr=10.0.1.0/24,name=bare net1",
    "modify --pool add:subnet=bare net1",
    "modify --subnet add:cidr=10.0.2.0/27,pool net1",
    "modify --pool pool1:modify,name=bar net1",
    "modify --pool remove:192.0.2.20-192.0.2.50 net1",
    "modify --add-reserved-ips 192.0.2.20-192.0.2.50 net1",
    "modify --remove-reserved-ips 192.0.2.30-192.0.2.39,192.0.2.41-192.0.2.50 net1",
    "connect --nic-parameters mode=bridged,link=br0,vlan=100 net1 default rack1",
    "disconnect net1 rack1",
    "rename net2 Other_2",
    "tag add net1 blue",
    "tag list net1",
    "tag remove net1 blue",
    "list",
    "list-fields",
    "info net1",
    "usage net1",
    "remove net-l2",
)


CHANGES = ("add", "modify", "connect", "disconnect", "rename", "remove")
"""Those that the server judges first, and stores nothing of."""


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Cluster]:
    """A server with its manager."""
    with served(tmp_path, manager=True) as made:
        yield made


@pytest.fixture
def kubernetes(real_server: RealServer) -> Iterator[Cluster]:
    """A real kube-apiserver that knows Lanloom's kinds."""
    cluster = Cluster(real_server.kubeconfig)

    async def install(client: Client) -> None:
        for manifest in manifests():
            with suppress(AlreadyExists):
                await client.create(CRDS, manifest)
        await eventually(partial(read_state, client), lambda _: True)

    cluster.do(install)
    cluster.clear()
    yield cluster
    cluster.clear()


def test_the_whole_command_surface(managed: Cluster) -> None:
    """Every command of the specification works, and comes to the network that it describes."""
    try_surface(managed)


@pytest.mark.realserver
def test_the_whole_command_surface_on_kubernetes(kubernetes: Cluster) -> None:
    """The same commands come to the same networks on a real kube-apiserver."""
    try_surface(kubernetes)


INSTANCES = (
    "add --net 0:ip=192.0.2.4,network=net1 --no-wait inst1",
    "modify --net 0:modify,ip=192.0.2.5 --net -1:add,network=net1 --no-wait inst1",
    "rename inst1 inst2",
    "modify --net 1:remove --no-wait inst2",
    "remove --no-wait inst2",
)


def test_dry_runs_of_instances(managed: Cluster) -> None:
    """The server stores nothing of a dry run of an instance's creation, change, rename and deletion."""
    try_instances(managed)


@pytest.mark.realserver
def test_dry_runs_of_instances_on_kubernetes(kubernetes: Cluster) -> None:
    """Nor does a real kube-apiserver."""
    try_instances(kubernetes)


def try_instances(cluster: Cluster) -> None:
    """Run all commands about an instance, each after its dry run."""

    async def read(client: Client) -> dict[str, NicSpec]:
        alive = (nic for nic in (await client.list(NICS)).items if not nic.metadata.is_deleting)
        return {nic.metadata.name: nic.spec for nic in alive}

    made = cluster.lanloom("network", "add", "--subnet", "cidr=192.0.2.0/24", "net1")
    assert made.exit_code == 0, made.output
    for words in INSTANCES:
        before = cluster.do(read)
        foreseen = cluster.lanloom("instance", *words.split(), "--dry-run")
        assert foreseen.exit_code == 0, f"{words} --dry-run: {foreseen.output}"
        assert cluster.do(read) == before
        done = cluster.lanloom("instance", *words.split())
        assert done.exit_code == 0, f"{words}: {done.output}"
        assert cluster.do(read) != before


def test_a_note_that_the_server_makes_too(managed: Cluster) -> None:
    """What a webhook warns of is not told once more by the command, in a dry run either."""
    for words in (
        "network add --subnet cidr=192.0.2.0/24,pool net1",
        "instance add --net 0:ip=pool,network=net1 inst1",
    ):
        assert managed.lanloom(*words.split()).exit_code == 0
    for dry in (["--dry-run"], []):
        done = managed.lanloom("network", "modify", "--pool", "192.0.2.0/24:remove", *dry, "net1")
        assert done.exit_code == 0, done.output
        (line,) = done.stderr.splitlines()
        assert line.startswith("Warning: NICs keep addresses that are no longer in pool")


def try_surface(cluster: Cluster) -> None:
    """Run all commands, and look at what came of them."""
    for words in COMMANDS:
        if words.partition(" ")[0] in CHANGES:
            foreseen = cluster.lanloom("network", *words.split(), "--dry-run")
            assert foreseen.exit_code == 0, f"{words} --dry-run: {foreseen.output}"
        done = cluster.lanloom("network", *words.split())
        assert done.exit_code == 0, f"{words}: {done.output}"
    (found, other) = json.loads(
        cluster.lanloom("network", "info", "--output", "json", "net1", "Other_2").stdout
    )
    assert [subnet["cidr"] for subnet in found["subnets"]] == [
        "192.0.0.0/22",
        "10.0.0.0/24",
        "10.0.1.0/24",
        "10.0.2.0/27",
    ]
    assert [[(pool["start"], pool["end"]) for pool in pools] for pools in found["pools"]] == [
        [("192.0.2.10", "192.0.2.19"), ("192.0.2.51", "192.0.2.100")],
        [("10.0.0.0", "10.0.0.31"), ("10.0.0.100", "10.0.0.100")],
        [("10.0.1.0", "10.0.1.255")],
        [("10.0.2.0", "10.0.2.31")],
    ]
    assert found["external_reservations"][:3] == ["192.0.0.0", "192.0.2.20-192.0.2.29", "192.0.2.40"]
    assert found["group_list"] == [["default", "bridged", "br0", "100"]]
    assert (other["network"], other["free_count"]) == ("198.51.100.0/24", 253)


LAN = {"ns": "blue", "bridge": "br0", "vxlan": "vx0", "vni": 222, "defaultVxlanDev": "eth0", "spokes": ["a"]}
ISOLATED: dict[str, object] = {"bridgeName": "iso-br", "nadName": "iso", "nadNamespace": "default"}


@pytest.mark.parametrize("owner", ["LAN default/blue", "DummyClusterNetwork iso"])
def test_a_network_of_another_object(managed: Cluster, owner: str) -> None:
    """The Network of a LAN or an isolated network is changed with that one; what is added to it stays."""

    async def made(client: Client) -> str:
        if owner.startswith("LAN"):
            spec: dict[str, object] = LAN | {"subnets": [{"cidr": "10.7.0.0/24"}]}
            await client.create(LANS, {"metadata": {"name": "blue"}, "spec": spec}, "default")
        else:
            spec = dict(ISOLATED) | {"subnet": "10.7.0.0/24"}
            await client.create(DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": "iso"}, "spec": spec})
        found = await eventually(partial(client.list, NETWORKS), lambda networks: bool(networks.items))
        return found.items[0].metadata.name

    name = managed.do(made)
    for more in (["--dry-run"], []):
        refused = managed.lanloom("network", "modify", "--pool", "remove:10.7.0.9", *more, name)
        assert refused.exit_code == 1, refused.output
        assert f"spec.subnets follows from {owner}" in refused.stderr
    added = managed.lanloom("network", "modify", "--add-reserved-ips", "10.7.0.9", name)
    assert added.exit_code == 0, added.output
    removed = managed.lanloom("network", "remove", "--dry-run", name)
    assert f"Warning: Network {name} belongs to {owner}" in removed.stderr
    asked = managed.lanloom("why-not-deleted", f"network/{name}")
    assert (asked.exit_code, asked.stderr) == (0, ""), "a question warns of nothing"

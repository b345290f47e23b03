"""Others on the wires of networks, for users of commands: with the whole manager and its webhooks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom.api.core import NODES
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.multus import NADS
from lanloom.kube.errors import Forbidden
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.ipam.ganeti.formats.clusters import config, instance, network, nic
from tests.features.ipam.manager.wirecluster import Raw, nad_body

pytestmark = pytest.mark.slow


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Cluster]:
    """A server with its manager."""
    with served(tmp_path, manager=True) as made:
        yield made


def test_overlaps_on_a_wire(managed: Cluster) -> None:
    """A command prints what the webhooks warn of, and a dry run is refused and warned of as the command is."""

    async def join(client: Client) -> None:
        for number in (1, 2):
            ipam = {"type": "lanloom-ipam", "network": f"net{number}"}
            config = {"type": "macvlan", "master": "wan", "ipam": ipam}
            await client.create(NADS, nad_body(f"nad{number}", config, {}), "default")

    for number in (1, 2):
        added = managed.lanloom("network", "add", "--subnet", f"cidr=10.{number}.0.0/24,pool", f"net{number}")
        assert added.exit_code == 0, added.output
    managed.do(join)
    for pool, code, told in ((",pool", 1, "Error: "), ("", 0, "Warning: Network net2: ")):
        for more in (["--dry-run"], []):
            words = ("network", "modify", "--subnet", f"add:cidr=10.1.0.0/16{pool}", *more, "net2")
            done = managed.lanloom(*words)
            assert done.exit_code == code, done.output
            assert done.stderr.startswith(told)
            assert "overlap on " in done.stderr


def test_the_nodes_own_addresses(managed: Cluster) -> None:
    """Of a network that contains the nodes, no instance gets a node's address by itself, nor by name without force."""

    async def join(client: Client) -> None:
        for number in (1, 2):
            name, address = f"node{number}", f"172.31.255.1{number}"
            status = {"addresses": [{"type": "InternalIP", "address": address}]}
            await client.create(NODES, {"metadata": {"name": name}})
            await client.patch(NODES, name, {"status": status}, subresource="status")

    async def given(client: Client) -> set[str]:
        return {ip for nic in (await client.list(NICS)).items for ip in nic.status.ips}

    managed.do(join)
    subnet = ("--subnet", "cidr=172.31.255.0/24,gateway=172.31.255.1", "--pool", "172.31.255.0/24")
    assert managed.lanloom("network", "add", *subnet, "mgmtnet").exit_code == 0

    refused = managed.lanloom("instance", "add", "--net", "0:ip=172.31.255.11,network=mgmtnet", "thief")
    assert refused.exit_code == 1
    assert "172.31.255.11 of network mgmtnet is the address of node node1 itself" in refused.output

    pools = ",".join(f"ip{number}=pool" for number in range(12))
    added = managed.lanloom("instance", "add", "--net", f"0:{pools},network=mgmtnet", "many")
    assert added.exit_code == 0, added.output
    addresses = managed.do(given)
    assert len(addresses) == 12
    assert not addresses & {"172.31.255.1", "172.31.255.11", "172.31.255.12"}

    forced = managed.lanloom(
        "instance", "add", "--net", "0:ip=172.31.255.11,network=mgmtnet", "--force", "own"
    )
    assert forced.exit_code == 0, forced.output
    assert "172.31.255.11" in managed.do(given)


def test_two_networks_on_one_vlan(managed: Cluster) -> None:
    """The NAD that brings a second network with the same pool to a VLAN is refused, and its message names both."""

    async def attach(client: Client) -> str:
        for name in ("oa", "ob"):
            subnet = {"cidr": "10.50.0.0/24", "pools": [{"range": "10.50.0.0/24"}]}
            await client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": [subnet]}})
        for name in ("oa", "ob"):
            ipam = {"type": "lanloom-ipam", "network": name}
            config: Raw = {"type": "bridge", "bridge": "br0", "vlan": 150, "ipam": ipam}
            try:
                await client.create(NADS, nad_body(name, config, {}), "default")
            except Forbidden as error:
                return f"{name}: {error}"
        return ""

    message = managed.do(attach)
    assert message.startswith("ob: ")
    assert "pools of Networks ob and oa overlap on VLAN 150 of link br0, in 10.50.0.0-10.50.0.255" in message


def test_an_import_from_ganeti(managed: Cluster, tmp_path: Path) -> None:
    """Who else is on the wires of networks that an import would create forbids it before anything is written."""

    async def join(client: Client) -> None:
        status = {"addresses": [{"type": "InternalIP", "address": "10.1.0.5"}]}
        await client.create(NODES, {"metadata": {"name": "node1"}})
        await client.patch(NODES, "node1", {"status": status}, subresource="status")
        for name in ("net2", "there"):
            ipam = {"type": "lanloom-ipam", "network": name}
            config = {"type": "macvlan", "master": "wan", "ipam": ipam}
            await client.create(NADS, nad_body(name, config, {}), "default")

    async def left(client: Client) -> list[str]:
        items = [*(await client.list(NETWORKS)).items, *(await client.list(NICS)).items]
        return [item.metadata.name for item in items]

    assert managed.lanloom("network", "add", "--subnet", "cidr=10.2.0.0/16,pool", "there").exit_code == 0
    managed.do(join)
    nets = [network("net1", "10.1.0.0/24", used=[4, 5]), network("net2", "10.2.0.0/24")]
    nics = [nic(1, "10.1.0.4", nets[0]["uuid"]), nic(2, "10.1.0.5", nets[0]["uuid"])]
    file = tmp_path / "config.data"
    file.write_text(json.dumps(config(nets, [instance("inst1", nics)])))
    for more in (["--dry-run"], []):
        refused = managed.lanloom("ganeti", "import", *more, str(file))
        assert refused.exit_code == 1
        assert "10.1.0.5 of NIC 1 of instance inst1 is the address of node node1 itself" in refused.stderr
        assert "pools of Networks net2 and there overlap on link wan" in refused.stderr
        assert len(refused.stderr.splitlines()) == 3
        assert managed.do(left) == ["there"]

    async def leave(client: Client) -> None:
        await client.delete(NODES, "node1")
        await client.delete(NADS, "there", "default")

    managed.do(leave)
    done = managed.lanloom("ganeti", "import", str(file))
    assert done.exit_code == 0, done.output

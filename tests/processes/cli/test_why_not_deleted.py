"""`lanloom why-not-deleted` as its users call it."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result

from lanloom.api.core import NAMESPACES, NODES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.names import MATCHED_NODES
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.dummy.cli.dummies import (
    add_daemons,
    add_namespace,
    add_network,
    add_nodes,
    add_pod,
)
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.harness.servers.eventually import eventually

pytestmark = pytest.mark.slow

HOSTILE = "x\x1b[2Jy\n[red]z"


async def fill(client: Client) -> None:
    """Objects that are being deleted and kept by all kinds of things, and some that are not deleted."""
    await add_nodes(client, "node1", "node2")
    for name in ("shop", "going"):
        await add_namespace(client, name)
    await add_network(client, "used", {"phase": "DeletionBlocked"})
    await add_pod(client, "web-0", "shop", annotations={MULTUS_NETWORKS: "default/used"})
    await client.delete(DUMMY_CLUSTER_NETWORKS, "used")
    stuck = await add_network(client, "stuck", {"phase": "Terminating"})
    await add_daemons(client, stuck, "absent", {"node1": "", "node2": f"dummy-br has a port {HOSTILE}"})
    await client.delete(DUMMY_CLUSTER_NETWORKS, "stuck")
    await add_network(client, "quiet", {"phase": "Ready"})
    await _addresses(client)
    for finalizer, name in (("wrangler.cattle.io/x", "kept"), ("example.com/hold", "held")):
        body = {"metadata": {"name": name, "finalizers": [finalizer]}, "spec": {"config": ""}}
        await client.create(NADS, body, "going")
    await client.delete(NADS, "held", "going")
    await client.delete(NAMESPACES, "going")
    # The namespace takes its NADs along a moment later.
    await eventually(lambda: client.get(NADS, "kept", "going"), lambda nad: nad.metadata.is_deleting)


async def _addresses(client: Client) -> None:
    """A network and a NIC that are deleted while the NIC's pod runs."""
    await client.create(
        NETWORKS, {"metadata": {"name": "net1", "finalizers": [FINALIZER]}, "spec": {"subnets": []}}
    )
    spec = {"owner": {"kind": "Pod", "name": "web-0"}, "network": "net1"}
    await client.create(
        NICS, {"metadata": {"name": "web-0", "finalizers": [FINALIZER]}, "spec": spec}, "shop"
    )
    status = {"network": "net1", "ips": ["192.0.2.7"]}
    await client.patch(NICS, "web-0", {"status": status}, "shop", subresource="status")
    await client.delete(NETWORKS, "net1")
    await client.delete(NICS, "web-0", "shop")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with these objects and no manager."""
    with served(tmp_path_factory.mktemp("served"), manager=False) as made:
        made.do(fill)
        yield made


def told(done: Result) -> str:
    """The output in one line; it must be tidy."""
    assert all(line.isprintable() and len(line) <= 80 for line in done.output.splitlines())
    return " ".join(done.output.split())


def test_a_network_that_is_used(cluster: Cluster) -> None:
    """Each user is named, with what to do; exit code 1."""
    done = cluster.lanloom("why-not-deleted", "dcn/used")
    assert done.exit_code == 1
    assert "DummyClusterNetwork used is being deleted (since 20" in told(done)
    assert "default/used is used: Pod shop/web-0 → Delete the pod" in told(done)


def test_a_network_whose_bridges_stay(cluster: Cluster) -> None:
    """The node that has not acknowledged is named with its pod's words, which can't change the terminal."""
    done = cluster.lanloom("why-not-deleted", "dummyclusternetworks/stuck")
    assert "node2: Running: dummy-br has a port x?[2Jy [red]z" in told(done)
    assert "node1" not in told(done)


def test_nothing_in_the_way(cluster: Cluster) -> None:
    """What is not in use could be deleted; exit code 0."""
    done = cluster.lanloom("why-not-deleted", "dcn/quiet")
    assert done.exit_code == 0
    assert told(done) == (
        "The deletion of DummyClusterNetwork quiet has not been requested. Nothing would block it."
    )


def test_a_nad_of_a_network(cluster: Cluster) -> None:
    """A NAD that was made for a network is to be deleted with that; the answer says so."""
    text = told(cluster.lanloom("why-not-deleted", "nad/used"))
    assert "It belongs to DummyClusterNetwork used" in text
    assert "It is referenced by Pod shop/web-0" in text


def test_addresses(cluster: Cluster) -> None:
    """A network waits for NICs with addresses, and a NIC for its owner."""
    network = cluster.lanloom("why-not-deleted", "network/net1")
    assert "Nic shop/web-0: 192.0.2.7, of Pod web-0" in told(network)
    nic = cluster.lanloom("why-not-deleted", "nic/web-0", "-n", "shop")
    assert "the addresses 192.0.2.7 are in use until Pod web-0 has ended: Pod shop/web-0" in told(nic)
    assert network.exit_code == nic.exit_code == 1


def test_finalizers_of_others(cluster: Cluster) -> None:
    """Another controller's finalizer on a NAD is shown by its name, with that controller."""
    for name, shown in (
        ("kept", "finalizer wrangler.cattle.io/x (probably a controller of Rancher or Harvester)"),
        ("held", "finalizer example.com/hold (probably a controller of example.com)"),
    ):
        done = cluster.lanloom("why-not-deleted", f"nad/going/{name}")
        assert shown in told(done)
        assert done.exit_code == 1


@pytest.mark.parametrize("kind", ["pod", "ns", "cm", "vm"])
def test_kinds_of_others(cluster: Cluster, kind: str) -> None:
    """A kind of no feature is wrong usage; the known kinds are named, and the command that shows finalizers."""
    done = cluster.lanloom("why-not-deleted", f"{kind}/web-0")
    assert done.exit_code == 2
    assert f'"{kind}" is not a kind' in done.output
    assert "DummyClusterNetwork (dcn)" in done.output
    assert "kubectl get KIND NAME -o jsonpath={.metadata.finalizers}" in done.output


def test_for_programs(cluster: Cluster) -> None:
    """JSON has everything that is in the way."""
    done = cluster.lanloom("why-not-deleted", "dcn/used", "-o", "json")
    data = json.loads(done.output)
    assert (data["kind"], data["state"]) == ("DummyClusterNetwork", "leaving")
    assert data["obstacles"][0]["waitsFor"] == ["Pod shop/web-0"]
    assert done.exit_code == 1


def test_what_is_not_there(cluster: Cluster) -> None:
    """Nothing blocks the deletion of an object that does not exist."""
    done = cluster.lanloom("why-not-deleted", "dcn/nonsense")
    assert (told(done), done.exit_code) == ("DummyClusterNetwork nonsense does not exist.", 0)


def test_kind_and_name_apart(cluster: Cluster) -> None:
    """An object may be named by two words, as kubectl takes them."""
    apart, together = (
        cluster.lanloom("why-not-deleted", *words) for words in (("nad", "going/held"), ("nad/going/held",))
    )
    assert told(apart) == told(together)
    assert "finalizer example.com/hold" in told(apart)


@pytest.mark.parametrize("typed", ["nonsense/a", "dcn", "dcn/a/b", "dcn used stuck", "nad/..", "nad/\x1b[2J"])
def test_wrong_usage(cluster: Cluster, typed: str) -> None:
    """What names no object is wrong usage; of an unknown kind the known ones are listed."""
    done = cluster.lanloom("why-not-deleted", *typed.split(" "))
    assert done.exit_code == 2
    assert "\x1b" not in done.output
    if typed == "nonsense/a":
        assert "NetworkAttachmentDefinition (net-attach-def)" in done.output


def test_a_cluster_that_does_not_answer(cluster: Cluster, tmp_path: Path) -> None:
    """Where the cluster can't be asked that is said in a line; exit code 1."""
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(cluster.kubeconfig.read_text().replace("127.0.0.1", "127.0.0.9"))
    done = cluster.lanloom("why-not-deleted", "dcn/used", "--kubeconfig", str(elsewhere))
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("v", ["vc/", "vs/"]),
        ("dc", ["dcn/quiet", "dcn/stuck", "dcn/used"]),
        ("dcn/u", ["dcn/used"]),
        ("nics/shop/w", ["nics/shop/web-0"]),
        ("clusternetwork", ["clusternetwork/", "clusternetworknode/"]),
        ("dcn u", ["used"]),
        ("nics shop/w", ["shop/web-0"]),
    ],
)
def test_completion(cluster: Cluster, typed: str, found: list[str]) -> None:
    """A shell completes kinds by any of their words, and the names of what there is of one that alone can be meant."""
    offered = cluster.offered(f"lanloom why-not-deleted {typed}")
    assert sorted(offered) == sorted(f"plain,{each}" for each in found)


def test_what_the_user_may_not_see(tmp_path: Path) -> None:
    """A refusal of the API server is shown, and ends the command with 1."""
    tokens = tmp_path / "tokens"
    tokens.write_text("viewer-token,jane,jane\n")
    with served(tmp_path, manager=False, tokens=tokens) as cluster:
        own = tmp_path / "viewer"
        own.write_text(re.sub(r"token: .*", "token: viewer-token", cluster.kubeconfig.read_text()))
        done = cluster.lanloom("why-not-deleted", "dcn/x", "--kubeconfig", str(own))
        assert 'Error: dummyclusternetworks.network.harvester.io "x" is forbidden: User "jane"' in done.output
        assert done.exit_code == 1


def test_what_webhooks_would_refuse(tmp_path: Path) -> None:
    """Of what is not deleted yet a dry run tells whether it would be refused, in the webhook's words; nothing goes."""

    async def make(client: Client) -> None:
        await client.create(NODES, {"metadata": {"name": "node1"}})
        await client.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await client.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
        # Until the manager has seen the VlanConfig, its webhook finds nothing in the way.
        await eventually(
            partial(client.get, VLAN_CONFIGS, "one"), lambda item: MATCHED_NODES in item.metadata.annotations
        )

    with served(tmp_path, manager=True) as cluster:
        cluster.do(make)
        done = cluster.lanloom("why-not-deleted", "cn/cluster-1")
        assert done.exit_code == 1
        assert "the admission webhook validate.harvester.lanloom.io" in told(done)
        assert "because the VlanConfigs one belong to it; delete them first" in told(done)
        assert cluster.lanloom("why-not-deleted", "vc/one").exit_code == 0
        cluster.do(lambda client: client.get(VLAN_CONFIGS, "one"))

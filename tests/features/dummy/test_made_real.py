"""What is made for an isolated network, on a real kube-apiserver: accepted, and as wanted in the form it gets there."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.reader import read_ranges
from lanloom.features.dummy.rules.daemonset import State, daemon_set_body, daemon_set_patch
from lanloom.features.dummy.rules.objects import (
    cluster_network_body,
    ipam_network,
    is_as_wanted,
    nad_body,
)
from lanloom.features.dummy.rules.subnet import Ranges, overlaps
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.features.dummy.rules.made import SETTINGS, UID, isolated
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

NET = isolated(subnet="10.115.0.0/24", gateway="node")


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver with Lanloom's kinds and namespace."""
    with RealServer(real_binaries) as running:
        installer = Installer(real_binaries, running)
        installer.definitions()
        installer.manifests("manager.yaml", "dummy.yaml")
        yield running


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[HttpClient]:
    """The server's administrator."""
    async with HttpClient(load(str(server.kubeconfig))) as opened:
        yield opened


@pytest.mark.parametrize("state", ["present", "absent"])
async def test_a_daemon_set(client: HttpClient, state: State) -> None:
    """What the server fills into the DaemonSet is known: it is as wanted, and what a user adds is put right."""
    body = daemon_set_body(f"net-{state}", f"{UID}-{state}", "dummy-br", SETTINGS, state)
    made = await client.create(DAEMON_SETS, body, BRIDGES_NAMESPACE)
    assert daemon_set_patch(made, body) == {}
    name = made.metadata.name
    harm = {
        "hostPID": True,
        "serviceAccountName": "lanloom-manager",
        "volumes": [],
        "containers": [
            {**made.spec.template["spec"]["containers"][0], "command": ["/bin/sh"], "volumeMounts": []},
            {"name": "intruder", "image": "x", "securityContext": {"privileged": True}},
        ],
    }
    harmed = await client.patch(DAEMON_SETS, name, {"spec": {"template": {"spec": harm}}}, BRIDGES_NAMESPACE)
    patch = daemon_set_patch(harmed, body)
    mended = await client.patch(DAEMON_SETS, name, patch, BRIDGES_NAMESPACE)
    assert daemon_set_patch(mended, body) == {}
    assert mended.spec.template == made.spec.template


async def test_the_state_of_a_daemon_set_changes(client: HttpClient) -> None:
    """A DaemonSet that keeps a bridge can be set to take it away, by a patch."""
    first, second = (daemon_set_body("net2", "u2", "dummy-br", SETTINGS, state) for state in _STATES)
    made = await client.create(DAEMON_SETS, first, BRIDGES_NAMESPACE)
    patch = daemon_set_patch(made, second)
    changed = await client.patch(DAEMON_SETS, made.metadata.name, patch, BRIDGES_NAMESPACE)
    assert daemon_set_patch(changed, second) == {}
    assert daemon_set_patch(changed, first) != {}


_STATES: tuple[State, State] = ("present", "absent")


async def test_the_rest(client: HttpClient) -> None:
    """NAD, Network and ClusterNetwork are accepted, and as wanted."""
    body = nad_body(NET)
    body["metadata"]["namespace"] = LANLOOM_NAMESPACE
    nad = await eventually(lambda: client.create(NADS, body, LANLOOM_NAMESPACE), lambda _: True)
    assert is_as_wanted(nad, NET)
    network = await eventually(lambda: client.create(NETWORKS, ipam_network(NET).body()), lambda _: True)
    assert ipam_network(NET).repair(network) == {}
    wanted = cluster_network_body(NET, "dummy")
    made = await eventually(lambda: client.create(CLUSTER_NETWORKS, wanted), lambda _: True)
    assert made.metadata.name == "dummy"


async def test_the_service_range(client: HttpClient, server: RealServer) -> None:
    """The address of the API server's own service is known, and the ServiceCIDR where a server has that kind."""
    own, whole = "service default/kubernetes", "the services (ServiceCIDR kubernetes)"
    owners = {own} if server.is_older_than("1.33") else {own, whole}

    def is_known(found: Ranges) -> bool:
        return {taken.owner for taken in found.services} >= owners

    known = await eventually(lambda: read_ranges(client, (), SETTINGS), is_known)
    places = {taken.owner: taken.cidr for taken in known.services}
    assert places.keys() == owners
    subnet = f"{places[own].rpartition('.')[0]}.0/24"
    problem = overlaps(isolated(subnet=subnet), known)
    assert all(owner in problem for owner in owners)

"""A cluster of IPv6 alone, from the installation to pods on two nodes: before the others, so that one cluster runs."""

import socket
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LAN, LANS
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.text import authority
from tests.e2e.cluster import RealCluster, real_cluster
from tests.e2e.networks import SPOKES, addressed, attached, lan, office
from tests.harness.namespaces import call
from tests.harness.nodes.node import PATIENCE
from tests.harness.nodes.pods import Pods, Raw
from tests.harness.nodes.programs import NodePrograms
from tests.harness.servers.eventually import eventually
from tests.harness.servers.family import IPV6

pytestmark = [pytest.mark.e2e, pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "app.kubernetes.io/name"
METRICS = {"lanloom-manager": 8080, "lanloom-agent": 9810, "lanloom-lan": 9811}
"""The ports of the pods, by the label NAME."""


@pytest.fixture(scope="module")
def six(
    node_programs: NodePrograms, real_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Two nodes whose addresses are of IPv6, and nothing installed."""
    try:
        socket.create_server((IPV6.loopback, 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with real_cluster(real_binaries, node_programs, tmp_path_factory.mktemp("six"), IPV6) as cluster:
        yield cluster


async def test_a_cluster_of_ipv6_alone(six: RealCluster) -> None:
    """The chart comes up, its metrics are read at IPv6 addresses, and pods on two nodes reach each other by a LAN."""
    six.helm.install(six.values)
    six.rolled_out()
    assert ipv4_addresses(six) == {"127.0.0.1/8"}
    six.apply(office("fd00:50::/64", "fd00:50::10", "fd00:50::20"), lan("office", 70, *SPOKES))
    six.apply(*map(addressed, SPOKES))
    async with HttpClient(load(str(six.server.kubeconfig))) as client:
        pods = (await client.request("GET", PODS.path("lanloom-system")))["items"]
        assert {pod["metadata"]["labels"][NAME]: readiness(six, pod) for pod in pods} == dict.fromkeys(
            METRICS, 200
        )
        found = [
            await attached(client, spoke, on) for spoke, on in zip(SPOKES, six.nodes.values(), strict=True)
        ]
        await eventually(lambda: client.get(LANS, "office", "default"), is_carried, PATIENCE)
        left = await Pods(client).get("left")
    assert sorted(found) == ["fd00:50::10", "fd00:50::11"]
    assert " 0% packet loss" in six.one.in_pod(left, "ping", "-c", "3", "-W", "10", found[1])


def is_carried(found: LAN) -> bool:
    """Whether both nodes carry a LAN, by their addresses on the cable."""
    return [(each.address, each.ready) for each in found.status.nodes] == [
        ("fd00:99::1", True),
        ("fd00:99::2", True),
    ]


def ipv4_addresses(cluster: RealCluster) -> set[str]:
    """The addresses of nodes of the other IP version."""
    listings = [each.node.enclosure.run("ip", "-4", "-oneline", "address") for each in cluster.nodes.values()]
    return {line.split()[3] for listing in listings for line in listing.splitlines()}


def readiness(cluster: RealCluster, pod: Raw) -> int:
    """The answer of a pod at the address that the API server knows, from its node."""
    port = METRICS[pod["metadata"]["labels"][NAME]]
    url = f"http://{authority(pod['status']['podIP'], port)}/readyz"
    network = cluster.nodes[pod["spec"]["nodeName"]].node.enclosure.network
    with call(network, partial(urllib.request.urlopen, url, timeout=30)) as answer:
        return int(answer.status)

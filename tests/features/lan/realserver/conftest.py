"""Two real nodes joined by a cable, with an agent for LANs on each."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lanloom.kube.loading import load
from tests.features.lan.realserver.cluster import LanCluster, LanNode, managed
from tests.harness.nodes.enclosure import connect
from tests.harness.nodes.node import BRIDGE, RealNode, with_nads
from tests.harness.nodes.programs import NodePrograms
from tests.harness.servers.eventually import PatientClient
from tests.harness.servers.real import RealServer


@pytest.fixture(scope="module")
def lan_nodes(
    node_programs: NodePrograms,
    nodes_server: RealServer,
    real_binaries: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LanNode, LanNode]]:
    """`node1` and `node2`, with `eth0` between them."""
    directory = tmp_path_factory.mktemp("nodes")
    with ExitStack() as stack:
        stack.enter_context(managed(real_binaries, nodes_server, directory))
        one, other = (
            stack.enter_context(
                RealNode(name, node_programs, nodes_server.kubeconfig, directory, with_nads(BRIDGE))
            )
            for name in ("node1", "node2")
        )
        connect(one.enclosure, other.enclosure)
        yield LanNode(one, "10.99.0.1"), LanNode(other, "10.99.0.2")


@pytest.fixture
async def lan_cluster(
    lan_nodes: tuple[LanNode, LanNode], nodes_server: RealServer
) -> AsyncIterator[LanCluster]:
    """The nodes, Ready and with running agents, and the administrator's client."""
    async with PatientClient(load(str(nodes_server.kubeconfig))) as client:
        cluster = LanCluster(client, *lan_nodes)
        await cluster.ready()
        yield cluster

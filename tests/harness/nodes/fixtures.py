"""The pytest fixtures of real nodes; a plugin of tests/conftest.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache
from tests.harness.nodes.enclosure import obstacle
from tests.harness.nodes.node import RealNode
from tests.harness.nodes.programs import NodePrograms
from tests.harness.nodes.programs import node_programs as made
from tests.harness.servers.real import RealServer


@pytest.fixture(scope="session")
def node_programs(request: pytest.FixtureRequest) -> NodePrograms:
    """What a real node runs on; the first run ever builds kubelet, saying so."""
    if reason := obstacle():
        pytest.skip(reason)
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")

    def progress(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"nodes: {line}")

    return made(default_cache(), progress)


@pytest.fixture(scope="module")
def nodes_server(node_programs: NodePrograms, real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for the real nodes of one module."""
    with RealServer(real_binaries, controllers=("garbagecollector", "namespace")) as server:
        yield server


@pytest.fixture(scope="module")
def real_node(
    node_programs: NodePrograms, nodes_server: RealServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealNode]:
    """A real node, `node1`, for the tests of one module."""
    directory = tmp_path_factory.mktemp("node")
    with RealNode("node1", node_programs, nodes_server.kubeconfig, directory) as node:
        yield node

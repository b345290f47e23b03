"""The two clusters on which the same tests run: the embedded server with the lab's controller, and a real one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.embedded.cases.kit.ground import embedded_server
from tests.features.dummy.cluster.ground import (
    EMBEDDED,
    REAL,
    Ground,
    ground,
)
from tests.features.dummy.cluster.installed import TOKENS
from tests.harness.servers.real import RealServer

CONTROLLERS = (
    "daemonset",
    "deployment",
    "garbagecollector",
    "namespace",
    "podgc",
    "replicaset",
    "resourcequota",
)


@pytest.fixture(scope="session")
def embedded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded server, for these tests alone."""
    with embedded_server(tmp_path_factory.mktemp("embedded"), TOKENS) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def real_cluster(real_binaries: Path) -> Iterator[Path]:
    """The kubeconfig of a kube-apiserver with the controllers of a cluster, for these tests alone."""
    with RealServer(real_binaries, CONTROLLERS) as server:
        yield server.kubeconfig


@pytest.fixture(params=[EMBEDDED, REAL])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    """Either cluster with the nodes n1, n2 and n3, kubelets, and a controller of DaemonSets."""
    kubeconfig: Path = request.getfixturevalue(f"{request.param}_cluster")
    async with ground(kubeconfig, is_real=request.param == "real") as made:
        yield made

"""One cluster for all stories of this directory, in their order: the chart is installed, used and removed."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.e2e.cluster import RealCluster, real_cluster
from tests.harness.nodes.programs import NodePrograms


@pytest.fixture(scope="package")
def real(
    node_programs: NodePrograms, real_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Two nodes with the image, and nothing installed."""
    with real_cluster(real_binaries, node_programs, tmp_path_factory.mktemp("e2e")) as cluster:
        yield cluster


@pytest.fixture
async def client(real: RealCluster) -> AsyncIterator[HttpClient]:
    """The administrator's client."""
    async with HttpClient(load(str(real.server.kubeconfig))) as client:
        yield client

"""A served cluster for the commands of networks and addresses."""

from collections.abc import Iterator

import pytest

from tests.cli.cluster import Cluster, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for the module."""
    with served(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Iterator[Cluster]:
    """The server without any network."""
    yield server
    server.clear()

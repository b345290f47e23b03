"""The pytest fixture that starts the real kube-apiserver once in a run; a plugin of tests/conftest.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom_lab.assets import default_cache
from tests.harness.servers.build import binaries
from tests.harness.servers.real import RealServer


@pytest.fixture(scope="session")
def real_binaries(request: pytest.FixtureRequest) -> Path:
    """The directory of kube-apiserver, etcd, kubectl …; the first run ever builds them, saying so."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")

    def progress(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"servers: {line}")

    return binaries(default_cache(), progress)


@pytest.fixture(scope="session")
def real_version(real_server: RealServer) -> str:
    """The minor version of the real server, as `1.20`."""
    return real_server.version()


@pytest.fixture(scope="session")
def real_server(real_binaries: Path) -> Iterator[RealServer]:
    """A running kube-apiserver with garbage collection and deletion of namespaces, shared by the run."""
    with RealServer(real_binaries, controllers=("garbagecollector", "namespace")) as server:
        yield server

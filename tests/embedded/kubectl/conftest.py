"""The kubectls, and where they talk to the servers."""

import shutil
from pathlib import Path

import pytest

from lanloom_lab.assets import debian_package, default_cache
from tests.embedded.cases.kit.ground import Ground
from tests.embedded.kubectl.runner import Desk, Program
from tests.harness.servers.build import newer_kubectl
from tests.harness.servers.real import RealServer

ON_PATH = shutil.which("kubectl")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of kubectl with Debian's 1.20 and 1.32, and with the one that the machine has, if it has one."""
    if "program" in metafunc.fixturenames:
        names = ["debian", "trixie", *(["path"] if ON_PATH else [])]
        metafunc.parametrize("program", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def program(request: pytest.FixtureRequest) -> Program:
    """One kubectl."""
    if request.param == "path" and ON_PATH:
        return Program("path", Path(ON_PATH))
    if request.param == "trixie":
        return Program("trixie", newer_kubectl(default_cache(), print))
    unpacked = debian_package(default_cache(), ["kubernetes-client"], print)
    return Program("debian", unpacked / "usr/bin/kubectl")


@pytest.fixture(scope="session")
def real_desk(real_ground: Ground, real_server: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Where kubectl talks to the real server."""
    return Desk(real_ground, real_server.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def embedded_desk(
    embedded_ground: Ground, embedded_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Desk:
    """Where kubectl talks to the embedded server."""
    return Desk(embedded_ground, embedded_kubeconfig, tmp_path_factory.mktemp("kubectl"))

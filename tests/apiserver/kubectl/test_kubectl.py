"""kubectl works against the embedded API server as it does against a real one: same output, same exit codes."""

import shutil
from pathlib import Path

import pytest

import tests.apiserver.kubectl.scripts  # noqa: F401 - registers the cases
from lanloom.lab.assets import debian_package, default_cache
from tests.apiserver.cases.kit.both import compared
from tests.apiserver.cases.kit.ground import Ground
from tests.apiserver.cases.kit.intended import Differences, judge
from tests.apiserver.cases.kit.suite import KUBECTL_REGISTER
from tests.apiserver.kubectl.runner import Desk, Program
from tests.servers.real import RealServer

ON_PATH = shutil.which("kubectl")
PROGRAMS = ["debian", *(["path"] if ON_PATH else [])]
"""Debian's kubectl 1.20 from the cache, and whichever the machine has."""


@pytest.fixture(scope="session")
def programs() -> dict[str, Program]:
    """The kubectls by their names in PROGRAMS."""
    unpacked = debian_package(default_cache(), ["kubernetes-client"], print)
    found = {"debian": Program("debian", unpacked / "usr/bin/kubectl")}
    if ON_PATH:
        found["path"] = Program("path", Path(ON_PATH))
    return found


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


@pytest.mark.realserver
@pytest.mark.slow
@pytest.mark.parametrize("name", KUBECTL_REGISTER)
@pytest.mark.parametrize("version", PROGRAMS)
def test_same_output(
    version: str,
    name: str,
    programs: dict[str, Program],
    real_desk: Desk,
    embedded_desk: Desk,
    listed: Differences,
) -> None:
    """kubectl says and returns the same with both servers, but for what the list of differences says."""
    case = KUBECTL_REGISTER[name]
    program = programs[version]
    found = compared(
        lambda: real_desk.run(case, program, strict=version == "debian"),
        lambda: embedded_desk.run(case, program, strict=False),
    )
    unlisted, stale = judge(f"kubectl-{version}/{name}", found, listed)
    assert not unlisted, "\n".join([case.behaviour, "Not so here:", *map(str, unlisted)])
    assert not stale, f"These listed differences no longer occur; remove them from the list: {stale}"

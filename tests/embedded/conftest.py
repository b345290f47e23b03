"""Both API servers, started once in a run, and what their cases need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.cases.kit.ground import Ground, embedded_server, endpoint
from tests.embedded.cases.kit.hooks import (
    Hooks,
    hook_server,
)
from tests.embedded.cases.kit.intended import Differences, load
from tests.embedded.cases.kit.wire import Wire
from tests.harness.servers.real import RealServer


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a running `lanloom serve`."""
    with embedded_server(tmp_path_factory.mktemp("embedded")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def real_ground(real_server: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The real kube-apiserver, ready for cases."""
    with hook_server(tmp_path_factory.mktemp("hooks")) as hooks:
        yield from _ground(real_server.kubeconfig, hooks)


@pytest.fixture(scope="session")
def embedded_ground(embedded_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The embedded server, ready for cases."""
    with hook_server(tmp_path_factory.mktemp("hooks")) as hooks:
        yield from _ground(embedded_kubeconfig, hooks)


@pytest.fixture(scope="session")
def replaying_ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """An embedded server of its own for recorded answers: a case runs once on a server."""
    directory = tmp_path_factory.mktemp("replaying")
    with embedded_server(directory) as kubeconfig, hook_server(directory) as hooks:
        yield from _ground(kubeconfig, hooks)


@pytest.fixture(scope="session")
def listed() -> Differences:
    """The list of intended differences."""
    return load()


def _ground(kubeconfig: Path, hooks: Hooks) -> Iterator[Ground]:
    wire = Wire(endpoint(kubeconfig))
    ground = Ground(wire, hooks)
    ground.prepare()
    yield ground
    wire.close()

"""What tests of several folders share: the real kube-apiserver (started if asked for), and how a run is set up."""

import gc
import signal
from types import FrameType
from typing import NoReturn

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.harness.examples import register_profiles
from tests.harness.kernels import KERNELS, ByFileAndKernel, lab_kernel, on_kernels
from tests.harness.nodes.fixtures import node_programs, nodes_server, real_node
from tests.harness.servers.fixtures import real_binaries, real_server, real_version

__all__ = [
    "lab_kernel",
    "node_programs",
    "nodes_server",
    "real_binaries",
    "real_node",
    "real_server",
    "real_version",
]

register_profiles()


def pytest_configure() -> None:
    """Looks for no garbage among what is collected."""
    gc.disable()  # what is collected stays


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run that ends by a signal of either kind leaves no lab and no server behind.

    It ends also where a test takes the exception for an error, such as one of servers that got the signal as well. A
    shell has what it runs in the background ignore SIGINT, and all that it starts: tests that send one, too.
    """

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        session.shouldstop = f"got {signal.Signals(number).name}"
        signal.default_int_handler(number, frame)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests on a lab on all kernels that concern them."""
    on_kernels(metafunc)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Hands out tests on several kernels so that a worker seldom changes its lab."""
    return ByFileAndKernel(config, log) if KERNELS else None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Looks for garbage seldom, and not among modules and tests: that took a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000)
    gc.enable()

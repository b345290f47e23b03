"""What tests of several folders share: the real kube-apiserver (started if asked for), and how a run is set up."""

import gc
import signal

import pytest

from tests.harness.examples import register_profiles
from tests.harness.nodes.fixtures import node_programs, nodes_server, real_node
from tests.harness.servers.fixtures import real_binaries, real_server, real_version

__all__ = [
    "node_programs",
    "nodes_server",
    "real_binaries",
    "real_node",
    "real_server",
    "real_version",
]

register_profiles()


def pytest_configure() -> None:
    """Whoever ends a run by a signal of either kind leaves no lab and no server behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.set_threshold(200_000)  # looking for garbage took a fifth of the time, and there is little of it


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Looks for no garbage among modules and tests, which stay."""
    gc.collect()
    gc.freeze()

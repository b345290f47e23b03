"""What tests of several folders share: the real kube-apiserver (started if asked for), and patience with machines."""

import signal

from hypothesis import HealthCheck, settings

from tests.harness.nodes.fixtures import node_programs, nodes_server, real_node
from tests.harness.servers.fixtures import real_binaries, real_server, real_version

__all__ = ["node_programs", "nodes_server", "real_binaries", "real_node", "real_server", "real_version"]

# A machine that is busy with something else must not make a property test fail.
settings.register_profile(
    "lanloom", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("lanloom")


def pytest_configure() -> None:
    """Whoever ends a run by a signal of either kind leaves no lab and no server behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)

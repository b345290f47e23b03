"""What a manager shows of isolated networks: how many are how far, on how many nodes, with how many users.

All of it is read from the stores at each scrape. Networks are an administrator's, and there are few; should there
be very many, only so many have series of their own, and the counts by phase include the others.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from lanloom.api.dummy import DummyClusterNetwork
from lanloom.api.meta import parse_rfc3339
from lanloom.features.dummy.reader import nads_of
from lanloom.kube.informer import Informer
from lanloom.nads.references import NadUse
from lanloom.runtime.exposition import CollectorRegistry, Metric
from lanloom.runtime.metrics import OnDemand, gauge

NETWORKS_SHOWN = 500
"""So many networks have series of their own, in the order of their names."""

PHASES = (
    "Ready",
    "Pending",
    "InvalidSpec",
    "ErrorEnsuringNAD",
    "ErrorEnsuringDaemonSet",
    "DeletionBlocked",
    "Terminating",
)
NEW = "New"
"""The phase of a network that no manager has looked at yet."""


class DummyMetrics:
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def show(self, dcns: Informer[DummyClusterNetwork], users: NadUse) -> None:
        """Show these from now on; called once."""
        self._registry.register(OnDemand(lambda: _networks(dcns.store.items(), users)))


def _networks(dcns: Iterable[DummyClusterNetwork], users: NadUse) -> Iterator[Metric]:
    ordered = sorted(dcns, key=lambda item: item.metadata.name)
    phases = Tally(item.status.phase or NEW for item in ordered)
    shown = ordered[:NETWORKS_SHOWN]
    yield gauge(
        "lanloom_dummy_networks",
        "Isolated networks by phase; the manager has not processed a New one yet.",
        ("phase",),
        [((phase,), phases[phase]) for phase in (*PHASES, NEW)],
    )
    yield gauge(
        "lanloom_dummy_nodes",
        "Nodes of an isolated network: the live ones, and those that have its bridge, or have removed it.",
        ("network", "state"),
        [
            ((item.metadata.name, state), count)
            for item in shown
            if (nodes := item.status.nodes) is not None
            for state, count in (("live", nodes.live), ("acknowledged", nodes.acknowledged))
        ],
    )
    yield gauge(
        "lanloom_dummy_users",
        "Virtual machines, pods and controllers of pods that use an isolated network.",
        ("network",),
        [((item.metadata.name,), len(_users(item, users))) for item in shown],
    )
    yield gauge(
        "lanloom_dummy_deletion_timestamp_seconds",
        "When the deletion of an isolated network that still exists was requested, in seconds since the epoch.",
        ("network",),
        [
            ((item.metadata.name,), parse_rfc3339(item.metadata.deletion_timestamp))
            for item in shown
            if item.metadata.deletion_timestamp is not None
        ],
    )


def _users(dcn: DummyClusterNetwork, users: NadUse) -> set[object]:
    return {user for nad in nads_of(dcn) for user in users.users_of(nad)}

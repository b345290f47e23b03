"""The manager's metrics of cluster networks, the nodes' reports of them, and roll-outs.

Every replica shows the cluster as it sees it, so a query takes the maximum over replicas, not their sum.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.rollout.policy import RolloutState, rollout_state
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE, ReleasedNodes
from lanloom.kube.informer import Informer
from lanloom.runtime.exposition import CollectorRegistry, Metric
from lanloom.runtime.metrics import OnDemand, gauge


class VlanMetrics:
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def show(self, networks: Informer[ClusterNetwork], statuses: Informer[ClusterNetworkNode]) -> None:
        """Show the cluster networks from now on; called once."""
        self._registry.register(OnDemand(lambda: _cluster(networks.store.items(), statuses.store.items())))


def _cluster(networks: Iterable[ClusterNetwork], reports: Iterable[ClusterNetworkNode]) -> Iterator[Metric]:
    networks = tuple(networks)
    known = {item.metadata.name for item in networks}
    reports = [item for item in reports if item.status.cluster_network in known]
    carried = {item.status.cluster_network for item in reports}
    yield gauge(
        "lanloom_cluster_network_ready",
        "Whether a condition of a cluster network is true.",
        ("cluster_network", "condition"),
        [
            ((item.metadata.name, condition.type), condition.status == "True")
            for item in networks
            if UID_LABEL not in item.metadata.labels
            or item.metadata.name in carried  # else no node is to have it
            for condition in item.status.conditions
        ],
    )
    yield gauge(
        "lanloom_nodes_reporting",
        "Nodes that report of a cluster network.",
        ("cluster_network",),
        Tally((item.status.cluster_network,) for item in reports).items(),
    )
    yield gauge(
        "lanloom_nodes_not_ready",
        "Nodes on which a condition of a cluster network is not true, by its reason.",
        ("cluster_network", "condition", "reason"),
        Tally(
            (item.status.cluster_network, condition.type, condition.reason)
            for item in reports
            for condition in _unmet(item)
        ).items(),
    )
    yield from _rollouts([item for item in networks if names.ROLLOUT in item.metadata.annotations], reports)


def _unmet(report: ClusterNetworkNode) -> Iterator[Condition]:
    return (condition for condition in report.status.conditions if condition.status != "True")


def _rollouts(
    networks: Iterable[ClusterNetwork], reports: Collection[ClusterNetworkNode]
) -> Iterator[Metric]:
    """Yield the progress of cluster networks with a roll-out policy."""
    states = {item.metadata.name: rollout_state(item) for item in networks}
    carrying = Tally((item.status.cluster_network, item.status.revision) for item in reports)
    yield gauge(
        "lanloom_rollout_nodes_released",
        "Nodes that may carry the current configuration of a cluster network with a roll-out policy.",
        ("cluster_network",),
        [((name,), _released(name, state, reports)) for name, state in states.items()],
    )
    yield gauge(
        "lanloom_rollout_nodes_updated",
        "Nodes that carry it.",
        ("cluster_network",),
        [((name,), carrying[name, state.revision]) for name, state in states.items()],
    )
    yield gauge(
        "lanloom_rollout_stopped",
        "Whether the roll-out has stopped after a failure.",
        ("cluster_network",),
        [((name,), bool(state.stopped)) for name, state in states.items()],
    )


def _released(name: str, state: RolloutState, reports: Iterable[ClusterNetworkNode]) -> int:
    """Return how many nodes are released: those named, and of others those that report of the cluster network."""
    released = ReleasedNodes(state.released)
    reporting = (item.status.node for item in reports if item.status.cluster_network == name)
    return len({*released.names, *(node for node in reporting if node in released)} - {EVERY_NODE})

"""What a manager measures besides the kit: the cluster networks, the nodes' reports of them, admission, leadership.

Every replica shows the cluster as it sees it, so a query takes the maximum over replicas, not their sum.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from lanloom.api import names
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import ClusterNetwork, VlanStatus
from lanloom.api.meta import Condition
from lanloom.api.resource import Resource
from lanloom.app.metrics.common import OnDemand, ProcessMetrics, gauge
from lanloom.app.metrics.dummy import DummyMetrics
from lanloom.app.metrics.ipam import IpamMetrics
from lanloom.dummy import admission as dummy
from lanloom.ipam import admission as ipam
from lanloom.kube.informer import Informer
from lanloom.vlan import admission as vlan
from lanloom.vlan.rules.rollout import EVERY_NODE, rollout_state

REVIEW_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds; an API server waits for 5."""

_ASKED: tuple[tuple[Resource[Any], tuple[str, ...]], ...] = (
    *vlan.MUTATED,
    *vlan.VALIDATED,
    *ipam.MUTATED,
    *ipam.VALIDATED,
    *dummy.MUTATED,
    *dummy.VALIDATED,
    *dummy.REFERENCES,
)
REVIEWED = frozenset(resource.plural for resource, _ in _ASKED)
"""The resources that the webhooks are asked about."""


class ManagerMetrics(ProcessMetrics):
    """The manager's metrics. Its methods are the observers that the manager's parts are given."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.webhooks_serve = False
        self.ipam = IpamMetrics(registry)
        self.dummy = DummyMetrics(registry)
        self._leader = Gauge("lanloom_leader", "Whether this replica leads.", registry=registry)
        self._expiry = Gauge(
            "lanloom_webhook_certificate_expiry_timestamp_seconds",
            "When the webhooks' certificate ends, in seconds since the epoch.",
            registry=registry,
        )
        self._reviews = Counter(
            "lanloom_admission_reviews",
            "Admission reviews by verdict: allowed, refused or failed.",
            ("webhook", "resource", "verdict"),
            registry=registry,
        )
        self._review_latency = Histogram(
            "lanloom_admission_review_duration_seconds",
            "How long reviews took.",
            ("webhook",),
            buckets=REVIEW_BUCKETS,
            registry=registry,
        )

    def missing(self) -> Iterator[str]:
        """What the manager lacks to be ready, in words."""
        yield from self.unread()
        if not self.webhooks_serve:
            yield "the webhooks do not serve yet"

    def leads(self, yes: bool) -> None:
        """Leadership was gained or lost."""
        self._leader.set(yes)

    def certified(self, until: float) -> None:
        """The webhooks present a certificate that ends then."""
        self._expiry.set(until)

    def review(self, webhook: str, resource: str, verdict: str, seconds: float) -> None:
        """An observer of `lanloom.app.webhooks`."""
        resource = resource if resource in REVIEWED else "other"  # whoever reaches the port may send any
        self._reviews.labels(webhook, resource, verdict).inc()
        self._review_latency.labels(webhook).observe(seconds)

    def show(self, networks: Informer[ClusterNetwork], statuses: Informer[VlanStatus]) -> None:
        """Shows the cluster networks from now on; called once."""
        self.registry.register(OnDemand(lambda: _cluster(networks.store.items(), statuses.store.items())))


def _cluster(networks: Iterable[ClusterNetwork], reports: Iterable[VlanStatus]) -> Iterator[Metric]:
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


def _unmet(report: VlanStatus) -> Iterator[Condition]:
    return (condition for condition in report.status.conditions if condition.status != "True")


def _rollouts(networks: Iterable[ClusterNetwork], reports: Iterable[VlanStatus]) -> Iterator[Metric]:
    """The progress of cluster networks with a roll-out policy."""
    states = {item.metadata.name: rollout_state(item) for item in networks}
    carrying = Tally((item.status.cluster_network, item.status.revision) for item in reports)
    everywhere = Tally(item.status.cluster_network for item in reports)
    yield gauge(
        "lanloom_rollout_nodes_released",
        "Nodes that may carry the present configuration of a cluster network with a roll-out policy.",
        ("cluster_network",),
        [
            ((name,), everywhere[name] if EVERY_NODE in state.released else len(state.released))
            for name, state in states.items()
        ],
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

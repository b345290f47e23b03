"""The metrics of a manager besides those of the kit and of the features: admission and leadership."""

from collections.abc import Iterable, Iterator

from prometheus_client import Counter, Gauge, Histogram

from lanloom.features import FEATURES
from lanloom.runtime.feature import Feature, load, webhooks_of
from lanloom.runtime.metrics import ProcessMetrics

REVIEW_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds; the API server's time limit is 5."""


class ManagerMetrics(ProcessMetrics):
    """The manager's metrics. Its methods are the observers of the manager's parts."""

    def __init__(self, features: Iterable[Feature] = FEATURES) -> None:
        super().__init__()
        registry = self.registry
        self.webhooks_serve = False
        self._reviewed = frozenset(row.resource.plural for row in webhooks_of(features))
        self.features = {each.name: load(each.metrics)(registry) for each in features if each.metrics}
        """The metrics of the features by their names."""
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
        """Yield what the manager lacks to be ready."""
        yield from self.unread()
        if not self.webhooks_serve:
            yield "the webhooks do not serve yet"

    def leads(self, yes: bool) -> None:
        """Record that leadership was gained or lost."""
        self._leader.set(yes)

    def certified(self, until: float) -> None:
        """Record the end of the webhooks' certificate."""
        self._expiry.set(until)

    def review(self, webhook: str, resource: str, verdict: str, seconds: float) -> None:
        """Count a review; an observer of `lanloom.runtime.webhooks`."""
        resource = (
            resource if resource in self._reviewed else "other"
        )  # whoever reaches the port may send any
        self._reviews.labels(webhook, resource, verdict).inc()
        self._review_latency.labels(webhook).observe(seconds)

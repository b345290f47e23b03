"""What an agent measures of isolated networks."""

from lanloom.runtime.exposition import CollectorRegistry, Counter
from lanloom.runtime.metrics import FeatureMetrics


class DummyAgentMetrics(FeatureMetrics):
    """The metrics of a node's isolated networks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._bridges_removed = Counter(
            "lanloom_agent_isolated_bridges_removed",
            "Removed bridges of isolated networks that no longer exist.",
            registry=registry,
        )

    def removed(self) -> None:
        """Count a removed bridge of a network that does not exist any more."""
        self._bridges_removed.inc()

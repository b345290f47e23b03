"""What an agent measures of the NICs that it moves."""

from lanloom.runtime.exposition import CollectorRegistry, Histogram
from lanloom.runtime.metrics import FeatureMetrics

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class SwapAgentMetrics(FeatureMetrics):
    """The metrics of a node's swaps."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gap = Histogram(
            "lanloom_agent_network_swap_gap_seconds",
            "Time for which a move in place left a NIC without a network.",
            buckets=_BUCKETS,
            registry=registry,
        )

    def moved(self, milliseconds: float) -> None:
        """Count a move, and how long its gap was."""
        self._gap.observe(milliseconds / 1000)

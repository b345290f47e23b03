"""What an agent measures of address management."""

from lanloom.runtime.exposition import CollectorRegistry, Counter
from lanloom.runtime.metrics import FeatureMetrics


class IpamAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cni_calls = Counter(
            "lanloom_agent_cni_calls",
            "Calls of the CNI plugin, by CNI's code for their error, 0 for none.",
            ("command", "code"),
            registry=registry,
        )

    def called(self, _program: str, command: str, code: int) -> None:
        """Count an answer to the CNI plugin."""
        self._cni_calls.labels(command, str(code)).inc()

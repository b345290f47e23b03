"""What an agent measures of the DHCP requests of pods and machines."""

from lanloom.runtime.exposition import CollectorRegistry, Counter, Gauge
from lanloom.runtime.metrics import FeatureMetrics


class DhcpMetrics(FeatureMetrics):
    """The metrics of a node's DHCP server for its guests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "lanloom_agent_guest_dhcp_requests",
            "DHCP requests of pods and machines, by what was made of them.",
            ("result",),
            registry=registry,
        )
        self._ports = Gauge(
            "lanloom_agent_guest_dhcp_ports",
            "Ports of pods and machines at which the agent listens for DHCP requests.",
            registry=registry,
        )

    def heard(self, result: str) -> None:
        """Count a request."""
        self._requests.labels(result).inc()

    def ports(self, count: int) -> None:
        """Tell at how many ports the agent listens."""
        self._ports.set(count)

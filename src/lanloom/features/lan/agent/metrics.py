"""What an agent measures of LANs: CNI calls, devices, allocations."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from lanloom.runtime.metrics import FeatureMetrics


class LanAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "lanloom_agent_lan_cni_calls",
            "Calls of the CNI programs of LANs, by CNI's code for their error, 0 for none.",
            ("program", "command", "code"),
            registry=registry,
        )
        self._up = Gauge(
            "lanloom_agent_lan_cni_up",
            "Whether the agent listens on the socket of the CNI programs of LANs.",
            registry=registry,
        )
        self._devices = Gauge(
            "lanloom_agent_lan_devices",
            "Devices that are registered with kubelet, two for each spoke.",
            registry=registry,
        )
        self._allocations = Counter(
            "lanloom_agent_lan_allocations",
            "Devices that kubelet asked for, by the status of the answer in gRPC's numbers, 0 for success.",
            ("status",),
            registry=registry,
        )

    def called(self, program: str, command: str, code: int) -> None:
        """Count an answer to a CNI program."""
        self._calls.labels(program, command, str(code)).inc()

    def serves(self, there: bool) -> None:
        """The socket of the CNI programs came or went."""
        self._up.set(there)

    def registered(self, count: int) -> None:
        """Kubelet knows so many devices."""
        self._devices.set(count)

    def allocated(self, _device: str, status: int) -> None:
        """Count an answer to an Allocate."""
        self._allocations.labels(str(status)).inc()

"""What an agent measures besides the kit and the features: what is asked of its host, and its CNI programs."""

from collections.abc import Iterable, Iterator

from prometheus_client import Counter, Gauge
from prometheus_client.metrics_core import Metric

from lanloom.features import FEATURES
from lanloom.runtime.feature import Feature, load
from lanloom.runtime.metrics import OnDemand, ProcessMetrics, gauge


class AgentMetrics(ProcessMetrics):
    """The agent's metrics. Its methods are the observers that the agent and its ports are given."""

    def __init__(self, features: Iterable[Feature] = FEATURES) -> None:
        super().__init__()
        self.features = {
            each.name: load(each.agent_metrics)(self.registry) for each in features if each.agent_metrics
        }
        """What the features show, by their names."""
        self.network_manager_fault = "NetworkManager has not been asked yet"
        """Why NetworkManager can't be reached, in words; empty when it can."""
        registry = self.registry
        self._dumps = Counter("lanloom_agent_link_dumps", "Looks at the kernel's links.", registry=registry)
        self._steps = Counter(
            "lanloom_agent_link_changes", "Steps carried out on links.", ("step",), registry=registry
        )
        self._refusals = Counter(
            "lanloom_agent_link_errors", "Steps or looks that the kernel refused.", registry=registry
        )
        self._writes = Counter(
            "lanloom_agent_profile_writes",
            "Profiles written or removed.",
            ("verb",),
            registry=registry,
        )
        self._asked = Counter(
            "lanloom_agent_network_manager_requests",
            "What NetworkManager was asked to change.",
            ("verb",),
            registry=registry,
        )
        self._cni_up = Gauge(
            "lanloom_agent_cni_up",
            "Whether the CNI plugin is installed, and whether the agent listens on its socket.",
            ("part",),
            registry=registry,
        )
        registry.register(OnDemand(self._collect))

    def missing(self) -> Iterator[str]:
        """What the agent lacks to be ready, in words."""
        yield from self.unread()
        for metrics in self.features.values():
            yield from metrics.missing()
        if self.network_manager_fault:
            yield self.network_manager_fault

    def dumped(self) -> None:
        """The kernel was looked at."""
        self._dumps.inc()

    def stepped(self, step: str) -> None:
        """A step on a link was carried out."""
        self._steps.labels(step).inc()

    def refused(self) -> None:
        """The kernel refused a look or a step."""
        self._refusals.inc()

    def written(self, verb: str) -> None:
        """A profile was written or removed."""
        self._writes.labels(verb).inc()

    def asked(self, verb: str) -> None:
        """NetworkManager was asked to change something."""
        self._asked.labels(verb).inc()

    def cni_part(self, part: str, there: bool) -> None:
        """The plugin or its socket was looked at."""
        self._cni_up.labels(part).set(there)

    def _collect(self) -> Iterator[Metric]:
        yield gauge(
            "lanloom_agent_network_manager_up",
            "Whether NetworkManager answered the last time that it was asked.",
            (),
            [((), not self.network_manager_fault)],
        )

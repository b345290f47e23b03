"""The metrics of manager and agent besides those of the kit and of the features.

A manager counts admission reviews and shows leadership. An agent counts requests to its host, and shows its CNI
programs. `observed` wraps the ports of the host, so that neither features nor adapters depend on metrics.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager

from lanloom.features import FEATURES
from lanloom.node.errors import LinkError, NetworkManagerError, NetworkManagerMissing
from lanloom.node.ports import (
    Connection,
    Host,
    Links,
    LinkState,
    LinkStep,
    NetworkManager,
    Profiles,
)
from lanloom.runtime.exposition import Counter, Gauge, Histogram, Metric
from lanloom.runtime.feature import Feature, load, webhooks_of
from lanloom.runtime.metrics import OnDemand, ProcessMetrics, gauge

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
        resource = resource if resource in self._reviewed else "other"  # a client of the port may send any
        self._reviews.labels(webhook, resource, verdict).inc()
        self._review_latency.labels(webhook).observe(seconds)


class AgentMetrics(ProcessMetrics):
    """The agent's metrics. Its methods are the observers of the agent and its ports."""

    def __init__(self, features: Iterable[Feature] = FEATURES) -> None:
        super().__init__()
        self.features = {
            each.name: load(each.agent_metrics)(self.registry) for each in features if each.agent_metrics
        }
        """The metrics of the features by their names."""
        self.network_manager_fault = ""
        """Why NetworkManager can't be reached; empty when it can, or nothing has asked it yet."""
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
        """Yield what the agent lacks to be ready."""
        yield from self.unread()
        for metrics in self.features.values():
            yield from metrics.missing()
        if self.network_manager_fault:
            yield self.network_manager_fault

    def dumped(self) -> None:
        """Count a dump of the kernel's links."""
        self._dumps.inc()

    def stepped(self, step: str) -> None:
        """Count an applied step on a link."""
        self._steps.labels(step).inc()

    def refused(self) -> None:
        """Count an error of the kernel."""
        self._refusals.inc()

    def written(self, verb: str) -> None:
        """Count a write or a removal of a profile."""
        self._writes.labels(verb).inc()

    def asked(self, verb: str) -> None:
        """Count a request to NetworkManager for a change."""
        self._asked.labels(verb).inc()

    def cni_part(self, part: str, there: bool) -> None:
        """Record whether the plugin or its socket is in place."""
        self._cni_up.labels(part).set(there)

    def _collect(self) -> Iterator[Metric]:
        yield gauge(
            "lanloom_agent_network_manager_up",
            "Whether NetworkManager answered the last time that it was asked.",
            (),
            [((), not self.network_manager_fault)],
        )


class ObservedLinks:
    """Links that count dumps, steps and errors. A group of steps counts when all of it was applied."""

    def __init__(self, links: Links, metrics: AgentMetrics) -> None:
        self._links = links
        self._metrics = metrics

    async def dump(self) -> LinkState:
        """Implement the port."""
        self._metrics.dumped()
        try:
            return await self._links.dump()
        except LinkError:
            self._metrics.refused()
            raise

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """Implement the port."""
        try:
            await self._links.apply(steps)
        except LinkError:
            self._metrics.refused()
            raise
        for step in steps:
            self._metrics.stepped(type(step).__name__)

    def changes(self) -> AsyncGenerator[None, None]:
        """Implement the port."""
        return self._links.changes()


class ObservedProfiles:
    """Profiles that count writes and removals."""

    def __init__(self, profiles: Profiles, metrics: AgentMetrics) -> None:
        self._profiles = profiles
        self._metrics = metrics

    async def read(self) -> Mapping[str, bytes]:
        """Implement the port."""
        return await self._profiles.read()

    async def write(self, name: str, content: bytes) -> None:
        """Implement the port."""
        await self._profiles.write(name, content)
        self._metrics.written("write")

    async def remove(self, name: str) -> None:
        """Implement the port."""
        await self._profiles.remove(name)
        self._metrics.written("remove")

    def changes(self) -> AsyncGenerator[None, None]:
        """Implement the port."""
        return self._profiles.changes()


class ObservedNetworkManager:
    """A NetworkManager that counts requests, and records whether it responds."""

    def __init__(self, manager: NetworkManager, metrics: AgentMetrics) -> None:
        self._manager = manager
        self._metrics = metrics

    async def version(self) -> str:
        """Implement the port."""
        with self._recorded():
            return await self._manager.version()

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """Implement the port."""
        with self._recorded():
            return await self._manager.connections(uuids)

    async def load(self, names: tuple[str, ...]) -> None:
        """Implement the port."""
        with self._recorded("load"):
            await self._manager.load(names)

    async def activate(self, uuid: str) -> None:
        """Implement the port."""
        with self._recorded("activate"):
            await self._manager.activate(uuid)

    async def deactivate(self, uuid: str) -> None:
        """Implement the port."""
        with self._recorded("deactivate"):
            await self._manager.deactivate(uuid)

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """Implement the port."""
        with self._recorded("reapply"):
            await self._manager.reapply(uuid, restore=restore)

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        """Implement the port."""
        with self._recorded("leave-alone"):
            await self._manager.leave_alone(links)

    async def changes(self) -> AsyncGenerator[None, None]:
        """Implement the port. It first checks whether NetworkManager responds: the first change may take long."""
        await self.version()
        async with aclosing(self._manager.changes()) as changes:
            async for _ in changes:
                yield

    @contextmanager
    def _recorded(self, verb: str = "") -> Iterator[None]:
        try:
            yield
        except NetworkManagerMissing as error:
            self._metrics.network_manager_fault = str(error)
            raise
        except NetworkManagerError:
            self._metrics.network_manager_fault = ""
            raise
        self._metrics.network_manager_fault = ""
        if verb:
            self._metrics.asked(verb)


def observed(host: Host, metrics: AgentMetrics) -> Host:
    """Return the host with ports that count in `metrics`."""
    # Not by `replace`, which takes any value for a field: each of them must be the whole port.
    return Host(
        name=host.name,
        links=ObservedLinks(host.links, metrics),
        profiles=ObservedProfiles(host.profiles, metrics),
        network_manager=ObservedNetworkManager(host.network_manager, metrics),
        state=host.state,
        runtime=host.runtime,
    )

"""Write a node's reports and Events, in parallel with the work on the host and never in its way.

Reports are of two kinds: ClusterNetworkNode, which is Lanloom's, and VlanStatus, which Harvester's clients read. Only
what changed is written, and only the node's own. While the API server is away the last report waits, and so do some
Events.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, to_builtins

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNodeStatus
from lanloom.api.core import EventDraft
from lanloom.api.harvester import VLAN_STATUSES, VlanStatusFields
from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.features.vlan.agent.report import Networks, report_events
from lanloom.features.vlan.mode import HarvesterDetector
from lanloom.features.vlan.rules.desired.names import node_label, report_name, vlan_status_name
from lanloom.features.vlan.rules.report.status import vlan_statuses, written_alone
from lanloom.kube.controller import Controller
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.events import Recorder, node_reference
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents

S = TypeVar("S", bound=Struct)

KEPT = 100
"""So many Events wait while the API server is away; the oldest are dropped first."""

EVENT_RETRY = 5.0
"""Seconds until an Event that was not written is tried again."""

_REPORTS = "reports"

TRUST_SECONDS = 60.0
"""Seconds for which the server's answer to a write counts although the watch does not show it.

Not endlessly: a report that is written and deleted between two lists never appears, and its deletion neither.
"""


class ReportKind(Struct, Generic[S], frozen=True):
    """A kind of report. `name` and `labels` are those of the report of a cluster network (first) on a node (second)."""

    resource: Resource[Any]
    name: Callable[[str, str], str]
    labels: Callable[[str, str, S], dict[str, str]]


def _labels(cluster_network: str, node: str, _status: Struct) -> dict[str, str]:
    return {names.NODE_LABEL: node_label(node), names.CLUSTER_NETWORK_LABEL: cluster_network}


def _harvesters_labels(cluster_network: str, node: str, status: VlanStatusFields) -> dict[str, str]:
    return _labels(cluster_network, node, status) | {names.VLAN_CONFIG_LABEL: status.vlan_config}


NODE_REPORTS: ReportKind[ClusterNetworkNodeStatus] = ReportKind(CLUSTER_NETWORK_NODES, report_name, _labels)
VLAN_STATUS_REPORTS: ReportKind[VlanStatusFields] = ReportKind(
    VLAN_STATUSES, vlan_status_name, _harvesters_labels
)


class _Answer(NamedTuple):
    report: Any
    until: float


class ReportWriter(Generic[S]):
    """The reports of `node` of one kind. `informer` follows them; where its watch lags, the last answers count."""

    def __init__(self, client: Client, node: str, kind: ReportKind[S], informer: Informer[Any]) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._node = node
        self._kind = kind
        self._informer = informer
        self._answers: dict[str, _Answer] = {}
        self._deleted: dict[str, str] = {}

    def last(self, cluster_network: str) -> S | None:
        """Return the last report of a cluster network."""
        previous = self._previous(self._name(cluster_network))
        status: S | None = previous.status if previous is not None else None
        return status

    async def publish(
        self, statuses: Mapping[str, S], written: Callable[[S | None, S], None] = lambda _before, _after: None
    ) -> bool:
        """Make these, by cluster network, all that the node reports; whether anything had to be written.

        `written` receives each report that was, as it was before (if it was) and is now.
        """
        busy = False
        for cluster_network, status in statuses.items():
            before = self._previous(self._name(cluster_network))
            labels = self._labels(cluster_network, status)
            if before is not None and before.status == status and _has(before, labels):
                continue
            if not await self._write(self._name(cluster_network), labels, before, status):
                continue
            written(before.status if before is not None else None, status)
            busy = True
        current = {self._name(cluster_network) for cluster_network in statuses}
        for report in self._informer.store.items():
            name, uid = report.metadata.name, report.metadata.uid
            if name not in current and self._deleted.get(name) != uid:
                await self._delete(report)
                busy = True
        return busy

    def forget(self, name: str) -> None:
        """Forget the report of that name, which was deleted."""
        self._answers.pop(name, None)
        self._deleted.pop(name, None)

    def _name(self, cluster_network: str) -> str:
        return self._kind.name(cluster_network, self._node)

    def _labels(self, cluster_network: str, status: S) -> dict[str, str]:
        return self._kind.labels(cluster_network, self._node, status)

    def _previous(self, name: str) -> Any:
        """Return the report, as the server answered where the watch has not brought it yet, or None."""
        stored = self._informer.store.get(Key("", name))
        answer = self._answers.get(name)
        if answer is None or answer.until < asyncio.get_running_loop().time():
            return stored
        if stored is not None and stored.metadata.version >= answer.report.metadata.version:
            return stored
        return answer.report

    async def correct(self, statuses: Mapping[str, S], due: Callable[[S, S], S]) -> None:
        """Make reports that are there what `due` says, of the present one and of what would be reported now."""
        for cluster_network, status in statuses.items():
            previous = self._previous(self._name(cluster_network))
            if previous is None or (wanted := due(previous.status, status)) == previous.status:
                continue
            with ignore_not_found(previous.metadata.name):
                await self._patch(previous, wanted)

    async def _write(self, name: str, labels: dict[str, str], previous: Any, status: S) -> bool:
        """Return whether it is written: a manager that thinks that the node has left deletes it each time."""
        if previous is None or not _has(previous, labels):
            previous = await self._create(name, labels, status)
        try:
            await self._patch(previous, status)
            return True
        except NotFound:  # deleted, and the watch has not brought that yet
            previous = await self._create(name, labels, status)
        try:
            await self._patch(previous, status)
        except NotFound:
            return False
        return True

    async def _patch(self, previous: Any, status: S) -> None:
        name = previous.metadata.name
        report = previous
        if previous.status != status:  # a kind without a status subresource has it from its creation
            patch = struct_diff(previous.status, status)
            report = await self._statuses.patch(self._kind.resource, name, {"status": patch})
        self._answers[name] = _Answer(report, asyncio.get_running_loop().time() + TRUST_SECONDS)

    async def _create(self, name: str, labels: dict[str, str], status: S) -> Any:
        """Create a report of that name with its labels; an existing one without them is replaced."""
        resource = self._kind.resource
        body = {"metadata": {"name": name, "labels": labels}, "status": to_builtins(status)}
        try:
            return await self._client.create(resource, body)
        except AlreadyExists:
            report = await self._client.get(resource, name)
        if _has(report, labels):
            return report
        await self._client.delete(resource, name, uid=report.metadata.uid)
        return await self._client.create(resource, body)

    async def _delete(self, report: Any) -> None:
        """Delete a report once: the watch may be a while behind."""
        name, uid = report.metadata.name, report.metadata.uid
        self.forget(name)
        with ignore_not_found(name):
            await self._client.delete(self._kind.resource, name, uid=uid)
        self._deleted[name] = uid


def _has(report: Any, labels: dict[str, str]) -> bool:
    """Return whether the watch finds the report, and the webhook lets it be written."""
    return bool(labels.items() <= report.metadata.labels.items())


class VlanStatuses:
    """One node's VlanStatuses. Alongside Harvester's controller they are neither written nor deleted.

    But Lanloom corrects what it wrote itself while that controller was away: that its uplinks are not ready. The
    controller would write a VlanStatus only with the next change of a VlanConfig, and derives all else from it.
    """

    def __init__(self, reporter: ReportWriter[VlanStatusFields], detector: HarvesterDetector) -> None:
        self._reporter = reporter
        self._detector = detector

    def forget(self, name: str) -> None:
        """Forget the VlanStatus of that name, which was deleted."""
        self._reporter.forget(name)

    async def publish(self, reports: Mapping[str, ClusterNetworkNodeStatus]) -> None:
        """Make these, by cluster network, what the node's VlanStatuses tell."""
        statuses = vlan_statuses(reports)
        if self._detector.coexists():
            await self._reporter.correct(statuses, written_alone)
        else:
            await self._reporter.publish(statuses)


class StatusPublisher:
    """One node's reports and Events. `on_answer` is called when the server answered, with the time of the request."""

    def __init__(
        self,
        node: str,
        reporter: ReportWriter[ClusterNetworkNodeStatus],
        vlan_statuses: VlanStatuses,
        recorder: Recorder,
        networks: Networks,
        *,
        on_answer: Callable[[float], None],
        rng: Random,
    ) -> None:
        self._node = node
        self._reporter = reporter
        self._vlan_statuses = vlan_statuses
        self._recorder = recorder
        self._networks = networks
        self._on_answer = on_answer
        self._statuses: Mapping[str, ClusterNetworkNodeStatus] | None = None
        self._events: deque[EventDraft] = deque(maxlen=KEPT)
        self.controller: Controller[str] = Controller(
            "vlan-reports",
            self._publish,
            rng=rng,
            refusals=RefusalEvents(recorder, lambda _key: node_reference(node)),
        )

    def report(self, statuses: Mapping[str, ClusterNetworkNodeStatus]) -> None:
        """Publish all of the node's reports as they are now, by cluster network."""
        self._statuses = statuses
        self.controller.enqueue(_REPORTS)

    def record_events(self, events: Iterable[EventDraft]) -> None:
        """Keep Events to be written when the server can be reached."""
        self._events.extend(events)
        if self._events:
            self.controller.enqueue(_REPORTS)

    async def _publish(self, _key: str) -> float | None:
        if self._statuses is not None:
            began = asyncio.get_running_loop().time()
            if await self._reporter.publish(self._statuses, self._compare):
                self._on_answer(began)
            await self._vlan_statuses.publish(self._statuses)
        while self._events:
            event = self._events[0]
            if not await self._recorder.event(event.about, event.type, event.reason, event.message):
                return EVENT_RETRY
            if self._events and self._events[0] is event:  # a full queue dropped it meanwhile
                self._events.popleft()
        return None

    def _compare(self, before: ClusterNetworkNodeStatus | None, after: ClusterNetworkNodeStatus) -> None:
        self._events.extend(report_events(self._node, before, after, self._networks))

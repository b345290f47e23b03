"""The node's side of VLAN networks: observe the host, decide, apply, report.

One reconcile reads the stores, dumps the kernel once and applies the difference; reports and Events are written
alongside it. It may die after any line: everything it needs to go on is in the kernel, in the profile directory, in its
records and in the API. Where the API server can't be reached, the checkpoint holds (`rollback`).
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial

import structlog

from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, Management
from lanloom.api.core import ObjectReference
from lanloom.api.harvester import ClusterNetwork, VlanStatus
from lanloom.api.meta import Condition, Key, Object
from lanloom.api.multus import NADS
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.agent.activation import Activator
from lanloom.features.vlan.agent.apply import BridgeRecord, PlanExecutor, Problems, merged
from lanloom.features.vlan.agent.publisher import (
    NODE_REPORTS,
    VLAN_STATUS_REPORTS,
    ReportWriter,
    StatusPublisher,
    VlanStatuses,
)
from lanloom.features.vlan.agent.repairs import Repairs, by_kind
from lanloom.features.vlan.agent.report import HostSnapshot, NodeReports, node_reports, repair_events
from lanloom.features.vlan.agent.rollback import CommitConfirm, Decision
from lanloom.features.vlan.agent.rollback.revisions import Desired, NetworkRevision
from lanloom.features.vlan.informers import AgentInformers, nad_key
from lanloom.features.vlan.mode import HarvesterDetector
from lanloom.features.vlan.rules.desired.kernel import fitted
from lanloom.features.vlan.rules.desired.node import node_networks
from lanloom.features.vlan.rules.desired.owned import Added, named_links
from lanloom.features.vlan.rules.desired.plan import Drift, Plan, built, carried_networks, plan, settleable
from lanloom.features.vlan.rules.desired.reserved import management
from lanloom.features.vlan.rules.report.status import RESYNC_SECONDS
from lanloom.features.vlan.rules.rollout.policy import may_carry, revision
from lanloom.kube.controller import Controller, Observer, backoff
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import all_synced, changed
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.node.ports import Host, Lack6, LinkState, LinkStep
from lanloom.node.watch import follow

log = structlog.get_logger(__name__)


class DesiredState:
    """The desired state of one node. `cluster` tells this cluster's profiles from another's."""

    def __init__(
        self, node: str, cluster: str, informers: AgentInformers, detector: HarvesterDetector
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._detector = detector
        self._informers = informers
        self._cached: tuple[tuple[frozenset[str], Management | None, Lack6], Desired] | None = None
        informers.cluster_networks.on_change(self._forget)
        informers.configs.on_change(self._forget)
        informers.nads.on_change(self._forget, changed(nad_key))
        detector.on_change(lambda: self._forget(None, None))

    def get(self, observed: LinkState, files: Mapping[str, bytes], added: Mapping[str, Added]) -> Desired:
        """Return the present desired state of a node with this observed state."""
        own = management(observed, named_links(files, added))
        host = carried_networks(observed, files, added), own, observed.lack6
        if self._cached is None or self._cached[0] != host:
            self._cached = (host, self._compute(*host))
        return self._cached[1]

    def nad(self, title: str) -> ObjectReference | None:
        """Return the reference to a network (`namespace/name`) for an Event, if it is known."""
        namespace, _, name = title.partition("/")
        item = self._informers.nads.store.get(Key(namespace, name))
        return reference(NADS, item) if item is not None else None

    def _forget(self, _old: Object | None, _new: Object | None) -> None:
        self._cached = None

    def _compute(self, carried: frozenset[str], own: Management | None, lack6: Lack6) -> Desired:
        stores = self._informers
        networks = {item.metadata.name: item for item in stores.cluster_networks.store.items()}
        wanted = node_networks(
            self._node,
            self._cluster,
            networks.values(),
            stores.configs.store.items(),
            stores.nads.store.items(),
            carried,
            own,
            coexisting=self._detector.coexists(),
        )
        revisions = tuple(
            NetworkRevision(item, self._revision(networks[item.cluster_network]))
            for item in fitted(wanted, lack6)
        )
        released = (
            revision.name
            for revision in revisions
            if may_carry(networks[revision.name], self._node, revision.id)
        )
        return Desired(revisions, frozenset(released))

    def _revision(self, network: ClusterNetwork) -> str:
        name = network.metadata.name
        return revision(
            network.metadata.annotations,
            [item for item in self._informers.configs.store.items() if item.spec.cluster_network == name],
            [item for item in self._informers.nads.store.items() if cluster_network_of(item) == name],
        )


SYNC_SECONDS = 5.0
"""Seconds that the API server may take until the stores are synced, before the agent goes by its checkpoint."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two attempts to watch what failed, at first and at most."""

NETWORK_MANAGER_PAUSE = 2.0
"""Most seconds before NetworkManager is looked for again."""

NOTICE_SECONDS = 0.1
"""Seconds from a change of the host to its reconcile: changes of links, profiles and NetworkManager come in bursts."""

SPACING_SECONDS = 1.0
"""Seconds between two such reconciles in the long run: a host where pods come and go changes all the time."""

IN_A_ROW = 5
"""Reconciles of a host at rest without spacing: NetworkManager takes a few steps to an address, seen one by one."""

FAILED_SECONDS = 5.0
"""Seconds until a failed step is tried again."""

REWRITE_SECONDS = 1.0
"""Delay before recreating a deleted report. An immediate rewrite would fight another controller that deletes it."""

TRANSIENT_SECONDS = 1.0
"""A report that is to be looked at again so soon is one of something that is on its way."""

_HOST = "host"


class VlanAgent:
    """Keeps one host's VLAN networks as desired. `cluster` tells this cluster's profiles from another's.

    `observe` gets each reconcile, `on_report` what the node reports after it, by cluster network, whether or not the
    API server takes it. `on_repair` gets what others changed and the agent put right: its kind, how many.
    """

    def __init__(
        self,
        client: Client,
        host: Host,
        informers: AgentInformers,
        *,
        cluster: str,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
        on_report: Callable[[Mapping[str, ClusterNetworkNodeStatus]], None] = lambda _statuses: None,
        on_repair: Callable[[str, int], None] = lambda _kind, _n: None,
    ) -> None:
        self._host = host
        self._informers = informers
        self._now = now
        self._rng = rng
        self._on_report = on_report
        self._on_repair = on_repair
        self._controller: Controller[str] = Controller(
            "vlan-agent", self._reconcile, rng=rng, observe=observe
        )
        self._executor = PlanExecutor(host)
        self._activator = Activator(host.network_manager, now)
        self._repairs = Repairs()
        self._bridge_record = BridgeRecord(host.runtime)
        self._detector = HarvesterDetector(informers.harvester)
        self._desired = DesiredState(host.name, cluster, informers, self._detector)
        self._rollback = CommitConfirm(client, host, cluster, now, self.wake)
        self._reporter = ReportWriter(client, host.name, NODE_REPORTS, informers.statuses)
        self._vlan_statuses = VlanStatuses(
            ReportWriter(client, host.name, VLAN_STATUS_REPORTS, informers.vlan_statuses), self._detector
        )
        recorder = Recorder(client, "lanloom-agent", host.name, now=now, rng=rng)
        self._publisher = StatusPublisher(
            host.name,
            self._reporter,
            self._vlan_statuses,
            recorder,
            self._desired.nad,
            on_answer=self._rollback.answered,
            rng=rng,
        )
        self._failures: Problems = {}
        self._seen: Set[str] = frozenset()
        self._statuses: Mapping[str, ClusterNetworkNodeStatus] = {}
        self._synced = False
        self._alone = False
        self._next_check = self._paced = -math.inf
        informers.cluster_networks.on_change(lambda _old, _new: self._objects_changed())
        informers.configs.on_change(lambda _old, _new: self._objects_changed())
        informers.nads.on_change(lambda _old, _new: self._objects_changed(), changed(nad_key))
        informers.statuses.on_change(self._status_changed)
        informers.vlan_statuses.on_change(self._vlan_status_changed)
        self._detector.on_change(self._objects_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._controller, self._publisher.controller)

    def wake(self) -> None:
        """Request a reconcile of the host soon; any number of calls causes one."""
        self._controller.enqueue(_HOST)

    async def run(self) -> None:
        """Run until cancelled. The informers are run by the caller."""
        await self._rollback.load()
        await self._bridge_record.load()
        host = self._host
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run())
            group.create_task(self._rollback.run())
            group.create_task(self._await_stores())
            for name, changes, longest in (
                ("links", host.links.changes, LONGEST_PAUSE),
                ("profiles", host.profiles.changes, LONGEST_PAUSE),
                ("networkmanager", host.network_manager.changes, NETWORK_MANAGER_PAUSE),
            ):
                pause = partial(backoff, rng=self._rng, first=FIRST_PAUSE, cap=longest)
                group.create_task(follow(name, changes, self._host_changed, pause=pause))

    async def _await_stores(self) -> None:
        """Go by the checkpoint while the API server does not answer."""
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await all_synced(self._informers.all())
        except TimeoutError:
            log.warning("api-server-away", remembers=self._rollback.has_checkpoint)
            self._alone = True
            self.wake()
            await all_synced(self._informers.all())
        self._synced = True
        self._detector.log_mode()
        self._objects_changed()

    def _objects_changed(self) -> None:
        self._rollback.notified()
        self.wake()

    def _host_changed(self) -> None:
        """Enqueue a look at the host after a change, which the agent itself may have made."""
        now = asyncio.get_running_loop().time()
        if self._next_check <= now:
            self._paced = max(self._paced + SPACING_SECONDS, now - IN_A_ROW * SPACING_SECONDS)
            self._next_check = max(now + NOTICE_SECONDS, self._paced)
        self._controller.enqueue_after(_HOST, self._next_check - now)

    def _status_changed(self, old: ClusterNetworkNode | None, new: ClusterNetworkNode | None) -> None:
        if old is not None and new is None:
            self._reporter.forget(old.metadata.name)
            self._rollback.retry(old.status.cluster_network)
            self._controller.enqueue_after(_HOST, REWRITE_SECONDS)

    def _vlan_status_changed(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        if old is not None and new is None:
            self._vlan_statuses.forget(old.metadata.name)
            self._controller.enqueue_after(_HOST, REWRITE_SECONDS)

    async def _reconcile(self, _key: str) -> float | None:
        if not (self._synced or (self._alone and self._rollback.has_checkpoint)):
            return None
        observed = await self._host.links.dump()
        files = await self._executor.files()
        decision = await self._decide(observed, files)
        step, waits = self._repairs.paced(
            decision.plan, decision.revisions, asyncio.get_running_loop().time()
        )
        step, unrecorded = await self._bridge_record.record(step)
        drift = [*self._repairs.drift(decision.revisions, decision.plan, step, observed, files)]
        waiting = {name: self._failures[name] for name in waits if name in self._failures}
        failures = self._failures = merged(await self._executor.execute(step), unrecorded, waiting)
        # Their links can be made again before they are removed, and no look happens in between.
        self._seen = files.keys() - {*step.remove_files} | {file for file, _ in step.write_files}
        if step.steps or step.remove_files or step.forget:
            observed = await self._host.links.dump()
        await self._bridge_record.removed(observed)
        problems = merged(decision.problems, decision.plan.problems, failures)
        networks = tuple(item.network for item in decision.revisions)
        self._activator.uplink_built(built(networks, step))
        interfaces = settleable(networks, problems)
        named = named_links((*files, *(item.file for item in interfaces)), self._bridge_record.added)
        own = management(observed, named)
        connections = await self._activator.settle(interfaces, observed, own)
        await self._restore(self._activator.take_steps())
        problems = merged(problems, self._activator.conflicts(networks))
        drift += self._repairs.requested(decision.revisions, self._activator.take_requested())
        self._record_repairs(item for item in drift if item.cluster_network not in failures)
        snapshot = HostSnapshot(observed, connections, own, self._now())
        reports = node_reports(self._host.name, decision.selections, problems, snapshot, self._previous)
        self._conclude(reports, at_rest=step.empty and decision.plan.empty)
        again = FAILED_SECONDS if failures else RESYNC_SECONDS
        return min(reports.recheck_after, again, self._activator.wait, *waits.values())

    async def _restore(self, steps: tuple[LinkStep, ...]) -> None:
        for step in steps:
            try:
                await self._host.links.apply((step,))
            except LinkError as error:  # the link may be gone by now
                log.warning("sub-interfaces-not-corrected", error=str(error))

    async def _decide(self, observed: LinkState, files: Mapping[str, bytes]) -> Decision:
        desired = self._desired.get(observed, files, self._bridge_record.added) if self._synced else None

        def planned(revisions: tuple[NetworkRevision, ...]) -> Plan:
            networks = tuple(item.network for item in revisions)
            added = self._bridge_record.added
            return plan(networks, observed, files, added, seen=self._seen, tidy=self._may_tidy)

        on_host = carried_networks(observed, files, self._bridge_record.added)
        return await self._rollback.decide(desired, on_host, planned)

    @property
    def _may_tidy(self) -> bool:
        """Whether bridges and bonds that nothing wants may go: not while they may be Harvester's by now."""
        return self._synced and not self._detector.coexists()

    def _record_repairs(self, drift: Iterable[Drift]) -> None:
        found = tuple(drift)
        for kind, number in by_kind(found).items():
            self._on_repair(kind, number)
        self._publisher.record_events(repair_events(self._host.name, found))

    def _previous(self, cluster_network: str) -> tuple[Condition, ...]:
        """Return the last conditions of a network, as this agent or else its predecessor found them.

        Not as they were reported last: while a report is on its way, two that differ in their times would take turns.
        """
        known = self._statuses.get(cluster_network)
        status = known if known is not None else self._reporter.last(cluster_network)
        return status.conditions if status is not None else ()

    def _conclude(self, reports: NodeReports, *, at_rest: bool) -> None:
        """Report, and note whether nothing is on its way any more: only then can an answer confirm a change."""
        calm = at_rest and reports.recheck_after > TRANSIENT_SECONDS and reports.in_force
        self._rollback.conclude(settled=calm)
        self._on_report(reports.statuses)
        if self._synced:
            self._statuses = reports.statuses
            self._publisher.report(reports.statuses)

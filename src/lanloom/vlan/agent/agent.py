"""The node's side of VLAN networks: makes this host carry what the cluster's objects say, and reports what it carries.

One reconcile reads the stores, dumps the kernel once and applies the difference; reports and Events are written beside
it. It may die after any line: everything it needs to go on is in the kernel, in the profile directory, in its records
and in the API. Where the API server can't be asked, the last that it said holds.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Mapping

import structlog

from lanloom.api.harvester import VlanStatus, VlStatus
from lanloom.api.meta import Condition
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client
from lanloom.node.ports import Host, LinkState
from lanloom.vlan.agent.activator import Activator
from lanloom.vlan.agent.announcements import repaired
from lanloom.vlan.agent.carrier import Carrier, Problems, merged
from lanloom.vlan.agent.contact import Reach
from lanloom.vlan.agent.decisions import Decision, Decisions
from lanloom.vlan.agent.description import Description, Sight, describe
from lanloom.vlan.agent.guest import Guest
from lanloom.vlan.agent.memory import MemoryRecord
from lanloom.vlan.agent.outbox import Outbox
from lanloom.vlan.agent.repairs import Repairs, counted
from lanloom.vlan.agent.reporter import Reporter
from lanloom.vlan.agent.wanted import AgentInformers, Wanted
from lanloom.vlan.agent.watches import follow
from lanloom.vlan.rules.drift import Drift
from lanloom.vlan.rules.forms import Form
from lanloom.vlan.rules.plan import Plan, built, carried_networks, plan, settleable
from lanloom.vlan.rules.status import RESYNC_SECONDS

log = structlog.get_logger(__name__)

SYNC_SECONDS = 5.0
"""How long the API server may take to tell what is wanted, before the agent goes by what it remembers."""

NETWORK_MANAGER_PAUSE = 2.0
"""How long to wait, at the most, before NetworkManager is looked for again."""

NOTICE_SECONDS = 0.1
"""How soon after a change the host is looked at: changes of links, profiles and NetworkManager come in bursts."""

SPACING_SECONDS = 1.0
"""How far apart such looks are: a host where pods come and go has changes all the time."""

FAILED_SECONDS = 5.0
"""How soon a step that failed is tried again."""

REWRITE_SECONDS = 1.0
"""How soon a report that somebody deleted is written again; at once, two who disagree would never rest."""

TRANSIENT_SECONDS = 1.0
"""A report that is to be looked at again so soon is one of something that is on its way."""

_HOST = "host"


class VlanAgent:
    """Keeps one host's VLAN networks as wanted. `cluster` tells this cluster's profiles from another's.

    `observe` is told of each reconcile, `on_report` of what the node reports after it, by cluster network, whether or
    not the API server takes it, and `on_repair` of what was found changed by others and put right: its kind, how many.
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
        on_report: Callable[[Mapping[str, VlStatus]], None] = lambda _statuses: None,
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
        self._carrier = Carrier(host)
        self._activator = Activator(host.network_manager)
        self._repairs = Repairs()
        self._guest = Guest(host.runtime)
        self._wanted = Wanted(host.name, cluster, informers)
        self._reach = Reach(client, host.name, self.wake)
        self._decisions = Decisions(MemoryRecord(host, cluster, now), self._reach)
        self._reporter = Reporter(client, host.name, informers.statuses)
        recorder = Recorder(client, "lanloom-agent", host.name, now=now, rng=rng)
        self._outbox = Outbox(
            host.name, self._reporter, recorder, self._wanted.nad, heard=self._heard, rng=rng
        )
        self._failures: Problems = {}
        self._statuses: Mapping[str, VlStatus] = {}
        self._synced = False
        self._alone = False
        self._settled = math.inf
        self._noticed = -math.inf
        informers.cluster_networks.on_change(lambda _old, _new: self._news())
        informers.configs.on_change(lambda _old, _new: self._news())
        informers.nads.on_change(lambda _old, _new: self._news())
        informers.statuses.on_change(self._status_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._controller, self._outbox.controller)

    def wake(self) -> None:
        """Asks for a look at the host soon; any number of calls is one look."""
        self._controller.enqueue(_HOST)

    async def run(self) -> None:
        """Runs until cancelled. The informers are run by the caller."""
        await self._decisions.load()
        await self._guest.load()
        host = self._host
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run())
            group.create_task(self._reach.run())
            group.create_task(self._await_stores())
            group.create_task(follow("links", host.links.changes, self._notice, rng=self._rng))
            group.create_task(follow("profiles", host.profiles.changes, self._notice, rng=self._rng))
            group.create_task(
                follow(
                    "networkmanager",
                    host.network_manager.changes,
                    self._notice,
                    rng=self._rng,
                    longest=NETWORK_MANAGER_PAUSE,
                )
            )

    async def _await_stores(self) -> None:
        """Goes by what is remembered while the API server does not answer."""
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await all_synced(self._informers.all())
        except TimeoutError:
            log.warning("api-server-away", remembers=self._decisions.remembers)
            self._alone = True
            self.wake()
            await all_synced(self._informers.all())
        self._synced = True
        self._news()

    def _news(self) -> None:
        self._reach.told()
        self.wake()

    def _heard(self, began: float) -> None:
        """The API server took a report; that may be all that a change had to prove."""
        self._reach.heard(began)
        if self._decisions.on_trial:
            self.wake()

    def _notice(self) -> None:
        """Something changed on the host, perhaps by our own hand."""
        now = asyncio.get_running_loop().time()
        if self._noticed <= now:
            self._noticed = max(now + NOTICE_SECONDS, self._noticed + SPACING_SECONDS)
        self._controller.enqueue_after(_HOST, self._noticed - now)

    def _status_changed(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        if old is not None and new is None:
            self._reporter.forget(old)
            self._decisions.retry(old.status.cluster_network)
            self._controller.enqueue_after(_HOST, REWRITE_SECONDS)

    async def _reconcile(self, _key: str) -> float | None:
        if not (self._synced or (self._alone and self._decisions.remembers)):
            return None
        observed = await self._host.links.dump()
        files = await self._carrier.files()
        on_trial = self._decisions.trial
        decision = await self._decide(observed, files)
        if self._decisions.trial != on_trial:
            self._settled = math.inf  # whatever was in force before says nothing of this change
        step, waits = self._repairs.paced(decision.plan, decision.forms, asyncio.get_running_loop().time())
        step, unrecorded = await self._guest.record(step)
        drift = [*self._repairs.drift(decision.forms, decision.plan, step, observed, files)]
        waiting = {name: self._failures[name] for name in waits if name in self._failures}
        failures = self._failures = merged(await self._carrier.carry_out(step), unrecorded, waiting)
        if step.steps:
            observed = await self._host.links.dump()
        problems = merged(decision.problems, decision.plan.problems, failures)
        networks = tuple(form.network for form in decision.forms)
        self._activator.uplink_built(built(networks, step))
        connections = await self._activator.settle(settleable(networks, problems), observed)
        drift += self._repairs.asked(decision.forms, self._activator.take_asked())
        self._tell_repairs(item for item in drift if item.cluster_network not in failures)
        sight = Sight(observed, connections, self._now())
        described = describe(self._host.name, decision.choices, problems, sight, self._previous)
        self._conclude(described, at_rest=step.empty and decision.plan.empty)
        again = FAILED_SECONDS if failures else RESYNC_SECONDS
        return min(described.look_again, again, *waits.values())

    async def _decide(self, observed: LinkState, files: Mapping[str, bytes]) -> Decision:
        present = self._wanted.present(observed, files, self._guest.added) if self._synced else None
        await self._decisions.review(present, self._settled)
        choices = self._decisions.choices(present, carried_networks(observed, files, self._guest.added))

        def planned(forms: tuple[Form, ...]) -> Plan:
            return plan(tuple(form.network for form in forms), observed, files, self._guest.added)

        return await self._decisions.take_up(choices, planned)

    def _tell_repairs(self, drift: Iterable[Drift]) -> None:
        found = tuple(drift)
        for kind, number in counted(found).items():
            self._on_repair(kind, number)
        self._outbox.announce(repaired(self._host.name, found))

    def _previous(self, cluster_network: str) -> tuple[Condition, ...]:
        """The last conditions of a network, as this agent or else its predecessor found them.

        Not as they were reported last: while a report is on its way, two that differ in their times would take turns.
        """
        known = self._statuses.get(cluster_network)
        return known.conditions if known is not None else self._reporter.conditions(cluster_network)

    def _conclude(self, described: Description, *, at_rest: bool) -> None:
        """Reports, and remembers since when nothing is on its way: then a change can prove itself."""
        calm = at_rest and described.look_again > TRANSIENT_SECONDS and described.in_force
        now = asyncio.get_running_loop().time()
        self._settled = min(self._settled, now) if calm else math.inf
        self._reach.ask(self._decisions.on_trial)
        self._on_report(described.statuses)
        if self._synced:
            self._statuses = described.statuses
            self._outbox.report(described.statuses)

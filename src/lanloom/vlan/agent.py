"""The node's side of VLAN networks: makes this host carry what the cluster's objects say, and reports what it carries.

One reconcile reads the stores, dumps the kernel once, applies the difference and writes the status if it changed. It
may die after any line: everything it needs to go on is in the kernel, in the profile directory and in the API.
"""

import asyncio
import random
from collections.abc import Callable, Mapping

import structlog
from msgspec import Struct

from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus, VlStatus
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError, NetworkManagerError, NodeError, ProfileError
from lanloom.node.ports import Connection, Host, LinkState
from lanloom.vlan.activating import Activator
from lanloom.vlan.reporting import Reporter
from lanloom.vlan.rules.desired import Interface, NodeNetwork, Problem, node_networks
from lanloom.vlan.rules.names import parse_profile_file
from lanloom.vlan.rules.plan import Plan, blocked, carried_networks, plan
from lanloom.vlan.rules.status import RESYNC_SECONDS, leftover_status, look_again, node_status

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 1.0
"""How long to wait before NetworkManager is looked for again."""

FAILED_SECONDS = 5.0
"""How soon a step that failed is tried again."""

REWRITE_SECONDS = 1.0
"""How soon a report that somebody deleted is written again; at once, two who disagree would never rest."""

_HOST = "host"

Problems = Mapping[str, tuple[Problem, ...]]
"""By cluster network."""


class AgentInformers(Struct, frozen=True):
    """What the agent watches. `statuses` are those of its own node only."""

    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    nads: Informer[NetworkAttachmentDefinition]
    statuses: Informer[VlanStatus]

    def all(
        self,
    ) -> tuple[
        Informer[ClusterNetwork]
        | Informer[VlanConfig]
        | Informer[NetworkAttachmentDefinition]
        | Informer[VlanStatus],
        ...,
    ]:
        """Every informer, to be run."""
        return (self.cluster_networks, self.configs, self.nads, self.statuses)


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
        self._cluster = cluster
        self._now = now
        self._on_report = on_report
        self._on_repair = on_repair
        self._controller: Controller[str] = Controller(
            "vlan-agent", self._reconcile, rng=rng, observe=observe
        )
        self._activator = Activator(host.network_manager)
        self._reporter = Reporter(client, host.name, informers.statuses)
        self._unloaded: set[str] | None = None
        informers.cluster_networks.on_change(lambda _old, _new: self.wake())
        informers.configs.on_change(lambda _old, _new: self.wake())
        informers.nads.on_change(lambda _old, _new: self.wake())
        informers.statuses.on_change(self._status_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._controller,)

    def wake(self) -> None:
        """Asks for a look at the host soon; any number of calls is one look."""
        self._controller.enqueue(_HOST)

    def _status_changed(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        if old is not None and new is None:
            self._reporter.forget(old)
            self._controller.enqueue_after(_HOST, REWRITE_SECONDS)

    async def run(self) -> None:
        """Runs until cancelled. The informers are run by the caller."""
        for informer in self._informers.all():
            await informer.synced()
        self.wake()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._follow_network_manager())

    async def _follow_network_manager(self) -> None:
        while True:
            try:
                async for _ in self._host.network_manager.changes():
                    self.wake()
            except NetworkManagerError as error:
                log.info("network-manager-away", error=str(error))
            self.wake()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _reconcile(self, _key: str) -> float | None:
        observed = await self._host.links.dump()
        wanted = self._wanted(observed)
        files = await self._files()
        step = plan(wanted, observed, files)
        failures = await self._carry_out(step)
        if step.steps:
            observed = await self._host.links.dump()
        connections = await self._activator.settle(_settleable(wanted, step.problems))
        delay = await self._report(wanted, _merge(step.problems, failures), observed, connections)
        return min(delay, FAILED_SECONDS) if failures else delay

    def _wanted(self, observed: LinkState) -> tuple[NodeNetwork, ...]:
        stores = self._informers
        return node_networks(
            self._host.name,
            self._cluster,
            stores.cluster_networks.store.items(),
            stores.configs.store.items(),
            stores.nads.store.items(),
            carried_networks(observed),
        )

    async def _files(self) -> Mapping[str, bytes]:
        """Our profiles. A directory that can't be read is as good as empty: writing to it will say what is wrong."""
        try:
            files = await self._host.profiles.read()
        except ProfileError as error:
            log.warning("profiles-not-read", error=str(error))
            return {}
        if self._unloaded is None:  # a predecessor may have died before it told NetworkManager of them
            self._unloaded = set(files)
        return files

    async def _carry_out(self, step: Plan) -> dict[str, tuple[Problem, ...]]:
        """Applies a plan; what failed comes back by cluster network and does not hold up the rest."""
        failures = await self._remove(step.remove_files)
        self._pending_loads().update(step.forget)
        await self._load()
        for cluster_network, steps in step.steps:
            log.info("links-change", cluster_network=cluster_network, steps=[repr(item) for item in steps])
            try:
                await self._host.links.apply(steps)
            except LinkError as error:
                log.warning("links-not-changed", cluster_network=cluster_network, error=str(error))
                failures[cluster_network] = (_failure("LinkFailed", error),)
        for name, content in step.write_files:
            log.info("profile-change", file=name)
            self._pending_loads().add(name)
            try:
                await self._host.profiles.write(name, content)
            except ProfileError as error:
                failures[_network_of(name)] = (_failure("ProfileNotWritten", error),)
        await self._load()
        return failures

    async def _remove(self, files: tuple[str, ...]) -> dict[str, tuple[Problem, ...]]:
        failures: dict[str, tuple[Problem, ...]] = {}
        for name in files:
            log.info("profile-removal", file=name)
            self._pending_loads().add(name)
            try:
                await self._host.profiles.remove(name)
            except ProfileError as error:
                failures[_network_of(name)] = (_failure("ProfileNotRemoved", error),)
        return failures

    def _pending_loads(self) -> set[str]:
        if self._unloaded is None:
            self._unloaded = set()
        return self._unloaded

    async def _load(self) -> None:
        """Makes NetworkManager read what changed on disk; what it can't be told now stays to be told."""
        names_ = tuple(sorted(self._pending_loads()))
        if not names_:
            return
        try:
            await self._host.network_manager.load(names_)
        except NetworkManagerError as error:
            log.warning("profiles-not-loaded", files=names_, error=str(error))
            return
        self._pending_loads().difference_update(names_)

    async def _report(
        self,
        wanted: tuple[NodeNetwork, ...],
        problems: Problems,
        observed: LinkState,
        connections: Mapping[str, Connection] | None,
    ) -> float:
        """Writes what changed; in how many seconds the next look is due."""
        node, now = self._host.name, self._now()
        statuses: dict[str, VlStatus] = {}
        for network in wanted:
            name = network.cluster_network
            previous = self._reporter.conditions(name)
            obstacles = problems.get(name, ())
            statuses[name] = node_status(node, network, obstacles, observed, connections, previous, now)
        for name, obstacles in problems.items():
            if name and name not in statuses:
                statuses[name] = leftover_status(node, name, obstacles, self._reporter.conditions(name), now)
        self._on_report(statuses)
        await self._reporter.publish(statuses)
        return min((look_again(status) for status in statuses.values()), default=RESYNC_SECONDS)


def _settleable(wanted: tuple[NodeNetwork, ...], problems: Problems) -> tuple[Interface, ...]:
    return tuple(
        item
        for network in wanted
        if not blocked(problems.get(network.cluster_network, ()))
        for item in network.interfaces
    )


def _network_of(file: str) -> str:
    parsed = parse_profile_file(file)
    return parsed[0] if parsed else ""


def _failure(reason: str, error: NodeError) -> Problem:
    return Problem(vid=0, network="", reason=reason, message=str(error))


def _merge(left: Problems, right: Problems) -> dict[str, tuple[Problem, ...]]:
    return {name: (*left.get(name, ()), *right.get(name, ())) for name in {**left, **right}}

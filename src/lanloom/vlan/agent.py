"""The node's side of VLAN networks: makes this host carry what the cluster's objects say, and reports what it carries.

One reconcile reads the stores, dumps the kernel once, applies the difference and writes the status if it changed. It
may die after any line: everything it needs to go on is in the kernel, in the profile directory and in the API.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog
from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import VLAN_STATUSES, ClusterNetwork, VlanConfig, VlanStatus, VlStatus
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.kube.controller import Controller
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.informer import Informer
from lanloom.kube.mergediff import merge_diff
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError, NetworkManagerError, NetworkManagerMissing, NodeError, ProfileError
from lanloom.node.ports import Connection, Host, LinkState
from lanloom.vlan.rules.activation import Action, actions
from lanloom.vlan.rules.desired import Interface, NodeNetwork, Problem, node_networks
from lanloom.vlan.rules.names import node_label, vlan_status_name
from lanloom.vlan.rules.plan import Plan, plan
from lanloom.vlan.rules.status import RESYNC_SECONDS, leftover_status, look_again, node_status

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 1.0
"""How long to wait before NetworkManager is looked for again."""

FAILED_SECONDS = 5.0
"""How soon a step that failed is tried again."""

PATIENCE_SECONDS = 3.0
"""How long NetworkManager may leave a profile inactive before it is told to activate it."""

RETRY_SECONDS = 30.0
"""How long to wait between two requests to activate a profile."""

_HOST = "host"


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
    """Keeps one host's VLAN networks as wanted. `cluster` tells this cluster's profiles from another's."""

    def __init__(
        self,
        client: Client,
        host: Host,
        informers: AgentInformers,
        *,
        cluster: str,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._host = host
        self._informers = informers
        self._cluster = cluster
        self._now = now
        self._controller: Controller[str] = Controller("vlan-agent", self._reconcile, rng=rng)
        self._reported: dict[str, VlanStatus] = {}
        self._unloaded: set[str] | None = None
        self._due: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        for informer in informers.all():
            informer.on_change(lambda _old, _new: self.wake())
        informers.statuses.on_change(self._forget_deleted)

    def wake(self) -> None:
        """Asks for a look at the host soon; any number of calls is one look."""
        self._controller.enqueue(_HOST)

    def _forget_deleted(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        if old is not None and new is None:
            self._reported.pop(old.metadata.name, None)

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
        wanted = self._wanted()
        observed = await self._host.links.dump()
        files = await self._host.profiles.read()
        if self._unloaded is None:
            self._unloaded = set(files)
        step = plan(wanted, observed, files)
        failures = await self._carry_out(step)
        if step.steps:
            observed = await self._host.links.dump()
        connections = await self._settle(wanted)
        delay = await self._report(wanted, _merge(step.problems, failures), observed, connections)
        return min(delay, FAILED_SECONDS) if failures else delay

    def _wanted(self) -> tuple[NodeNetwork, ...]:
        stores = self._informers
        return node_networks(
            self._host.name,
            self._cluster,
            stores.cluster_networks.store.items(),
            stores.configs.store.items(),
            stores.nads.store.items(),
        )

    async def _carry_out(self, step: Plan) -> dict[str, tuple[Problem, ...]]:
        """Applies a plan; what failed comes back by cluster network and does not hold up the rest."""
        failures: dict[str, tuple[Problem, ...]] = {}
        for name in step.remove_files:
            self._pending_loads().add(name)
            await self._host.profiles.remove(name)
        self._pending_loads().update(step.forget)
        await self._load()
        for cluster_network, steps in step.steps:
            log.info("links-change", cluster_network=cluster_network, steps=[repr(item) for item in steps])
            try:
                await self._host.links.apply(steps)
            except LinkError as error:
                failures[cluster_network] = (_failure("LinkFailed", error),)
        for name, content in step.write_files:
            log.info("profile-change", file=name)
            self._pending_loads().add(name)
            try:
                await self._host.profiles.write(name, content)
            except ProfileError as error:
                failures[name.rpartition("-vlan")[0]] = (_failure("ProfileNotWritten", error),)
        await self._load()
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

    async def _settle(self, wanted: tuple[NodeNetwork, ...]) -> Mapping[str, Connection] | None:
        """Asks NetworkManager for what is not in force yet; its view of our profiles, or None if it is away."""
        interfaces = [item for network in wanted for item in network.interfaces]
        manager = self._host.network_manager
        try:
            connections = await manager.connections(tuple(item.uuid for item in interfaces))
            due = [action for action in actions(interfaces, connections) if self._is_due(action)]
            for action in due:
                await self._ask(action)
            if due:
                connections = await manager.connections(tuple(item.uuid for item in interfaces))
        except NetworkManagerMissing:
            return None
        self._remember_failures(interfaces, connections)
        return {uuid: self._with_failure(connection) for uuid, connection in connections.items()}

    def _is_due(self, action: Action) -> bool:
        """Reapplying is always due; the rest first waits a little for NetworkManager to do it by itself."""
        if action.verb == "reapply":
            return True
        now = asyncio.get_running_loop().time()
        due = self._due.setdefault(action.interface.uuid, now + PATIENCE_SECONDS)
        if now < due:
            return False
        self._due[action.interface.uuid] = now + RETRY_SECONDS
        return True

    async def _ask(self, action: Action) -> None:
        item, manager = action.interface, self._host.network_manager
        log.info("profile-request", verb=action.verb, file=item.file)
        try:
            match action.verb:
                case "load":
                    await manager.load((item.file,))
                case "activate":
                    await manager.activate(item.uuid)
                case "reapply":
                    await self._reapply(item)
        except NetworkManagerMissing:
            raise
        except NetworkManagerError as error:
            log.warning("profile-request-refused", verb=action.verb, file=item.file, error=str(error))

    async def _reapply(self, item: Interface) -> None:
        try:
            await self._host.network_manager.reapply(item.uuid)
        except NetworkManagerMissing:
            raise
        except NetworkManagerError:
            await self._host.network_manager.activate(item.uuid)

    def _remember_failures(
        self, interfaces: Iterable[Interface], connections: Mapping[str, Connection]
    ) -> None:
        """NetworkManager tries again at once after a failure: the reason must outlive that, or nobody ever sees it."""
        current = {item.uuid for item in interfaces}
        self._due = {uuid: due for uuid, due in self._due.items() if uuid in current}
        self._failures = {uuid: reason for uuid, reason in self._failures.items() if uuid in current}
        for uuid, connection in connections.items():
            if connection.phase == "failed":
                self._failures[uuid] = connection.reason
            elif connection.phase == "active":
                self._failures.pop(uuid, None)
                self._due.pop(uuid, None)

    def _with_failure(self, connection: Connection) -> Connection:
        reason = self._failures.get(connection.uuid)
        if reason is None or connection.phase not in ("activating", "inactive"):
            return connection
        return msgspec.structs.replace(connection, phase="failed", reason=reason)

    async def _report(
        self,
        wanted: tuple[NodeNetwork, ...],
        problems: Mapping[str, tuple[Problem, ...]],
        observed: LinkState,
        connections: Mapping[str, Connection] | None,
    ) -> float:
        """Writes what changed; in how many seconds the next look is due."""
        node, now = self._host.name, self._now()
        statuses = {}
        for network in wanted:
            name = network.cluster_network
            previous = self._previous(name)
            conditions = previous.status.conditions if previous else ()
            obstacles = problems.get(name, ())
            statuses[name] = node_status(node, network, obstacles, observed, connections, conditions, now)
        for name, obstacles in problems.items():
            if name and name not in statuses:
                previous = self._previous(name)
                statuses[name] = leftover_status(
                    node, name, obstacles, previous.status.conditions if previous else (), now
                )
        for name, status in statuses.items():
            await self._write(name, status)
        current = {vlan_status_name(name, node) for name in statuses}
        for report in self._informers.statuses.store.items():
            if report.metadata.name not in current:
                await self._delete(report)
        return min((look_again(status) for status in statuses.values()), default=RESYNC_SECONDS)

    def _previous(self, cluster_network: str) -> VlanStatus | None:
        """The status reported last: the store's, or our own answer where the watch has not brought it yet."""
        name = vlan_status_name(cluster_network, self._host.name)
        stored = self._informers.statuses.store.get(Key("", name))
        reported = self._reported.get(name)
        if stored is None or (reported is not None and _version(reported) > _version(stored)):
            return reported
        return stored

    async def _write(self, cluster_network: str, status: VlStatus) -> None:
        name = vlan_status_name(cluster_network, self._host.name)
        previous = self._previous(cluster_network)
        if previous is not None and previous.status == status:
            return
        if previous is None:
            previous = await self._create(name, cluster_network)
        patch = merge_diff(msgspec.to_builtins(previous.status), msgspec.to_builtins(status))
        try:
            self._reported[name] = await self._client.patch(
                VLAN_STATUSES, name, {"status": patch}, subresource="status"
            )
        except NotFound:
            self._reported.pop(name, None)
            self.wake()

    async def _create(self, name: str, cluster_network: str) -> VlanStatus:
        labels = {names.NODE_LABEL: node_label(self._host.name), names.CLUSTER_NETWORK_LABEL: cluster_network}
        try:
            return await self._client.create(VLAN_STATUSES, {"metadata": {"name": name, "labels": labels}})
        except AlreadyExists:
            return await self._client.get(VLAN_STATUSES, name)

    async def _delete(self, status: VlanStatus) -> None:
        name = status.metadata.name
        self._reported.pop(name, None)
        try:
            await self._client.delete(VLAN_STATUSES, name, uid=status.metadata.uid)
        except NotFound:
            return


def _version(status: VlanStatus) -> int:
    return int(status.metadata.resource_version or 0)


def _failure(reason: str, error: NodeError) -> Problem:
    return Problem(vid=0, network="", reason=reason, message=str(error))


def _merge(
    left: Mapping[str, tuple[Problem, ...]], right: Mapping[str, tuple[Problem, ...]]
) -> dict[str, tuple[Problem, ...]]:
    return {name: (*left.get(name, ()), *right.get(name, ())) for name in {**left, **right}}

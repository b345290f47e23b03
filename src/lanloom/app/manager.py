"""The manager process: informers and webhooks on every replica, controllers on the leader."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import structlog
from msgspec import Struct

from lanloom.api.core import NODES, Node
from lanloom.api.meta import Key
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.app.common import Common
from lanloom.app.dummy.parts import DummyParts, Shared
from lanloom.app.ipam.parts import IpamParts
from lanloom.app.metrics.manager import ManagerMetrics
from lanloom.app.unreadable import UnreadableObjects
from lanloom.app.webhooks import webhook_app
from lanloom.app.webhookservice import Reach, WebhookService
from lanloom.dummy.rules.given import Given
from lanloom.ipam.admission.statuses import Managers
from lanloom.kube.election import Elector
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.vlan.admission import VlanAdmission, agent_node
from lanloom.vlan.manager import VlanManager, vlan_informers
from lanloom.vlan.worlds import StoreWorld, vm_informer

log = structlog.get_logger(__name__)

LEASE_NAME = "lanloom-manager"


class ManagerSettings(Struct, frozen=True, kw_only=True):
    """How a manager runs.

    `identity` tells replicas apart. The webhooks listen on `host`:`port` (0: any free port). With `local` the API
    server reaches them at that address; else through the Service `lanloom-webhook` in Lanloom's namespace. `user` is
    as whom it writes, empty if its service account's or to be asked for. `dummy` is what was said of isolated networks.
    `lease` is how many seconds a leader that is silent stays one, `retry` how often it says that it is there. With
    `embedded` the API server is Lanloom's own.
    """

    identity: str
    host: str = "0.0.0.0"
    port: int = 9443
    local: bool = False
    mgmt_vlan: int = 0
    user: str = ""
    dummy: Given = Given()
    lease: float = 15.0
    retry: float = 2.0
    embedded: bool = False


class Manager:
    """One replica. Construct, then `run`; `ready` is set when it leads and the API server knows its webhooks."""

    def __init__(
        self,
        client: Client,
        settings: ManagerSettings,
        *,
        now: Callable[[], float],
        rng: random.Random,
        metrics: ManagerMetrics | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._now = now
        self._rng = rng
        self.metrics = metrics or ManagerMetrics()
        common = Common(
            client=client,
            recorder=Recorder(client, "lanloom-manager", settings.identity, now=now, rng=rng),
            identity=settings.identity,
            now=now,
            rng=rng,
            observe=self.metrics.reconcile,
        )
        nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._vms = vm_informer(client, rng)
        self._vlan = vlan_informers(client, nodes, rng)
        self._ipam = IpamParts(common, self._vms, self.metrics.ipam.leaked)
        self._vlan_manager = VlanManager(
            client,
            self._vlan,
            common.recorder,
            now=now,
            rng=rng,
            pools=self._ipam.node_pools,
            observe=self.metrics.reconcile,
        )
        shared = Shared(
            nads=self._vlan.nads,
            nodes=nodes,
            pods=self._ipam.owners.pods,
            machines=self._ipam.owners.machines,
            instances=self._vms,
            networks=self._ipam.informers.networks,
            cluster_networks=self._vlan.cluster_networks,
            configs=self._vlan.configs,
        )
        self._dummy = DummyParts(common, shared, settings.dummy)
        self._webhooks = WebhookService(
            client,
            Reach(settings.host, settings.port, settings.local),
            now=now,
            rng=rng,
            certified=self.metrics.certified,
            embedded=settings.embedded,
        )
        self.ready = self._webhooks.registered
        self._followed = (
            *self._vlan.all(),
            self._vms,
            *self._ipam.own_informers,
            *self._dummy.own_informers,
            self._webhooks.informer,
        )
        self._unreadable = UnreadableObjects(self._followed, common.recorder)
        self._synced = asyncio.Event()
        self._show()

    def _show(self) -> None:
        """What is measured by looking at it."""
        vlan, ipam, dummy = self._vlan, self._ipam, self._dummy
        controllers = (*self._vlan_manager.controllers, *ipam.controllers, *dummy.manager.controllers)
        self.metrics.follow(self._followed, controllers)
        self.metrics.show(vlan.cluster_networks, vlan.statuses)
        self.metrics.ipam.show(ipam.informers.networks, ipam.informers.nics)
        self.metrics.dummy.show(dummy.informers.dcns, dummy.users)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._followed:
                group.create_task(informer.run())
            await all_synced(self._followed)
            freeze_memory()
            self._synced.set()
            port = await self._serve_webhooks(group)
            group.create_task(self._lead_in_turn(port))

    async def _serve_webhooks(self, group: asyncio.TaskGroup) -> int:
        """The port, as soon as they answer there."""
        client, user = self._client, self._settings.user
        world = StoreWorld(self._vlan, self._vms, self._ipam.owners.machines, self._settings.mgmt_vlan)
        vlan = VlanAdmission(client, world, self._node_of_pod)
        ipam = self._ipam.admission(partial(agent_node, node_of_pod=self._node_of_pod), user)
        dummy = self._dummy.admission(Managers(client, user).include)
        app = webhook_app([dummy, vlan, ipam], self._synced.is_set, self.metrics.review, dummy.refer)
        port = await self._webhooks.serve(app, group)
        self.metrics.webhooks_serve = True
        return port

    def _node_of_pod(self, name: str) -> str:
        pod = self._ipam.owners.pods.store.get(Key(LANLOOM_NAMESPACE, name))
        return pod.spec.node_name if pod is not None else ""

    async def _lead_in_turn(self, port: int) -> None:
        settings = self._settings
        elector = Elector(
            self._client,
            LANLOOM_NAMESPACE,
            LEASE_NAME,
            settings.identity,
            now=self._now,
            rng=self._rng,
            lease=settings.lease,
            renew=settings.lease * 2 / 3,
            retry=settings.retry,
        )
        await elector.run(lambda: self._lead(port))

    async def _lead(self, port: int) -> None:
        log.info("leading", identity=self._settings.identity)
        self.metrics.leads(True)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._unreadable.run())
                group.create_task(self._webhooks.keep_registered(port))
                group.create_task(self._ipam.node_pools.run())  # before what tells it of claims
                group.create_task(self._vlan_manager.run())
                group.create_task(self._ipam.run())
                group.create_task(self._dummy.run())
        finally:
            self.metrics.leads(False)

"""The manager process: informers and webhooks on every replica, controllers on the leader."""

import asyncio
import random
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from lanloom.api.core import (
    MUTATING_WEBHOOKS,
    NODES,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Node,
    Secret,
)
from lanloom.api.meta import Key
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.app.bundles import bundle_of
from lanloom.app.certificates import expires, is_whole
from lanloom.app.credentials import SECRET_NAME, Credentials, path_of
from lanloom.app.dummy.parts import DummyParts, Shared
from lanloom.app.metrics.manager import ManagerMetrics
from lanloom.app.registration import Registration
from lanloom.app.webhookconfig import references_webhook, webhook_configurations
from lanloom.app.webhooks import TlsServer, secluded, webhook_app
from lanloom.dummy.admission import MUTATED as DUMMY_MUTATED
from lanloom.dummy.admission import REFERENCES
from lanloom.dummy.admission import VALIDATED as DUMMY_VALIDATED
from lanloom.dummy.rules.given import Given
from lanloom.ipam.admission import MUTATED as IPAM_MUTATED
from lanloom.ipam.admission import VALIDATED as IPAM_VALIDATED
from lanloom.ipam.admission import IpamAdmission
from lanloom.ipam.admission.statuses import Managers
from lanloom.ipam.manager import IpamManager, ipam_informers
from lanloom.ipam.nodes import NodePools
from lanloom.ipam.owners import OwnerController, owner_informers
from lanloom.ipam.worlds import StoreWorld as IpamWorld
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.vlan.admission import MUTATED, VALIDATED, VlanAdmission, agent_node
from lanloom.vlan.manager import VlanManager, vlan_informers
from lanloom.vlan.worlds import StoreWorld, vm_informer

log = structlog.get_logger(__name__)

SERVICE_NAME = "lanloom-webhook"
LEASE_NAME = "lanloom-manager"

REGISTRATION_CHECK_SECONDS = 60.0
REGISTRATION_RETRY_SECONDS = 2.0


class ManagerSettings(Struct, frozen=True, kw_only=True):
    """How a manager runs.

    `identity` tells replicas apart. The webhooks listen on `host`:`port` (0: any free port). With `local` the API
    server reaches them at that address; else through the Service `lanloom-webhook` in Lanloom's namespace. `user` is
    as whom it writes, empty if its service account's or to be asked for. `dummy` is what was said of isolated networks.
    `lease` is how many seconds a leader that is silent stays one, `retry` how often it says that it is there.
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


def _host_names(settings: ManagerSettings) -> tuple[str, ...]:
    """What the API server calls the webhooks."""
    if settings.local:
        return (settings.host,)
    service = f"{SERVICE_NAME}.{LANLOOM_NAMESPACE}.svc"
    return (service, f"{service}.cluster.local")


class Manager:
    """One replica. Construct, then `run`; `ready` is set when its webhooks answer from a complete view."""

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
        self.ready = asyncio.Event()
        self.metrics = metrics or ManagerMetrics()
        nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._vlan = vlan_informers(client, nodes, rng)
        self._vms = vm_informer(client, rng)
        self._ipam = ipam_informers(client, rng)
        self._credentials = Credentials(client, _host_names(settings), now=now)
        self._place = ""
        self._secrets: Informer[Secret] = Informer(
            client, SECRETS, rng=rng, namespace=LANLOOM_NAMESPACE, fields=f"metadata.name={SECRET_NAME}"
        )
        self._owners = owner_informers(client, self._vms, rng)
        recorder = Recorder(client, "lanloom-manager", settings.identity, now=now, rng=rng)
        self._node_pools = NodePools(
            client, self._ipam.nics, self._ipam.networks, rng=rng, observe=self.metrics.reconcile
        )
        self._vlan_manager = VlanManager(
            client,
            self._vlan,
            recorder,
            now=now,
            rng=rng,
            pools=self._node_pools,
            observe=self.metrics.reconcile,
        )
        self._ipam_manager = IpamManager(
            client,
            self._ipam,
            recorder,
            identity=settings.identity,
            now=now,
            rng=rng,
            observe=self.metrics.reconcile,
        )
        self._nic_owners = OwnerController(
            client,
            self._ipam.nics,
            self._owners,
            recorder,
            rng=rng,
            observe=self.metrics.reconcile,
            leaked=self.metrics.ipam.leaked,
        )
        self._dummy = DummyParts(
            client,
            Shared(
                nads=self._vlan.nads,
                nodes=nodes,
                pods=self._owners.pods,
                machines=self._owners.machines,
                instances=self._vms,
                networks=self._ipam.networks,
                cluster_networks=self._vlan.cluster_networks,
                configs=self._vlan.configs,
            ),
            recorder,
            identity=settings.identity,
            given=settings.dummy,
            now=now,
            rng=rng,
            observe=self.metrics.reconcile,
        )
        own = (*self._vlan.all(), self._vms, *self._ipam.all(), self._secrets)
        self._followed = (*own, self._owners.pods, self._owners.machines, *self._dummy.own_informers)
        self.metrics.follow(
            self._followed,
            (
                *self._vlan_manager.controllers,
                *self._ipam_manager.controllers,
                *self._node_pools.controllers,
                *self._nic_owners.controllers,
                *self._dummy.manager.controllers,
            ),
        )
        self.metrics.show(self._vlan.cluster_networks, self._vlan.statuses)
        self.metrics.ipam.show(self._ipam.networks, self._ipam.nics)
        self.metrics.dummy.show(self._dummy.informers.dcns, self._dummy.users)
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._followed:
                group.create_task(informer.run())
            await all_synced(self._followed)
            freeze_memory()
            self._synced.set()
            server = await self._serve_webhooks(group)
            group.create_task(self._lead_in_turn(server))

    async def _serve_webhooks(self, group: asyncio.TaskGroup) -> TlsServer:
        world = StoreWorld(self._vlan, self._vms, self._settings.mgmt_vlan)
        vlan = VlanAdmission(self._client, world, self._node_of_pod)
        agent_of = partial(agent_node, node_of_pod=self._node_of_pod)
        known, user = IpamWorld(self._ipam), self._settings.user
        ipam = IpamAdmission(self._client, known, agent_of, self._new_uuid, user)
        dummy = self._dummy.admission(Managers(self._client, user).include)
        app = webhook_app([dummy, vlan, ipam], self._synced.is_set, self.metrics.review, dummy.refer)
        bundle = await self._credentials.at_last()
        server = TlsServer(
            secluded(app, lambda: self._place), self._settings.host, self._settings.port, bundle
        )
        self.metrics.certified(expires(bundle.certificate))
        self._secrets.on_change(lambda _old, new: self._present(server, new))
        group.create_task(server.run())
        await server.started()
        self.metrics.webhooks_serve = True
        return server

    def _present(self, server: TlsServer, secret: Secret | None) -> None:
        """Takes up a new certificate; the old one serves until the leader has mended a Secret that is broken."""
        if secret is not None and is_whole(bundle := bundle_of(secret)):
            server.use(bundle)
            self._place = path_of(secret)
            self.metrics.certified(expires(bundle.certificate))

    def _node_of_pod(self, name: str) -> str:
        pod = self._owners.pods.store.get(Key(LANLOOM_NAMESPACE, name))
        return pod.spec.node_name if pod is not None else ""

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def _lead_in_turn(self, server: TlsServer) -> None:
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
        await elector.run(lambda: self._lead(server))

    async def _lead(self, server: TlsServer) -> None:
        log.info("leading", identity=self._settings.identity)
        self.metrics.leads(True)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_registered(server))
                group.create_task(self._node_pools.run())  # before what tells it of claims
                group.create_task(self._vlan_manager.run())
                group.create_task(self._ipam_manager.run())
                group.create_task(self._nic_owners.run())
                group.create_task(self._dummy.run())
        finally:
            self.metrics.leads(False)

    async def _keep_registered(self, server: TlsServer) -> None:
        """Registers the webhooks; then renews the certificate in time, and repairs what somebody changed."""
        registration = Registration(self._client)
        while True:
            try:
                await self._credentials.current()
                await self._register(server, registration)
            except KubeError as error:
                log.warning("webhooks-not-registered", error=str(error))
                await asyncio.sleep(REGISTRATION_RETRY_SECONDS)
                continue
            self.ready.set()
            await asyncio.sleep(REGISTRATION_CHECK_SECONDS)

    async def _register(self, server: TlsServer, registration: Registration) -> None:
        secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        authority, place = secret.data["ca.crt"], path_of(secret)
        self._place = place  # before anybody hears of it

        def client_config(page: str) -> dict[str, Any]:
            path = f"/{place}{page}"
            if self._settings.local:
                return {"caBundle": authority, "url": f"https://{self._settings.host}:{server.port}{path}"}
            service = {"name": SERVICE_NAME, "namespace": LANLOOM_NAMESPACE, "path": path, "port": 443}
            return {"caBundle": authority, "service": service}

        mutating, validating = webhook_configurations(
            (*MUTATED, *IPAM_MUTATED, *DUMMY_MUTATED),
            (*VALIDATED, *IPAM_VALIDATED, *DUMMY_VALIDATED),
            client_config,
            references_webhook(REFERENCES, client_config),
        )
        await registration.apply(MUTATING_WEBHOOKS, mutating)
        await registration.apply(VALIDATING_WEBHOOKS, validating)

"""The manager process: informers and webhooks on every replica, controllers on the leader."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from msgspec import Struct

from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features import FEATURES
from lanloom.kube.election import Elector
from lanloom.kube.events import Recorder, UnreadableObjects
from lanloom.kube.informer import all_synced, freeze_memory
from lanloom.kube.ports import Client
from lanloom.processes.managermetrics import ManagerMetrics
from lanloom.processes.webhookservice import Reach, WebhookService
from lanloom.runtime.context import HARVESTER_RUNS, ManagerContext, ManagerPart
from lanloom.runtime.feature import Feature, in_order, load, webhooks_of
from lanloom.runtime.webhooks import refer_all, webhook_app

log = structlog.get_logger(__name__)

LEASE_NAME = "lanloom-manager"


class ManagerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a manager.

    `identity` is unique to a replica. The webhooks listen on `host`:`port` (0: any free port). With `local` the API
    server reaches them at that address; else through the Service `lanloom-webhook` in Lanloom's namespace. `user` is
    the username of the manager, empty to query it from the API server. `features` are the settings of the features by
    their names. `lease` is the duration of the leader's Lease and `retry` the interval of its renewals, in seconds.
    With `embedded` the API server is Lanloom's own.
    """

    identity: str
    host: str = "0.0.0.0"
    port: int = 9443
    local: bool = False
    user: str = ""
    features: Mapping[str, Any] = {}
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
        features: Sequence[Feature] = FEATURES,
    ) -> None:
        self._client = client
        self._settings = settings
        self._now = now
        self._rng = rng
        self.metrics = metrics or ManagerMetrics(features)
        recorder = Recorder(client, "lanloom-manager", settings.identity, now=now, rng=rng)
        context = ManagerContext(
            client=client,
            recorder=recorder,
            identity=settings.identity,
            user=settings.user,
            now=now,
            rng=rng,
            observe=self.metrics.reconcile,
            settings=settings.features,
            metrics=self.metrics.features,
        )
        self._parts: dict[str, ManagerPart] = {
            feature.name: load(feature.manager)(context) for feature in in_order(features) if feature.manager
        }
        self._admissions = [
            part.admission
            for feature in reversed(features)
            if (part := self._parts.get(feature.name)) is not None and part.admission is not None
        ]
        self._webhooks = WebhookService(
            client,
            Reach(settings.host, settings.port, settings.local),
            webhooks_of(features),
            now=now,
            rng=rng,
            certified=self.metrics.certified,
            beside=context.find(HARVESTER_RUNS) or (lambda: False),
            embedded=settings.embedded,
        )
        self.ready = self._webhooks.registered
        self._followed = (*context.informers.all(), self._webhooks.informer)
        self._unreadable = UnreadableObjects(self._followed, recorder)
        self._synced = asyncio.Event()
        controllers = (controller for part in self._parts.values() for controller in part.controllers)
        self.metrics.follow(self._followed, tuple(controllers))

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._followed:
                group.create_task(informer.run())
            await all_synced(self._followed)
            freeze_memory()
            self._synced.set()
            port = await self._serve_webhooks(group)
            group.create_task(self._lead_in_turn(port))

    async def _serve_webhooks(self, group: asyncio.TaskGroup) -> int:
        """Serve the webhooks, and return their port."""
        app = webhook_app(
            self._admissions, self._synced.is_set, self.metrics.review, refer_all(self._admissions)
        )
        port = await self._webhooks.serve(app, group)
        self.metrics.webhooks_serve = True
        return port

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
                for part in self._parts.values():
                    group.create_task(part.run())
        finally:
            self.metrics.leads(False)

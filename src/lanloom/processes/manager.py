"""The manager process: informers and webhooks on every replica, controllers on the leader.

The leader also keeps the webhooks registered with the API server.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from lanloom.api.core import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Secret,
)
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features import FEATURES
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder, UnreadableObjects
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.ports import Client
from lanloom.kube.store import freeze_memory
from lanloom.processes.metrics import ManagerMetrics
from lanloom.runtime.certificates import (
    SECRET_NAME,
    Credentials,
    bundle_of,
    expires,
    is_whole,
    path_of,
    wait_for_check,
)
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.feature import Feature, in_order, load, webhooks_of
from lanloom.runtime.identity import MANAGER_LEASE
from lanloom.runtime.ports import HARVESTER_RUNS
from lanloom.runtime.sockets import EVERYWHERE
from lanloom.runtime.webhookconfig import SERVICE_NAME, Registration, may_register, webhook_configurations
from lanloom.runtime.webhooks import Reviews, TlsServer, app_of, refer_all, secret_path
from lanloom.runtime.webhooktable import Webhook
from lanloom.text import authority

log = structlog.get_logger(__name__)

CHECK_SECONDS = 60.0
DRAIN_SECONDS = 5.0
"""How long API servers may send reviews to a replica that ends: the proxies of all nodes learn of its end later."""

RETRY_SECONDS = 2.0


class Endpoint(Struct, frozen=True):
    """Where the webhooks listen (`port` 0: any free one), and how the API server reaches them.

    With `local` that is at the same address; else it is through the Service `lanloom-webhook` in Lanloom's namespace.
    """

    host: str
    port: int
    local: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names for the certificate, by which the API server connects."""
        if self.local:
            return (self.host,)
        service = f"{SERVICE_NAME}.{LANLOOM_NAMESPACE}.svc"
        return (service, f"{service}.cluster.local")

    def config(self, port: int, path: str) -> dict[str, Any]:
        """Return the `clientConfig` of a webhook without the CA."""
        if self.local:
            return {"url": f"https://{authority(self.host, port)}{path}"}
        return {"service": {"name": SERVICE_NAME, "namespace": LANLOOM_NAMESPACE, "path": path, "port": 443}}


class WebhookService:
    """Construct, run `informer`, then `serve`, and on the leader `keep_registered`.

    `table` are the rows to register, and `registered` is set once they are. With `embedded` the API server is Lanloom's
    own. `now` gives seconds since the epoch; `certified` receives the end of the certificate in use. `coexists` returns
    whether Harvester's controller runs.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        table: tuple[Webhook, ...],
        *,
        now: Callable[[], float],
        rng: random.Random,
        certified: Callable[[float], None],
        coexists: Callable[[], bool],
        embedded: bool = False,
    ) -> None:
        self._client = client
        self._coexists = coexists
        self._table = table
        self._endpoint = endpoint
        self._credentials = Credentials(client, endpoint.names, now=now)
        self._now = now
        self._certified = certified
        self._embedded = embedded
        self._path = ""
        self._reviews: Reviews | None = None
        self._server: TlsServer | None = None
        self._pages: list[tuple[dict[str, Any], str]] = []
        self._changed = asyncio.Event()
        self.informer: Informer[Secret] = Informer(
            client, SECRETS, rng=rng, namespace=LANLOOM_NAMESPACE, fields=f"metadata.name={SECRET_NAME}"
        )
        self.registered = asyncio.Event()

    async def serve(self, reviews: Reviews, group: asyncio.TaskGroup) -> int:
        """Serve the webhooks as a task of the group, and return their port once they respond."""
        bundle = await self._credentials.at_last()
        app = secret_path(app_of(reviews), lambda: self._path)
        server = TlsServer(app, self._endpoint.host, self._endpoint.port, bundle)
        self._reviews, self._server = reviews, server
        self._certified(expires(bundle.certificate))
        self.informer.on_change(lambda _old, new: self._present(server, new))
        group.create_task(server.run())
        await server.started()
        return server.port

    def drain(self) -> None:
        """Have API servers turn to other replicas: end each connection after its next response."""
        if self._server is not None:
            self._server.drain()

    def own(self, config: Mapping[str, Any]) -> Callable[[bytes], Awaitable[bytes]] | None:
        """Return how to ask the webhook of a `clientConfig` without a connection, if this replica registered it.

        A configuration that was changed since is not one of them: it is called as it stands.
        """
        page = next((page for known, page in self._pages if known == config), None)
        return partial(self._reviews.ask, page) if self._reviews is not None and page is not None else None

    async def keep_registered(self, port: int) -> None:
        """Register the webhooks once a replica answers; then renew the certificate, and repair the registration.

        A change of the Secret is registered soon: replicas present its certificate, and answer at its path.
        """
        registration = Registration(self._client, embedded=self._embedded)
        complaint = ""
        while True:
            self._changed.clear()
            try:
                if not (self._endpoint.local or await may_register(self._client)):
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                await self._register(port, registration, await self._credentials.keep())
            except KubeError as error:
                known = error.reported or str(error) == complaint
                complaint = str(error)
                (log.debug if known else log.warning)("webhooks-not-registered", error=complaint)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            complaint = ""
            self.registered.set()
            await wait_for_check(CHECK_SECONDS, self._now, self._changed)
            if self._changed.is_set():
                await asyncio.sleep(RETRY_SECONDS)  # another program may write it whenever a manager does

    async def _register(self, port: int, registration: Registration, secret: Secret) -> None:
        authority, path = secret.data["ca.crt"], path_of(secret)
        self._path = path  # before the registration

        pages: list[tuple[dict[str, Any], str]] = []

        def client_config(page: str) -> dict[str, Any]:
            config = {"caBundle": authority, **self._endpoint.config(port, f"/{path}{page}")}
            pages.append((config, page))
            return config

        mutating, validating = webhook_configurations(self._table, client_config, coexists=self._coexists())
        await registration.apply(MUTATING_WEBHOOKS, mutating)
        await registration.apply(VALIDATING_WEBHOOKS, validating)
        self._pages = pages if self._endpoint.local else []
        self._credentials.registered(bundle_of(secret).ca)

    def _present(self, server: TlsServer, secret: Secret | None) -> None:
        """Load a new certificate; the old one stays in use while the Secret is invalid."""
        self._changed.set()
        if secret is not None and is_whole(bundle := bundle_of(secret)):
            server.use(bundle)
            self._path = path_of(secret)
            self._certified(expires(bundle.certificate))


class ManagerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a manager.

    `identity` is unique to a replica. The webhooks listen on `host`:`port` (0: any free port). With `local` the API
    server reaches them at that address; else through the Service `lanloom-webhook` in Lanloom's namespace. `user` is
    the username of the manager, empty to query it from the API server. `features` are the settings of the features by
    their names. `lease` is the duration of the leader's Lease and `retry` the interval of its renewals, in seconds; for
    `drain` seconds after the end webhooks are served. With `embedded` the API server is Lanloom's own.
    """

    identity: str
    host: str = EVERYWHERE
    port: int = 9443
    local: bool = False
    user: str = ""
    features: Mapping[str, Any] = {}
    lease: float = 15.0
    retry: float = 2.0
    drain: float = 0.0
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
        self._in_flight = context.in_flight
        self._invalid = context.invalid
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
            Endpoint(settings.host, settings.port, settings.local),
            webhooks_of(features),
            now=now,
            rng=rng,
            certified=self.metrics.certified,
            coexists=context.find(HARVESTER_RUNS) or (lambda: False),
            embedded=settings.embedded,
        )
        self.ready = self._webhooks.registered
        self.own = self._webhooks.own
        self._followed = (*context.informers.all(), self._webhooks.informer)
        self._unreadable = UnreadableObjects(self._followed, recorder)
        self._synced = asyncio.Event()
        self._leading: asyncio.Task[None] | None = None
        controllers = (controller for part in self._parts.values() for controller in part.controllers)
        self.metrics.follow(self._followed, (self._invalid.controller, *controllers))

    async def run(self) -> None:
        """Run until cancelled. Then another replica may lead at once, and webhooks are served a little longer."""
        running = asyncio.ensure_future(self._run())
        try:
            await asyncio.shield(running)
        finally:
            try:
                if self._leading is not None and not running.done():
                    self._leading.cancel()
                    self._webhooks.drain()
                    await asyncio.wait((running,), timeout=self._settings.drain)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._followed:
                group.create_task(informer.run())
            await all_synced(self._followed)
            freeze_memory()
            self._synced.set()
            port = await self._serve_webhooks(group)
            self._leading = group.create_task(self._lead_in_turn(port))

    async def _serve_webhooks(self, group: asyncio.TaskGroup) -> int:
        """Serve the webhooks, and return their port."""
        refer = refer_all(self._admissions)
        reviews = Reviews(self._admissions, self._synced.is_set, self.metrics.review, refer, self._in_flight)
        port = await self._webhooks.serve(reviews, group)
        self.metrics.webhooks_serve = True
        return port

    async def _lead_in_turn(self, port: int) -> None:
        settings = self._settings
        elector = Elector(
            self._client,
            LANLOOM_NAMESPACE,
            MANAGER_LEASE,
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
                group.create_task(self._invalid.run())
                group.create_task(self._webhooks.keep_registered(port))
                for part in self._parts.values():
                    group.create_task(part.run())
        finally:
            self.metrics.leads(False)

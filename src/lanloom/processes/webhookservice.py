"""The webhooks of one replica: every replica serves them, and the leader keeps them registered."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import structlog
from msgspec import Struct
from starlette.types import ASGIApp

from lanloom.api.core import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Secret,
)
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import KubeError
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.runtime.certificates import bundle_of, expires, is_whole
from lanloom.runtime.credentials import SECRET_NAME, Credentials, path_of
from lanloom.runtime.webhookconfig import Registration, webhook_configurations
from lanloom.runtime.webhooks import TlsServer, secluded
from lanloom.runtime.webhooktable import Webhook

log = structlog.get_logger(__name__)

SERVICE_NAME = "lanloom-webhook"

CHECK_SECONDS = 60.0
RETRY_SECONDS = 2.0


class Reach(Struct, frozen=True):
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
            return {"url": f"https://{self.host}:{port}{path}"}
        return {"service": {"name": SERVICE_NAME, "namespace": LANLOOM_NAMESPACE, "path": path, "port": 443}}


class WebhookService:
    """Construct, run `informer`, then `serve`, and on the leader `keep_registered`.

    `table` are the rows to register, and `registered` is set once they are. With `embedded` the API server is Lanloom's
    own. `now` gives seconds since the epoch; `certified` receives the end of the certificate in use. `beside` returns
    whether Harvester's controller runs.
    """

    def __init__(
        self,
        client: Client,
        reach: Reach,
        table: tuple[Webhook, ...],
        *,
        now: Callable[[], float],
        rng: random.Random,
        certified: Callable[[float], None],
        beside: Callable[[], bool],
        embedded: bool = False,
    ) -> None:
        self._client = client
        self._beside = beside
        self._table = table
        self._reach = reach
        self._credentials = Credentials(client, reach.names, now=now)
        self._certified = certified
        self._embedded = embedded
        self._path = ""
        self.informer: Informer[Secret] = Informer(
            client, SECRETS, rng=rng, namespace=LANLOOM_NAMESPACE, fields=f"metadata.name={SECRET_NAME}"
        )
        self.registered = asyncio.Event()

    async def serve(self, app: ASGIApp, group: asyncio.TaskGroup) -> int:
        """Serve the webhooks as a task of the group, and return their port once they respond."""
        bundle = await self._credentials.at_last()
        server = TlsServer(secluded(app, lambda: self._path), self._reach.host, self._reach.port, bundle)
        self._certified(expires(bundle.certificate))
        self.informer.on_change(lambda _old, new: self._present(server, new))
        group.create_task(server.run())
        await server.started()
        return server.port

    async def keep_registered(self, port: int) -> None:
        """Register the webhooks; then renew the certificate in time, and repair the registration."""
        registration = Registration(self._client, embedded=self._embedded)
        complaint = ""
        while True:
            try:
                await self._credentials.current()
                await self._register(port, registration)
            except KubeError as error:
                known = error.reported or str(error) == complaint
                complaint = str(error)
                (log.debug if known else log.warning)("webhooks-not-registered", error=complaint)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            complaint = ""
            self.registered.set()
            await asyncio.sleep(CHECK_SECONDS)

    async def _register(self, port: int, registration: Registration) -> None:
        secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        authority, path = secret.data["ca.crt"], path_of(secret)
        self._path = path  # before the registration

        def client_config(page: str) -> dict[str, Any]:
            return {"caBundle": authority, **self._reach.config(port, f"/{path}{page}")}

        mutating, validating = webhook_configurations(self._table, client_config, beside=self._beside())
        await registration.apply(MUTATING_WEBHOOKS, mutating)
        await registration.apply(VALIDATING_WEBHOOKS, validating)

    def _present(self, server: TlsServer, secret: Secret | None) -> None:
        """Load a new certificate; the old one stays in use while the Secret is invalid."""
        if secret is not None and is_whole(bundle := bundle_of(secret)):
            server.use(bundle)
            self._path = path_of(secret)
            self._certified(expires(bundle.certificate))

"""`lanloom serve`: the embedded API server, the manager and its webhooks in one process.

The order of the start matters: data, then the kinds and roles that Lanloom brings along, then the socket, then the
manager; ready is when the webhooks are registered, so that nothing that a user writes goes unchecked.

The server's CA and its administrator's token are kept in its own data (see `identity`). Both outlive a restart and a
new address, so copied kubeconfigs stay valid.
"""

import asyncio
import contextlib
import secrets
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import structlog
from msgspec import Struct, convert

from lanloom import __version__
from lanloom.api.core import CRDS
from lanloom.api.meta import Key
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.lan.rules.permits import USUAL, Permits
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.processes.definitions import manifests, outcome, resources
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.processes.metrics import ManagerMetrics
from lanloom.processes.rbac import agent_roles, tenant_roles
from lanloom.runtime.certificates import expires
from lanloom.runtime.exposition import Counter, Gauge
from lanloom.runtime.https.connections import limits_of_process
from lanloom.runtime.https.errors import StatusError
from lanloom.runtime.https.server import HttpsServer, present, server_context
from lanloom.runtime.probes import ProbeServer, pages
from lanloom.runtime.sockets import listen
from lanloom.runtime.webhookconfig import installed_configurations
from lanloom_embedded.authz import MASTERS, bootstrap_roles
from lanloom_embedded.client import HttpsPoster, HttpsWebhooks, fetch
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.sqlite import SqliteStorage
from lanloom_embedded.front.app import ApiServer
from lanloom_embedded.front.authentication import TokenFile, user
from lanloom_embedded.front.proxy import Fetch
from lanloom_embedded.identity import Identity, IdentityReconciler, write_kubeconfig
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.kubevirt import definitions
from lanloom_embedded.local import LocalClient
from lanloom_embedded.patches import merge_patch

log = structlog.get_logger(__name__)

Message = Mapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


class ServeMetrics(ManagerMetrics):
    """The metrics of the server, and of the manager if it has one in it."""

    def __init__(self, *, manager: bool) -> None:
        super().__init__()
        self.api_serves = False
        self._manager = manager
        self._answers = Counter(
            "lanloom_apiserver_requests",
            "Requests that the embedded API server answered.",
            ("method", "code"),
            registry=self.registry,
        )
        self._certificate = Gauge(
            "lanloom_apiserver_certificate_expiry_timestamp_seconds",
            "When the API server's certificate ends, in seconds since the epoch.",
            registry=self.registry,
        )
        self._authority = Gauge(
            "lanloom_apiserver_ca_expiry_timestamp_seconds",
            "When the newest CA that kubeconfigs name ends, in seconds since the epoch.",
            registry=self.registry,
        )

    def presents(self, until: float, authority_until: float) -> None:
        """Record the ends of the certificate and of the newest CA."""
        self._certificate.set(until)
        self._authority.set(authority_until)

    def missing(self) -> Iterator[str]:
        """Describe the missing conditions of readiness."""
        if not self.api_serves:
            yield "the API server does not serve yet"
        if self._manager:
            yield from super().missing()

    def counted(self, app: App) -> App:
        """Return the application, with its answers counted."""

        async def serve(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
            method = scope.get("method", "")

            async def note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._answers.labels(method if method in METHODS else "other", message["status"]).inc()
                await send(message)

            await app(scope, receive, note)

        return serve


LOOPBACK = "127.0.0.1"
TICK = 0.01
"""Least seconds between two wakings of a resource's watches: a limit on their cost, far below what people notice."""

CONNECTIONS = 4096
"""Connections of the API server, half of them of one peer. Each watch holds one."""

_OF_THE_MANAGER = frozenset({GroupPlural("", "secrets"), GroupPlural("coordination.k8s.io", "leases")})
"""The objects that the manager needs to become the leader and register its webhooks: its certificate and Lease."""

_ADMINISTRATOR = user("kubernetes-admin", "", (MASTERS,))


class ServeSettings(Struct, frozen=True, kw_only=True):
    """How to serve.

    `port` 0 is any free one on the loopback address. `listen` are further addresses (`host:port`), `sockets` file
    descriptors of sockets that listen already. `metrics` are the addresses of the probe server. `tokens` is a static
    token file that is read again as it changes. Without `manager` only the API server runs. With
    `kubevirt` there are KubeVirt's kinds of virtual machines. `dummy` are settings of
    isolated networks, `lan` limits of LANs and `live_update` settings of live update, as for a manager.
    """

    data: Path
    kubeconfig: Path
    port: int = 0
    listen: tuple[str, ...] = ()
    sockets: tuple[int, ...] = ()
    tokens: Path | None = None
    manager: bool = True
    kubevirt: bool = False
    metrics: tuple[str, ...] = ()
    dummy: Flags = Flags(default=False)
    lan: Permits = USUAL
    live_update: LiveUpdateSettings = LiveUpdateSettings()


async def serve(settings: ServeSettings, ready: Callable[[str], None], get: Fetch = fetch) -> None:
    """Serve until cancelled; `ready` gets the server's address. Raises StorageError, OSError, ValueError.

    `get` asks a pod.
    """
    rng = Random(secrets.randbits(128))
    poster = HttpsPoster()
    webhooks = HttpsWebhooks(poster)
    engine = Engine(SqliteStorage(settings.data), now=time.time, rng=rng, webhooks=webhooks, tick=TICK)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(poster.close)
        stack.push_async_callback(engine.close)
        metrics = ServeMetrics(manager=settings.manager)
        probes = ProbeServer(settings.metrics, pages(metrics.missing, metrics.exposition))
        probing = asyncio.create_task(probes.run())
        stack.push_async_callback(_cancel, probing)
        await engine.start()
        await apply_foundation(engine, definitions() if settings.kubevirt else ())
        sockets = _sockets(settings)
        context = server_context()
        identity = _identity(engine, _names(sockets), context, metrics)
        await identity.load()
        server = await stack.enter_async_context(
            _https(engine, identity.current.token, context, sockets, settings.tokens, rng, metrics, get)
        )
        metrics.api_serves = True
        address = f"https://{LOOPBACK}:{sockets[0].getsockname()[1]}"
        running: list[Awaitable[None]] = [probing, server]
        if settings.manager:
            features = {
                "dummy": settings.dummy,
                "lan": settings.lan,
                "liveupdate": settings.live_update,
            }
            running.append(await _start_manager(engine, webhooks, rng, stack, metrics, features))
        publish = partial(write_kubeconfig, settings.kubeconfig, address)
        publish(identity.current)
        renewing = asyncio.create_task(identity.run(publish))
        stack.push_async_callback(_cancel, renewing)
        running.append(renewing)
        ready(address)
        await _first_end(running)


async def apply_foundation(engine: Engine, more: Sequence[dict[str, Any]] = ()) -> None:
    """Bring a server what Lanloom needs: kinds, namespaces, roles and webhook configurations; and `more`.

    Only what differs is written, and no webhook is asked. Definitions of others are left alone. What can't be written
    is logged: the server starts all the same, because what is in the way can only be removed through it.
    """
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (LANLOOM_NAMESPACE, BRIDGES_NAMESPACE)
    ]
    for manifest in (
        *namespaces,
        *more,
        *manifests(),
        *bootstrap_roles(),
        *agent_roles(),
        *tenant_roles(),
        *installed_configurations(),
    ):
        try:
            await _apply(engine, manifest)
        except StatusError as error:
            name = f"{manifest['kind']} {manifest['metadata']['name']}"
            log.error("foundation-not-written", object=name, error=error.message)


async def _apply(engine: Engine, manifest: dict[str, Any]) -> None:
    """Create an object, or merge what the manifest says into the one that is there."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = engine.registry.find_kind(group, version, manifest["kind"])
    if kind is None:
        raise ValueError(f"{manifest['kind']} of {manifest['apiVersion']} is not served")
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
    call = Call(webhooks=False)
    current = engine.ledger.latest(kind.key, Key(namespace, name))
    if current is None:
        await engine.create(kind, namespace, manifest, call)
    elif _is_of_others(manifest, current.raw()):
        log.info("definition-left-alone", name=name)
    else:
        await engine.patch(kind, namespace, name, lambda old: merge_patch(old, manifest), call)


def _is_of_others(manifest: dict[str, Any], current: dict[str, Any]) -> bool:
    """Return whether a definition that is there is another project's, such as one that was applied to try it.

    KubeVirt's, which no cluster gets from Lanloom, stay as they are once they are there.
    """
    if manifest["kind"] != CRDS.kind:
        return False
    found = (kind for kind in resources() if kind.full_name == manifest["metadata"]["name"])
    resource = next(found, None)
    return resource is None or outcome(resource, convert(current, CRDS.type)) == "left alone"


def _identity(
    engine: Engine, names: Sequence[str], context: ssl.SSLContext, metrics: ServeMetrics
) -> IdentityReconciler:
    """Return the server's identity, which it presents on `context`."""

    def show(identity: Identity) -> None:
        present(context, identity.certificate, identity.key)
        metrics.presents(expires(identity.certificate), identity.authority_ends)

    client = LocalClient(engine, unreviewed=frozenset({GroupPlural("", "secrets")}))
    return IdentityReconciler(
        client, names, now=time.time, new_token=lambda: secrets.token_urlsafe(32), present=show
    )


@contextlib.asynccontextmanager
async def _https(
    engine: Engine,
    token: str,
    context: ssl.SSLContext,
    sockets: list[socket.socket],
    tokens: Path | None,
    rng: Random,
    metrics: ServeMetrics,
    get: Fetch,
) -> AsyncIterator[asyncio.Task[None]]:
    """Provide the HTTPS server, accepting connections, and yield the task that serves."""
    users = TokenFile(tokens, {token: _ADMINISTRATOR}, time.monotonic, _report)
    limits = limits_of_process(CONNECTIONS)
    app = ApiServer(
        engine,
        users.find,
        now=time.time,
        rng=rng,
        version=__version__,
        watches_per_user=limits.per_peer * 3 // 4,  # the rest is for requests that end
        get=get,
    )
    server = HttpsServer(metrics.counted(app), context, sockets, limits)
    task = asyncio.create_task(server.run())
    await server.started()
    try:
        yield task
    finally:
        engine.ledger.close_feeds()
        server.stop()
        await task


async def _start_manager(
    engine: Engine,
    webhooks: HttpsWebhooks,
    rng: Random,
    stack: contextlib.AsyncExitStack,
    metrics: ServeMetrics,
    features: Mapping[str, Any],
) -> asyncio.Task[None]:
    """Return the manager on this very engine, when its webhooks are registered."""
    # The data's lock lets one process run, so its manager is always the same candidate and need not wait for itself.
    settings = ManagerSettings(
        identity="serve", host=LOOPBACK, port=0, local=True, embedded=True, features=features
    )
    client = LocalClient(engine, unreviewed=_OF_THE_MANAGER)
    manager = Manager(client, settings, now=time.time, rng=rng, metrics=metrics)
    webhooks.own = manager.own
    task = asyncio.create_task(manager.run())
    stack.push_async_callback(_cancel, task)
    waiting = asyncio.create_task(manager.ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        await task
    return task


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _first_end(running: list[Awaitable[None]]) -> None:
    """Wait for whatever ends first: none of them should."""
    await asyncio.wait([asyncio.ensure_future(each) for each in running], return_when=asyncio.FIRST_COMPLETED)
    for each in running:
        task = asyncio.ensure_future(each)
        if task.done():
            task.result()


def _sockets(settings: ServeSettings) -> list[socket.socket]:
    """All sockets, the one on the loopback address first. Raises OSError, ValueError."""
    sockets = [listen(LOOPBACK, settings.port)]
    for address in settings.listen:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"{address} is not an address of the form HOST:PORT")
        sockets.append(listen(host.strip("[]"), int(port)))
    sockets += [socket.socket(fileno=descriptor) for descriptor in settings.sockets]
    return sockets


def _names(sockets: list[socket.socket]) -> tuple[str, ...]:
    """Return the names under which clients reach the sockets."""
    hosts = {str(each.getsockname()[0]) for each in sockets}
    return (LOOPBACK, "localhost", *sorted(hosts - {LOOPBACK, "0.0.0.0", "::"}))


def _report(message: str) -> None:
    log.warning("tokens", message=message)


def print_ready(address: str) -> None:
    """Print the one line on standard output."""
    print(f"lanloom serve is ready at {address}", flush=True)
    sys.stdout.flush()

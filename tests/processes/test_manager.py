"""How a manager comes up on a server that is not in order."""

import asyncio
import base64
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from lanloom.api.clusterranges import ENDPOINT_SLICES, SERVICE_LABEL
from lanloom.api.core import (
    CRDS,
    LEASES,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from lanloom.api.crds import manifest
from lanloom.api.meta import Object
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.errors import ServerError, TransportError
from lanloom.kube.ports import Listing
from lanloom.processes.manager import CHECK_SECONDS, Manager, ManagerSettings
from lanloom.runtime.certificates import (
    DAY,
    SECRET_NAME,
    Bundle,
    Credentials,
    due,
    is_whole,
    issue,
    path_of,
)
from lanloom.runtime.identity import MANAGER_LEASE
from lanloom.runtime.webhookconfig import SERVICE_NAME
from lanloom_embedded.client import HttpsPoster
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.installing import prepare

T = TypeVar("T", bound=Object)


class Unsteady(LocalClient):
    """A client whose first requests to create or patch objects of a resource are answered with 503."""

    def __init__(self, engine: Engine, resource: Resource[Any], failures: int) -> None:
        super().__init__(engine)
        self.failing = resource
        self.failures = failures

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        self._fail(resource)
        return await super().create(resource, body, namespace)

    async def patch(self, resource: Resource[T], name: str, *words: Any, **more: Any) -> T:
        """As the port says."""
        self._fail(resource)
        return await super().patch(resource, name, *words, **more)

    def _fail(self, resource: Resource[Any]) -> None:
        if resource is self.failing and self.failures:
            self.failures -= 1
            raise ServerError(503, "ServiceUnavailable", "try again")


@asynccontextmanager
async def server() -> AsyncIterator[Engine]:
    """An engine with Lanloom's CRDs and namespace."""
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1))
    await engine.start()
    await prepare(LocalClient(engine))
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def managed(client: LocalClient, now: Callable[[], float] = time.time) -> AsyncIterator[Manager]:
    """A manager that leads and whose webhooks are registered."""
    settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True)
    manager = Manager(client, settings, now=now, rng=random.Random(1))
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(60):
            await manager.ready.wait()
        yield manager
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("resource", [MUTATING_WEBHOOKS, SECRETS], ids=lambda item: item.plural)
async def test_the_start_is_tried_until_it_works(resource: Resource[Any]) -> None:
    """A server that can't take the webhooks' certificate or registration right now does not end the manager."""
    async with server() as engine:
        client = Unsteady(engine, resource, failures=1)
        async with managed(client):
            assert client.failures == 0
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                webhooks = (await client.get(kind, "lanloom")).webhooks
                assert webhooks
                for webhook in webhooks:
                    assert webhook["clientConfig"]["url"].startswith("https://127.0.0.1:")


async def test_a_manager_knows_its_own_webhooks() -> None:
    """An API server in the manager's process finds each registered webhook; a changed one is not the manager's."""
    async with server() as engine:
        client = LocalClient(engine)
        async with managed(client) as manager:
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                webhooks = (await client.get(kind, "lanloom")).webhooks
                assert webhooks
                for config in (webhook["clientConfig"] for webhook in webhooks):
                    assert manager.own(config) is not None
                    assert manager.own(config | {"caBundle": "eA=="}) is None
                    assert (
                        manager.own(config | {"url": config["url"].replace("https://127", "https://128")})
                        is None
                    )


class Asked(LocalClient):
    """A client that tells when it looked for replicas behind the Service."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked = asyncio.Event()

    async def list(self, resource: Resource[T], *words: Any, **more: Any) -> Listing[T]:
        """As the port says."""
        found = await super().list(resource, *words, **more)
        if SERVICE_LABEL in more.get("labels", ""):
            self.asked.set()
        return found


@pytest.mark.slow
async def test_no_webhook_is_registered_before_a_replica_is_ready() -> None:
    """A new installation refuses no writes until the API server has a replica to ask; then it is protected."""
    async with server() as engine:
        client = Asked(engine)
        await client.create(CRDS, manifest(ENDPOINT_SLICES))
        settings = ManagerSettings(identity="test", host="127.0.0.1", port=0)
        manager = Manager(client, settings, now=time.time, rng=random.Random(1))
        running = asyncio.create_task(manager.run())
        try:
            async with asyncio.timeout(60):
                await client.asked.wait()
                assert not (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
                labels = {SERVICE_LABEL: SERVICE_NAME}
                body = {
                    "metadata": {"name": "one", "labels": labels},
                    "endpoints": [{"addresses": ["10.0.0.1"]}],
                }
                await client.create(ENDPOINT_SLICES, body, LANLOOM_NAMESPACE)
                await manager.ready.wait()
            assert (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_manager_that_ends_serves_on_for_a_while() -> None:
    """After the end of a replica its Lease is free at once, and reviews that reach it are answered until it is over."""
    async with server() as engine:
        client = LocalClient(engine)
        settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True, drain=600.0)
        manager = Manager(client, settings, now=time.time, rng=random.Random(1))
        running = asyncio.create_task(manager.run())
        poster = HttpsPoster()
        try:
            async with asyncio.timeout(60):
                await manager.ready.wait()
                version = (await client.list(LEASES, LANLOOM_NAMESPACE)).resource_version
                running.cancel()
                async for event in client.watch(LEASES, LANLOOM_NAMESPACE, resource_version=version):
                    if event.object.metadata.name == MANAGER_LEASE and not event.object.spec.holder_identity:
                        break
                (config, *_) = (
                    webhook["clientConfig"]
                    for webhook in (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
                )
                ca = base64.b64decode(config["caBundle"])
                with pytest.raises(TransportError, match="400"):
                    await poster.post(config["url"], b"", ca_bundle=ca, timeout=60)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                with pytest.raises(TransportError):
                    await poster.post(config["url"], b"", ca_bundle=ca, timeout=60)
        finally:
            await poster.close()
            running.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("days", [400, -400])
async def test_a_clock_that_jumps_renews_the_certificate(days: int) -> None:
    """The webhooks' certificate is in its time again long before the next check, also where it is registered."""
    ahead = 0.0
    async with server() as engine:
        client = LocalClient(engine)
        async with managed(client, lambda: time.time() + ahead):
            first = (await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)).data
            ahead = days * DAY
            version = (await client.list(VALIDATING_WEBHOOKS)).resource_version
            async with asyncio.timeout(CHECK_SECONDS / 2):
                async for event in client.watch(VALIDATING_WEBHOOKS, resource_version=version):
                    registered = event.object.webhooks[0]["clientConfig"]["caBundle"]
                    break
            secret = await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
            assert not due(base64.b64decode(secret.data["tls.crt"]), time.time() + ahead)
            assert first["ca.crt"] != registered == secret.data["ca.crt"]


async def test_the_secret_of_another_replica_is_registered_soon() -> None:
    """Where a replica made the Secret again that was deleted, the leader registers its CA and path within seconds."""
    async with server() as engine:
        client = LocalClient(engine)
        async with managed(client):
            version = (await client.list(VALIDATING_WEBHOOKS)).resource_version
            await client.delete(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
            made = await Credentials(client, ("127.0.0.1",), now=time.time).keep()
            async with asyncio.timeout(CHECK_SECONDS / 2):
                async for event in client.watch(VALIDATING_WEBHOOKS, resource_version=version):
                    config = event.object.webhooks[0]["clientConfig"]
                    if config["caBundle"] == made.data["ca.crt"]:
                        break
            assert f"/{path_of(made)}/" in config["url"]


async def test_a_spoilt_certificate_is_replaced() -> None:
    """A Secret from which the certificate was removed is filled in again."""
    async with server() as engine:
        client = LocalClient(engine)
        body = {"metadata": {"name": SECRET_NAME}, "type": "Opaque", "data": {"ca.crt": ""}}
        await client.create(SECRETS, body, LANLOOM_NAMESPACE)
        async with managed(client):
            secret = await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
            assert not due(base64.b64decode(secret.data["tls.crt"]), time.time())
            webhook, *_ = (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
            assert webhook["clientConfig"]["caBundle"] == secret.data["ca.crt"]


def _data(bundle: Bundle) -> dict[str, str]:
    parts = {"ca.crt": bundle.ca, "tls.crt": bundle.certificate, "tls.key": bundle.key}
    return {name: base64.b64encode(text).decode() for name, text in parts.items()}


_FIRST, _SECOND = (issue(("127.0.0.1",), time.time()) for _ in range(2))
_SPOILT = {
    "no key": _data(Bundle(_FIRST.ca, _FIRST.certificate, b"")),
    "no CA": _data(Bundle(b"", _FIRST.certificate, _FIRST.key)),
    "another key": _data(Bundle(_FIRST.ca, _FIRST.certificate, _SECOND.key)),
    "another CA": _data(Bundle(_SECOND.ca, _FIRST.certificate, _FIRST.key)),
    "not even PEM": _data(Bundle(b"x", b"y", b"z")),
}
"""Data of a Secret that can't serve, though most of its certificates are far from their end."""


@pytest.mark.parametrize("data", _SPOILT.values(), ids=list(_SPOILT))
async def test_a_bundle_that_does_not_belong_together_is_replaced(data: dict[str, str]) -> None:
    """No damaged Secret keeps a manager from coming up; it is made again."""
    async with server() as engine:
        client = LocalClient(engine)
        body = {"metadata": {"name": SECRET_NAME}, "type": "Opaque", "data": data}
        await client.create(SECRETS, body, LANLOOM_NAMESPACE)
        async with managed(client):
            kept = (await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)).data
            parts = (base64.b64decode(kept[name]) for name in ("ca.crt", "tls.crt", "tls.key"))
            assert is_whole(Bundle(*parts))
            webhook, *_ = (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
            assert webhook["clientConfig"]["caBundle"] == kept["ca.crt"]


@pytest.mark.parametrize(
    "kept", [None, "", "Li4=", "bm90IHN1Y2ggYSBwYXRo"], ids=["no", "empty", "dots", "words"]
)
async def test_webhooks_answer_those_alone_who_know_where_they_are(kept: str | None) -> None:
    """The webhooks are below a path that can't be guessed; a missing or spoilt one is made, the certificate kept."""
    async with server() as engine:
        client = LocalClient(engine)
        data = _data(_FIRST) | ({} if kept is None else {"path": kept})
        body = {"metadata": {"name": SECRET_NAME}, "type": "Opaque", "data": data}
        await client.create(SECRETS, body, LANLOOM_NAMESPACE)
        async with managed(client):
            secret = await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
            assert secret.data["tls.crt"] == data["tls.crt"]
            path = base64.b64decode(secret.data["path"]).decode()
            assert re.fullmatch("[0-9a-f]{32}", path)
            webhooks = (await client.get(VALIDATING_WEBHOOKS, "lanloom")).webhooks
            assert all(f"/{path}/" in webhook["clientConfig"]["url"] for webhook in webhooks)
            base = webhooks[0]["clientConfig"]["url"].partition("/" + path)[0]
            poster = HttpsPoster()
            try:
                for place, code in (("", 404), ("/" + "0" * 32, 404), ("//" + path, 404), (f"/{path}", 400)):
                    with pytest.raises(TransportError, match=str(code)):
                        await poster.post(f"{base}{place}/validate", b"{}", ca_bundle=_FIRST.ca, timeout=60)
            finally:
                await poster.close()

"""How webhooks are registered on API servers that understand more or less of them."""

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from lanloom.api.core import PODS, VALIDATING_WEBHOOKS, WebhookConfiguration
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.local import LocalClient
from lanloom.app.registration import Registration
from lanloom.app.webhookconfig import CONFIGURATION_NAME, references_webhook, webhook_configurations
from lanloom.kube.errors import NotFound
from tests.virtual import run

T = TypeVar("T", bound=Object)
NAME = "references.lanloom.io"


def client_config(path: str) -> dict[str, Any]:
    """How a path is reached."""
    return {"url": f"https://192.0.2.1{path}", "caBundle": "Cg=="}


def wanted() -> dict[str, Any]:
    """A validating configuration with both webhooks."""
    referring = references_webhook(((PODS, ("CREATE",)),), client_config)
    return webhook_configurations((), (), client_config, referring)[1]


class Server:
    """An API server that keeps everything of webhooks, and counts what is written."""

    def __init__(self) -> None:
        self.webhooks: tuple[dict[str, Any], ...] | None = None
        self.policies: list[str] = []

    async def get(self, _resource: Resource[T], _name: str, _namespace: str = "") -> WebhookConfiguration:
        """As the port says."""
        if self.webhooks is None:
            raise NotFound(404, "NotFound", "no")
        return WebhookConfiguration(webhooks=self.webhooks)

    async def create(self, resource: Resource[T], body: Mapping[str, Any]) -> WebhookConfiguration:
        """As the port says."""
        return await self.patch(resource, CONFIGURATION_NAME, body)

    async def patch(self, resource: Resource[T], name: str, patch: Mapping[str, Any]) -> WebhookConfiguration:
        """As the port says; with a default of the server's own."""
        self.webhooks = tuple({"objectSelector": {}, **webhook} for webhook in patch["webhooks"])
        self.policies += [webhook["failurePolicy"] for webhook in self.webhooks if webhook["name"] == NAME]
        return await self.get(resource, name)


def test_a_server_that_keeps_conditions_is_told_to_fail_closed() -> None:
    """The webhook of references fails open until the server has shown that it keeps the conditions; then it stays."""

    async def register() -> list[str]:
        server = Server()
        registration = Registration(server)  # type: ignore[arg-type]
        for _ in range(3):
            await registration.apply(VALIDATING_WEBHOOKS, wanted())
        return server.policies

    assert run(register()) == ["Ignore", "Fail"]


def test_a_server_that_lost_the_conditions_is_told_again_with_care() -> None:
    """Where somebody took the conditions away, they are written before the webhook fails closed again."""

    async def register() -> list[str]:
        server = Server()
        await Registration(server).apply(VALIDATING_WEBHOOKS, wanted())  # type: ignore[arg-type]
        assert server.webhooks is not None
        server.webhooks = tuple(
            {key: value for key, value in webhook.items() if key != "matchConditions"}
            for webhook in server.webhooks
        )
        server.policies.clear()
        await Registration(server).apply(VALIDATING_WEBHOOKS, wanted())  # type: ignore[arg-type]
        return server.policies

    assert run(register()) == ["Ignore", "Fail"]


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_a_server_that_drops_conditions_is_not_told_to_fail_closed(there: bool) -> None:
    """Where matchConditions are dropped the webhook of references fails open, and looking again changes nothing."""

    async def register() -> tuple[str, str, str]:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        if there:
            await client.create(VALIDATING_WEBHOOKS, {**wanted(), "webhooks": wanted()["webhooks"][:1]})
        registration, versions, found = Registration(client), [], {}
        for _ in range(2):
            await registration.apply(VALIDATING_WEBHOOKS, wanted())
            current = await client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)
            versions.append(current.metadata.resource_version)
            found = {webhook["name"]: webhook["failurePolicy"] for webhook in current.webhooks}
        await engine.close()
        assert versions[0] == versions[1]
        return found["validate.lanloom.io"], found[NAME], versions[0]

    assert run(register())[:2] == ("Fail", "Ignore")


@pytest.mark.parametrize(("embedded", "level"), [(False, "warning"), (True, "debug")])
def test_who_is_told_that_a_webhook_fails_open(embedded: bool, level: str) -> None:
    """An operator is told once that a webhook fails open, but for Lanloom's own server, which nobody can upgrade."""

    async def register() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        registration = Registration(LocalClient(engine), embedded=embedded)
        for _ in range(2):
            await registration.apply(VALIDATING_WEBHOOKS, wanted())
        await engine.close()

    with capture_logs() as logs:
        run(register())
    assert [(line["log_level"], line["event"]) for line in logs] == [(level, "webhook-fails-open")]

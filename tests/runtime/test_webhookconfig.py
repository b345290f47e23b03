"""How webhooks are registered on API servers that understand more or less of them."""

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from lanloom.api.clusterranges import ENDPOINT_SLICES, SERVICE_LABEL
from lanloom.api.core import (
    CRDS,
    MUTATING_WEBHOOKS,
    PODS,
    VALIDATING_WEBHOOKS,
    WebhookConfiguration,
)
from lanloom.api.crds import manifest
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.runtime.webhookconfig import (
    CONFIGURATION_NAME,
    Registration,
    installed_configurations,
    may_register,
    webhook_configurations,
)
from lanloom.runtime.webhooktable import Webhook
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_embedded.serve import apply_foundation
from tests.harness.virtual import run

T = TypeVar("T", bound=Object)
NAME = "references.lanloom.io"


def client_config(path: str) -> dict[str, Any]:
    """How a path is reached."""
    return {"url": f"https://192.0.2.1{path}", "caBundle": "Cg=="}


def wanted() -> dict[str, Any]:
    """A validating configuration with both webhooks."""
    table = (
        Webhook("validate", NADS, ("CREATE",), print),
        Webhook("refer", PODS, ("CREATE",), print),
    )
    return webhook_configurations(table, client_config)[1]


class Server:
    """An API server that keeps everything of webhooks, and counts what is written."""

    def __init__(self) -> None:
        self.webhooks: tuple[dict[str, Any], ...] | None = ()
        self.policies: list[str] = []

    async def get(self, _resource: Resource[T], _name: str, _namespace: str = "") -> WebhookConfiguration:
        """As the port says."""
        if self.webhooks is None:
            raise NotFound(404, "NotFound", "no")
        return WebhookConfiguration(webhooks=self.webhooks)

    async def patch(self, resource: Resource[T], name: str, patch: Mapping[str, Any]) -> WebhookConfiguration:
        """As the port says; with a default of the server's own."""
        self.webhooks = tuple({"objectSelector": {}, **webhook} for webhook in patch["webhooks"])
        self.policies += [webhook["failurePolicy"] for webhook in self.webhooks if webhook["name"] == NAME]
        return await self.get(resource, name)


READY, STARTING, UNKNOWN = ({"conditions": {"ready": ready}} for ready in (True, False, None))


@pytest.mark.parametrize(
    ("slices", "registered", "may"),
    [
        ([], False, False),
        ([("lanloom-webhook", [STARTING])], False, False),
        ([("other", [READY])], False, False),
        ([("lanloom-webhook", [STARTING, READY])], False, True),
        ([("lanloom-webhook", [STARTING]), ("lanloom-webhook", [UNKNOWN])], False, True),
        ([], True, True),
        (None, False, True),
    ],
)
def test_webhooks_are_registered_once_a_replica_answers(
    slices: list[tuple[str, list[dict[str, Any]]]] | None, registered: bool, may: bool
) -> None:
    """A webhook that fails closed waits for a replica that is ready, unless it is there, or that is unknown."""

    async def ask() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        await apply_foundation(engine)
        if slices is not None:
            await client.create(CRDS, manifest(ENDPOINT_SLICES))
        for number, (service, endpoints) in enumerate(slices or ()):
            metadata = {"name": f"s{number}", "labels": {SERVICE_LABEL: service}}
            body = {"metadata": metadata, "endpoints": endpoints}
            await client.create(ENDPOINT_SLICES, body, LANLOOM_NAMESPACE)
        if registered:
            await client.patch(VALIDATING_WEBHOOKS, CONFIGURATION_NAME, {"webhooks": wanted()["webhooks"]})
        assert await may_register(client) == may
        await engine.close()

    run(ask())


@pytest.mark.parametrize("resource", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=lambda item: item.plural)
def test_a_configuration_that_is_missing_is_not_created(resource: Resource[WebhookConfiguration]) -> None:
    """The manager has no right to create configurations; it names what is missing, and how to install it."""

    async def register() -> None:
        server = Server()
        server.webhooks = None
        with pytest.raises(
            NotFound, match=rf"{resource.kind} lanloom does not exist.* kubectl apply -f deploy/webhooks.yaml"
        ):
            await Registration(server).apply(resource, wanted())  # type: ignore[arg-type]
        assert server.webhooks is None

    run(register())


def test_installing_again_takes_no_webhooks_away() -> None:
    """What is installed has no field for webhooks, so applying it to a configuration in use changes nothing."""

    async def install() -> tuple[Any, Any]:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        await apply_foundation(engine)
        client = LocalClient(engine)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            await Registration(client).apply(resource, wanted() | {"kind": resource.kind})
        before = await client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)
        await apply_foundation(engine)
        after = await client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)
        await engine.close()
        return before.webhooks, after.webhooks

    before, after = run(install())
    assert before == after and len(before) == 2
    assert all("webhooks" not in item for item in installed_configurations())


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
    """Where the conditions were taken away, they are written before the webhook fails closed again."""

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
        there_already = wanted()["webhooks"][:1] if there else []
        await client.create(VALIDATING_WEBHOOKS, {**wanted(), "webhooks": there_already})
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


@pytest.mark.parametrize("drops", [False, True])
def test_a_condition_that_saves_requests_opens_nothing(drops: bool) -> None:
    """The webhook that judges objects fails closed from the first write on, whether its condition is kept or not."""

    class Picky(Server):
        async def patch(
            self, resource: Resource[T], name: str, patch: Mapping[str, Any]
        ) -> WebhookConfiguration:
            for webhook in patch["webhooks"]:
                written.update([(webhook["name"], webhook["failurePolicy"])])
                if drops:
                    webhook.pop("matchConditions", None)
            return await super().patch(resource, name, patch)

    written = set[tuple[str, str]]()
    run(Registration(Picky()).apply(VALIDATING_WEBHOOKS, wanted()))  # type: ignore[arg-type]
    assert [policy for name, policy in written if name == "validate.lanloom.io"] == ["Fail"]


@pytest.mark.parametrize(("embedded", "level"), [(False, "warning"), (True, "debug")])
def test_who_is_told_that_a_webhook_fails_open(embedded: bool, level: str) -> None:
    """A log line says once that a webhook fails open, but for Lanloom's own server, which can't be upgraded."""

    async def register() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        await client.create(VALIDATING_WEBHOOKS, installed_configurations()[1])
        registration = Registration(client, embedded=embedded)
        for _ in range(2):
            await registration.apply(VALIDATING_WEBHOOKS, wanted())
        await engine.close()

    with capture_logs() as logs:
        run(register())
    assert [(line["log_level"], line["event"]) for line in logs] == [(level, "webhook-fails-open")]

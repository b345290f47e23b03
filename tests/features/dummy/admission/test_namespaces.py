"""The end of a namespace with an isolated network's NAD in it, as the server's own controllers bring it about."""

import asyncio
import copy
from random import Random
from typing import Any

import msgspec
import pytest

from lanloom.api.core import NAMESPACES, VALIDATING_WEBHOOKS
from lanloom.api.dummy import (
    DRAINING,
    DUMMY_CLUSTER_NETWORKS,
    FINALIZER,
    NAME_ANNOTATION,
    UID_LABEL,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.features.dummy.admission import WEBHOOKS
from lanloom.kube.errors import NotFound
from lanloom.runtime.identity import Managers
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom.runtime.webhooks import answer
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import (
    Admissions,
    admission_of,
    first_storage,
    machine,
    nad,
    network,
)
from tests.harness.virtual import run

HOUR = 3600.0


class Webhooks:
    """Asks a replica in this process."""

    def __init__(self) -> None:
        self.admission: Admissions | None = None

    async def call(self, webhook: dict[str, Any], review: dict[str, Any]) -> dict[str, Any]:
        """As the port says."""
        if self.admission is None:
            raise WebhookError("connection refused")
        body = msgspec.json.encode(review)
        answered = await answer(body, self.admission.validate, lambda *_: None)
        return msgspec.json.decode(answered, type=dict)


@pytest.mark.parametrize("by_force", [False, True])
def test_a_namespace_does_not_take_the_nad_from_under_a_user(by_force: bool) -> None:
    """A namespace that ends leaves a NAD that is used, however far, and however forcibly, the network's deletion is."""

    async def main(storage: MemoryStorage) -> None:
        webhooks = Webhooks()
        now = asyncio.get_running_loop().time
        engine = Engine(storage, now=now, rng=Random(1), webhooks=webhooks)
        await engine.start()
        client, tasks = LocalClient(engine), list[asyncio.Task[None]]()
        owner = network()
        owner["metadata"]["finalizers"] = [FINALIZER]
        uid = (await client.create(DUMMY_CLUSTER_NETWORKS, owner)).metadata.uid
        made = nad()
        made["metadata"] |= {
            "labels": {UID_LABEL: uid},
            "annotations": {NAME_ANNOTATION: "red", DRAINING: "2026-01-01T00:00:00Z"},
        }
        await client.create(NADS, made, "nets")
        await client.create(VIRTUAL_MACHINES, machine("db", "nets/red"), "default")
        webhooks.admission = await admission_of(client, client, tasks, Managers(client).include)
        judging = [row for row in WEBHOOKS if row.verb == "validate"]
        _, validating = webhook_configurations(judging, lambda path: {"url": f"https://there{path}"})
        await client.create(VALIDATING_WEBHOOKS, validating)

        await client.delete(DUMMY_CLUSTER_NETWORKS, "red")
        if by_force:
            await client.patch(DUMMY_CLUSTER_NETWORKS, "red", {"metadata": {"finalizers": None}})
        await client.delete(NAMESPACES, "nets")
        await asyncio.sleep(HOUR)
        assert (await client.get(NADS, "red", "nets")).metadata.deletion_timestamp is None

        await client.delete(VIRTUAL_MACHINES, "db", "default")
        if not by_force:
            await client.delete(NADS, "red", "nets")  # as the manager does now
        await asyncio.sleep(HOUR)
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "nets")
        for task in tasks:
            task.cancel()
        await engine.close()

    run(main(copy.deepcopy(first_storage())))

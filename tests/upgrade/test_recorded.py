"""What 0.1.0 left on a server, with the kinds and the manager of this version: for a checkout without history.

`recorded.jsonl` has its definitions and objects; test_upgrade.py writes it (LANLOOM_GOLDEN=rewrite).
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from lanloom.api.core import CRDS, NAMESPACES, NODES
from lanloom.api.ipam import NICS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import NotFound
from lanloom.processes.definitions import install, resources
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom_embedded.client import HttpsPoster, HttpsWebhooks
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage, full
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.local import LocalClient
from tests.harness.installing import install_webhooks
from tests.harness.servers.eventually import eventually
from tests.upgrade.compare import losses, title

Raw = dict[str, Any]
LINES = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]
DEFINITIONS = [item for item in LINES if item["kind"] == "CustomResourceDefinition"]
OBJECTS = [item for item in LINES if item["kind"] != "CustomResourceDefinition"]
MOVED: Raw = yaml.safe_load(Path(__file__).with_name("moved.yaml").read_text())
SERVERS_OWN = ("uid", "creationTimestamp", "generation")


class Server:
    """An embedded API server in which 0.1.0 was installed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client = LocalClient(engine)

    async def define(self, definitions: list[Raw]) -> None:
        """Install definitions over those that are there."""
        for body in definitions:
            try:
                await self.client.patch(CRDS, body["metadata"]["name"], {"spec": body["spec"]})
            except NotFound:
                await self.client.create(CRDS, body)

    async def store(self, items: list[Raw]) -> None:
        """Store objects with their statuses, owners first: what names the uid of one names that of its copy here."""
        uids: dict[str, str] = {}
        for item in sorted(items, key=lambda item: len(item["metadata"].get("ownerReferences", ()))):
            text = json.dumps(item)
            for old, new in uids.items():
                text = text.replace(old, new)
            uids[item["metadata"]["uid"]] = await self._store(json.loads(text))

    async def _store(self, item: Raw) -> str:
        resource = next(kind for kind in resources() if kind.kind == item["kind"])
        meta = {name: value for name, value in item["metadata"].items() if name not in SERVERS_OWN}
        name, namespace = meta["name"], meta.get("namespace", "")
        created = await self.client.create(resource, {**item, "metadata": meta}, namespace)
        if status := item.get("status"):
            where = "status" if resource.status else ""
            await self.client.patch(resource, name, {"status": status}, namespace, subresource=where)
        return str(created.metadata.uid)

    def objects(self) -> dict[str, Raw]:
        """All objects of Lanloom's kinds as the server has them."""
        found: dict[str, Raw] = {}
        for resource in resources():
            names = GroupPlural(resource.group, resource.plural)
            kind = self.engine.registry.any_version(names)
            assert kind is not None
            for state in self.engine.ledger.table(names).select(""):
                item = full(kind, state)
                found[title(item)] = item
        return found


def is_of_isolated(item: Raw) -> bool:
    """Whether an object was made for the isolated network: names have a part of that one's uid, another here."""
    uid = next(each["metadata"]["uid"] for each in OBJECTS if each["kind"] == "DummyClusterNetwork")
    return item["kind"] != "DummyClusterNetwork" and uid in json.dumps(item)


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    """A server with the definitions and objects of 0.1.0."""
    poster = HttpsPoster()
    engine = Engine(MemoryStorage(), now=time.time, rng=random.Random(1), webhooks=HttpsWebhooks(poster))
    await engine.start()
    made = Server(engine)
    await made.define(DEFINITIONS)
    for name in ("node1", "node2"):
        await made.client.create(NODES, {"metadata": {"name": name}})
    await made.store([item for item in OBJECTS if not is_of_isolated(item)])
    try:
        yield made
    finally:
        await poster.close()
        await engine.close()


def lost(before: dict[str, Raw], after: dict[str, Raw]) -> list[str]:
    """What is missing of what was there."""
    gone = [name for name in before if name not in after]
    return gone + [
        text for name, item in before.items() if name in after for text in losses(item, after[name])
    ]


def test_every_kind_is_recorded() -> None:
    """There is an object of each kind, and its definition."""
    assert {item["kind"] for item in (*OBJECTS, MOVED)} == {kind.kind for kind in resources()}
    assert len(DEFINITIONS) == len(resources())


async def test_this_version_reads_everything() -> None:
    """The definitions of this version take the place of those of 0.1.0, drop nothing, and each object can be read."""
    async with server() as made:
        await made.store([MOVED])
        before = made.objects()
        assert "NetworkSwap default/vm1-lan" in before
        outcomes = {each.name: each.outcome for each in await install(made.client)}
        assert set(outcomes.values()) <= {"updated", "unchanged"}
        for resource in resources():
            assert (await made.client.list(resource)).items is not None
        assert "\n".join(lost(before, made.objects())) == ""


async def test_a_manager_of_this_version_takes_nothing_away_and_the_old_definitions_neither() -> None:
    """Its manager works on what 0.1.0 left; with the definitions of 0.1.0 again, all that it knew is as it was."""
    async with server() as made:
        before = made.objects()
        await install(made.client)
        await made.client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        await install_webhooks(made.client)
        settings = ManagerSettings(
            identity="new", host="127.0.0.1", port=0, local=True, user="kubernetes-admin"
        )
        manager = Manager(made.client, settings, now=time.time, rng=random.Random(1))
        running = asyncio.create_task(manager.run())
        try:
            await asyncio.wait_for(manager.ready.wait(), 60)
            await eventually(
                lambda: made.client.get(NICS, "db1-0", "default"),
                lambda nic: any(
                    item.type == "Ready" and item.status == "True" for item in nic.status.conditions
                ),
            )
            assert "\n".join(lost(before, made.objects())) == ""
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await made.define(DEFINITIONS)
        assert "\n".join(lost(before, made.objects())) == ""

"""Bookmarks carry nothing but a version, also of kinds whose objects can't do without more."""

import asyncio
from random import Random

import msgspec
import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.resource import Resource
from lanloom.kube.codec import Codec
from lanloom.processes.definitions import resources
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.virtual import run


@pytest.mark.parametrize("resource", resources(), ids=lambda item: item.plural)
def test_a_bookmark_of_any_kind_can_be_read(resource: Resource) -> None:  # type: ignore[type-arg]
    """A bookmark as a server sends it is a bookmark, whatever an object of its kind must have."""
    sent = {"type": "BOOKMARK", "object": {"kind": resource.kind, "metadata": {"resourceVersion": "7"}}}
    event = Codec(resource).event(msgspec.json.encode(sent))
    assert (event.type, event.object.metadata.resource_version) == ("BOOKMARK", "7")


@pytest.mark.parametrize("resource", resources(), ids=lambda item: item.plural)
def test_a_watch_without_a_server_has_bookmarks_too(resource: Resource) -> None:  # type: ignore[type-arg]
    """A client in the server's own process gets a bookmark within some minutes, for any kind."""

    async def first() -> str:
        engine = Engine(MemoryStorage(), now=asyncio.get_running_loop().time, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        await client.create(CRDS, manifest(resource))
        version = (await client.list(resource)).resource_version
        stream = client.watch(resource, resource_version=version)
        event = await anext(stream)
        await stream.aclose()
        await engine.close()
        return event.type

    assert run(first()) == "BOOKMARK"

"""An engine in memory, and a way to wait for what it does by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from lanloom_embedded.engine.admission import WebhookCaller
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage, Storage
from lanloom_embedded.kinds import Raw, ServedKind

NOW = 1_767_225_600.0


@asynccontextmanager
async def running_engine(
    storage: Storage | None = None,
    *,
    webhooks: WebhookCaller | None = None,
    history: int = 1000,
    seed: int = 0,
) -> AsyncIterator[Engine]:
    """A running engine on an empty storage, unless one is given."""
    engine = Engine(
        storage or MemoryStorage(), now=lambda: NOW, rng=Random(seed), webhooks=webhooks, history=history
    )
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def until(condition: Callable[[], bool], turns: int = 10_000) -> None:
    """Let everything else run until the condition holds; threads may take longer than so many turns."""
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    end = loop.time() + 60
    while not condition():
        if loop.time() > end:
            raise AssertionError("the condition never became true")
        await asyncio.sleep(0.01)


def kind_of(engine: Engine, plural: str, group: str = "", version: str = "v1") -> ServedKind:
    """A kind that the engine serves."""
    found = engine.registry.find(group, version, plural)
    assert found is not None
    return found


def config_map(name: str, **data: str) -> Raw:
    """A config map as a client sends it."""
    return {"metadata": {"name": name}, "data": data}


WIDGETS: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "maximum": 10},
                                    "mode": {"type": "string", "default": "auto"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
            for version in ("v1", "v1beta1")
        ],
    },
}
"""A custom kind in two versions, with a status, a default and a limit."""

"""What embedded API servers of tests begin with, written once: CRDs take their time."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from lanloom.api.core import CRDS, NAMESPACES
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.virtual import run


def filled(fill: Callable[[LocalClient], Awaitable[None]]) -> MemoryStorage:
    """The storage of a server to which `fill` has written; copy it for each test."""
    storage = MemoryStorage()

    async def write() -> None:
        engine = Engine(storage, now=asyncio.get_running_loop().time, rng=Random(0))
        await engine.start()
        await fill(LocalClient(engine))
        await engine.close()

    run(write())
    return storage


async def add_kinds(admin: LocalClient, *namespaces: str) -> None:
    """Lanloom's kinds and the machines of KubeVirt, and these namespaces."""
    for crd in (*manifests(), manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)):
        await admin.create(CRDS, crd)
    for name in namespaces:
        await admin.create(NAMESPACES, {"metadata": {"name": name}})

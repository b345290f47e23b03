"""Silent nodes on a real kube-apiserver, which validates what is written of them."""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.api.core import NODES
from lanloom.api.lan import LAN_NODES, LANNode
from lanloom.api.meta import Key
from lanloom.features.lan.manager.silence import SilentNodes
from lanloom.features.lan.reader import lan_informers
from lanloom.features.lan.rules.flood import is_silent
from lanloom.kube.conditions import is_true
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.informers import Informers
from lanloom.kube.loading import load
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

NAME = "silent"


async def _is(client: HttpClient, ready: str) -> None:
    """A kubelet, or the node controller, says whether the node is Ready; since long ago."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await client.patch(NODES, NAME, {"status": {"conditions": [condition]}}, subresource="status")


async def test_a_real_server_takes_the_condition(real_server: RealServer, real_binaries: Path) -> None:
    """A silent node is marked on a real server, other conditions stay, and the mark goes when the node is Ready."""
    Installer(real_binaries, real_server).definitions()
    async with HttpClient(load(str(real_server.kubeconfig))) as client:
        await client.create(NODES, {"metadata": {"name": NAME}})
        await _is(client, "Unknown")
        await client.create(LAN_NODES, {"metadata": {"name": NAME}})
        other: dict[str, Any] = {"type": "Other", "status": "True", "reason": "Kept", "message": "it stays"}
        other["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await client.patch(LAN_NODES, NAME, {"status": {"conditions": [other]}}, subresource="status")
        rng = Random(1)
        informers = Informers(client, rng)
        recorder = Recorder(client, "lanloom-manager", "test", now=time.time, rng=rng)
        watched = lan_informers(informers)
        controllers = ControllerSet(watched.all, rng=rng)
        nodes = SilentNodes(client, watched, recorder, controllers, now=time.time)
        tasks = [asyncio.create_task(item.run()) for item in informers.all()]
        try:
            tasks.append(asyncio.create_task(controllers.run(nodes.check_all)))
            await eventually(lambda: client.get(LAN_NODES, NAME), is_silent, 60)
            await _is(client, "True")

            async def is_known() -> bool:
                node = watched.nodes.store.get(Key("", NAME))
                return node is not None and is_true(node.status.conditions, "Ready")

            await eventually(is_known, bool)
            nodes.check(NAME)
            found: LANNode = await eventually(
                lambda: client.get(LAN_NODES, NAME), lambda report: not is_silent(report), 60
            )
            assert [item.type for item in found.status.conditions] == ["Other"]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.delete(LAN_NODES, NAME)
            await client.delete(NODES, NAME)

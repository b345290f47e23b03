"""The end of an installation on a node: the CNI programs go with the agent that put them there.

An agent that ends may be replaced by one of another version a moment later, and until then a DEL must find its program.
What tells is the agent's DaemonSet: it outlives each pod but those of an uninstallation. It is followed, because the
rights of the agent often go at the same moment. Its deletion may also leave the pods to another DaemonSet, so nothing
is done before the agent ends.

A runtime runs the program again when it deletes a pod, and fails without. So the programs stay where objects are left
whose pods they may have attached; what can't be known counts as left.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import structlog

from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.errors import KubeError
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.runtime.cni.programs import remove

log = structlog.get_logger(__name__)

ASK_SECONDS = 3.0
"""How long the end of an agent may wait for the API server."""


class CniCleanup:
    """Follow the agent's DaemonSet, `name`. `kinds` are those whose objects' pods the programs attach."""

    def __init__(self, client: Client, name: str, kinds: Sequence[Resource[Any]], rng: Random) -> None:
        self._client = client
        self._kinds = kinds
        self._informer = Informer(
            client,
            DAEMON_SETS,
            rng=rng,
            namespace=LANLOOM_NAMESPACE,
            fields=f"metadata.name={name}",
            title="own DaemonSet",
        )
        self._informer.on_change(self._changed)
        self._gone, self._back = asyncio.Event(), asyncio.Event()
        self._left = "it is not known whether pods are attached"

    async def run(self) -> None:
        """Follow the DaemonSet until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            while True:
                await self._gone.wait()
                left = await self._ask()
                self._left = self._left if left is None else left
                await self._back.wait()

    async def end(self, directory: Path, names: Sequence[str], socket: Path) -> None:
        """Remove the programs of this agent, if its installation ends. Call it when `run` was cancelled."""
        if not self._gone.is_set():
            return
        left = await self._ask()
        left = self._left if left is None else left
        if left:
            log.warning("cni-programs-stay", directory=str(directory), programs=names, because=left)
            return
        removed = [name for name in names if remove(directory, name, socket)]
        log.info("cni-programs-removed", directory=str(directory), programs=removed)

    def _changed(self, _old: DaemonSet | None, new: DaemonSet | None) -> None:
        gone = new is None or new.metadata.is_deleting
        (self._gone if gone else self._back).set()
        (self._back if gone else self._gone).clear()

    async def _ask(self) -> str | None:
        """Say what is left that needs the programs; empty for nothing, None where the server does not answer."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                for kind in self._kinds:
                    for item in await list_or_empty(self._client, kind):
                        return f"{kind.kind} {item.metadata.key} exists"
        except (KubeError, TimeoutError):
            return None
        return ""

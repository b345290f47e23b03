"""The loop that keeps a node's LANs: looks at one whenever something about it changed, and again and again.

It heals: links, forwarding entries and namespaces that somebody deleted come back, and what a process left behind that
died goes. What the kernel announces and what the cluster announces lead to the same look.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from random import Random

import structlog

from lanloom.features.lan.agent.carrier import Carrier
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.view import ClusterView
from lanloom.kube.controller import Controller, Observer
from lanloom.node.errors import NodeError, RecordError

log = structlog.get_logger(__name__)

SPACING_SECONDS = 0.2
"""How far apart looks are that changes cause: a pod that starts changes its links a dozen times."""

ANXIOUS_SECONDS = 2.0
"""How soon a LAN is looked at again in which something is wrong."""

CALM_SECONDS = 20.0
"""How soon a LAN is looked at again where all is well: the kernel does not announce all that it should be asked about,
such as forwarding entries."""

PAUSE_SECONDS = 1.0
"""How soon records are read again that could not be read, and a watch begins anew that broke."""

WORKERS = 4


class LanReconciler:
    """Keeps the LANs that the records and the spokes' users ask for. `loaded` is called once the records are read."""

    def __init__(
        self,
        carrier: Carrier,
        kernel: LanKernel,
        records: LanRecords,
        view: ClusterView,
        *,
        rng: Random,
        loaded: Callable[[], None],
        observe: Observer[str] | None = None,
    ) -> None:
        self._carrier = carrier
        self._kernel = kernel
        self._records = records
        self._view = view
        self._loaded = loaded
        self.controller: Controller[str] = Controller(
            "lan-agent", self._reconcile, rng=rng, workers=WORKERS, spacing=SPACING_SECONDS, observe=observe
        )
        view.on_lan(self.wake)
        view.on_peer(self.wake)

    def wake(self, uid: str) -> None:
        """The LAN is to be looked at, if this node has anything of it."""
        if uid in self._records.carried:
            self.controller.enqueue_spaced(uid)

    async def run(self) -> None:
        """Runs until cancelled; what is under way then is finished."""
        await self._load()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.controller.run())
                group.create_task(self._follow())
                for uid in self._records.carried:
                    self.controller.enqueue(uid)
        finally:
            await self._carrier.close()
            await self._kernel.close()

    async def _load(self) -> None:
        while True:
            try:
                await self._records.load()
                break
            except RecordError as error:
                log.error("lan-records-unread", error=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
        self._loaded()

    async def _reconcile(self, uid: str) -> float | None:
        try:
            await self._carrier.exclusive(uid, lambda: self._carrier.reconcile(uid))
        except NodeError:
            return ANXIOUS_SECONDS
        record = self._records.carried.get(uid)
        if record is None or not (record.built or any(place.allocated for place in record.places)):
            return None
        state = self._carrier.state(uid)
        return ANXIOUS_SECONDS if state is not None and state.problem else CALM_SECONDS

    async def _follow(self) -> None:
        """Wakes what the kernel's changes concern; of the host's links, all LANs, as any may stand on them."""
        while True:
            try:
                async with aclosing(self._kernel.changes()) as stream:
                    async for ns in stream:
                        for uid, record in self._records.carried.items():
                            if record.built and ns in ("", record.ns):
                                self.controller.enqueue_spaced(uid)
            except (NodeError, OSError) as error:
                log.warning("watch-failed", watch="lan-links", error=str(error))
            await asyncio.sleep(PAUSE_SECONDS)

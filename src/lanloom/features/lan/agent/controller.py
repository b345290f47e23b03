"""The loop that keeps a node's LANs: it looks at one whenever something about it changed, and again and again.

It heals: links, forwarding entries and namespaces that were deleted come back, and what a process left behind that
died goes. What the kernel announces and what the cluster announces lead to the same look.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from random import Random

import structlog

from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.reconciler import LanReconciler
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.record import at_port
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
"""How soon records are read again that could not be read, and a watch begins again that broke."""

WORKERS = 4


class LanController:
    """Keep the LANs that the records and the spokes' users ask for. `loaded` is called once the records are read,
    `host_changed` when links of the host changed.
    """

    def __init__(
        self,
        reconciler: LanReconciler,
        kernel: LanKernel,
        records: LanRecords,
        view: ClusterView,
        *,
        rng: Random,
        loaded: Callable[[], None],
        host_changed: Callable[[], None] = lambda: None,
        observe: Observer[str] | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._kernel = kernel
        self._records = records
        self._view = view
        self._loaded = loaded
        self._host_changed = host_changed
        self._underlays: Mapping[str, Underlay] = {}
        self.controller: Controller[str] = Controller(
            "lan-agent", self._reconcile, rng=rng, workers=WORKERS, spacing=SPACING_SECONDS, observe=observe
        )
        view.on_lan(self.wake)
        view.on_peer(self.wake)

    def wake(self, uid: str) -> None:
        """Look at the LAN, if this node has anything of it, or may have because of a bridge of its host."""
        if uid in self._records.by_uid or self._view.is_joined(uid):
            self.controller.enqueue_spaced(uid)
        else:
            self._wake_successor(uid)

    def _wake_successor(self, uid: str) -> None:
        """Look at the LAN that took the place of one that is gone."""
        for found in self._records.by_uid.values():
            if found.was == uid:
                self.controller.enqueue_spaced(found.uid)

    def _wake_at_port(self, uid: str) -> None:
        """Look at the other LANs at the UDP port of one with isolated spokes that can't be built.

        Their VXLAN links may send no marks yet, and then keep the port from a link that does.
        """
        record = self._records.by_uid.get(uid)
        if record is not None and record.options.isolates:
            for each in at_port(record, self._records.by_uid.values()):
                self.controller.enqueue_spaced(each.uid)

    async def run(self) -> None:
        """Run until cancelled; what is under way then is finished."""
        await self._load()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.controller.run())
                group.create_task(self._follow())
                group.create_task(self._know_nodes())
                for uid in sorted({*self._records.by_uid, *self._view.joined()}):
                    self.controller.enqueue(uid)
        finally:
            await self._reconciler.close()
            await self._kernel.close()

    async def _load(self) -> None:
        while True:
            try:
                await self._records.load()
                break
            except RecordError as error:
                log.error("lan-records-unread", error=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
        if self._records.by_uid:
            self._view.follow_nodes()
        self._loaded()

    async def _know_nodes(self) -> None:
        """Look at all LANs once it is known which nodes have them."""
        await self._view.nodes_known()
        for uid in (*self._records.by_uid, *self._view.joined()):
            self.controller.enqueue_spaced(uid)

    async def _reconcile(self, uid: str) -> float | None:
        try:
            await self._reconciler.exclusive(uid, lambda: self._reconciler.reconcile(uid))
        except NodeError:
            self._wake_at_port(uid)
            return ANXIOUS_SECONDS
        record = self._records.by_uid.get(uid)
        if record is None:
            self._wake_successor(uid)
        if record is None and self._view.is_joined(uid):
            return CALM_SECONDS
        if record is not None and not self._view.knows_nodes:
            return ANXIOUS_SECONDS  # whether its LAN is gone, or which nodes have it, is not known yet
        if record is None or not (record.built or any(place.allocated for place in record.places)):
            return None
        state = self._reconciler.state(uid)
        return ANXIOUS_SECONDS if state is not None and state.problem else CALM_SECONDS

    async def _concerned(self, ns: str) -> list[str]:
        built = [record for record in self._records.by_uid.values() if record.built]
        if ns:
            return [record.uid for record in built if record.ns == ns]
        before = self._underlays
        self._underlays = await self._kernel.underlays({record.device for record in built if record.device})
        moved = {
            name for name in {*before, *self._underlays} if before.get(name) != self._underlays.get(name)
        }
        return [*(record.uid for record in built if record.device in moved), *self._view.joined()]

    async def _follow(self) -> None:
        """Wake what the kernel's changes concern; of the host's links, the LANs whose underlay is another one now."""
        while True:
            try:
                async with aclosing(self._kernel.changes()) as stream:
                    async for ns in stream:
                        for uid in await self._concerned(ns):
                            self.controller.enqueue_spaced(uid)
                        if not ns:
                            self._host_changed()
            except (NodeError, OSError) as error:
                log.warning("watch-failed", watch="lan-links", error=str(error))
            await asyncio.sleep(PAUSE_SECONDS)

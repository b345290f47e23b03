"""Which LANs this node joins to their physical VLANs: those for which it is elected, and none else.

Two nodes at once would be a loop: a frame for many receivers would come back by the other node, and circle for ever.
One node holds the LAN's Lease (coordination.k8s.io). It lets go before another may take it: at the latest
`LEASE - RENEW` seconds before, on its own clock. What joins the LAN to the VLAN ends by itself when this module stops
saying that the node is elected (`links.joints`): when the process dies, and when its event loop hangs.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

import structlog

from lanloom.api.lan import LAN, LANS, uplink_lease
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.hostbridge import uplink_bridge
from lanloom.features.lan.rules.spec import faults
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.node.errors import NodeError

LEASE, RENEW, RETRY = 15.0, 10.0, 2.0
"""Seconds: how long the others wait for a holder, after which one that can't renew lets go, between two tries."""

SAID_EVERY, HOLDS_FOR = 1.0, 3.0
"""Seconds: how often it is said that this node is elected, and how long that holds: less than `LEASE - RENEW`."""

CHECK_SECONDS = 5.0
"""How often it is looked which LANs this node can join to their VLANs."""

log = structlog.get_logger(__name__)


class Uplinks:
    """The elections of `node`. `changed` is told the uid of a LAN for which the node was elected, or is no more."""

    def __init__(
        self,
        client: Client,
        kernel: LanKernel,
        view: ClusterView,
        node: str,
        *,
        now: Callable[[], float],
        rng: Random,
        changed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._kernel = kernel
        self._view = view
        self._node = node
        self._now = now
        self._rng = rng
        self._changed = changed
        self._held: set[str] = set()
        self._elections: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}
        self._wake = asyncio.Event()
        view.on_lan(lambda _uid: self.check())

    def check(self) -> None:
        """Something of the host or of a LAN changed."""
        self._wake.set()

    def holds(self, uid: str) -> bool:
        """Whether this node joins the LAN to its VLAN."""
        return uid in self._held

    async def run(self) -> None:
        """Stand for election for every LAN that this node can join, until cancelled."""
        try:
            while True:
                self._wake.clear()
                await self._check()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._wake.wait()
        finally:
            await self._end(tuple(self._elections))

    async def _check(self) -> None:
        lans = {lan.metadata.uid: lan for lan in self._view.with_uplinks()}
        can = [uid for uid, lan in lans.items() if await self._can(lan)]
        self._problems = {uid: text for uid, text in self._problems.items() if uid in lans}
        await self._end([uid for uid in self._elections if uid not in can])
        for uid in can:
            task = self._elections.get(uid)
            if task is None or task.done():
                self._elections[uid] = asyncio.create_task(self._stand(uid))

    async def _can(self, lan: LAN) -> bool:
        """Whether the host has the VLAN. A LAN that is invalid or goes is joined to nothing."""
        uid, uplink = lan.metadata.uid, lan.spec.uplink
        if uplink is None or lan.metadata.is_deleting or faults(lan.spec):
            return False
        try:
            found = await self._kernel.host_bridge(uid, uplink_bridge(uplink.cluster_network, uplink.vlan))
            problem = found.problem
        except NodeError as error:
            problem = str(error)
        if problem and self._problems.get(uid) != problem:
            log.info("lan-uplink-not-here", lan=str(lan.metadata.key), reason=problem)
        self._problems[uid] = problem
        return not problem

    async def _stand(self, uid: str) -> None:
        elector = Elector(
            self._client,
            BRIDGES_NAMESPACE,
            uplink_lease(uid),
            self._node,
            now=self._now,
            rng=self._rng,
            lease=LEASE,
            renew=RENEW,
            retry=RETRY,
        )
        await elector.run(lambda: self._hold(uid))

    async def _hold(self, uid: str) -> None:
        """Lead until cancelled; what joins the LAN ends before this returns."""
        try:
            while True:
                # A watch may be late: another node joins the LAN that was made in the place of one that is gone.
                if uid in self._held or await self._is_there(uid):
                    self._kernel.keep_uplink(uid, HOLDS_FOR)
                    if uid not in self._held:
                        self._held.add(uid)
                        self._changed(uid)
                await asyncio.sleep(SAID_EVERY)
        finally:
            self._held.discard(uid)
            self._kernel.cut_uplink(uid)
            self._changed(uid)

    async def _is_there(self, uid: str) -> bool:
        """Whether the API server has the LAN, and with an uplink."""
        lan = self._view.lan(uid)
        if lan is None:
            return False
        try:
            found = await self._client.get(LANS, lan.metadata.name, lan.metadata.namespace)
        except KubeError as error:
            log.info("lan-not-confirmed", lan=str(lan.metadata.key), error=str(error))
            return False
        meta = found.metadata
        return meta.uid == uid and not meta.is_deleting and found.spec.uplink is not None

    async def _end(self, uids: Iterable[str]) -> None:
        """Withdraw from elections; the Lease is released."""
        tasks = [self._elections.pop(uid) for uid in list(uids)]
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("lan-election-failed", error=str(result))

"""Which LANs this node joins to their physical VLANs: those for which it is elected, and none else.

Two nodes at once would be a loop: a frame for many receivers would come back by the other node, and circle endlessly.
One node holds the VLAN's Lease (coordination.k8s.io), for one LAN: the holder is named by both. It lets go before
another may take it: at the latest `LEASE - RENEW` seconds before, on its own clock. What joins the LAN to the VLAN ends
by itself when this module stops saying that the node is elected (`links.uplinklinks`): when the process dies, and when
its event loop hangs.

A LAN at two VLANs at once would make one of them. So who has a Lease joins nothing before two answers that it asks for
only then: the LAN has this uplink, and no other Lease is held for its VNI. Of two nodes, one of which learnt late of
another uplink, at least one sees the Lease of the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from random import Random
from typing import NamedTuple

import structlog

from lanloom.api.core import LEASES
from lanloom.api.lan import LAN, UID_LABEL, VNI_LABEL, VlanUplink
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.claims import lost_claim
from lanloom.features.lan.rules.hostbridge import uplink_bridge
from lanloom.features.lan.rules.record import LanRecord
from lanloom.features.lan.rules.spec import faults
from lanloom.kube.election import Elector, LeaseAges
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.node.errors import NodeError

log = structlog.get_logger(__name__)

LEASE, RENEW, RETRY = 15.0, 10.0, 2.0
"""Seconds: how long the others wait for a holder, after which one that can't renew lets go, between two tries."""

SAID_EVERY, HOLDS_FOR = 1.0, 3.0
"""Seconds: how often it is said that this node is elected, and how long that holds: less than `LEASE - RENEW`."""

CHECK_SECONDS = 5.0
"""How often it is looked which LANs this node can join to their VLANs, and asked whether those that it joins are there:
one that takes the place of a LAN that is gone need not wait for a watch that is late."""


class _Election(NamedTuple):
    """The election for a LAN, and the VLAN that it is about."""

    uplink: VlanUplink
    task: asyncio.Task[None]


class _Answer(NamedTuple):
    """Whether a LAN, in the version that is known here, has the uplink, as was asked at a time of the loop."""

    version: str
    wanted: bool
    at: float


class Uplinks:
    """The elections of `node`. `changed` receives the uid of a LAN for which the node was elected, or is no more.

    `settled` returns when nothing works at the LAN of a uid that began before.
    """

    def __init__(
        self,
        client: Client,
        kernel: LanKernel,
        view: ClusterView,
        node: str,
        *,
        now: Callable[[], float],
        rng: Random,
        settled: Callable[[str], Awaitable[None]],
        changed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._kernel = kernel
        self._view = view
        self._node = node
        self._now = now
        self._rng = rng
        self._settled = settled
        self._changed = changed
        self._leading: set[str] = set()
        self._held: dict[str, VlanUplink] = {}
        self._elections: dict[str, _Election] = {}
        self._answers: dict[str, _Answer] = {}
        self._problems: dict[str, str] = {}
        self._wake = asyncio.Event()
        view.on_lan(lambda _uid: self.check())

    def check(self) -> None:
        """Check uplinks after a change of the host or of a LAN."""
        self._wake.set()

    def holds(self, record: LanRecord) -> bool:
        """Return whether this node joins the LAN to the VLAN that the record names."""
        return self._held.get(record.uid) == VlanUplink(
            cluster_network=record.uplink, vlan=record.uplink_vlan
        )

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
        can = [lan for lan in lans.values() if await self._can(lan)]
        self._problems = {uid: text for uid, text in self._problems.items() if uid in lans}
        self._answers = {uid: answer for uid, answer in self._answers.items() if uid in lans}
        wanted = await asyncio.gather(*map(self._is_still_wanted, can))
        found = {lan.metadata.uid: lan for lan, yes in zip(can, wanted, strict=True) if yes}
        await self._end([uid for uid, each in self._elections.items() if not _is_for(found.get(uid), each)])
        for uid, lan in found.items():
            election = self._elections.get(uid)
            if lan.spec.uplink is not None and (election is None or election.task.done()):
                task = asyncio.create_task(self._stand(lan, lan.spec.uplink))
                self._elections[uid] = _Election(lan.spec.uplink, task)

    async def _can(self, lan: LAN) -> bool:
        """Return whether the host has the VLAN. A LAN that is invalid, goes or is to give way is joined to nothing."""
        uid, uplink = lan.metadata.uid, lan.spec.uplink
        if uplink is None or lan.metadata.is_deleting or faults(lan.spec):
            return False
        problem = lost_claim(lan, self._view.claimants(lan))
        if not problem:
            try:
                found = await self._kernel.host_bridge(
                    uid, uplink_bridge(uplink.cluster_network, uplink.vlan)
                )
                problem = found.problem
            except NodeError as error:
                problem = str(error)
        if problem and self._problems.get(uid) != problem:
            log.info("lan-uplink-not-here", lan=str(lan.metadata.key), reason=problem)
        self._problems[uid] = problem
        return not problem

    async def _is_still_wanted(self, lan: LAN) -> bool:
        """Return whether a LAN for which this node has a Lease may be joined; also if that can't be asked now.

        A node that only waits for a Lease need not know. One that withdrew takes none before the answer is another one.
        """
        uid, version = lan.metadata.uid, lan.metadata.resource_version
        known, now = self._answers.get(uid), asyncio.get_running_loop().time()
        if known is not None and known.version != version:
            known = None
        if uid not in self._leading and (known is None or known.wanted):
            return True
        if known is None or now - known.at >= CHECK_SECONDS:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    wanted = await self._has(lan, lan.spec.uplink)
            except (KubeError, TimeoutError):
                wanted = True
            known = self._answers[uid] = _Answer(version, wanted, now)
        return known.wanted

    async def _has(self, lan: LAN, uplink: VlanUplink | None) -> bool:
        """Return whether the LAN is there, by the API server, and has this uplink. Raises KubeError."""
        found = await self._view.live(lan.metadata.key, lan.metadata.uid)
        return found is not None and not found.metadata.is_deleting and found.spec.uplink == uplink

    async def _stand(self, lan: LAN, uplink: VlanUplink) -> None:
        uid = lan.metadata.uid
        # A step that joins the LAN to its former VLAN is over before it may be joined to this one.
        await self._settled(uid)
        elector = Elector(
            self._client,
            BRIDGES_NAMESPACE,
            uplink.lease,
            f"{self._node}_{uid}",
            now=self._now,
            rng=self._rng,
            lease=LEASE,
            renew=RENEW,
            retry=RETRY,
            labels={UID_LABEL: uid, VNI_LABEL: _segment(lan)},
        )
        await elector.run(lambda: self._hold(lan, uplink))

    async def _hold(self, lan: LAN, uplink: VlanUplink) -> None:
        """Lead until cancelled; what joins the LAN ends before this returns."""
        uid, others = lan.metadata.uid, LeaseAges()
        self._leading.add(uid)
        try:
            while True:
                if uid in self._held or await self._may_join(lan, uplink, others):
                    self._kernel.keep_uplink(uid, HOLDS_FOR)
                    if uid not in self._held:
                        self._held[uid] = uplink
                        self._changed(uid)
                await asyncio.sleep(SAID_EVERY)
        finally:
            self._leading.discard(uid)
            self._held.pop(uid, None)
            self._kernel.cut_uplink(uid)
            self._changed(uid)

    async def _may_join(self, lan: LAN, uplink: VlanUplink, others: LeaseAges) -> bool:
        """Return whether the holder of the VLAN's Lease may join the LAN. `others` are Leases as they were seen."""
        try:
            if not await self._has(lan, uplink):
                return False
            found = await self._client.list(LEASES, BRIDGES_NAMESPACE, labels=f"{VNI_LABEL}={_segment(lan)}")
            ended = [
                others.has_ended(lease, LEASE) for lease in found.items if lease.metadata.name != uplink.lease
            ]
            return all(ended)
        except KubeError as error:
            log.info("lan-not-confirmed", lan=str(lan.metadata.key), error=str(error))
            return False

    async def _end(self, uids: Iterable[str]) -> None:
        """Withdraw from elections; the Lease is released."""
        tasks = [self._elections.pop(uid).task for uid in list(uids)]
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.warning("lan-election-failed", error=str(result))


def _is_for(lan: LAN | None, election: _Election) -> bool:
    return lan is not None and lan.spec.uplink == election.uplink


def _segment(lan: LAN) -> str:
    return f"{lan.spec.vni}-{lan.spec.vxlan_port}"

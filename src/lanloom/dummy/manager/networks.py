"""Looks after one DummyClusterNetwork at a time: asks the rules, writes its status, tells of it, acts; in that order.

The status comes first, so that nothing is taken away before it says so; it is written on the version that was judged,
so that nobody who has not seen the latest decides anything.
"""

from random import Random

import structlog
from msgspec.structs import replace

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork, DummyClusterNetworkStatus
from lanloom.api.meta import Key
from lanloom.dummy.manager.acting import Acting, ActionRefused
from lanloom.dummy.manager.informers import DummyInformers
from lanloom.dummy.manager.observing import Observing
from lanloom.dummy.manager.retries import Retries
from lanloom.dummy.rules.lifecycle import decide, unanswered
from lanloom.dummy.rules.observed import Decision, Failure, Observed
from lanloom.kube.errors import KubeError
from lanloom.kube.events import reference
from lanloom.kube.lookup import gone_already
from lanloom.kube.mergediff import struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.statuses import StatusWriter

log = structlog.get_logger(__name__)


class Networks:
    """The DummyClusterNetworks. What was refused is forgotten with the process: it is tried once more then."""

    def __init__(
        self, client: Client, informers: DummyInformers, observing: Observing, acting: Acting, rng: Random
    ) -> None:
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._observing = observing
        self._acting = acting
        self._written: dict[str, DummyClusterNetwork] = {}
        self._failures: dict[str, Failure] = {}
        self._retries = Retries(rng)

    async def reconcile(self, name: str) -> float | None:
        """Does what is to be done for a network; in how many seconds to look again, None for when something happens."""
        dcn = self._present(name)
        if dcn is None:
            self._forget(name)
            return None
        seen = self._observing.of(dcn, self._failures.get(dcn.metadata.uid))
        with gone_already(name):
            if _is_about_to_be_made(dcn, seen):
                seen = replace(seen, ranges=await self._observing.ranges(seen))
            return await self._look_after(seen)
        return None

    async def _look_after(self, seen: Observed) -> float | None:
        uid, name = seen.dcn.metadata.uid, seen.dcn.metadata.name
        decision = decide(seen)
        while decision.look:
            try:
                fresh = await self._observing.look(seen.dcn, decision.look)
            except KubeError as error:
                log.warning("dummy-network-not-read", network=name, error=str(error))
                await self._say(seen.dcn, unanswered(seen, str(error)))
                return self._retries.next(uid)
            seen = replace(seen, fresh=fresh)
            decision = decide(seen)
        dcn = await self._say(seen.dcn, decision)
        try:
            await self._acting.act(reference(DUMMY_CLUSTER_NETWORKS, dcn), uid, decision.actions)
        except ActionRefused as refused:
            log.warning("dummy-network-action-refused", network=name, error=str(refused))
            self._failures[uid] = refused.failure
            await self._say(dcn, decide(replace(seen, dcn=dcn, failure=refused.failure)))
            return self._retries.next(uid)
        self._failures.pop(uid, None)
        self._retries.forget(uid)
        return decision.wait

    async def _say(self, dcn: DummyClusterNetwork, decision: Decision) -> DummyClusterNetwork:
        """Writes the status if it differs, and tells of it; the network as it is then. Raises KubeError."""
        if decision.status != dcn.status:
            dcn = await self._write(dcn, decision.status)
        await self._acting.tell(reference(DUMMY_CLUSTER_NETWORKS, dcn), decision.news)
        return dcn

    async def _write(
        self, dcn: DummyClusterNetwork, status: DummyClusterNetworkStatus
    ) -> DummyClusterNetwork:
        meta = dcn.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": struct_diff(dcn.status, status),
        }
        written = await self._statuses.patch(DUMMY_CLUSTER_NETWORKS, meta.name, patch)
        self._written[meta.name] = written
        log.info("dummy-network", network=meta.name, phase=status.phase, message=status.message)
        return written

    def _present(self, name: str) -> DummyClusterNetwork | None:
        """The network, in the form of our own last write where the watch has not brought that yet."""
        stored = self._informers.dcns.store.get(Key("", name))
        written = self._written.get(name)
        if stored is None or written is None or written.metadata.uid != stored.metadata.uid:
            return stored
        return max(stored, written, key=lambda item: item.metadata.version)

    def _forget(self, name: str) -> None:
        written = self._written.pop(name, None)
        if written is not None:
            self._failures.pop(written.metadata.uid, None)
            self._retries.forget(written.metadata.uid)


def _is_about_to_be_made(dcn: DummyClusterNetwork, seen: Observed) -> bool:
    """Whether it is to be decided if a subnet is free."""
    return not dcn.metadata.is_leaving and bool(dcn.spec.subnet) and not seen.made.nads

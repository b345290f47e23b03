"""What was left by DummyClusterNetworks that are gone because somebody removed their finalizer by force.

It is taken away with the same care. Nobody has a status to say so any more, so what keeps it is told on the NADs.
"""

from random import Random

import structlog
from msgspec.structs import replace

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, NAME_ANNOTATION, DummyClusterNetwork
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.multus import NADS
from lanloom.dummy.manager.acting import Acting, ActionRefused
from lanloom.dummy.manager.informers import BY_UID, DummyInformers
from lanloom.dummy.manager.observing import Observing
from lanloom.dummy.manager.retries import Retries
from lanloom.dummy.rules.clearing import Clearing, clearing
from lanloom.dummy.rules.observed import Made, News, Observed
from lanloom.kube.errors import KubeError
from lanloom.kube.events import reference

log = structlog.get_logger(__name__)


class Orphans:
    """The uids of networks that are gone, of which something is left."""

    def __init__(self, informers: DummyInformers, observing: Observing, acting: Acting, rng: Random) -> None:
        self._informers = informers
        self._observing = observing
        self._acting = acting
        self._said: dict[str, str] = {}
        self._retries = Retries(rng)

    def is_orphaned(self, uid: str) -> bool:
        """Whether no network of that uid is known; one that the watch has not brought yet is none, too."""
        return bool(uid) and not self._informers.dcns.store.by(BY_UID, uid)

    async def reconcile(self, uid: str) -> float | None:
        """Takes the next step; in how many seconds to look again, None for when something happens."""
        made = self._observing.orphaned(uid)
        if not self.is_orphaned(uid) or not _every(made):
            self._forget(uid)
            return None
        try:
            if await self._observing.exists(uid):
                return None
            seen = self._observing.of(_ghost(uid, made))
            seen, step = await self._next(seen)
            await self._tell(seen, step)
            await self._acting.act(reference(DUMMY_CLUSTER_NETWORKS, seen.dcn), uid, step.actions)
        except (KubeError, ActionRefused) as error:
            log.warning("dummy-orphan-kept", uid=uid, error=str(error))
            return self._retries.next(uid)
        self._retries.forget(uid)
        return step.wait

    async def _next(self, seen: Observed) -> tuple[Observed, Clearing]:
        step = clearing(seen, committed=True, removed=False)
        while step.look:
            seen = replace(seen, fresh=await self._observing.look(seen.dcn, step.look))
            step = clearing(seen, committed=True, removed=False)
        return seen, step

    async def _tell(self, seen: Observed, step: Clearing) -> None:
        """Says what is waited for, once; by Events where there is a NAD that keeps its users."""
        uid, name = seen.dcn.metadata.uid, seen.dcn.metadata.name
        if not step.message or self._said.get(uid) == step.message:
            return
        self._said[uid] = step.message
        log.warning("dummy-orphan", uid=uid, network=name, stage=step.stage, message=step.message)
        if step.stage not in ("users", "requests"):
            return
        text = f"DummyClusterNetwork {name}, which it belongs to, was removed by force; {step.message}"
        for nad in seen.made.nads:
            await self._acting.tell(reference(NADS, nad), (News("Warning", "Orphaned", text),))

    def _forget(self, uid: str) -> None:
        self._said.pop(uid, None)
        self._retries.forget(uid)


def _every(made: Made) -> tuple[Object, ...]:
    return (*made.nads, *made.daemon_sets, *made.networks, *made.cluster_networks)


def _ghost(uid: str, made: Made) -> DummyClusterNetwork:
    """The network as far as it is still known: its name, and of its spec nothing."""
    names = (item.metadata.annotations.get(NAME_ANNOTATION, "") for item in _every(made))
    return DummyClusterNetwork(metadata=ObjectMeta(name=next(filter(None, names), uid), uid=uid))

"""Remove bridges without a network, as on a node that was off during a deletion.

The watch only hints. A bridge is removed if a live list, requested after the bridge was observed, lacks its network.
After an error, also where the kind is unknown, every bridge stays.
"""

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.features.dummy.rules.hostbridge import orphaned_bridges
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import KubeError
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.node.ports import Links, LinkStep
from lanloom.node.watch import follow

log = structlog.get_logger(__name__)

NOTICE_SECONDS = 5.0
"""Delay between a change of links and the next look at the host. It limits a fight with a program that recreates an
orphaned bridge."""

UNKNOWN_SECONDS = 60.0
"""Delay before the next attempt after a list or a removal failed."""

_HOST = "host"


class BridgeGarbageCollector:
    """Collect the garbage of one host. The caller runs `networks`; `on_removed` is called for each removed link."""

    def __init__(
        self,
        client: Client,
        links: Links,
        networks: Informer[DummyClusterNetwork],
        *,
        rng: Random,
        observe: Observer[str] | None = None,
        on_removed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._links = links
        self._networks = networks
        self._on_removed = on_removed
        self._problem = ""
        self._controller: Controller[str] = Controller(
            "bridge-sweeper", self._collect, rng=rng, observe=observe
        )
        networks.on_change(lambda _old, _new: self._controller.enqueue(_HOST))

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queue and its worker, for metrics."""
        return (self._controller,)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(follow("links", self._links.changes, self._notice))
            await self._networks.synced()
            self._controller.enqueue(_HOST)

    def _notice(self) -> None:
        self._controller.enqueue_after(_HOST, NOTICE_SECONDS)

    async def _collect(self, _key: str) -> float | None:
        if not self._networks.is_synced:
            return None
        try:
            links = (await self._links.dump()).links
            if not orphaned_bridges(self._networks.store.items(), links):
                return None
            known = (await self._client.list(DUMMY_CLUSTER_NETWORKS)).items
        except (KubeError, LinkError) as error:
            self._log_problem(str(error))
            return UNKNOWN_SECONDS
        self._log_problem("")
        removed = [await self._remove(step) for step in orphaned_bridges(known, links)]
        return None if all(removed) else UNKNOWN_SECONDS

    async def _remove(self, step: LinkStep) -> bool:
        try:
            await self._links.apply((step,))
        except LinkError as error:
            log.warning("surplus-bridge-not-removed", step=repr(step), error=str(error))
            return False
        log.info("surplus-bridge-removed", step=repr(step))
        self._on_removed()
        return True

    def _log_problem(self, complaint: str) -> None:
        if complaint and complaint != self._problem:
            log.warning("surplus-bridges-unknown", error=complaint)
        self._problem = complaint

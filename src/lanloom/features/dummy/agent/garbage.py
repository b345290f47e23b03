"""Removes isolated bridges that belong to no network: a node that was off while a network was deleted has one left.

The watch only says where to look closer. A bridge is removed if the API server itself, asked after the bridge was
observed, returns a list without its network. After an error, also that there is no such kind, everything stays.
"""

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.features.dummy.agent.bridge import follow
from lanloom.features.dummy.rules.hostbridge import orphaned_bridges
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import KubeError
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.node.ports import Links, LinkStep

log = structlog.get_logger(__name__)

NOTICE_SECONDS = 5.0
"""How soon after a change of links the host is looked at: often enough, and never again and again against somebody who
keeps a bridge that is surplus."""

UNKNOWN_SECONDS = 60.0
"""How soon the API server is asked again that did not say which networks there are, or a link that could not go is
looked at."""

_HOST = "host"


class BridgeGarbageCollector:
    """Sweeps one host. `networks` is run by the caller; `on_removed` is told of each link that was removed."""

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
        """The queue and its worker, to be looked at."""
        return (self._controller,)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(follow(self._links, self._notice))
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

"""The network that is there without anybody asking for it.

It is created when a leader begins, unless an administrator opts out. One that is there stays as it is, whatever it
says, and so does one that is being deleted: then there is none, until the next leader begins. Who wants it gone for
good says `default: "false"` in the ConfigMap and deletes it. It is not created anew in between, because whoever
deletes it in a running cluster means it; and not remembered as deleted, because nothing should outlive a restart that
nobody can see.
"""

import asyncio
from random import Random

import structlog

from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, MANAGED_BY, MANAGED_BY_CONTROLLER
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.dummy.manager.settings import DummySettings
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.errors import AlreadyExists, KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.kube.queue import backoff

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0

log = structlog.get_logger(__name__)


class DefaultNetwork:
    """Creates the network. `run` is the leader's."""

    def __init__(self, client: Client, settings: DummySettings, *, rng: Random) -> None:
        self._client = client
        self._settings = settings
        self._rng = rng
        self._changed = asyncio.Event()
        settings.on_change(self._changed.set)

    async def run(self) -> None:
        """Creates it, and again when it is called otherwise or asked for anew, until cancelled."""
        await self._settings.informer.synced()
        made, failures = "", 0
        while True:
            self._changed.clear()
            settings = self._settings.current()
            wanted = settings.name if settings.default else ""
            if wanted in ("", made):
                made, failures = wanted, 0
                await self._changed.wait()
                continue
            try:
                await self._create(settings)
                made = wanted
            except KubeError as error:
                report = log.debug if error.reported else log.warning
                report("default-network-not-created", name=wanted, error=str(error))
                pause = backoff(failures, self._rng, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)
                failures += 1
                await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Not longer than until the settings change."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _create(self, settings: Settings) -> None:
        """Raises KubeError, as long as the server does not know the kind or its webhooks refuse, too."""
        body = {
            "metadata": {"name": settings.name, "annotations": {MANAGED_BY: MANAGED_BY_CONTROLLER}},
            "spec": {
                "bridgeName": settings.bridge,
                "nadName": settings.nad,
                "nadNamespace": await self._nad_namespace(settings),
            },
        }
        try:
            await self._client.create(DUMMY_CLUSTER_NETWORKS, body)
        except AlreadyExists:
            return
        log.info("default-network-created", name=settings.name)

    async def _nad_namespace(self, settings: Settings) -> str:
        """Where nobody said, Harvester's namespace if there is one, else Lanloom's."""
        if self._settings.explicit.nad_namespace is not None:
            return settings.nad_namespace
        try:
            await self._client.get(NAMESPACES, settings.nad_namespace)
        except NotFound:
            return LANLOOM_NAMESPACE
        return settings.nad_namespace

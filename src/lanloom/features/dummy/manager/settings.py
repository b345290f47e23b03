"""The settings of isolated networks, and the network that exists by default.

Flags and environment precede the ConfigMap `lanloom-dummy`, which precedes defaults. A change of the ConfigMap takes
effect at once. An invalid entry leaves the entry's last valid value in force; it is logged, and reported by an Event on
the ConfigMap, so that a typing error stops no manager.

The default network is created when a leader begins, unless an administrator opts out. An existing one stays as it is,
whatever its spec, and so does one that is being deleted: then there is none until the next leader begins. To remove it
permanently, set `default: "false"` in the ConfigMap and delete it. It is not recreated in between, because its deletion
in a running cluster is intended; and the deletion is not remembered, because no invisible state should outlive a
restart.
"""

import asyncio
from collections.abc import Callable
from random import Random

import structlog
from msgspec.structs import asdict

from lanloom.api.core import CONFIG_MAPS, NAMESPACES, PODS, ConfigMap, Pod
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, MANAGED_BY, MANAGED_BY_CONTROLLER
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import strip_pod
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.features.dummy.rules.daemonset import has_digest, has_tag
from lanloom.features.dummy.rules.flags import Flags, read_entries, settings
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.controller import backoff
from lanloom.kube.errors import AlreadyExists, KubeError, NotFound
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

CONTAINER = "manager"
"""The manager's container, where its pod has several."""


def image_of(pod: Pod) -> str:
    """Return the image that the manager runs, as the node's runtime reports it; empty where it does not.

    The bridges' pods run the manager's own image. containerd reports `docker.io/a/b@sha256:…`, Docker the same after
    `docker-pullable://`. A digest alone is that of an image that was loaded onto the node. No node could pull it by
    that digest, so it is known by its tag, and used only where it was loaded too.
    """
    statuses = pod.status.container_statuses
    chosen = [item for item in statuses if item.name == CONTAINER] or list(statuses)
    if len(chosen) != 1:
        return ""
    image_id, image = chosen[0].image_id.rpartition("://")[2], chosen[0].image
    if has_digest(image_id):
        return image_id
    return image if image_id.startswith("sha256:") and has_tag(image) else ""


class DummySettings:
    """The settings in force. Keep the informers running; `run` is the leader's.

    `given` are flags and environment, which nothing overrides. `identity` is the name of the manager's own pod, which
    has the image; without such a pod the image is unknown unless it is given.
    """

    def __init__(self, informers: Informers, *, identity: str, given: Flags) -> None:
        self.informer: Informer[ConfigMap] = informers.get(
            CONFIG_MAPS, namespace=LANLOOM_NAMESPACE, fields=f"metadata.name={CONFIG_MAP}"
        )
        self._identity = identity
        self._given = given
        self._map: ConfigMap | None = None
        self._from_config_map = Flags()
        self._image = ""
        self._handlers: list[Callable[[], None]] = []
        self._wrong = asyncio.Event()
        self.faults: tuple[str, ...] = ()
        self._settings = settings(given)
        self.informer.on_change(lambda _old, new: self._read(new))
        informers.get(PODS, transform=strip_pod).on_change(self._pod_changed)

    def current(self) -> Settings:
        """Return the settings in force."""
        return self._settings

    @property
    def explicit(self) -> Flags:
        """Flags, environment and ConfigMap, without defaults."""
        return self._given.over(self._from_config_map)

    def on_change(self, handler: Callable[[], None]) -> None:
        """Add a handler that is called after the settings changed."""
        self._handlers.append(handler)

    async def run(self, recorder: Recorder) -> None:
        """Report invalid entries of the ConfigMap by Events, until cancelled."""
        while True:
            await self._wrong.wait()
            self._wrong.clear()
            if self._map is not None:
                about = reference(CONFIG_MAPS, self._map)
                for fault in self.faults:
                    await recorder.event(about, "Warning", "InvalidSetting", fault)

    def _read(self, config_map: ConfigMap | None) -> None:
        self._map = config_map
        data = config_map.data if config_map is not None else {}
        self._from_config_map, self.faults = read_entries(data, self._from_config_map)
        if self.faults:
            log.warning("dummy-settings-invalid", config_map=CONFIG_MAP, faults=self.faults)
            self._wrong.set()
        self._settle()

    def _pod_changed(self, _old: Pod | None, new: Pod | None) -> None:
        if new is None or (new.metadata.namespace, new.metadata.name) != (LANLOOM_NAMESPACE, self._identity):
            return
        if image := image_of(new):
            self._image = image
            self._settle()

    def _settle(self) -> None:
        found = settings(self.explicit, self._image)
        if found != self._settings:
            self._settings = found
            log.info("dummy-settings", **asdict(found))
            for handler in self._handlers:
                handler()


_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0


class DefaultNetwork:
    """Create the network. `run` is the leader's."""

    def __init__(self, client: Client, settings: DummySettings, *, rng: Random) -> None:
        self._client = client
        self._settings = settings
        self._rng = rng
        self._changed = asyncio.Event()
        settings.on_change(self._changed.set)

    async def run(self) -> None:
        """Create it, and again when it is called otherwise or asked for again, until cancelled."""
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
        """Sleep until the time is over or the settings change."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _create(self, settings: Settings) -> None:
        """Create it. Raises KubeError, as long as the server does not know the kind or its webhooks refuse, too."""
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
        """Return the namespace of the NAD: by default Harvester's if it exists, else Lanloom's."""
        if self._settings.explicit.nad_namespace is not None:
            return settings.nad_namespace
        try:
            await self._client.get(NAMESPACES, settings.nad_namespace)
        except NotFound:
            return LANLOOM_NAMESPACE
        return settings.nad_namespace

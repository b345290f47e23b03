"""The settings of isolated networks: flags and environment, then the ConfigMap `lanloom-dummy`, then defaults.

A change of the ConfigMap takes effect at once. An invalid entry leaves the entry's last valid value in force; it is
logged, and reported by an Event on the ConfigMap, so that a typing error stops no manager.
"""

import asyncio
from collections.abc import Callable

import structlog
from msgspec.structs import asdict

from lanloom.api.core import CONFIG_MAPS, PODS, ConfigMap, Pod
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import lean
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.features.dummy.rules.daemonset import has_digest
from lanloom.features.dummy.rules.flags import Flags, read_entries, settings
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers

CONTAINER = "manager"
"""The manager's container, where its pod has several."""


def image_of(pod: Pod) -> str:
    """Return the image with its digest as the node's runtime reports it; empty where it does not.

    The bridges' pods run the manager's own image. containerd reports `docker.io/a/b@sha256:…`, Docker the same after
    `docker-pullable://`. A digest alone is that of an image that was loaded onto the node: no other node could pull it.
    """
    statuses = pod.status.container_statuses
    chosen = [item for item in statuses if item.name == CONTAINER] or list(statuses)
    if len(chosen) != 1:
        return ""
    image = chosen[0].image_id.rpartition("://")[2]
    return image if has_digest(image) else ""


log = structlog.get_logger(__name__)


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
        informers.get(PODS, transform=lean).on_change(self._pod_changed)

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

"""What everything that reconciles machines works with, and the mode of this cluster as of now."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from lanloom.api.kubevirtconfig import KUBEVIRTS, KubeVirt
from lanloom.features.liveupdate.manager.informers import MachineInformers
from lanloom.features.liveupdate.manager.writer import MachineWriter
from lanloom.features.liveupdate.rules.mode import Mode, mode_of
from lanloom.features.liveupdate.settings import LiveUpdateSettings, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)


class Modes:
    """Tell the mode, and call handlers when it changes. The informer must be synced before `get`.

    That KubeVirt is absent is believed only after a look at the API server.
    """

    def __init__(self, client: Client, informer: Informer[KubeVirt]) -> None:
        self._client = client
        self._store = informer.store
        self._absent = False
        self._handlers: list[Callable[[], None]] = []
        self.latest: Mode | None = None
        """The mode that was reported last; None before the first time."""
        informer.on_change(self._changed)

    def on_change(self, handler: Callable[[], None]) -> None:
        """Add a handler that is called whenever the mode may have changed."""
        self._handlers.append(handler)

    async def get(self) -> Mode:
        """Return the mode. Raises KubeError where the API server can't tell whether KubeVirt is there.

        An API server that starts serves no custom resource, and a watch of one is empty then.
        """
        installed = self._store.items()
        if not installed and not self._absent:
            installed = await list_or_empty(self._client, KUBEVIRTS)
            self._absent = not installed and len(self._store) == 0
        mode = mode_of(installed)
        if mode != self.latest:
            self.latest = mode
            hint = mode.hint or mode.pauses
            log.info("live-update-mode", mode=mode.name, reason=mode.reason, hint=hint)
        return mode

    def _changed(self, _old: KubeVirt | None, _new: KubeVirt | None) -> None:
        self._absent = False
        for handler in self._handlers:
            handler()


class MachineContext(NamedTuple):
    """What all that reconciles machines shares. `act` counts what is done; `now` is in seconds since the epoch."""

    client: Client
    informers: MachineInformers
    modes: Modes
    writer: MachineWriter
    recorder: Recorder
    settings: LiveUpdateSettings
    act: Observer
    now: Callable[[], float]

"""Give up nodes that are silent, and take them back: the condition `Live` of each LANNode, by which all agents go."""

from collections.abc import Callable
from typing import Any

from lanloom.api.lan import LAN_NODES, LANNode
from lanloom.api.meta import Key
from lanloom.features.lan.reader import LanInformers
from lanloom.features.lan.rules.flood import judged, silent_from
from lanloom.kube.controller import Controller
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.informer import changed, present
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.patches import StatusWriter
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents, referring

SPACING_SECONDS = 1.0
"""Between two looks at a node: its Node and its LANNode come and go by different watches."""


class SilentNodes:
    """Keeps the condition. It runs on the leader; `now` is in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        informers: LanInformers,
        recorder: Recorder,
        controllers: ControllerSet,
        *,
        now: Callable[[], float],
    ) -> None:
        self._statuses = StatusWriter(client)
        self._nodes = informers.nodes.store
        self._reports = informers.lan_nodes.store
        self._now = now
        self._controller: Controller[str] = controllers.add(
            "lansilence",
            self.reconcile,
            spacing=SPACING_SECONDS,
            refusals=RefusalEvents(recorder, referring(LAN_NODES, self._reports)),
        )
        informers.lan_nodes.on_change(self._changed, changed(_report_key))

    def check(self, name: str) -> None:
        """Look at a node that may have become Ready, or is not any more."""
        self._controller.enqueue_spaced(name)

    def check_all(self) -> None:
        """Look at every node that has a report."""
        for report in self._reports.items():
            self._controller.enqueue(report.metadata.name)

    async def reconcile(self, name: str) -> float | None:
        """Write the condition of a node's report; in how many seconds time may change it."""
        report, node = self._reports.get(Key("", name)), self._nodes.get(Key("", name))
        if report is None or report.metadata.is_deleting:
            return None
        now = self._now()
        wanted = judged(report.status.conditions, node, report.metadata.generation, now)
        with ignore_not_found(name):
            await self._statuses.replace_conditions(LAN_NODES, report, wanted)
        end = silent_from(node) if node is not None else None
        return end - now if end is not None and end > now else None

    def _changed(self, old: LANNode | None, new: LANNode | None) -> None:
        for item in present(old, new):
            self.check(item.metadata.name)


def _report_key(report: LANNode) -> tuple[Any, ...]:
    return report.metadata.uid, report.status.conditions

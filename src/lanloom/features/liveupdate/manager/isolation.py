"""Compare Multus' namespace isolation on each node with the manager's, and say of each LANNode whether they agree.

A difference that lets a machine move to where no pod of its namespace could be is also an Event of the node.
"""

import random
from collections.abc import Callable
from typing import Any

from lanloom.api.core import NODES, EventDraft, ObjectReference
from lanloom.api.lan import LAN_NODES, LANNode
from lanloom.api.meta import Key
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.rules.isolation import NAMESPACE_ISOLATION, agreement
from lanloom.kube.conditions import find, with_finding
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, changed, present
from lanloom.kube.patches import StatusWriter
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents, referring

SPACING_SECONDS = 1.0
"""Between two looks at a node: two leaders with different settings would not rest otherwise."""


class IsolationReports:
    """The conditions of all LANNodes. It runs on the leader; `now` is in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        reports: Informer[LANNode],
        recorder: Recorder,
        isolation: NamespaceIsolation,
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[Any] | None = None,
    ) -> None:
        self._statuses = StatusWriter(client)
        self._reports = reports
        self._recorder = recorder
        self._isolation = isolation
        self._now = now
        self.controller: Controller[str] = Controller(
            "liveupdate-isolation",
            self.reconcile,
            rng=rng,
            spacing=SPACING_SECONDS,
            observe=observe,
            refusals=RefusalEvents(recorder, referring(LAN_NODES, reports.store)),
        )
        reports.on_change(self._changed, changed(_key))

    async def run(self) -> None:
        """Run until cancelled; every node is looked at once."""
        await self._reports.synced()
        for item in self._reports.store.items():
            self.controller.enqueue(item.metadata.name)
        await self.controller.run()

    async def reconcile(self, node: str) -> None:
        """Write the condition of a node's report, and record an Event when it turns False."""
        report = self._reports.store.get(Key("", node))
        if report is None or report.metadata.is_deleting:
            return
        before = report.status.conditions
        wanted = self._wanted(report)
        if wanted == before:
            return
        await self._statuses.replace_conditions(LAN_NODES, report, wanted)
        found, past = find(wanted, NAMESPACE_ISOLATION), find(before, NAMESPACE_ISOLATION)
        if found is not None and found.status == "False" and (past is None or past.reason != found.reason):
            draft = EventDraft("Warning", f"NamespaceIsolation{found.reason}", found.message)
            await self._recorder.record(_node_of(report), (draft,))

    def _wanted(self, report: LANNode) -> tuple[Any, ...]:
        """Return the conditions; none about a node of which no configuration of Multus is known."""
        conditions = report.status.conditions
        multus = report.status.multus
        found = agreement(self._isolation, multus) if multus is not None else None
        generation = report.metadata.generation
        return with_finding(conditions, NAMESPACE_ISOLATION, found, generation=generation, now=self._now())

    def _changed(self, old: LANNode | None, new: LANNode | None) -> None:
        for item in present(old, new):
            self.controller.enqueue_spaced(item.metadata.name)


def _key(report: LANNode) -> tuple[Any, ...]:
    return report.metadata.uid, report.status.multus, report.status.conditions


def _node_of(report: LANNode) -> ObjectReference:
    """Return the Node, which owns its report."""
    owner = next((item for item in report.metadata.owner_references if item.kind == NODES.kind), None)
    uid = owner.uid if owner is not None else ""
    return ObjectReference(
        api_version=NODES.api_version, kind=NODES.kind, namespace="", name=report.metadata.name, uid=uid
    )

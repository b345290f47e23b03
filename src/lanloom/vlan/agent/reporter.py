"""Writes a node's VlanStatuses: only what changed, and only the node's own."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lanloom.api import names
from lanloom.api.harvester import VLAN_STATUSES, VlanStatus, VlStatus
from lanloom.api.meta import Condition, Key
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import gone_already
from lanloom.kube.mergediff import struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.statuses import StatusWriter
from lanloom.vlan.rules.names import node_label, vlan_status_name

TRUST_SECONDS = 60.0
"""How long the server's answer to a write counts although the watch does not show it.

Not for ever: a report that is written and deleted between two lists never appears, and its deletion neither.
"""


Written = Callable[[VlStatus | None, VlStatus], None]
"""Told the status that was reported before, if any, and the one that was written."""


def _unheard(_before: VlStatus | None, _after: VlStatus) -> None:
    """Nobody wants to be told."""


class _Answer(NamedTuple):
    report: VlanStatus
    until: float


class Reporter:
    """The reports of `node`. `informer` follows them; where its watch is behind, the server's last answers count."""

    def __init__(self, client: Client, node: str, informer: Informer[VlanStatus]) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._node = node
        self._informer = informer
        self._answers: dict[str, _Answer] = {}
        self._deleted: dict[str, str] = {}

    def conditions(self, cluster_network: str) -> tuple[Condition, ...]:
        """The conditions reported last of a cluster network."""
        previous = self._previous(self._name(cluster_network))
        return previous.status.conditions if previous is not None else ()

    async def publish(self, statuses: Mapping[str, VlStatus], written: Written = _unheard) -> bool:
        """Makes these, by cluster network, all that the node reports; whether anything had to be written.

        `written` is told of each report that was, as it was before and is now.
        """
        busy = False
        for cluster_network, status in statuses.items():
            before = self._previous(self._name(cluster_network))
            if before is not None and before.status == status and self._is_labelled(before, cluster_network):
                continue
            if not await self._write(cluster_network, before, status):
                continue
            written(before.status if before is not None else None, status)
            busy = True
        current = {self._name(cluster_network) for cluster_network in statuses}
        for report in self._informer.store.items():
            name, uid = report.metadata.name, report.metadata.uid
            if name not in current and self._deleted.get(name) != uid:
                await self._delete(report)
                busy = True
        return busy

    def forget(self, report: VlanStatus) -> None:
        """The report was deleted."""
        self._answers.pop(report.metadata.name, None)
        self._deleted.pop(report.metadata.name, None)

    def _name(self, cluster_network: str) -> str:
        return vlan_status_name(cluster_network, self._node)

    def _previous(self, name: str) -> VlanStatus | None:
        stored = self._informer.store.get(Key("", name))
        answer = self._answers.get(name)
        if answer is None or answer.until < asyncio.get_running_loop().time():
            return stored
        if stored is not None and stored.metadata.version >= answer.report.metadata.version:
            return stored
        return answer.report

    async def _write(self, cluster_network: str, previous: VlanStatus | None, status: VlStatus) -> bool:
        """Whether it is written: a manager that thinks that the node has left deletes it each time."""
        name = self._name(cluster_network)
        if previous is None or not self._is_labelled(previous, cluster_network):
            previous = await self._create(name, cluster_network)
        try:
            await self._patch(previous, status)
            return True
        except NotFound:  # deleted, and the watch has not brought that yet
            previous = await self._create(name, cluster_network)
        try:
            await self._patch(previous, status)
        except NotFound:
            return False
        return True

    async def _patch(self, previous: VlanStatus, status: VlStatus) -> None:
        name = previous.metadata.name
        patch = struct_diff(previous.status, status)
        report = await self._statuses.patch(VLAN_STATUSES, name, {"status": patch})
        self._answers[name] = _Answer(report, asyncio.get_running_loop().time() + TRUST_SECONDS)

    async def _create(self, name: str, cluster_network: str) -> VlanStatus:
        """A report of that name with its labels: they can't be put on one that is there, so that is made anew."""
        body = {"metadata": {"name": name, "labels": self._labels(cluster_network)}}
        try:
            return await self._client.create(VLAN_STATUSES, body)
        except AlreadyExists:
            report = await self._client.get(VLAN_STATUSES, name)
        if self._is_labelled(report, cluster_network):
            return report
        await self._client.delete(VLAN_STATUSES, name, uid=report.metadata.uid)
        return await self._client.create(VLAN_STATUSES, body)

    def _labels(self, cluster_network: str) -> dict[str, str]:
        return {names.NODE_LABEL: node_label(self._node), names.CLUSTER_NETWORK_LABEL: cluster_network}

    def _is_labelled(self, report: VlanStatus, cluster_network: str) -> bool:
        """Whether the watch finds the report, and the webhook lets it be written."""
        return self._labels(cluster_network).items() <= report.metadata.labels.items()

    async def _delete(self, report: VlanStatus) -> None:
        """Deletes a report once: the watch may be a while behind."""
        name, uid = report.metadata.name, report.metadata.uid
        self.forget(report)
        with gone_already(name):
            await self._client.delete(VLAN_STATUSES, name, uid=uid)
        self._deleted[name] = uid

"""The node's LANNode: what the node carries, for the other nodes and for the status of each LAN.

It is written when it differs, and made with the node as its owner, so that it goes with the node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from random import Random
from typing import Any

import structlog
from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.core import NODES
from lanloom.api.lan import LAN_NODES, LANEntry, LANNode, LANNodeStatus, MultusReport, UnderlayLink
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.underlays import reported
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusals import Refusals
from lanloom.node.errors import NodeError

log = structlog.get_logger(__name__)

_KEY = "report"

TRUST_SECONDS = 60.0
"""How long the server's answer to a write counts although the watch does not show it."""


READ_SECONDS = 60.0
"""How often Multus' configuration is read, whose changes are not announced."""


SPREAD_SECONDS = 2.0
"""Within which all nodes report a link that a new LAN names: a thousand writes at once would delay those of others."""


class ReportPublisher:
    """Write the LANNode of `node` with `entries`, once it `is_ready`: an agent that starts must not take LANs away.

    `is_known` tells whether a LAN was looked at since the start. `underlays` reads links of the host that are there.
    `multus` finds what reads Multus' configuration; None where nothing does.
    """

    def __init__(
        self,
        client: Client,
        view: ClusterView,
        node: str,
        entries: Callable[[], tuple[LANEntry, ...]],
        *,
        is_known: Callable[[str], bool],
        is_ready: Callable[[], bool],
        underlays: Callable[[Collection[str]], Awaitable[Mapping[str, Underlay]]],
        multus: Callable[[], Callable[[], Awaitable[MultusReport | None]] | None] = lambda: None,
        rng: Random,
        observe: Observer[str] | None = None,
        refusals: Refusals[str] | None = None,
    ) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._view = view
        self._node = node
        self._entries = entries
        self._is_known = is_known
        self._is_ready = is_ready
        self._underlays = underlays
        self._multus = multus
        self._rng = rng
        self._named: frozenset[str] = frozenset()
        self._answer: LANNode | None = None
        self._trusted_until = 0.0
        self.controller: Controller[str] = Controller(
            "lan-report", self._publish, rng=rng, observe=observe, spacing=0.2, refusals=refusals
        )
        view.on_report(self._compare)
        view.on_lan(self._lan_changed)

    def wake(self) -> None:
        """Wake the writer: something of the report may have changed."""
        self.controller.enqueue_spaced(_KEY)

    def _lan_changed(self, uid: str) -> None:
        """Look at a LAN that names a link of which nothing was reported yet. All nodes learn of it at once."""
        lan = self._view.lan(uid)
        if lan is not None and lan.spec.underlay(self._node) not in self._named | {""}:
            self.controller.enqueue_after(_KEY, self._rng.random() * SPREAD_SECONDS)

    def _compare(self, stored: LANNode | None) -> None:
        """Correct what another writer wrote or deleted; the watch's word of an own write is no news.

        It is where that write does not count any more: what was to follow it was compared with an older report.
        """
        if stored is None:
            self._answer = None
        answer = self._answer
        if stored is not None and answer is not None and self._is_trusted():
            is_old = stored.metadata.version < answer.metadata.version
            if is_old or stored.status == answer.status:
                return
        self.wake()

    async def _publish(self, _key: str) -> float | None:
        if not (self._view.is_synced and self._is_ready()):
            return 1.0
        read = self._multus()
        await self._write(await read() if read is not None else None)
        return READ_SECONDS if read is not None else None

    async def _write(self, multus: MultusReport | None) -> None:
        before = self._before()
        underlays = await self._links(before)
        before = self._before()
        status = _status(tuple(self._settled(before)), multus, underlays)
        if before is None:
            if status == LANNodeStatus():
                return
            before = await self._create()
        status = replace(status, conditions=before.status.conditions)
        if before.status == status:
            return
        try:
            answer = await self._statuses.patch(
                LAN_NODES, self._node, {"status": _patch(before.status, status)}
            )
        except NotFound:
            self._answer = None
            raise
        self._remember(answer)

    async def _links(self, before: LANNode | None) -> tuple[UnderlayLink, ...]:
        """Return the underlays that LANs name for this node; as they were reported where the kernel does not tell."""
        names = self._view.underlays(self._node)
        try:
            found = await self._underlays(names) if names else {}
        except NodeError as error:
            log.warning("lan-underlays-unread", error=str(error))
            return before.status.underlays if before is not None else ()
        self._named = names
        return tuple(reported(name, found.get(name)) for name in sorted(names))

    def _settled(self, before: LANNode | None) -> Iterator[LANEntry]:
        """Yield what is reported of LANs that were looked at.

        Of others, as after a restart, the other nodes keep all.
        """
        stored = {entry.uid: entry for entry in before.status.lans} if before is not None else {}
        for entry in self._entries():
            if self._is_known(entry.uid):
                yield entry
            elif entry.uid in stored:
                yield stored[entry.uid]

    def _before(self) -> LANNode | None:
        """Return the report as the server has it, as far as is known."""
        stored = self._view.report()
        answer = self._answer
        if answer is None or not self._is_trusted():
            return stored
        if stored is not None and stored.metadata.version >= answer.metadata.version:
            return stored
        return answer

    def _is_trusted(self) -> bool:
        """Return whether the server's answer to the last write still counts."""
        return asyncio.get_running_loop().time() <= self._trusted_until

    def _remember(self, answer: LANNode) -> None:
        self._answer = answer
        self._trusted_until = asyncio.get_running_loop().time() + TRUST_SECONDS

    async def _create(self) -> LANNode:
        node = await self._client.get(NODES, self._node)
        owner = {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "name": self._node,
            "uid": node.metadata.uid,
        }
        body: dict[str, Any] = {"metadata": {"name": self._node, "ownerReferences": [owner]}}
        try:
            return await self._client.create(LAN_NODES, body)
        except AlreadyExists:
            return await self._client.get(LAN_NODES, self._node)


def _status(
    entries: tuple[LANEntry, ...], multus: MultusReport | None, underlays: tuple[UnderlayLink, ...]
) -> LANNodeStatus:
    ready = sum(entry.ready for entry in entries)
    summary = f"{ready}/{len(entries)}" if entries else ""
    return LANNodeStatus(summary=summary, lans=entries, multus=multus, underlays=underlays)


def _patch(before: LANNodeStatus, after: LANNodeStatus) -> dict[str, Any]:
    """Return the difference; the whole status where nothing is left, which the server may have dropped."""
    return struct_diff(before, after) or to_builtins(after)

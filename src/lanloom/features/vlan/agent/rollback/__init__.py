"""Commit-confirm for one node: a change that cuts the node off from the API server is rolled back.

For the loop this is one call, `CommitConfirm.decide`: it says which revision of each network the node carries now, and
records that before anything is done about it. `revisions` selects, `changes` is the state machine of a pending change,
`record` keeps the checkpoint on disk. NetworkManager's own checkpoints know nothing of our bonds and bridges.

Here is the order: no change begins that could not be recorded, because after the agent's death it could not be undone.
Undoing, in turn, must not wait for room on a disk.

`ApiProbe` finds out whether the node reaches the API server: every answer counts, and requests are frequent while a
change is pending.
"""

import asyncio
import math
from collections.abc import Callable, Container

import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.names import MGMT
from lanloom.features.vlan.agent.apply import Problems, failure
from lanloom.features.vlan.agent.rollback.changes import (
    Checkpoint,
    Contact,
    PendingChange,
    begin_change,
    evaluate,
    forget_unwanted,
    retry,
)
from lanloom.features.vlan.agent.rollback.record import CheckpointRecord
from lanloom.features.vlan.agent.rollback.revisions import (
    Desired,
    NetworkRevision,
    Selection,
    by_name,
    select,
)
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.features.vlan.rules.desired.plan import Plan
from lanloom.kube.errors import ApiError, KubeError
from lanloom.kube.ports import Client
from lanloom.node.errors import RecordError
from lanloom.node.ports import Host

log = structlog.get_logger(__name__)

PROBE_SECONDS = 2.0
"""Between two requests while a change is pending."""

ANSWER_SECONDS = 5.0
"""Seconds that one request may take."""


class ApiProbe:
    """Probes the API server while enabled, and calls `wake` after each answer or silence. Times are the loop's."""

    def __init__(self, client: Client, node: str, wake: Callable[[], None]) -> None:
        self._client = client
        self._name = report_name(MGMT, node)
        self._wake = wake
        self._enabled = asyncio.Event()
        self.contact = Contact()

    def enable(self, on: bool) -> None:
        """Probe from now on, or stop."""
        if on:
            self._enabled.set()
        else:
            self._enabled.clear()

    def answered(self, began: float) -> None:
        """Note that the API server answered a request that began then."""
        if began > self.contact.answered:
            self.contact = replace(self.contact, answered=began)

    def notified(self) -> None:
        """Note that a watch brought something."""
        self.contact = replace(self.contact, notified=asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Probe while enabled, until cancelled."""
        while True:
            await self._enabled.wait()
            await self._request()
            self._wake()
            await asyncio.sleep(PROBE_SECONDS)

    async def _request(self) -> None:
        """Accept any answer, also the usual one, that there is no such report."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.get(CLUSTER_NETWORK_NODES, self._name)
        except ApiError:
            self.answered(began)
        except (KubeError, TimeoutError) as error:
            log.info("api-server-silent", error=str(error) or "no answer in time")
            self.contact = replace(self.contact, unanswered=began)
        else:
            self.answered(began)


Planner = Callable[[tuple[NetworkRevision, ...]], Plan]
"""Plans the way from the observed host to these revisions."""


class Decision(Struct, frozen=True):
    """The revisions to carry, the plan that leads there, and the problems of recording them."""

    selections: tuple[Selection, ...]
    revisions: tuple[NetworkRevision, ...]
    plan: Plan
    problems: Problems


class CommitConfirm:
    """One node's checkpoint, and the decisions made with it. Times are the loop's.

    `cluster` tells this cluster's record from another's, `now` gives seconds since the epoch, and `wake` is called when
    the API server answered or was silent while a change is pending.
    """

    def __init__(
        self, client: Client, host: Host, cluster: str, now: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._record = CheckpointRecord(host, cluster, now)
        self._probe = ApiProbe(client, host.name, wake)
        self._wake = wake
        self._checkpoint: Checkpoint | None = None
        self._retries: set[str] = set()
        self._settled = math.inf

    @property
    def has_checkpoint(self) -> bool:
        """Whether it is known what the node carried last."""
        return self._checkpoint is not None

    async def load(self) -> None:
        """Read the last checkpoint."""
        self._checkpoint = await self._record.load()

    async def run(self) -> None:
        """Probe the API server while a change is pending, until cancelled."""
        await self._probe.run()

    async def decide(self, desired: Desired | None, on_host: Container[str], planned: Planner) -> Decision:
        """Say what the node carries now, and how to get there.

        `desired` is None where the API server has not been reached yet: then the checkpoint says it. `on_host` are the
        cluster networks that the host has.
        """
        pending = self._pending
        await self._review(desired)
        decision = await self._commit(self._select(desired, on_host), planned)
        if self._pending != pending:
            self._settled = math.inf  # whatever was in force before says nothing of this change
        return decision

    def conclude(self, *, settled: bool) -> None:
        """Note after a reconcile whether everything is in force: from then on an answer confirms the change."""
        now = asyncio.get_running_loop().time()
        self._settled = min(self._settled, now) if settled else math.inf
        self._probe.enable(self._pending is not None)

    def answered(self, began: float) -> None:
        """Note that the API server answered a request that began then; that may be all that a change waits for."""
        self._probe.answered(began)
        if self._pending is not None:
            self._wake()

    def notified(self) -> None:
        """Note that a watch brought something."""
        self._probe.notified()

    def retry(self, cluster_network: str) -> None:
        """Let a revision that was rolled back be applied again, at the next decision."""
        self._retries.add(cluster_network)

    @property
    def _pending(self) -> PendingChange | None:
        """The change that is not confirmed, or that was undone a while ago, if there is one."""
        return self._checkpoint.pending if self._checkpoint is not None else None

    async def _review(self, desired: Desired | None) -> None:
        """Conclude from what is known of the last change."""
        if self._checkpoint is None:
            return
        now, contact = asyncio.get_running_loop().time(), self._probe.contact
        checkpoint = evaluate(self._checkpoint, now, contact=contact, settled=self._settled)
        _log_verdict(self._checkpoint, checkpoint)
        while self._retries:
            checkpoint = retry(checkpoint, self._retries.pop())
        if desired is not None:
            checkpoint = forget_unwanted(checkpoint, desired.revisions)
        self._checkpoint = checkpoint
        try:
            await self._record.keep(checkpoint)
        except RecordError as error:  # undoing must not wait for room on a disk
            log.warning("memory-not-written", error=str(error))

    def _select(self, desired: Desired | None, on_host: Container[str]) -> tuple[Selection, ...]:
        """Select the revisions to carry: the desired ones, or the checkpoint's without an API server."""
        checkpoint = self._checkpoint
        if desired is None:
            revisions = checkpoint.carried if checkpoint is not None else ()
            return tuple(Selection(present=revision, carried=revision) for revision in revisions)
        return select(
            desired.revisions,
            by_name(checkpoint.carried) if checkpoint is not None else {},
            released=desired.released,
            rejected=checkpoint.rejected if checkpoint is not None else {},
            unknown=on_host if checkpoint is None else (),
        )

    async def _commit(self, selections: tuple[Selection, ...], planned: Planner) -> Decision:
        """Record the selection, if it is new, and plan for it; where it can't be recorded, for the one before."""
        revisions = tuple(item.carried for item in selections if item.carried is not None)
        step = planned(revisions)
        checkpoint = self._next(revisions, effective=not step.empty)
        try:
            await self._record.keep(checkpoint)
        except RecordError as error:
            if self._checkpoint is not None and revisions != self._checkpoint.carried:
                return _refused(self._checkpoint, selections, planned, error)
            log.warning("memory-not-written", error=str(error))
        self._checkpoint = checkpoint
        return Decision(selections, revisions, step, {})

    def _next(self, revisions: tuple[NetworkRevision, ...], *, effective: bool) -> Checkpoint:
        if self._checkpoint is None:  # whatever was before, it is not known well enough to return to it
            return Checkpoint(carried=revisions)
        now, contact = asyncio.get_running_loop().time(), self._probe.contact
        return begin_change(self._checkpoint, revisions, now, contact=contact, effective=effective)


def _refused(
    checkpoint: Checkpoint, selections: tuple[Selection, ...], planned: Planner, error: RecordError
) -> Decision:
    before = by_name(checkpoint.carried)
    after = {item.present.name: item.carried for item in selections if item.carried is not None}
    problem = failure("StateNotWritten", error)
    new = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    kept = tuple(replace(item, carried=before.get(item.present.name)) for item in selections)
    return Decision(
        kept, checkpoint.carried, planned(checkpoint.carried), dict.fromkeys(sorted(new), (problem,))
    )


def _log_verdict(before: Checkpoint, after: Checkpoint) -> None:
    """Log what became of a pending change."""
    if after.pending == before.pending:
        return
    networks = sorted(after.rejected.keys() | before.rejected.keys())
    if after.pending is not None:
        log.warning("change-undone", cluster_networks=networks, because="the API server is silent")
    elif before.pending is not None and not before.pending.rolled_back:
        log.info("change-confirmed")
    elif after.rejected:
        log.warning(
            "change-rejected", cluster_networks=networks, because="the API server is heard without it"
        )
    else:
        log.warning("change-acquitted", cluster_networks=networks, because="the API server is silent anyhow")

"""The state machine of a pending change: afterwards the node must still reach the API server, or it rolls back.

A change is confirmed by the answer to a request that began after all of its sub-interfaces were up. Silence rolls it
back, and further silence clears it: then the change was not the cause. Times are seconds of one clock, whichever. The
caller applies `Checkpoint.carried` and records the whole checkpoint.
"""

import math
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.vlan.agent.rollback.revisions import NetworkRevision, by_name

CONFIRM_SECONDS = 30.0
"""Seconds without an answer of the API server after which a change is undone."""

BOOT_CONFIRM_SECONDS = 600.0
"""The same where the host was rebooted meanwhile: then the API server may be booting too."""

UNRELATED_SECONDS = 300.0
"""Seconds without an answer after a change was undone, after which it was not the change's fault."""

SETTLE_SECONDS = 120.0
"""Seconds after which an answer counts although something is still on its way, such as an address."""

RECENT_SECONDS = 30.0
"""Seconds in which the API server must have been heard before a change for its silence afterwards to mean anything."""


class PendingChange(Struct, frozen=True, rename={"timeout": "patience", "rolled_back": "returned"}):
    """A change that was made at `began` and is not confirmed; or, with `rolled_back`, one that was undone then.

    `suspects` are the cluster networks whose revisions were undone, until it is known whether they were the cause.
    The record on disk has older names of some fields.
    """

    began: float
    timeout: float = CONFIRM_SECONDS
    rolled_back: bool = False
    suspects: tuple[str, ...] = ()


class Checkpoint(Struct, frozen=True, kw_only=True, rename={"pending": "trial"}):
    """The revisions that the node carries, and those that it would return to.

    `fallback` are the revisions before the pending change. `rejected` are the digests of revisions that were rolled
    back, by cluster network: they are not tried again.
    """

    carried: tuple[NetworkRevision, ...] = ()
    fallback: tuple[NetworkRevision, ...] = ()
    pending: PendingChange | None = None
    rejected: dict[str, str] = {}


class Contact(Struct, frozen=True):
    """The beginnings of the last request that the API server answered, and of the last that it did not answer.

    `notified` is when a watch last brought something. It confirms no change: what is read from a socket now may have
    come in before the change.
    """

    answered: float = -math.inf
    unanswered: float = -math.inf
    notified: float = -math.inf

    @property
    def latest(self) -> float:
        """The last sign of life."""
        return max(self.answered, self.notified)


def begin_change(
    checkpoint: Checkpoint,
    revisions: tuple[NetworkRevision, ...],
    now: float,
    *,
    contact: Contact,
    effective: bool,
) -> Checkpoint:
    """Apply `revisions`, a change that is pending from now on, or again.

    There is none where nothing on the host changes (not `effective`), where the API server was not heard before, or
    where nothing could be returned to, because networks only went.
    """
    if revisions == checkpoint.carried:
        return checkpoint
    next_ = replace(checkpoint, carried=revisions)
    proving = checkpoint.pending is not None and not checkpoint.pending.rolled_back
    fallback = checkpoint.fallback if proving else checkpoint.carried
    if not effective:
        return next_
    if now - contact.latest > RECENT_SECONDS or not _blamed(revisions, fallback):
        return replace(next_, fallback=(), pending=None)
    return replace(next_, fallback=fallback, pending=PendingChange(began=now))


def evaluate(checkpoint: Checkpoint, now: float, *, contact: Contact, settled: float) -> Checkpoint:
    """Confirm the pending change, roll it back, or leave it pending. `settled`: since when all of it is in force.

    Only an answer to a request that began after `settled` confirms: before that, the request may have gone out by the
    old path. After SETTLE_SECONDS an answer counts anyway, or an address that never comes would keep the change
    pending. The silence counts only while requests are made (`unanswered`): an agent that slept has heard nothing
    either. The result is the same object while nothing follows.
    """
    pending = checkpoint.pending
    if pending is None:
        return checkpoint
    if pending.rolled_back:
        return _after_rollback(checkpoint, pending, now, contact)
    last = max(pending.began, contact.answered)
    if now - last >= pending.timeout and contact.unanswered > last:
        return _rolled_back(checkpoint, now)
    if contact.answered > min(max(settled, pending.began), pending.began + SETTLE_SECONDS):
        return replace(checkpoint, fallback=(), pending=None)
    return checkpoint


def _after_rollback(
    checkpoint: Checkpoint, pending: PendingChange, now: float, contact: Contact
) -> Checkpoint:
    if contact.answered > pending.began:
        return replace(checkpoint, pending=None)
    if now - pending.began >= UNRELATED_SECONDS:
        cleared = {key: item for key, item in checkpoint.rejected.items() if key not in pending.suspects}
        return replace(checkpoint, pending=None, rejected=cleared)
    return checkpoint


def _rolled_back(checkpoint: Checkpoint, now: float) -> Checkpoint:
    before = by_name(checkpoint.fallback)
    blamed = _blamed(checkpoint.carried, checkpoint.fallback)
    return Checkpoint(
        carried=tuple(before[revision.name] for revision in checkpoint.carried if revision.name in before),
        pending=PendingChange(began=now, rolled_back=True, suspects=tuple(sorted(blamed))),
        rejected=checkpoint.rejected | blamed,
    )


def _blamed(revisions: Iterable[NetworkRevision], fallback: Iterable[NetworkRevision]) -> dict[str, str]:
    """Return the digests of what is not as it was, by cluster network."""
    before = {revision.name: revision.digest for revision in fallback}
    return {
        revision.name: revision.digest
        for revision in revisions
        if before.get(revision.name) != revision.digest
    }


def retry(checkpoint: Checkpoint, cluster_network: str) -> Checkpoint:
    """Let a rejected revision of the network be applied again."""
    if cluster_network not in checkpoint.rejected:
        return checkpoint
    return replace(
        checkpoint,
        rejected={key: item for key, item in checkpoint.rejected.items() if key != cluster_network},
    )


def forget_unwanted(checkpoint: Checkpoint, present: Iterable[NetworkRevision]) -> Checkpoint:
    """Drop rejections of revisions that are no longer desired, so that the same revision may come again later."""
    digests = {revision.name: revision.digest for revision in present}
    rejected = {key: item for key, item in checkpoint.rejected.items() if digests.get(key) == item}
    return checkpoint if rejected == checkpoint.rejected else replace(checkpoint, rejected=rejected)

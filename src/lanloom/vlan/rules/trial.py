"""A change has to prove itself: afterwards the node must still reach the API server, or it returns to what it had.

NetworkManager's checkpoints do the same for its own connections, but our bonds and bridges are none of them. Times are
seconds of one clock, whichever; what happens is for the caller to do: to carry `Memory.carried`, and to remember all of
it.
"""

import math
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.vlan.rules.forms import Form, by_name

PATIENCE = 30.0
"""Seconds without an answer of the API server after which a change is undone."""

BOOT_PATIENCE = 600.0
"""The same where the host was rebooted meanwhile: then the API server may be booting too."""

INNOCENCE = 300.0
"""Seconds without an answer after a change was undone, after which it was not the change's fault."""

LONGEST = 120.0
"""Seconds after which an answer counts although something is still on its way, such as an address."""

RECENT = 30.0
"""Seconds in which the API server must have been heard before a change for its silence afterwards to mean anything."""


class Trial(Struct, frozen=True):
    """A change that was made at `began` and has not proved itself; or, with `returned`, one that was undone then.

    `suspects` are the cluster networks whose forms were undone, as long as it is not known whether they were guilty.
    """

    began: float
    patience: float = PATIENCE
    returned: bool = False
    suspects: tuple[str, ...] = ()


class Memory(Struct, frozen=True, kw_only=True):
    """What the node carries, and what it would return to.

    `fallback` are the forms before the change under trial. `rejected` are the digests of forms that were rolled back,
    by cluster network: they are not tried again.
    """

    carried: tuple[Form, ...] = ()
    fallback: tuple[Form, ...] = ()
    trial: Trial | None = None
    rejected: dict[str, str] = {}


class Contact(Struct, frozen=True):
    """When the last request began that the API server answered, and the last that it did not answer.

    `told` is when a watch brought something last. It proves nothing of a change: what is read from a socket now may
    have come in before.
    """

    heard: float = -math.inf
    missed: float = -math.inf
    told: float = -math.inf

    @property
    def latest(self) -> float:
        """The last sign of life."""
        return max(self.heard, self.told)


def changed(
    memory: Memory, forms: tuple[Form, ...], now: float, *, contact: Contact, effective: bool
) -> Memory:
    """The node takes up `forms`, a change that begins a trial, or begins it anew.

    There is none where nothing on the host changes (not `effective`), where the API server was not heard before, or
    where nothing could be returned to, because networks only went.
    """
    if forms == memory.carried:
        return memory
    next_ = replace(memory, carried=forms)
    proving = memory.trial is not None and not memory.trial.returned
    fallback = memory.fallback if proving else memory.carried
    if not effective:
        return next_
    if now - contact.latest > RECENT or not _blamed(forms, fallback):
        return replace(next_, fallback=(), trial=None)
    return replace(next_, fallback=fallback, trial=Trial(began=now))


def judged(memory: Memory, now: float, *, contact: Contact, settled: float) -> Memory:
    """What follows from the silence of the API server, or from its answer. `settled`: since when all is in force.

    The same memory as long as nothing does.
    """
    trial = memory.trial
    if trial is None:
        return memory
    if trial.returned:
        return _judged_return(memory, trial, now, contact)
    last = max(trial.began, contact.heard)
    if now - last >= trial.patience and contact.missed > last:
        return _returned(memory, now)
    if contact.heard > min(max(settled, trial.began), trial.began + LONGEST):
        return replace(memory, fallback=(), trial=None)
    return memory


def _judged_return(memory: Memory, trial: Trial, now: float, contact: Contact) -> Memory:
    if contact.heard > trial.began:
        return replace(memory, trial=None)
    if now - trial.began >= INNOCENCE:
        acquitted = {key: item for key, item in memory.rejected.items() if key not in trial.suspects}
        return replace(memory, trial=None, rejected=acquitted)
    return memory


def _returned(memory: Memory, now: float) -> Memory:
    before = by_name(memory.fallback)
    blamed = _blamed(memory.carried, memory.fallback)
    return Memory(
        carried=tuple(before[form.name] for form in memory.carried if form.name in before),
        trial=Trial(began=now, returned=True, suspects=tuple(sorted(blamed))),
        rejected=memory.rejected | blamed,
    )


def _blamed(forms: Iterable[Form], fallback: Iterable[Form]) -> dict[str, str]:
    """The digests of what is not as it was, by cluster network."""
    before = {form.name: form.digest for form in fallback}
    return {form.name: form.digest for form in forms if before.get(form.name) != form.digest}


def retried(memory: Memory, cluster_network: str) -> Memory:
    """Somebody wants a rejected form of the network tried again."""
    if cluster_network not in memory.rejected:
        return memory
    return replace(
        memory, rejected={key: item for key, item in memory.rejected.items() if key != cluster_network}
    )


def reviewed(memory: Memory, present: Iterable[Form]) -> Memory:
    """Forgets rejections of forms that nobody wants any more, so that the same form may come again later."""
    digests = {form.name: form.digest for form in present}
    rejected = {key: item for key, item in memory.rejected.items() if digests.get(key) == item}
    return memory if rejected == memory.rejected else replace(memory, rejected=rejected)

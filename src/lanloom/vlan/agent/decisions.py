"""Decides what the node takes up, and remembers it before anything is done about it.

Rules say what follows (`rules.forms`, `rules.trial`); here is when they are asked, and that no change begins which
could not be recorded: else nobody could undo it after the agent's death.
"""

import asyncio
from collections.abc import Callable, Container

import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.node.errors import RecordError
from lanloom.vlan.agent.carrier import Problems, failure
from lanloom.vlan.agent.contact import Reach
from lanloom.vlan.agent.memory import MemoryRecord
from lanloom.vlan.agent.wanted import Present
from lanloom.vlan.rules.forms import Choice, Form, by_name, choose
from lanloom.vlan.rules.plan import Plan
from lanloom.vlan.rules.trial import Memory, Trial, changed, judged, retried, reviewed

log = structlog.get_logger(__name__)


class Decision(Struct, frozen=True):
    """What to carry of each network, how to get there, and what could not be recorded."""

    choices: tuple[Choice, ...]
    forms: tuple[Form, ...]
    plan: Plan
    problems: Problems


class Decisions:
    """One node's memory, and what is decided with it. Times are the loop's."""

    def __init__(self, record: MemoryRecord, reach: Reach) -> None:
        self._record = record
        self._reach = reach
        self._memory: Memory | None = None
        self._retries: set[str] = set()

    @property
    def remembers(self) -> bool:
        """Whether it is known what the node carried last."""
        return self._memory is not None

    @property
    def trial(self) -> Trial | None:
        """The change that has not proved itself yet, or that was undone a while ago, if there is one."""
        return self._memory.trial if self._memory is not None else None

    @property
    def on_trial(self) -> bool:
        """Whether it matters now that the API server can be reached."""
        return self.trial is not None

    async def load(self) -> None:
        """Reads what was remembered last."""
        self._memory = await self._record.load()

    def retry(self, cluster_network: str) -> None:
        """Somebody wants a change that was rolled back tried again, at the next review."""
        self._retries.add(cluster_network)

    async def review(self, present: Present | None, settled: float) -> None:
        """Draws conclusions from what is known of the last change; `settled` is since when all of it is in force."""
        if self._memory is None:
            return
        memory = judged(
            self._memory, asyncio.get_running_loop().time(), contact=self._reach.contact, settled=settled
        )
        _log_verdict(self._memory, memory)
        while self._retries:
            memory = retried(memory, self._retries.pop())
        if present is not None:
            memory = reviewed(memory, present.forms)
        self._memory = memory
        try:
            await self._record.keep(memory)
        except RecordError as error:  # undoing must not wait for room on a disk
            log.warning("memory-not-written", error=str(error))

    def choices(self, present: Present | None, on_host: Container[str]) -> tuple[Choice, ...]:
        """What to carry of what is there now; of what is remembered, where nobody can be asked."""
        memory = self._memory
        if present is None:
            forms = memory.carried if memory is not None else ()
            return tuple(Choice(present=form, carried=form) for form in forms)
        return choose(
            present.forms,
            by_name(memory.carried) if memory is not None else {},
            released=present.released,
            rejected=memory.rejected if memory is not None else {},
            unknown=on_host if memory is None else (),
        )

    async def take_up(
        self, choices: tuple[Choice, ...], planned: Callable[[tuple[Form, ...]], Plan]
    ) -> Decision:
        """Records what is chosen, if that is new, and plans for it; where it can't be recorded, for what was before."""
        forms = tuple(choice.carried for choice in choices if choice.carried is not None)
        step = planned(forms)
        memory = self._next(forms, effective=not step.empty)
        try:
            await self._record.keep(memory)
        except RecordError as error:
            if self._memory is not None and forms != self._memory.carried:
                return _refused(self._memory, choices, planned, error)
            log.warning("memory-not-written", error=str(error))
        self._memory = memory
        return Decision(choices, forms, step, {})

    def _next(self, forms: tuple[Form, ...], *, effective: bool) -> Memory:
        if self._memory is None:  # whatever was before, it is not known well enough to return to it
            return Memory(carried=forms)
        now, contact = asyncio.get_running_loop().time(), self._reach.contact
        return changed(self._memory, forms, now, contact=contact, effective=effective)


def _refused(
    memory: Memory,
    choices: tuple[Choice, ...],
    planned: Callable[[tuple[Form, ...]], Plan],
    error: RecordError,
) -> Decision:
    before = by_name(memory.carried)
    after = {choice.present.name: choice.carried for choice in choices if choice.carried is not None}
    problem = failure("StateNotWritten", error)
    new = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    kept = tuple(replace(choice, carried=before.get(choice.present.name)) for choice in choices)
    return Decision(kept, memory.carried, planned(memory.carried), dict.fromkeys(sorted(new), (problem,)))


def _log_verdict(before: Memory, after: Memory) -> None:
    """Tells what became of a trial."""
    if after.trial == before.trial:
        return
    networks = sorted(after.rejected.keys() | before.rejected.keys())
    if after.trial is not None:
        log.warning("change-undone", cluster_networks=networks, because="the API server is silent")
    elif before.trial is not None and not before.trial.returned:
        log.info("change-confirmed")
    elif after.rejected:
        log.warning(
            "change-rejected", cluster_networks=networks, because="the API server is heard without it"
        )
    else:
        log.warning("change-acquitted", cluster_networks=networks, because="the API server is silent anyhow")

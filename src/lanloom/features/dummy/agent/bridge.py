"""Keeps one isolated bridge of a host, or keeps it away, and reports whether it is as it should be.

The state is in the kernel alone: a process may die after any line, several may run at once, and the next one goes on.
One that ends leaves the bridge as it is: pods and machines are on it.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from lanloom.features.dummy.rules.hostbridge import (
    PORTS_SECONDS,
    Assignment,
    Verdict,
    evaluate,
    remembering,
)
from lanloom.node.errors import LinkError, LinkInUse
from lanloom.node.ports import Links
from lanloom.node.watch import follow

log = structlog.get_logger(__name__)

SPACING_SECONDS = 0.2
"""How far apart looks at the host are, at the least: on a node where pods come and go links change all the time."""

ANXIOUS_SECONDS = 1.0
"""How soon the host is looked at again without a change, where not all is well or has only just become so."""

CALM_SECONDS = 30.0
"""The same where all was well twice in a row: for a change that the kernel could not tell of."""


class Obstructed(Exception):
    """What stood in the way did not go in time; the message says what it is and what to do."""


class BridgeReconciler:
    """Do what `task` says on the host with these `links`; `show` receives whether all is well, again and again."""

    def __init__(self, links: Links, task: Assignment, show: Callable[[bool], None]) -> None:
        self._links = links
        self._task = task
        self._show = show
        self._changed = asyncio.Event()
        self._fault = ""
        self._obstructed_since: float | None = None

    async def run(self) -> None:
        """Run until cancelled. Raises Obstructed, in an exception group, and what `show` raises."""
        self._show(False)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(follow("links", self._links.changes, self._changed.set))
                group.create_task(self._keep())
        finally:
            self._show(False)

    async def _keep(self) -> None:
        calm = False
        while True:
            self._changed.clear()
            verdict = await self._reconcile()
            self._show(verdict.ready)
            self._limit_patience(verdict)
            pause = CALM_SECONDS if calm and verdict.ready else ANXIOUS_SECONDS
            calm = verdict.ready
            await asyncio.sleep(SPACING_SECONDS)
            await self._change_within(pause)

    async def _change_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _reconcile(self) -> Verdict:
        """Observe the bridge once, correct it, and report its state."""
        try:
            verdict = await self._evaluate()
            if verdict.steps:
                self._show(False)
                log.info("bridge-change", steps=[repr(step) for step in verdict.steps])
                await self._links.apply(verdict.steps)
                verdict = await self._evaluate()
        except LinkInUse as error:  # a port came between the look and the step
            return Verdict(fault=str(error), patience=PORTS_SECONDS)
        except LinkError as error:
            return Verdict(fault=str(error))
        return verdict

    async def _evaluate(self) -> Verdict:
        host = await self._links.dump()
        verdict = evaluate(self._task, host)
        self._task = remembering(self._task, host.links)
        return verdict

    def _limit_patience(self, verdict: Verdict) -> None:
        """Raise Obstructed where patience is at its end."""
        if verdict.fault and verdict.fault != self._fault:
            log.warning("bridge-obstructed", reason=verdict.fault)
        self._fault = verdict.fault
        if not verdict.fault:
            self._obstructed_since = None
            return
        now = asyncio.get_running_loop().time()
        self._obstructed_since = now if self._obstructed_since is None else self._obstructed_since
        if now - self._obstructed_since >= verdict.patience:
            raise Obstructed(verdict.fault)


class ReadyFile:
    """The file at `path`. It is empty, so it is never seen half-written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def show(self, ready: bool) -> None:
        """Make the file be there, or not. Raises OSError."""
        if ready:
            self._path.touch(mode=0o644)
        else:
            self._path.unlink(missing_ok=True)

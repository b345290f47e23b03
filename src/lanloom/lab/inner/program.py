"""Keeping a program of a capsule running: started again, later each time, until somebody ends it."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lanloom.lab import protocol
from lanloom.lab.inner.capsule import ENVIRONMENT, Capsule

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
GOOD_RUN = 30.0
"""Seconds after which a program counts as having worked: its next pause is the first one again."""


class Program:
    """One program inside a capsule, its output appended to `log`."""

    def __init__(
        self,
        name: str,
        capsule: Capsule,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = capsule.command(*words)
        self._environment = {**ENVIRONMENT, **(environment or {})}
        self._log = log
        self._running = False
        self._restarts = 0
        self._task = asyncio.create_task(self._keep_running(), name=name)

    def report(self) -> protocol.Program:
        """How it is."""
        return protocol.Program(self._name, self._running, self._restarts)

    async def end(self) -> None:
        """Kills it and starts it no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_running(self) -> None:
        pause = FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._run_once()
            self._restarts += 1
            pause = FIRST_PAUSE if loop.time() - began > GOOD_RUN else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _run_once(self) -> None:
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running = True
        try:
            await process.wait()
        finally:
            self._running = False
            if process.returncode is None:
                kill_group(process)
                await process.wait()


def kill_group(process: Process) -> None:
    """Kills a process that leads a session, with its children: `nsenter` does not take its child with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

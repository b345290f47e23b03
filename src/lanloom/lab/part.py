"""A process that a lab is made of, such as its API server or its kernel: it has a log, and is missed when it dies."""

import asyncio
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Mapping, Sequence
from pathlib import Path

from lanloom.lab.errors import PartFailed

STOP_TIMEOUT = 10.0


class Part:
    """One process of the lab. `name` is for people."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(
        cls,
        name: str,
        words: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> "Part":
        """Starts it, its output replacing the log of the run before."""
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=output, stderr=STDOUT, env=environment, pass_fds=pass_fds
            )
        return cls(name, process, log)

    async def ended(self) -> None:
        """Waits until it has ended, and always raises PartFailed then: a part is not supposed to end by itself."""
        status = await self._process.wait()
        raise PartFailed(
            f"{self.name} ended unexpectedly (exit status {status})",
            f"The end of its log, {self._log}:\n{tail(self._log)}",
        )

    def too_slow(self, seconds: float) -> PartFailed:
        """The error for a part that did not become ready in time."""
        return PartFailed(
            f"{self.name} was not ready after {seconds:.0f} s",
            f"The end of its log, {self._log}:\n{tail(self._log)}",
        )

    async def stop(self) -> None:
        """Asks it to end, then makes it."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Makes it end."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log file, empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""

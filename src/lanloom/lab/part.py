"""A process that a lab is made of, such as its API server or its kernel: it has a log, and is missed when it dies."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lanloom.lab.errors import PartFailed

STOP_TIMEOUT = 10.0
LINE_MAX = 1 << 16


class Part:
    """One process of the lab. `name` is for people."""

    def __init__(self, name: str, process: Process, log: Path, console: "Console | None" = None) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._console = console

    @classmethod
    async def start(
        cls,
        name: str,
        words: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        fatal: Callable[[str], str] | None = None,
    ) -> "Part":
        """Starts it, its output replacing the log of the run before.

        `fatal` is given for a kernel: it gets each line of the output, and returns the text of a panic.
        """
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=DEVNULL,
                stdout=PIPE if fatal else output,
                stderr=STDOUT,
                env=environment,
                pass_fds=pass_fds,
            )
        if fatal is None or process.stdout is None:
            return cls(name, process, log)
        return cls(name, process, log, Console(process.stdout, log, fatal))

    async def ended(self) -> None:
        """Waits until it has ended, and always raises PartFailed then: a part is not supposed to end by itself.

        A kernel has ended as soon as it panics, whether or not its process goes on.
        """
        status = await self._process.wait() if self._console is None else await self._end_of_kernel()
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

    async def _end_of_kernel(self) -> int:
        assert self._console is not None
        if panic := await self._console.panic():
            await self.kill()
            raise PartFailed(f"{self.name} panicked: {panic}", f"All that it printed is in {self._log}.")
        return await self._process.wait()

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


class Console:
    """Copies the output of a kernel to its log, and reads along."""

    def __init__(self, stream: asyncio.StreamReader, log: Path, fatal: Callable[[str], str]) -> None:
        self._stream = stream
        self._fatal = fatal
        self._copying = asyncio.create_task(self._copy(log))

    async def panic(self) -> str:
        """Waits for a panic or the end of the output; the text of the panic, empty if there was none."""
        return await asyncio.shield(self._copying)

    async def _copy(self, log: Path) -> str:
        rest = b""
        with log.open("ab", buffering=0) as output:
            while chunk := await self._stream.read(LINE_MAX):
                output.write(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[-LINE_MAX:]
                for line in lines:
                    if panic := self._fatal(line.decode(errors="replace")):
                        return panic
        return ""


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log file, empty when there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""

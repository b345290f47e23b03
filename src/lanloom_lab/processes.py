"""The processes of a lab, such as its API server or its kernel, and waiting for conditions without an event.

Each process has a log, and its unexpected end is an error. A kernel that panics may end, or loop forever without
further output. Its output is the only sign, so its console is read.
"""

import asyncio
import os
import re
import signal
import subprocess
import threading
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lanloom_lab.errors import ProcessFailed

PAUSE = 0.03


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; the caller sets the limit."""
    while True:
        if condition():
            return
        await asyncio.sleep(PAUSE)


async def until_done(attempt: Callable[[], Awaitable[bool]], pause: float = PAUSE) -> None:
    """Repeat the attempt until it returns True; the caller sets the limit."""
    while True:
        if await attempt():
            return
        await asyncio.sleep(pause)


PROC = Path("/proc")


def processes() -> Iterator[tuple[int, Path]]:
    """Yield the id and the directory of each process; any of them may end at any time.

    Not a glob below a PID: it stats what it found, and raises ESRCH for a process that has ended meanwhile.
    """
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            yield int(entry.name), entry


def status_of(process: Path) -> dict[str, str]:
    """Return the fields of a process's `status`; empty if it has ended, at whatever moment of the look."""
    try:
        lines = (process / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


_PANIC = re.compile(r"Kernel panic - not syncing: *(.*)")


class ConsoleEnd(Struct, frozen=True):
    """How a kernel ended. `panic` is the text of its panic, empty if it did not; `status` is None if it was killed."""

    output: str
    panic: str
    status: int | None


def panic_of(line: str) -> str:
    """Return the text of the panic that a line of a console reports, without the stack; empty for any other line."""
    found = _PANIC.search(line)
    return (found[1].strip() or "for no stated reason") if found else ""


def run_kernel(
    words: Sequence[str],
    seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    log: Path = Path("/dev/null"),
) -> ConsoleEnd:
    """Run a kernel until it ends, panics or has taken `seconds`, then kill it; copy its console to `log`."""
    lines: list[str] = []
    panic = ""
    with log.open("wb") as copy:
        process = subprocess.Popen(
            words,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        limit = threading.Timer(seconds, _kill, [process])
        limit.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                copy.write(line)
                lines.append(line.decode(errors="replace"))
                if panic := panic_of(lines[-1]):
                    break
            status = None if panic else process.wait()
        finally:
            limit.cancel()
            _kill(process)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    killed = status is not None and status < 0
    return ConsoleEnd("".join(lines), panic, None if killed else status)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # All of its session: a child that lives on would keep the console open.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


STOP_TIMEOUT = 10.0
LINE_MAX = 1 << 16
TAIL_LINES = 12


class ManagedProcess:
    """One process of the lab. `name` is for messages."""

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
    ) -> "ManagedProcess":
        """Start it, and replace the log of the run before by its output.

        `fatal` is set for a kernel: it is called with each line of the output, and returns the text of a panic.
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
        """Wait for its end, and always raise ProcessFailed then: a process should not end by itself.

        A kernel has ended as soon as it panics, whether or not its process continues.
        """
        status = await self._process.wait() if self._console is None else await self._end_of_kernel()
        raise ProcessFailed(
            f"{self.name} ended unexpectedly (exit status {status})",
            f"The end of its log, {self._log}:\n{tail(self._log)}",
        )

    def too_slow(self, seconds: float) -> ProcessFailed:
        """Return the error for a process that did not become ready in time."""
        return ProcessFailed(
            f"{self.name} was not ready after {seconds:.0f} s",
            f"The end of its log, {self._log}:\n{tail(self._log)}",
        )

    async def _end_of_kernel(self) -> int:
        assert self._console is not None
        if panic := await self._console.panic():
            await self.kill()
            raise ProcessFailed(f"{self.name} panicked: {panic}", f"All that it printed is in {self._log}.")
        return await self._process.wait()

    async def stop(self) -> None:
        """Request its end, then enforce it."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Kill it."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Console:
    """Copy the output of a kernel to its log, and read it."""

    def __init__(self, stream: asyncio.StreamReader, log: Path, fatal: Callable[[str], str]) -> None:
        self._stream = stream
        self._fatal = fatal
        self._copying = asyncio.create_task(self._copy(log))

    async def panic(self) -> str:
        """Wait for a panic or the end of the output; return the text of the panic, empty if there was none."""
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


def tail(log: Path) -> str:
    """Return the end of a log file, empty if it does not exist."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
    except OSError:
        return ""

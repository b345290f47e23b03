"""The console of a kernel that runs as a process: its output is kept, and a panic ends it at once.

A kernel that panics may end, or spin for ever without a word more. What it printed is the only sign, so whoever starts
one reads along.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_PANIC = re.compile(r"Kernel panic - not syncing: *(.*)")


class ConsoleEnd(Struct, frozen=True):
    """How a kernel ended. `panic` is the text of its panic, empty if it did not; `status` is None if it was ended."""

    output: str
    panic: str
    status: int | None


def panic_of(line: str) -> str:
    """The text of a panic that this line of a console reports, without the stack; empty for any other line."""
    found = _PANIC.search(line)
    return (found[1].strip() or "for no stated reason") if found else ""


def run_kernel(
    words: Sequence[str],
    seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    log: Path = Path("/dev/null"),
) -> ConsoleEnd:
    """Runs a kernel until it ends, panics or has taken `seconds`, then kills it; its console also goes to `log`."""
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

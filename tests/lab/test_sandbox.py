"""Programs that are kept running in namespaces, whatever happens to them. On this machine's own kernel."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from lanloom_lab.inner.sandbox import NamespaceSandbox, Program
from lanloom_lab.processes import processes, status_of, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")

SCRIPT = """
read -r pid _ </proc/self/stat
echo $pid
read -r _
echo ready
exec </dev/null >/dev/null
while :; do sleep 2147483647 & wait; done
"""
"""PID 1 of a sandbox, as that of a node without its files and links."""


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[NamespaceSandbox]:
    """Namespaces with a process that waits."""
    script = tmp_path / "init.sh"
    script.write_text(SCRIPT)
    sandbox = await NamespaceSandbox.start(str(script), {}, tmp_path / "log")
    await sandbox.proceed()
    yield sandbox
    await sandbox.kill()


async def passes(condition: Callable[[], bool]) -> None:
    """Wait for what other processes bring about."""
    async with asyncio.timeout(60):
        await until(condition)


def inside(sandbox: NamespaceSandbox, name: str) -> list[int]:
    """The processes of that name in the sandbox, as this machine numbers them."""
    own = os.stat(f"/proc/{sandbox.pid}/ns/pid").st_ino
    found = []
    for pid, process in processes():
        try:
            if (process / "ns/pid").stat().st_ino == own and status_of(process).get("Name") == name:
                found.append(pid)
        except OSError:
            continue
    return found


async def stopped(pid: int) -> None:
    """Stop a process, and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    await passes(lambda: status_of(Path(f"/proc/{pid}")).get("State", "").startswith("T"))


@pytest.mark.parametrize("continued", [False, True])
async def test_a_program_that_was_stopped_is_started_again(
    sandbox: NamespaceSandbox, tmp_path: Path, continued: bool
) -> None:
    """A program that is stopped stays so; one that is killed then, continued or not, ends, and the next one runs."""
    program = Program("waiting", sandbox, ("tail", "-f", "/dev/null"), tmp_path / "program.log")
    await passes(lambda: len(inside(sandbox, "tail")) == 1)
    [first] = inside(sandbox, "tail")
    await stopped(first)
    assert (program.report().running, program.report().restarts) == (True, 0)
    if continued:
        os.kill(first, signal.SIGCONT)
    os.kill(first, signal.SIGKILL)
    await passes(lambda: program.report().restarts == 1 and program.report().running)
    await passes(lambda: inside(sandbox, "tail") not in ([], [first]))
    assert (tmp_path / "program.log").read_text() == ""
    await program.end()


async def test_a_sandbox_with_a_stopped_program_ends(sandbox: NamespaceSandbox, tmp_path: Path) -> None:
    """A sandbox ends although one of its programs is stopped, and nothing of it is left."""
    program = Program("waiting", sandbox, ("tail", "-f", "/dev/null"), tmp_path / "program.log")
    await passes(lambda: len(inside(sandbox, "tail")) == 1)
    [held] = inside(sandbox, "tail")
    await stopped(held)
    async with asyncio.timeout(60):
        await sandbox.kill()
    await program.end()
    assert held not in dict(processes())


@pytest.mark.parametrize(
    ("script", "status", "printed", "complaint"),
    [
        ("read line; echo $line; echo oops >&2; exit 7", 7, "hello\n", "oops\n"),
        ("kill -TERM $$", 143, "", ""),
        ("kill -KILL $$", 137, "", ""),
    ],
)
async def test_what_runs_a_program_adds_nothing(
    sandbox: NamespaceSandbox, script: str, status: int, printed: str, complaint: str
) -> None:
    """Streams and exit status of a program in a sandbox are its own."""
    command = sandbox.command("sh", "-c", script)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate(b"hello\n")
    assert (process.returncode, out.decode(), err.decode()) == (status, printed, complaint)

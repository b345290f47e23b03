"""A set of namespaces that lives and dies with one process, and the programs that are kept running in it.

Killing that process, PID 1 of a PID namespace, makes the kernel end everything inside and drop the links and
mounts: nothing has to be remembered or cleaned up, whatever went wrong before.
"""

import asyncio
import ctypes
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lanloom_lab import protocol
from lanloom_lab.errors import ProcessFailed
from lanloom_lab.processes import tail

SCRIPTS = Path(__file__).parent
START_TIMEOUT = 60.0
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}

PR_SET_CHILD_SUBREAPER = 36
"""Of prctl(2)."""

REAP_SECONDS = 0.05
"""How often orphans are looked for while a sandbox ends."""

_KINDS = ("--mount", "--net", "--pid", "--uts", "--ipc")


class NamespaceSandbox:
    """Namespaces held by a running script, which printed its PID and waits to be told to go on."""

    def __init__(self, process: Process, pid: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = pid

    @classmethod
    async def start(cls, script: str, environment: Mapping[str, str], log: Path) -> "NamespaceSandbox":
        """Starts a script of this package in new namespaces. Raises ProcessFailed."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *("unshare", *_KINDS, "--fork", "--kill-child=KILL", "/bin/sh", str(SCRIPTS / script)),
                env={**ENVIRONMENT, **environment},
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
            )
        line = await _answer(process, log)
        return cls(process, int(line), log)

    async def proceed(self) -> None:
        """Lets the script go on and waits until it is ready. Raises ProcessFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await _answer(self._process, self._log)

    async def kill(self) -> None:
        """Ends everything inside."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        ended = asyncio.create_task(self._process.wait())
        while not ended.done():
            reap_orphans()
            await asyncio.wait([ended], timeout=REAP_SECONDS)

    def inside(self, path: str) -> Path:
        """An absolute path of the sandbox's root as seen from here."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, *words: str) -> tuple[str, ...]:
        """The command line that runs these words inside."""
        return ("nsenter", f"--target={self.pid}", *_KINDS, "--", *words)


def adopt_orphans() -> None:
    """Makes this process the parent of what loses its own, so that it can bury it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans() -> None:
    """Takes note of the ends of processes in capsules whose parent, an `nsenter` out here, was killed before it could.

    Nobody else does, and a namespace of processes does not end before the last of them is forgotten. Our own children
    are in no further namespace; those who started them wait for them.
    """
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            if is_orphan(status.read_text(), os.getpid()):
                os.waitpid(int(status.parent.name), os.WNOHANG)


def is_orphan(status: str, parent: int) -> bool:
    """Whether /proc/PID/status is that of a child in a further namespace of processes."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(fields.get("PPid", 0)) == parent and len(fields.get("NSpid", "").split()) > 1


async def _answer(process: Process, log: Path) -> bytes:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        process.kill()
        await process.wait()
        raise ProcessFailed(
            "a set of namespaces could not be set up", f"See the end of {log.name}:\n{tail(log)}"
        )
    return line


async def succeeds(*command: str) -> bool:
    """Runs a program and says whether its exit status was 0."""
    process = await asyncio.create_subprocess_exec(
        *command, env=ENVIRONMENT, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    return await process.wait() == 0


async def run(*command: str, text: str = "") -> None:
    """Runs a program with `text` as its standard input. Raises ProcessFailed with its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=ENVIRONMENT,
        stdin=PIPE if text else DEVNULL,
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(text.encode() if text else None)
    if process.returncode != 0:
        raise ProcessFailed(
            f"{' '.join(command)} failed (exit status {process.returncode}): {output.decode(errors='replace').strip()}",
            "This is a fault of the lab, or of the kernel that it runs on; please report it.",
        )


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
GOOD_RUN = 30.0
"""Seconds after which a program counts as having worked: its next pause is the first one again."""


class Program:
    """One program inside a sandbox, its output appended to `log`."""

    def __init__(
        self,
        name: str,
        sandbox: NamespaceSandbox,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = sandbox.command(*words)
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

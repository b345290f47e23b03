"""A set of namespaces that lives as long as one process, and the programs that are kept running in it.

Killing that process, PID 1 of a PID namespace, makes the kernel end all processes in it and remove its links and
mounts. No state must be remembered or cleaned up, whatever failed before.
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
from lanloom_lab.processes import processes, status_of, tail

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

_WAIT = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit "$?"'
"""Waits for the end of a program only, and says nothing of its own.

`nsenter` by itself stops with its child. Of one that is stopped and then killed it would never hear again: the child
stays a zombie, and with it its PID namespace.
"""

_KINDS = ("--mount", "--net", "--pid", "--uts", "--ipc")


class NamespaceSandbox:
    """Namespaces of a running script, which printed its PID and waits for the signal to continue."""

    def __init__(self, process: Process, pid: int, log: Path) -> None:
        self._process = process
        self._log = log
        self._enter = ("nsenter", f"--target={pid}", *_KINDS)
        self.pid = pid

    @classmethod
    async def start(cls, script: str, environment: Mapping[str, str], log: Path) -> "NamespaceSandbox":
        """Start a script of this package in new namespaces. Raises ProcessFailed."""
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
        """Let the script continue and wait until it is ready. Raises ProcessFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await _answer(self._process, self._log)

    async def kill(self) -> None:
        """End all processes in it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        ended = asyncio.create_task(self._process.wait())
        while not ended.done():
            reap_orphans()
            await asyncio.wait([ended], timeout=REAP_SECONDS)

    def inside(self, path: str) -> Path:
        """Return the path from here of an absolute path in the sandbox."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, *words: str) -> tuple[str, ...]:
        """Return the command line that runs these words in the sandbox, and waits for their end."""
        return (*self._enter, "--no-fork", "--", "/bin/sh", "-c", _WAIT, "sh", *words)

    def on_terminal(self, *words: str) -> tuple[str, ...]:
        """Return the command line that runs these words in a session of their own, which has the terminal."""
        return (*self._enter, "--", "setsid", "--ctty", "--wait", *words)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned processes, so that it can reap them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans() -> None:
    """Reap processes in sandboxes whose parent, an `nsenter` outside, was killed before it could.

    No other process does, and a PID namespace does not end before its last process is reaped. Children of this process
    are in no further namespace; their callers wait for them.
    """
    for pid, process in processes():
        if is_orphan(status_of(process), os.getpid()):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def is_orphan(status: Mapping[str, str], parent: int) -> bool:
    """Return whether the fields of /proc/PID/status are those of a child in a further PID namespace."""
    return int(status.get("PPid", 0)) == parent and len(status.get("NSpid", "").split()) > 1


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
    """Run a program and return whether its exit status was 0."""
    process = await asyncio.create_subprocess_exec(
        *command, env=ENVIRONMENT, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    return await process.wait() == 0


async def run(*command: str, text: str = "") -> None:
    """Run a program with `text` as its standard input. Raises ProcessFailed with its output."""
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
    """One program in a sandbox, with its output appended to `log`."""

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
        """Return its state."""
        return protocol.Program(self._name, self._running, self._restarts)

    async def end(self) -> None:
        """Kill it and do not start it again."""
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
    """Kill a process that leads a session, with its children: the child of an `nsenter` survives its end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

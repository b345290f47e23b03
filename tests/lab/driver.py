"""How tests use a lab: through the command line, as its users do, but for shell scripts on nodes and in guests.

These are most of what tests ask for, again and again while they wait; a process for each would take more time than its
script. `lanloom lab exec` and `lanloom lab guest` send the same requests. For the same reason what `kubectl get` shows
is read in this process where it can be (`tests.lab.apireader`).
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from lanloom_lab import client, protocol
from lanloom_lab.assets import default_cache
from lanloom_lab.errors import LabError
from lanloom_lab.layout import Layout
from lanloom_lab.processes import processes
from tests.harness.servers.build import SHORT_LIVED, binaries
from tests.harness.waiting import Looks
from tests.lab.apireader import ApiReader

Completed = subprocess.CompletedProcess[str]

PATIENCE = 180.0
"""Seconds until something is a failure that takes as long as the machine takes."""

PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two looks at a condition, at least and at most."""


GUEST_ENDED = re.compile("a guest ended|a machine failed|a migration failed|a launcher's node is away")
"""What the lab logs when a guest is gone, or did not come where it was to be."""


class WrongStatus(AssertionError):
    """A command ended with another status than the test expects."""


NOT_YET = (WrongStatus, LookupError, ValueError)
"""How a look fails at what is not there at this moment: an object, a field, the one item of a list."""


class Lab:
    """The lab in one state directory. It ends with the process of the tests, however that one ends."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._reader = ApiReader(state / "kubeconfig")

    def run(
        self, *words: str, given: str | None = None, status: int | None = 0, columns: int | None = None
    ) -> Completed:
        """Runs `lanloom lab …`, as on a terminal of so many columns; checks its exit status, unless that is None."""
        done = subprocess.run(
            self._command(*words),
            env=os.environ | ({"COLUMNS": str(columns)} if columns else {}),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if status is not None and done.returncode != status:
            raise WrongStatus(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *words: str, terminal: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Begins `lanloom lab …` without waiting for its end, on a terminal if one is given."""
        return subprocess.Popen(
            self._command(*words), stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=_interruptible
        )

    def _command(self, *words: str) -> list[str]:
        follows = words[:1] == ("up",) and "--follow" not in words
        following = ("--follow", str(os.getpid())) if follows else ()
        return [sys.executable, "-m", "lanloom", "lab", "--state", str(self.state), *words, *following]

    def on(self, node: str, script: str, *, status: int | None = 0) -> str:
        """What a shell script prints on a node; checks its exit status, unless that is None."""
        found, printed, complaint = self._shell(node, script)
        if status is not None and found != status:
            raise WrongStatus(f"{script}: {found}\n{printed}\n{complaint}")
        return printed

    def reaches(self, node: str, address: str, interface: str = "") -> bool:
        """Whether an echo from the node, over an interface if one is named, is answered.

        A link that has just changed its hardware address may lose one: its neighbours ask again only after a while.
        """
        over = f"-I {interface} " if interface else ""
        status, _, _ = self._shell(node, f"ping -c 1 -W 1 {over}{address}")
        return status == 0

    def _shell(self, node: str, script: str) -> tuple[int, str, str]:
        """Exit status, output and errors of a shell script on a node; 1 and the reason where it did not run."""
        streams = {"stdout": bytearray(), "stderr": bytearray()}

        async def execute() -> int:
            channel = await client.connect(Layout(self.state))
            try:
                await channel.send(protocol.Exec(node, ("sh", "-c", script)))
                await channel.send(protocol.Input(b""))
                async with asyncio.timeout(400):
                    return await protocol.receive(
                        channel, node, lambda output: streams[output.stream].extend(output.data)
                    )
            finally:
                await channel.close()

        try:
            status = asyncio.run(execute())
        except LabError as error:
            return 1, "", str(error)
        return status, streams["stdout"].decode(), streams["stderr"].decode(errors="replace")

    def in_guest(self, machine: str, command: str) -> tuple[int, str]:
        """Exit status and output of a shell command in a machine's guest; 1 and the reason where it did not run."""
        try:
            return asyncio.run(_limited(client.run_in_guest(Layout(self.state), "default", machine, command)))
        except LabError as error:
            return 1, str(error)

    def status(self) -> dict[str, Any]:
        """`lanloom lab status` as data, whatever its exit status."""
        report: dict[str, Any] = json.loads(self.run("status", "--output", "json", status=None).stdout)
        return report

    def stopped(self) -> list[str]:
        """The names of the nodes that are off."""
        report = asyncio.run(client.status(Layout(self.state)))
        return [node.name for node in report.nodes if node.state == "stopped"]

    def node(self, name: str) -> dict[str, Any]:
        """One node of the status."""
        return next(node for node in self.status()["nodes"] if node["name"] == name)

    def apply(self, *objects: dict[str, Any], fails: bool | None = False) -> str:
        """`kubectl apply` of these objects, in order."""
        document = {"apiVersion": "v1", "kind": "List", "items": objects}
        return self.kubectl("apply", "-f", "-", given=json.dumps(document), fails=fails)

    @property
    def kubectl_program(self) -> Path:
        """The host's kubectl, or that of the kube-apiserver that was built."""
        return Path(shutil.which("kubectl") or binaries(default_cache(), print) / "kubectl")

    def kubectl(self, *words: str, fails: bool | None = False, given: str = "") -> str:
        """What kubectl on the host prints; with `fails` it must fail, and this is its complaint. None allows both."""
        found = None if fails else self._reader.get(words)
        return self.run_kubectl(*words, fails=fails, given=given) if found is None else found

    def run_kubectl(self, *words: str, fails: bool | None = False, given: str = "") -> str:
        """As `kubectl`, always by that program."""
        environment = os.environ | {"KUBECONFIG": str(self.state / "kubeconfig"), "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [str(self.kubectl_program), *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            env=environment | SHORT_LIVED,
        )
        failed = done.returncode != 0
        if fails is not None and failed != fails:
            raise WrongStatus(f"kubectl {words}: {done.stdout}{done.stderr}")
        return done.stderr if failed else done.stdout

    def lanloom(self, *words: str) -> str:
        """What `lanloom …` prints on this lab's API server, whatever its exit status."""
        environment = os.environ | {"KUBECONFIG": str(self.state / "kubeconfig")}
        return subprocess.run(
            [sys.executable, "-m", "lanloom", *words],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            env=environment,
        ).stdout

    def evidence(self) -> Iterator[tuple[str, str]]:
        """What helps to understand a failure, as titles and texts: reports of the nodes, ends of their logs.

        A guest that ended is started again, and has another boot then: the lab's log has the end of its console.
        """
        if (self.state / "kubeconfig").exists():
            yield (
                "networks",
                self.kubectl(
                    "get", "clusternetworks,vlanconfigs,net-attach-def,clusternetworknodes", "-A", fails=None
                ),
            )
        supervisor = Layout(self.state).logs / "supervisor.log"
        if supervisor.exists():
            told = [line for line in supervisor.read_text().splitlines() if GUEST_ENDED.search(line)]
            yield "guests that ended, and failed migrations", "\n".join(told[-8:])
        for log in sorted(self.state.glob("nodes/*/log/[aN]*.log")):
            yield f"{log.parts[-3]} {log.stem}", "\n".join(log.read_text().splitlines()[-8:])

    def processes(self) -> list[int]:
        """The processes on this machine that have to do with this lab's directory."""
        return [pid for pid, _ in processes() if str(self.state) in command_line(pid)]

    def supervisor(self) -> int:
        """The PID of the lab's supervisor."""
        needle = "\0-m\0lanloom_lab.supervisor\0"
        return next(pid for pid in self.processes() if command_line(pid).startswith(sys.executable + needle))


def command_line(pid: int) -> str:
    """The words of a process, each ended by a NUL; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


async def _limited(work: Awaitable[tuple[int, str]]) -> tuple[int, str]:
    async with asyncio.timeout(400):
        return await work


def _interruptible() -> None:
    """Lets Ctrl-C end a program, also where a shell in the background has it ignored by all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def eventually(condition: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """The first true value of a condition that other processes bring about; a look that fails (NOT_YET) is not true."""
    looks = Looks(timeout, NOT_YET, shortest=PAUSE, longest=LONGEST_PAUSE)
    while True:
        with looks.look():
            if value := condition():
                return value
        time.sleep(looks.pause())


def traces(lab: Lab) -> frozenset[str]:
    """What a lab could leave on this machine: links, named namespaces, and mounts of its directory."""
    named = Path("/run/netns")
    found = [path.name for path in Path("/sys/class/net").iterdir()]
    found += [path.name for path in named.iterdir()] if named.exists() else []
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return frozenset([*found, *(line for line in mounts if str(lab.state) in line)])

"""How tests use a lab: only through the command line, as its users do."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lanloom_lab.assets import default_cache
from tests.harness.servers.build import binaries

Completed = subprocess.CompletedProcess[str]

PATIENCE = 60.0
"""Seconds until something is a failure that takes as long as the machine takes."""


class Lab:
    """The lab in one state directory."""

    def __init__(self, state: Path) -> None:
        self.state = state

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
        assert status is None or done.returncode == status, (
            f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, *words: str, terminal: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Begins `lanloom lab …` without waiting for its end, on a terminal if one is given."""
        return subprocess.Popen(
            self._command(*words), stdin=terminal, stdout=terminal, stderr=terminal, preexec_fn=_interruptible
        )

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lanloom", "lab", "--state", str(self.state), *words]

    def on(self, node: str, script: str, *, status: int | None = 0) -> str:
        """What a shell script prints on a node."""
        return self.run("exec", node, "--", "sh", "-c", script, status=status).stdout

    def reaches(self, node: str, address: str, interface: str = "") -> bool:
        """Whether an echo from the node, over an interface if one is named, is answered.

        A link that has just changed its hardware address may lose one: its neighbours ask anew only after a while.
        """
        over = f"-I {interface} " if interface else ""
        return (
            self.run(
                "exec", node, "--", "sh", "-c", f"ping -c 1 -W 1 {over}{address}", status=None
            ).returncode
            == 0
        )

    def status(self) -> dict[str, Any]:
        """`lanloom lab status` as data, whatever its exit status."""
        report: dict[str, Any] = json.loads(self.run("status", "--output", "json", status=None).stdout)
        return report

    def node(self, name: str) -> dict[str, Any]:
        """One node of the status."""
        return next(node for node in self.status()["nodes"] if node["name"] == name)

    def apply(self, *objects: dict[str, Any], fails: bool | None = False) -> str:
        """`kubectl apply` of these objects, in order."""
        document = {"apiVersion": "v1", "kind": "List", "items": objects}
        return self.kubectl("apply", "-f", "-", given=json.dumps(document), fails=fails)

    def kubectl(self, *words: str, fails: bool | None = False, given: str = "") -> str:
        """What kubectl on the host prints; with `fails` it must fail, and this is its complaint. None allows both."""
        program = shutil.which("kubectl") or str(binaries(default_cache(), print) / "kubectl")
        environment = os.environ | {"KUBECONFIG": str(self.state / "kubeconfig"), "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [program, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env=environment,
        )
        failed = done.returncode != 0
        assert fails is None or failed == fails, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stderr if failed else done.stdout

    def evidence(self) -> Iterator[tuple[str, str]]:
        """What helps to understand a failure, as titles and texts: reports of the nodes, ends of their logs."""
        if (self.state / "kubeconfig").exists():
            yield (
                "networks",
                self.kubectl("get", "clusternetworks,vlanconfigs,net-attach-def,clusternetworknodes", "-A"),
            )
        for log in sorted(self.state.glob("nodes/*/log/[aN]*.log")):
            yield f"{log.parts[-3]} {log.stem}", "\n".join(log.read_text().splitlines()[-8:])

    def processes(self) -> list[int]:
        """The processes on this machine that have to do with this lab's directory."""
        pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if str(self.state) in command_line(pid)]

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


def _interruptible() -> None:
    """Lets Ctrl-C end a program, also where a shell in the background has it ignored by all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def eventually(condition: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """The first true value of a condition that other processes bring about."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "this did not become true in time"
        time.sleep(0.1)
    return value


def traces() -> tuple[frozenset[str], ...]:
    """What a lab could leave on this machine: links, named namespaces, mounts."""
    links = frozenset(path.name for path in Path("/sys/class/net").iterdir())
    named = Path("/run/netns")
    namespaces = frozenset(path.name for path in named.iterdir()) if named.exists() else frozenset()
    return links, namespaces, frozenset(Path("/proc/self/mounts").read_text().splitlines())

"""The versions that share a server: this checkout, and 0.1.0 as the history of the repository has it."""

import io
import os
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

from lanloom import __version__
from tests.harness.servers.real import RealServer, free_ports

ROOT = Path(__file__).parents[2]
COMMIT = "6ddc16e8a3240313d420ff5f72099e9c2fddab4c"
"""What was 0.1.0; it has no tag."""


class Version(NamedTuple):
    """A checkout."""

    name: str
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Python takes the modules of this version."""
        path = [str(self.root / "src"), str(self.root)]
        return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


PRESENT = Version(__version__, ROOT)


def released(target: Path) -> Version:
    """Unpack 0.1.0 into a directory; skip the test where the checkout has no history."""
    words = ["git", "-C", str(ROOT), "archive", COMMIT, "src", "tests", "deploy"]
    found = subprocess.run(words, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"0.1.0 is not in the history of this checkout: {found.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(target)
    return Version("0.1.0", target)


class Processes:
    """Use as a context manager: managers and agents of both versions, with a log each."""

    def __init__(self, server: RealServer, kubectl: Path, directory: Path) -> None:
        self._server = server
        self._kubectl = [str(kubectl), "--kubeconfig", str(server.kubeconfig)]
        self._directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in list(self._running):
            self.stop(name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._server.kubeconfig

    def install(self, version: Version) -> None:
        """Install kinds and rights of a version over what is there, as its page says."""
        self.run(version, "crds", "--apply", "--kubeconfig", str(self._server.kubeconfig))
        for name in ("rbac.yaml", "webhooks.yaml"):
            self.kubectl("apply", "-f", str(version.root / "deploy" / name))

    def run(self, version: Version, *words: str) -> str:
        """Run the command of a version and return its output."""
        command = [sys.executable, "-m", "lanloom", *words]
        return self._output(command, version)

    def script(self, version: Version, name: str, *words: str) -> str:
        """Run a program of this directory with the modules of a version."""
        return self._output([sys.executable, str(Path(__file__).with_name(name)), *words], version)

    def kubectl(self, *words: str, given: str = "") -> str:
        """Run kubectl and return its output."""
        return self._output([*self._kubectl, *words], PRESENT, given)

    def _output(self, command: list[str], version: Version, given: str = "") -> str:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env=version.environment,
            cwd=version.root,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}{done.stdout}"
        return done.stdout

    def start_manager(self, version: Version) -> None:
        """Start a manager; the first one leads."""
        port, metrics = free_ports(2)
        options = {
            "--kubeconfig": self._server.kubeconfig,
            "--user": "kubernetes-admin",
            "--identity": version.name,
            "--webhook-address": "127.0.0.1",
            "--webhook-port": port,
            "--metrics-address": f"127.0.0.1:{metrics}",
        }
        words = [f"{name}={value}" for name, value in options.items()]
        self._start(version, "manager", "-m", "lanloom", "manager", "--no-dummy-default", *words)

    def start_agents(self, version: Version, *nodes: str) -> None:
        """Start a process with the agents of these nodes."""
        program = str(Path(__file__).with_name("agents.py"))
        self._start(version, "agents", program, str(self._server.kubeconfig), *nodes)

    def _start(self, version: Version, what: str, *words: str) -> None:
        name = f"{what} {version.name}"
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, *words],
                env=version.environment,
                cwd=version.root,
                stdout=log,
                stderr=log,
            )

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a process, such as `manager 0.1.0`, as kubelet does."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        """Return what a process has said."""
        return (self._directory / f"{name}.log").read_text(errors="replace")

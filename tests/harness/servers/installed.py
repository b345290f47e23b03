"""Lanloom's manifests on a real kube-apiserver, brought there as the page on operations says."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from lanloom.processes.definitions import resources
from tests.harness.servers.real import READY_TIMEOUT, RealServer

DEPLOY = Path(__file__).parents[3] / "deploy"


class Installer:
    """Runs kubectl and lanloom; whatever they or the server warn of fails the test."""

    def __init__(self, binaries: Path, server: RealServer) -> None:
        self._kubeconfig = ["--kubeconfig", str(server.kubeconfig)]
        self._kubectl = str(binaries / "kubectl")
        self._server = server

    def definitions(self) -> None:
        """All kinds, by `lanloom crds --apply`."""
        self._run([sys.executable, "-m", "lanloom", "crds", "--apply", *self._kubeconfig])
        self._served()

    def definitions_with_kubectl(self) -> None:
        """All kinds, by kubectl alone."""
        self.kubectl("apply", "-f", str(DEPLOY / "crds"))
        self.kubectl("create", "-f", str(DEPLOY / "crds/others"))
        self._served()

    def _served(self) -> None:
        """Wait until the server has all kinds, as it does a moment after it has stored their definitions."""
        deadline = time.monotonic() + READY_TIMEOUT
        for kind in resources():
            while not self._server.serves(kind.path("")):
                assert time.monotonic() < deadline, f"{kind.full_name} is not served"
                time.sleep(0.05)

    def manifests(self, *names: str) -> None:
        """These files of deploy/."""
        for name in names:
            self.kubectl("apply", "-f", str(DEPLOY / name))

    def kubectl(self, *words: str, given: str = "") -> None:
        """One command, with this as its standard input."""
        self._run([self._kubectl, *self._kubeconfig, *words], given)

    def _run(self, command: list[str], given: str = "") -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, env=environment
        )
        # A kubectl that waits for more than a second before it may ask again notes that in its log.
        warned = re.sub(r"^I\d{4} .*\n?", "", done.stderr, flags=re.MULTILINE)
        assert (done.returncode, warned) == (0, ""), f"{command}: {done.stderr}"

"""Lanloom's manifests on a real kube-apiserver, brought there as the page on operations says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.servers.real import RealServer

DEPLOY = Path(__file__).parents[3] / "deploy"


class Installer:
    """Runs kubectl and lanloom; whatever they or the server warn of fails the test."""

    def __init__(self, binaries: Path, server: RealServer) -> None:
        self._kubeconfig = ["--kubeconfig", str(server.kubeconfig)]
        self._kubectl = str(binaries / "kubectl")

    def definitions(self) -> None:
        """All kinds, by `lanloom crds --apply`."""
        self._run([sys.executable, "-m", "lanloom", "crds", "--apply", *self._kubeconfig])

    def definitions_with_kubectl(self) -> None:
        """All kinds, by kubectl alone."""
        self.kubectl("apply", "-f", str(DEPLOY / "crds"))
        self.kubectl("create", "-f", str(DEPLOY / "crds/others"))

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
        assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stderr}"

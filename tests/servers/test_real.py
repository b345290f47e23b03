"""The real kube-apiserver starts, knows its administrator, and goes away without a trace."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.servers.real import RealServer

pytestmark = pytest.mark.realserver


def get(server: RealServer, path: str) -> dict[str, object]:
    """Return the object at a path of the server."""
    request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {server.token}"})
    context = ssl.create_default_context(cafile=server.ca_file)
    with urllib.request.urlopen(request, context=context) as response:
        decoded = json.load(response)
    assert isinstance(decoded, dict)
    return decoded


def test_it_says_its_version(real_server: RealServer) -> None:
    """A started server answers over verified TLS."""
    assert str(get(real_server, "/version")["gitVersion"]).startswith("v1.")


def test_the_token_is_an_administrators(real_server: RealServer) -> None:
    """The token may list what only an administrator may list."""
    assert get(real_server, "/api/v1/secrets")["kind"] == "SecretList"


def kubectl(binaries: Path, server: RealServer, *arguments: str) -> str:
    """Run kubectl against the server and return what it says."""
    command = [str(binaries / "kubectl"), f"--kubeconfig={server.kubeconfig}", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_kubectl_works_with_the_kubeconfig(real_server: RealServer, real_binaries: Path) -> None:
    """The kubeconfig is complete: kubectl needs nothing else."""
    assert "namespace/default" in kubectl(real_binaries, real_server, "get", "ns", "-o", "name")


def test_deleted_namespaces_disappear(real_server: RealServer, real_binaries: Path) -> None:
    """The chosen controllers run: somebody finalises a namespace that is deleted."""
    kubectl(real_binaries, real_server, "create", "namespace", "short-lived")
    assert "deleted" in kubectl(
        real_binaries, real_server, "delete", "namespace", "short-lived", "--timeout=60s"
    )


@pytest.mark.slow
def test_nothing_survives_a_killed_test_run(real_binaries: Path, tmp_path: Path) -> None:
    """When the process that started the servers is killed, they die with it."""
    program = (
        "import sys, time; from pathlib import Path; from tests.servers.real import RealServer\n"
        "server = RealServer(Path(sys.argv[1])).__enter__()\n"
        "print(*(process.pid for process in server._processes), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(real_binaries)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie that nobody has waited for yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

"""The real kube-apiserver starts, knows its administrator, and goes away without a trace."""

import base64
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from tests.harness.servers.real import RealServer, knows

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


def test_options_are_found_by_whole_names(tmp_path: Path) -> None:
    """A program knows the options that its help lists, and not those whose names begin longer ones."""
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\necho '      --endpoint-name string   what --other says'\necho '  -v, --v Level'\n"
    )
    program.chmod(0o755)
    assert knows(program, "endpoint-name")
    assert not knows(program, "endpoint") and not knows(program, "other")


def kubectl(binaries: Path, server: RealServer, *arguments: str) -> str:
    """Run kubectl against the server and return what it says."""
    command = [str(binaries / "kubectl"), f"--kubeconfig={server.kubeconfig}", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_kubectl_works_with_the_kubeconfig(real_server: RealServer, real_binaries: Path) -> None:
    """The kubeconfig is complete: kubectl needs nothing else."""
    assert "namespace/default" in kubectl(real_binaries, real_server, "get", "ns", "-o", "name")


def test_deleted_namespaces_disappear(real_server: RealServer, real_binaries: Path) -> None:
    """The chosen controllers run: a controller finalises a namespace that is deleted."""
    kubectl(real_binaries, real_server, "create", "namespace", "short-lived")
    assert "deleted" in kubectl(
        real_binaries, real_server, "delete", "namespace", "short-lived", "--timeout=180s"
    )


class Refusal(http.server.BaseHTTPRequestHandler):
    """A webhook that allows nothing."""

    def do_POST(self) -> None:
        """Answer an AdmissionReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "not today"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def refusing_webhook() -> Iterator[dict[str, object]]:
    """Serve Refusal over HTTPS on loopback; the value is the clientConfig that names it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        yield {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": bundle}
        server.shutdown()


def test_webhooks_on_loopback_are_called(
    real_server: RealServer, real_binaries: Path, tmp_path: Path
) -> None:
    """A webhook of the test's own process decides what the server accepts."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
    with refusing_webhook() as client_config:
        webhook = {
            "name": "refusal.example.com",
            "clientConfig": client_config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "refusal"},
            "webhooks": [webhook],
        }
        (tmp_path / "webhook.json").write_text(json.dumps(manifest))
        kubectl(real_binaries, real_server, "create", "-f", str(tmp_path / "webhook.json"))
        deadline = time.monotonic() + 60
        # The server learns of its webhooks by a watch; until then it accepts what a dry run tries.
        while "not today" not in try_namespace(real_binaries, real_server):
            assert time.monotonic() < deadline
        kubectl(real_binaries, real_server, "delete", "validatingwebhookconfiguration", "refusal")
        # And for a moment it goes on asking: the next test must not meet a webhook that is gone.
        while "created" not in try_namespace(real_binaries, real_server):
            assert time.monotonic() < deadline


def try_namespace(binaries: Path, server: RealServer) -> str:
    """Return what kubectl says of a namespace that is created in a dry run."""
    command = [str(binaries / "kubectl"), f"--kubeconfig={server.kubeconfig}"]
    command += ["create", "namespace", "refused", "--dry-run=server"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return result.stdout


@pytest.mark.slow
def test_nothing_survives_a_killed_test_run(real_binaries: Path, tmp_path: Path) -> None:
    """When the process that started the servers is killed, they die with it."""
    program = (
        "import sys, time; from pathlib import Path; from tests.harness.servers.real import RealServer\n"
        "server = RealServer(Path(sys.argv[1])).__enter__()\n"
        "print(*(process.pid for process in server._processes.values()), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(real_binaries)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie that no parent has waited for yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

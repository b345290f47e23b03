"""A real kube-apiserver with etcd for the length of a test run.

What the embedded API server answers is compared with what this one answers. It is started as envtest would do
it: loopback only, a temporary directory, an administrator's token, no kubelet and no scheduler.
"""

import base64
import http.client
import json
import random
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import trustme

from tests.harness.servers.egress import selector
from tests.harness.servers.family import IPV4, Family

ISSUER = "https://kubernetes.default.svc"
READY_TIMEOUT = 180.0
"""Seconds; it takes 3 on an idle machine, many more if others compile on it."""


_PORTS = range(20_000, 32_000)
"""Below what Linux takes for connections and for listeners that ask for any port."""


class RealServerError(Exception):
    """A server did not become ready; the text ends with the end of its log."""


class RealServer:
    """Use as a context manager; `binaries` is what `tests.harness.servers.build.binaries` returns.

    `controllers` names those of kube-controller-manager that run too (`garbagecollector`, `namespace`, …);
    without any there is no kube-controller-manager. `egress` is the Unix socket of an `Egress`, for a server with real
    nodes: it calls Services in pods by that, and pods get tokens of service accounts. `family` is the IP version of its
    own address and of Services; etcd's is IPv4.

    Once entered: `url`, `token` (an administrator's, group system:masters), `user_token` (of alice, group testers,
    without a role), `ca_file` (PEM), `kubeconfig` (file), `etcd_url`. Webhooks are called at any https://127.0.0.1:PORT.
    """

    def __init__(
        self,
        binaries: Path,
        controllers: Sequence[str] = (),
        egress: Path | None = None,
        family: Family = IPV4,
    ) -> None:
        self.token = "administrator-of-the-tests"
        self.user_token = "a-user-of-the-tests"
        self._binaries = binaries
        self._controllers = tuple(controllers)
        self._egress = egress
        self._family = family
        self._commands: dict[str, tuple[str, ...]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="lanloom-kube-"))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes, newest first, and remove all that they wrote."""
        # Killed, not asked: a kube-apiserver waits up to a minute for its watchers, and no data is kept.
        for program in reversed(list(self._processes)):
            self.kill(program)
        shutil.rmtree(self._directory)

    def kill(self, program: str) -> None:
        """End a program as a crash does."""
        process = self._processes.pop(program)
        process.kill()
        process.wait()

    def start(self, program: str) -> None:
        """Start a program again that was killed, as it was before, and return at once."""
        self._spawn(program, *self._commands[program])

    def wait_until_ready(self) -> None:
        """Wait until the server answers that it is ready. Raises RealServerError."""
        context = ssl.create_default_context(cafile=self.ca_file)
        deadline = time.monotonic() + READY_TIMEOUT
        while not is_served(self.url, context, self.token, "/readyz"):
            ended = any(process.poll() is not None for process in self._processes.values())
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{name}: …{self.log(name)[-3000:]}" for name in ("etcd", "kube-apiserver"))
                reason = "ended" if ended else f"was not ready after {READY_TIMEOUT:.0f} s"
                raise RealServerError(f"the real kube-apiserver (or its etcd) {reason}\n{logs}")
            time.sleep(0.05)

    def version(self) -> str:
        """Return the minor version that the server says it is, as `1.20`."""
        context = ssl.create_default_context(cafile=self.ca_file)
        with urllib.request.urlopen(f"{self.url}/version", context=context, timeout=READY_TIMEOUT) as answer:
            said = json.load(answer)
        return f"{said['major']}.{said['minor'].rstrip('+')}"

    def serves(self, path: str) -> bool:
        """Whether a GET of a path succeeds."""
        return is_served(self.url, ssl.create_default_context(cafile=self.ca_file), self.token, path)

    def is_older_than(self, version: str) -> bool:
        """Whether the server is of a minor version before this one."""
        mine, other = (tuple(map(int, each.split("."))) for each in (self.version(), version))
        return mine < other

    def log(self, program: str) -> str:
        """What a program (`kube-apiserver`, `etcd`, `kube-controller-manager`) has said so far."""
        return self._log_file(program).read_text(errors="replace")

    def _start(self) -> None:
        self._write_certificates()
        etcd_port, peer_port, port = free_ports(3)
        self.url = self._family.url(port)
        self._write_kubeconfig()
        self._start_etcd(etcd_port, peer_port)
        self._start_apiserver(etcd_port, port)
        self.wait_until_ready()
        if self._controllers:
            self._start_controller_manager()

    def _write_certificates(self) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert(self._family.loopback, "localhost", self._family.kubernetes)
        self.ca_file = self._directory / "ca.crt"
        authority.cert_pem.write_to_path(str(self.ca_file))
        certificate.cert_chain_pems[0].write_to_path(str(self._directory / "server.crt"))
        certificate.private_key_pem.write_to_path(str(self._directory / "server.key"))
        (self._directory / "tokens.csv").write_text(
            f'{self.token},kubernetes-admin,,"system:masters"\n{self.user_token},alice,alice,"testers"\n'
        )

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        self.kubeconfig = self._directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(content))
        self.kubeconfig.chmod(0o600)

    def _start_etcd(self, port: int, peer_port: int) -> None:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        self.etcd_url = client
        self._spawn(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def _start_apiserver(self, etcd_port: int, port: int) -> None:
        key = self._directory / "server.key"
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--bind-address={self._family.loopback}",
            f"--secure-port={port}",
            # It must not be a loopback address, and in a namespace without a route there is no other.
            f"--advertise-address={self._family.advertised}",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self._directory}",
            f"--tls-cert-file={self._directory / 'server.crt'}",
            f"--tls-private-key-file={key}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={self._family.services}",
            "--allow-privileged=true",
            *(self._with_pods() if self._egress else ("--disable-admission-plugins=ServiceAccount",)),
        )

    def _with_pods(self) -> tuple[str, ...]:
        """Return the options of a server whose Services are pods, and whose pods have service accounts."""
        assert self._egress is not None
        configuration = self._directory / "egress.json"
        configuration.write_text(selector(self._egress))
        options = ("--enable-aggregator-routing=true", f"--egress-selector-config-file={configuration}")
        return (*options, *self._bound_tokens())

    def _bound_tokens(self) -> tuple[str, ...]:
        """Releases before 1.21 mount tokens that are not bound to their pods, unless an option asks for it."""
        command = [str(self._binaries / "kube-apiserver"), "--version"]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        minor = int(told.split(".")[1])
        return ("--feature-gates=BoundServiceAccountTokenVolume=true",) if minor < 21 else ()

    def _start_controller_manager(self) -> None:
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self._directory / 'server.key'}",
            *self._without_plain_port(),
        )

    def _without_plain_port(self) -> tuple[str, ...]:
        """Releases before 1.24 also serve on a port without TLS, which newer ones don't have."""
        return ("--port=0",) if knows(self._binaries / "kube-controller-manager", "port") else ()

    def _spawn(self, program: str, *arguments: str) -> None:
        path = self._binaries / program
        if not path.exists():
            raise RealServerError(f"{path} does not exist; unset KUBEBUILDER_ASSETS to build and use our own")
        self._commands[program] = arguments
        with self._log_file(program).open("ab") as log:
            # The children die with this process, however it ends: no test run leaves servers behind.
            self._processes[program] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", path, *arguments],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _log_file(self, program: str) -> Path:
        return self._directory / f"{program}.log"


def knows(program: Path, option: str) -> bool:
    """Whether a program of Kubernetes has an option, by its help. Which there are changes with the release."""
    told = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(rf"^ *--{option}(?![-\w])", told, re.MULTILINE) is not None


def is_served(url: str, context: ssl.SSLContext, token: str, path: str) -> bool:
    """Ask for a path once, such as /readyz."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=5, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_ports(count: int) -> list[int]:
    """Return loopback ports that no process listens on at the moment, all different.

    None of them is one that the kernel chooses by itself for others, until a server that got it listens there. Nor does
    another process of tests get it from here before this one has asked for many more, or ends.
    """
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _reserve(port)
            ports.append(port)
    return ports


_RESERVED: deque[socket.socket] = deque()
_RESERVED_MAX = 100


def _reserve(port: int) -> None:
    """Take a name that stands for the port, of which the kernel gives up none twice. Raises OSError if it is taken."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0lanloom-tests-port-{port}")
    except OSError:
        name.close()
        raise
    _RESERVED.append(name)
    if len(_RESERVED) > _RESERVED_MAX:
        _RESERVED.popleft().close()

"""What a pod waits for its addresses: calls of `lanloom-ipam` on a real kube-apiserver, from the start of the program.

The unit of an ADD is one bare POST of an object with one webhook, on the same server and by turns; that of CHECK and
DEL one GET, and a program that does nothing; that of an ADD of a pod whose addresses belong to its name is the ADD of
another pod. Many pods at once are measured against as many POSTs at once. Manager and agent are processes of their own.
Medians by the clock: a machine that is busy with something else is busy for all of them.
"""

import asyncio
import http.client
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import trustme

from bench.large import acting
from bench.report import Row
from lanloom.api.ipam import STICKY_FOR
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.runtime.identity import MANAGERS
from lanloom_lab.assets import default_cache
from tests.features.ipam.agent.objects import args, config, pod_body
from tests.harness.servers.build import binaries
from tests.harness.servers.real import RealServer

ROUNDS = 30
ADD_LIMIT = 12.0
CHECK_LIMITS, DEL_LIMITS = (6.0, 6.0), (4.0, 4.0)
"""Against a bare GET, and against a program that does nothing."""

NAMED_LIMIT, AGAIN_LIMIT = 1.5, 1.0
CROWD, AT_ONCE, CROWDS = 100, 16, 5
CROWD_LIMIT = 18.0
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
NETWORK = {
    "metadata": {"name": "net1"},
    "spec": {"subnets": [{"cidr": "10.9.0.0/16", "pools": [{"range": "10.9.0.10-10.9.200.0"}]}]},
}

Raw = dict[str, Any]
Times = dict[str, list[float]]
Pod = tuple[str, str]
"""Name and uid."""


def rows() -> Iterator[Row]:
    """ADD, CHECK and DEL of one pod at a time, and ADD of one whose addresses belong to its name."""
    with ExitStack() as stack:
        server = stack.enter_context(RealServer(binaries(default_cache(), print)))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lanloom-bench-")))
        accounts = {"manager": acting(server.kubeconfig, directory, MANAGERS[0]), "agent": server.kubeconfig}
        for process, kubeconfig in accounts.items():
            stack.enter_context(_process(process, str(kubeconfig), str(directory)))
        api = Api(server)
        stack.enter_context(_webhook(api))
        program = directory / "bin/lanloom-ipam"
        times, version = _rounds(api, program), server.version()
        yield _crowd_row(server, program, version)
    best = {name: median(found) * 1000 for name, found in times.items()}
    note = f"{{:.1f}} ms against {{:.1f}} ms, medians of {ROUNDS} by turns; kube-apiserver {version}"
    for command, unit, what, limit in (
        ("ADD", "POST", "a bare POST with one webhook", ADD_LIMIT),
        ("CHECK", "GET", "a bare GET", CHECK_LIMITS[0]),
        ("DEL", "GET", "a bare GET", DEL_LIMITS[0]),
        ("CHECK", "NOTHING", "a program that does nothing", CHECK_LIMITS[1]),
        ("DEL", "NOTHING", "a program that does nothing", DEL_LIMITS[1]),
    ):
        yield Row(
            name=f"{command} of an IPAM pod, program to answer, against {what}",
            measured=best[command] / best[unit],
            limit=limit,
            unit="×",
            note=note.format(best[command], best[unit]),
        )
    for command, which, limit in (("NAMED", "first", NAMED_LIMIT), ("AGAIN", "next", AGAIN_LIMIT)):
        yield Row(
            name=f"ADD of the {which} pod of a name that keeps its addresses, against ADD of another pod",
            measured=best[command] / best["ADD"],
            limit=limit,
            unit="×",
            note=note.format(best[command], best["ADD"]),
        )


def _rounds(api: "Api", program: Path) -> Times:
    times: Times = {name: [] for name in ("POST", "GET", "NOTHING", "ADD", "CHECK", "DEL", "NAMED", "AGAIN")}
    for number in range(-3, ROUNDS):
        name, kept = f"pod{number}", f"kept{number}"
        uid = api.call("POST", PODS, pod_body(name))["metadata"]["uid"]
        work: dict[str, Callable[[], Raw]] = {
            "POST": partial(api.call, "POST", MAPS, {"metadata": {"name": name}}),
            "ADD": partial(_cni, program, "ADD", name, uid),
            "NAMED": partial(_cni, program, "ADD", kept, _add_named(api, kept)),
            "AGAIN": dict,
            "GET": partial(api.call, "GET", f"{PODS}/{name}"),
            "NOTHING": _nothing,
            "CHECK": dict,
            "DEL": partial(_cni, program, "DEL", name, uid),
        }
        for what in work:
            if what == "DEL":
                _end(api, name)
            if what == "AGAIN":
                _end(api, kept)
                work[what] = partial(_cni, program, "ADD", kept, _add_named(api, kept))
            begin = time.perf_counter()
            found = work[what]()
            if number >= 0:  # the first ones load modules and open connections
                times[what].append(time.perf_counter() - begin)
            if what == "ADD":
                work["CHECK"] = partial(_cni, program, "CHECK", name, uid, found)
    return times


def _crowd_row(server: RealServer, program: Path, version: str) -> Row:
    """Return how long all but five of a hundred pods wait at the most that come by sixteen."""
    adds, posts = [], []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        apis = _Apis(server)
        for number in range(-1, CROWDS):
            names = [f"crowd{number}-{each}" for each in range(CROWD)]
            made = pool.map(lambda name: apis.own.call("POST", PODS, pod_body(name)), names)
            pods = [(body["metadata"]["name"], body["metadata"]["uid"]) for body in made]
            bare = _late(pool, lambda pod: apis.own.call("POST", MAPS, {"metadata": {"name": pod[0]}}), pods)
            ours = _late(pool, lambda pod: _cni(program, "ADD", *pod), pods)
            if number >= 0:
                adds.append(ours)
                posts.append(bare)
    return Row(
        name=f"ADD of {CROWD} IPAM pods by {AT_ONCE}, p95, against as many bare POSTs with one webhook",
        measured=median(adds) / median(posts),
        limit=CROWD_LIMIT,
        unit="×",
        note=f"{median(adds) * 1000:.0f} ms against {median(posts) * 1000:.0f} ms, medians of {CROWDS} by turns; "
        f"kube-apiserver {version}",
    )


def _late(pool: ThreadPoolExecutor, job: Callable[[Pod], Raw], pods: Sequence[Pod]) -> float:
    """Return within how many seconds 95 of a hundred are done, each from its own beginning."""

    def timed(pod: Pod) -> float:
        begin = time.perf_counter()
        job(pod)
        return time.perf_counter() - begin

    return sorted(pool.map(timed, pods))[len(pods) * 95 // 100 - 1]


def _nothing() -> Raw:
    subprocess.run(["true"], input=b"{}", capture_output=True, check=True)
    return {}


def _add_named(api: "Api", name: str) -> str:
    """Make a pod whose addresses belong to its name; return its uid."""
    body = pod_body(name)
    body["metadata"]["annotations"][STICKY_FOR] = "1h"
    uid: str = api.call("POST", PODS, body)["metadata"]["uid"]
    return uid


def _end(api: "Api", pod: str) -> None:
    api.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")


def _cni(program: Path, command: str, name: str, uid: str, result: Raw | None = None) -> Raw:
    given = config() | ({"prevResult": result} if result else {})
    environment = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": f"c-{name}",
        "CNI_NETNS": "/run/netns/x",
        "CNI_IFNAME": "net1",
        "CNI_PATH": "/opt/cni/bin",
        "CNI_ARGS": args(name, uid),
    }
    done = subprocess.run(
        [program], input=json.dumps(given).encode(), env=environment, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout.decode()}")
    found: Raw = json.loads(done.stdout or b"{}")
    return found


class Api:
    """One connection to the server that stays open, as that of an agent does."""

    def __init__(self, server: RealServer) -> None:
        place = urlsplit(server.url)
        context = ssl.create_default_context(cafile=str(server.ca_file))
        self._connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=context)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Raw | None = None) -> Raw:
        """Make a request, which must succeed."""
        text = json.dumps(body) if body is not None else None
        self._connection.request(method, path, text, self._headers)
        with self._connection.getresponse() as response:
            found: Raw = json.loads(response.read())
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {found}")
        return found


class _Apis(threading.local):
    """A connection for each thread."""

    def __init__(self, server: RealServer) -> None:
        self.own = Api(server)


class _Allowed(BaseHTTPRequestHandler):
    """A webhook that allows everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": True}
        text = json.dumps(review | {"request": None, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def _webhook(api: Api) -> Iterator[None]:
    """Serve the webhook of ConfigMaps, and register it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Allowed)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = authority.cert_pem.bytes()
    hook = {
        "name": "bench.example.org",
        "clientConfig": {
            "url": f"https://127.0.0.1:{server.server_port}/",
            "caBundle": b64encode(bundle).decode(),
        },
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.call("POST", path, {"metadata": {"name": "bench"}, "webhooks": [hook]})
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _process(*words: str) -> Iterator[None]:
    """One of the processes below, once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.ipam_cni", *words], stdout=subprocess.PIPE, env=os.environ
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"the {words[0]} ended before it was ready")
        yield
    finally:
        process.terminate()
        process.wait()


async def _manage(kubeconfig: str, _directory: str) -> None:
    from lanloom.api import ipam
    from tests.processes.test_ipam_served import looked_at, managed

    async with HttpClient(load(kubeconfig)) as client, managed(client):
        await client.create(ipam.NETWORKS, NETWORK)
        await looked_at(client, "net1")
        await _ready()


async def _serve(kubeconfig: str, directory: str) -> None:
    from lanloom.features.ipam.agent import PROGRAM, LateService
    from lanloom.kube.events import Recorder
    from lanloom.runtime.cni.calls import VERSIONS
    from lanloom.runtime.cni.server import CniService
    from tests.harness.cniagent import install_programs, served

    rng, place = random.Random(1), Path(directory)
    async with HttpClient(load(kubeconfig)) as client:
        recorder = Recorder(client, "lanloom-agent", "node1", now=time.time, rng=rng)
        late = LateService(client, "node1", recorder, rng)
        install_programs((PROGRAM,), place / "bin", place / "cni.sock")
        service = CniService(answer=late.answer, unversioned=VERSIONS[0])
        async with served(place / "cni.sock", {PROGRAM: service}):
            await _ready()


async def _ready() -> None:
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run({"manager": _manage, "agent": _serve}[sys.argv[1]](*sys.argv[2:]))

"""What durable writes, reads and watches cost `lanloom serve` on loopback, in CPU time, against the same bytes bare.

A write is compared with a commit of SQLite, a read and a message to a watcher with those of a bare ASGI application, by
turns. The load comes from a process of its own that speaks HTTP by hand: on a machine with two cores a client library
would take more of them than the server. Requests follow each other on each connection without pipelining.
"""

import asyncio
import json
import sqlite3
import ssl
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.cost import Stopwatch
from bench.processes import Server, serving
from bench.report import Row

WRITE_LIMIT, READ_LIMIT, SENT_LIMIT = 4.0, 4.0, 1.0

WATCHERS = 100
WRITERS = 64
READERS = 16
OBJECTS = 200
SECONDS = 3.0
ROUNDS = 3
"""The best round counts: whatever else the machine does can only take away from a figure."""

COMMITS, MESSAGES = 2000, 1000
"""In a round, and in an answer of the bare application."""

_PATH = "/api/v1/namespaces/default/configmaps"

Act = Callable[["Connection", int, list[int]], Coroutine[None, None, None]]


class Pace(NamedTuple):
    """The CPU for each request, commit or message, in microseconds, and how many there were in a second."""

    cpu: float
    rate: float


class Connection:
    """One HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> None:
        """Send a request."""
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + body)

    async def answer(self) -> tuple[int, int]:
        """Read a whole answer; return its status, and how many bytes its body has."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), head.lower().index(b"content-length:")
        size = int(head[length + 15 : head.index(b"\r\n", length)])
        await self._reader.readexactly(size)
        return status, size

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> int:
        """Send a request and read its answer, which must be a success; return how many bytes its body has."""
        await self.send(method, path, body, content_type)
        status, size = await self.answer()
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {status}")
        return size

    async def skip_head(self) -> None:
        """Read the head of an answer."""
        await self._reader.readuntil(b"\r\n\r\n")

    async def skip_chunks(self) -> None:
        """Read a whole answer whose body comes in chunks."""
        await self.skip_head()
        await self._reader.readuntil(b"\r\n0\r\n\r\n")

    async def skip_all(self) -> None:
        """Read a stream until it ends."""
        while await self._reader.read(1 << 18):
            pass


class Load:
    """Connections to a server over HTTPS, which is that process."""

    def __init__(self, host: str, server: Server, headers: str = "") -> None:
        self.server = server
        self._host = host
        self._head = f"Host: {host}\r\n{headers}"
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def connect(self) -> Connection:
        """Return a new connection."""
        reader, writer = await asyncio.open_connection(
            self._host, self.server.port, ssl=self._context, limit=1 << 20
        )
        return Connection(reader, writer, self._head)


def load_of(kubeconfig: Path, process: int) -> Load:
    """Return the load for the API server that a kubeconfig names."""
    config = yaml.safe_load(kubeconfig.read_text())
    host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").rpartition(":")
    bearer = f"Authorization: Bearer {config['users'][0]['user']['token']}\r\n"
    return Load(host, Server(process, int(port)), bearer)


async def _pace(load: Load, connections: int, act: Act) -> Pace:
    done = [0]
    opened = [await load.connect() for _ in range(connections)]
    watch = Stopwatch(load.server.cpu)
    tasks = [asyncio.create_task(act(each, index, done)) for index, each in enumerate(opened)]
    finished, _ = await asyncio.wait(tasks, timeout=SECONDS)
    spent = watch.cost()
    for task in finished:
        task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return Pace(spent.cpu / done[0] * 1e6, done[0] / spent.wall)


async def _write(connection: Connection, index: int, done: list[int]) -> None:
    number = 0
    while True:
        number += 1
        body = json.dumps({"data": {"writer": str(index), "number": str(number)}}).encode()
        path = f"{_PATH}/bench-{(index * 7 + number) % OBJECTS}"
        await connection.request("PATCH", path, body, "application/merge-patch+json")
        done[0] += 1


async def _read(connection: Connection, index: int, done: list[int]) -> None:
    number = index
    while True:
        number += 1
        await connection.request("GET", f"{_PATH}/bench-{number % OBJECTS}")
        done[0] += 1


async def _watch(load: Load) -> Connection:
    connection = await load.connect()
    await connection.send("GET", "/api/v1/configmaps?watch=1")
    await connection.skip_head()
    return connection


async def _stream(connection: Connection, _index: int, done: list[int]) -> None:
    while True:
        await connection.send("GET", "/stream")
        await connection.skip_chunks()
        done[0] += MESSAGES


def commit(size: int) -> Pace:
    """Return the pace of durable commits of so many bytes, one after the other, in a file like that of the server."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        db = sqlite3.connect(Path(name) / "data", isolation_level=None)
        db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA locking_mode=EXCLUSIVE")
        db.execute("CREATE TABLE objects (key TEXT PRIMARY KEY, value BLOB)")
        watch, value = Stopwatch(), b"x" * size
        for number in range(COMMITS):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (f"bench-{number % OBJECTS}", value))
            db.execute("COMMIT")
        each = watch.cost().each(COMMITS)
        return Pace(each.cpu * 1e6, 1 / each.wall)


async def measure(load: Load) -> dict[str, Pace]:
    """Return the best pace of each kind."""
    first = await load.connect()
    for number in range(OBJECTS):
        body = {
            "metadata": {"name": f"bench-{number}", "labels": {"bench": "yes"}},
            "data": {"padding": "x" * 200},
        }
        await first.request("POST", _PATH, json.dumps(body).encode())
    size = await first.request("GET", f"{_PATH}/bench-0")
    found: dict[str, list[Pace]] = defaultdict(list)
    with serving("bench.bareserver", size, MESSAGES) as server:
        bare = Load("127.0.0.1", server)
        for _ in range(ROUNDS):
            found["write"].append(await _pace(load, WRITERS, _write))
            found["commit"].append(commit(size))
            found["read"].append(await _pace(load, READERS, _read))
            found["answer"].append(await _pace(bare, READERS, _read))
        watching = await asyncio.gather(*(_watch(load) for _ in range(WATCHERS)))
        watchers = [asyncio.create_task(connection.skip_all()) for connection in watching]
        for _ in range(ROUNDS):
            found["watched"].append(await _pace(load, WRITERS, _write))
            found["message"].append(await _pace(bare, READERS, _stream))
        for watcher in watchers:
            watcher.cancel()
    return {name: min(paces) for name, paces in found.items()}


async def run() -> dict[str, Pace]:
    """Start a server, and the load in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        directory = Path(name)
        kubeconfig = directory / "kubeconfig"
        words = ["serve", "--data", str(directory / "data"), "--kubeconfig", str(kubeconfig), "--no-manager"]
        server = await _start("lanloom", *words)
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            load = await _start("bench.apiserver", str(kubeconfig), str(server.pid))
            output, _ = await load.communicate()
            if load.returncode:
                raise RuntimeError(f"the load ended with exit status {load.returncode}")
            return {name: Pace(*found) for name, found in json.loads(output).items()}
        finally:
            with suppress(ProcessLookupError):
                server.terminate()
            await server.wait()


async def _start(module: str, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *words, stdout=asyncio.subprocess.PIPE
    )


def rows() -> list[Row]:
    """Return the figures and what they must reach."""
    paces = asyncio.run(run())
    write, watched = paces["write"], paces["watched"]
    paces["sent"] = Pace((watched.cpu - write.cpu) / WATCHERS, watched.rate * WATCHERS)
    return [
        _row(what, paces[ours], paces[bare], limit)
        for what, ours, bare, limit in (
            ("a durable write, against a commit of SQLite of the same bytes", "write", "commit", WRITE_LIMIT),
            ("a read, against a bare ASGI answer of the same bytes", "read", "answer", READ_LIMIT),
            (
                f"a write for each of {WATCHERS} watchers, against a bare ASGI message",
                "sent",
                "message",
                SENT_LIMIT,
            ),
        )
    ]


def _row(what: str, ours: Pace, bare: Pace, limit: float) -> Row:
    note = f"{ours.cpu:.1f} µs against {bare.cpu:.1f} µs, best of {ROUNDS} by turns; {ours.rate:,.0f} /s"
    name = f"embedded API: CPU time for {what}"
    return Row(name=name, measured=ours.cpu / bare.cpu, limit=limit, unit="×", note=note)


if __name__ == "__main__":
    import uvloop

    print(json.dumps(uvloop.run(measure(load_of(Path(sys.argv[1]), int(sys.argv[2]))))))

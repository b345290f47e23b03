"""What durable writes and reads cost `lanloom serve` on loopback, with a hundred watchers: its CPU time.

The load comes from a process of its own that speaks HTTP by hand: on a machine with two cores a client library
would take more of them than the server. Requests follow each other on each connection without pipelining.
"""

import asyncio
import json
import ssl
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bench.cost import Stopwatch, cpu_of
from bench.report import Row

WRITE_MICROSECONDS = 1e6 / 1500
READ_MICROSECONDS = 1e6 / 5000
"""Of the server's CPU: what it may take so that one core suffices for 1,500 writes a second, or for 5,000 reads."""

WATCHERS = 100
WRITERS = 64
READERS = 16
OBJECTS = 200
SECONDS = 3.0
ROUNDS = 3
"""The best round counts: whatever else the machine does can only take away from a figure."""

_PATH = "/api/v1/namespaces/default/configmaps"


class Pace(NamedTuple):
    """The server's CPU for each request, in microseconds, and requests a second."""

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

    async def answer(self) -> int:
        """Read a whole answer; return its status."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), head.lower().index(b"content-length:")
        size = int(head[length + 15 : head.index(b"\r\n", length)])
        await self._reader.readexactly(size)
        return status

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> None:
        """Send a request and read its answer, which must be a success."""
        await self.send(method, path, body, content_type)
        status = await self.answer()
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {status}")

    async def count_bytes(self, seen: list[int]) -> None:
        """Read a stream until it ends."""
        while chunk := await self._reader.read(1 << 18):
            seen[0] += len(chunk)


class Load:
    """Connections to the server that a kubeconfig names, which is that process."""

    def __init__(self, kubeconfig: Path, server: int) -> None:
        self.server = server
        config = yaml.safe_load(kubeconfig.read_text())
        self._host, _, port = (
            config["clusters"][0]["cluster"]["server"].removeprefix("https://").rpartition(":")
        )
        self._port = int(port)
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {config['users'][0]['user']['token']}\r\n"
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def connect(self) -> Connection:
        """Return a new connection."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=1 << 20
        )
        return Connection(reader, writer, self._head)


async def writes(load: Load) -> Pace:
    """Patches, each durable before it is answered."""
    return await _pace(load, WRITERS, _write)


async def reads(load: Load) -> Pace:
    """Return the pace of gets of single objects."""
    return await _pace(load, READERS, _read)


async def _pace(load: Load, connections: int, act: Any) -> Pace:
    done = [0]
    opened = [await load.connect() for _ in range(connections)]
    watch = Stopwatch(partial(cpu_of, load.server))
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


async def measure(kubeconfig: Path, server: int) -> dict[str, Any]:
    """All figures of one run."""
    load = Load(kubeconfig, server)
    first = await load.connect()
    for number in range(OBJECTS):
        body = {
            "metadata": {"name": f"bench-{number}", "labels": {"bench": "yes"}},
            "data": {"padding": "x" * 200},
        }
        await first.request("POST", _PATH, json.dumps(body).encode())
    seen = [0]
    written, read, sent = [], [], []
    watchers: list[asyncio.Task[None]] = []
    for _ in range(WATCHERS):
        connection = await load.connect()
        await connection.send("GET", "/api/v1/configmaps?watch=1")
        watchers.append(asyncio.create_task(connection.count_bytes(seen)))
    await asyncio.sleep(1)
    for _ in range(ROUNDS):
        before = seen[0]
        written.append(await writes(load))
        sent.append((seen[0] - before) / 1e6 / SECONDS)
        read.append(await reads(load))
    for watcher in watchers:
        watcher.cancel()
    return {"writes": min(written), "reads": min(read), "watched_megabytes": max(sent)}


async def run() -> dict[str, Any]:
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
            figures: dict[str, Any] = json.loads(output)
            return figures
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
    figures = asyncio.run(run())
    written, read = Pace(*figures["writes"]), Pace(*figures["reads"])
    note = f"best of {ROUNDS}; {WATCHERS} watchers of every object connected"
    sent = f"{note}, who get {figures['watched_megabytes']:.0f} MB/s"
    return [
        Row(
            name="embedded API: CPU time for a durable write",
            measured=written.cpu,
            limit=WRITE_MICROSECONDS,
            unit="µs",
            note=f"{written.rate:,.0f} /s; {sent}",
        ),
        Row(
            name="embedded API: CPU time for a read",
            measured=read.cpu,
            limit=READ_MICROSECONDS,
            unit="µs",
            note=f"{read.rate:,.0f} /s; {note}",
        ),
    ]


if __name__ == "__main__":
    import uvloop

    print(json.dumps(uvloop.run(measure(Path(sys.argv[1]), int(sys.argv[2])))))

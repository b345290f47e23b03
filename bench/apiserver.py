"""Durable writes and reads per second of `lanloom serve` on loopback, with a hundred watchers.

The load comes from a process of its own that speaks HTTP by hand: on a machine with two cores a client library
would take more of them than the server. Requests follow each other on each connection without pipelining.
"""

import asyncio
import json
import ssl
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from bench.report import Row

WRITES_AT_LEAST = 1500.0
READS_AT_LEAST = 5000.0

WATCHERS = 100
WRITERS = 64
READERS = 16
OBJECTS = 200
SECONDS = 3.0
ROUNDS = 3
"""The best round counts: whatever else the machine does can only take away from a figure."""

_PATH = "/api/v1/namespaces/default/configmaps"


class Connection:
    """One HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> None:
        """Sends a request."""
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + body)

    async def answer(self) -> int:
        """Reads a whole answer; returns its status."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, length = int(head[9:12]), head.lower().index(b"content-length:")
        size = int(head[length + 15 : head.index(b"\r\n", length)])
        await self._reader.readexactly(size)
        return status

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> None:
        """Sends a request and reads its answer, which must be a success."""
        await self.send(method, path, body, content_type)
        status = await self.answer()
        if status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {status}")

    async def count_bytes(self, seen: list[int]) -> None:
        """Reads a stream until it ends."""
        while chunk := await self._reader.read(1 << 18):
            seen[0] += len(chunk)


class Load:
    """Connections to the server that a kubeconfig names."""

    def __init__(self, kubeconfig: Path) -> None:
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
        """A new connection."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=1 << 20
        )
        return Connection(reader, writer, self._head)


async def writes(load: Load) -> float:
    """Patches per second, each durable before it is answered."""
    return await _rate(load, WRITERS, _write)


async def reads(load: Load) -> float:
    """Gets of single objects per second."""
    return await _rate(load, READERS, _read)


async def _rate(load: Load, connections: int, act: Any) -> float:
    done = [0]
    opened = [await load.connect() for _ in range(connections)]
    started = time.perf_counter()
    tasks = [asyncio.create_task(act(each, index, done)) for index, each in enumerate(opened)]
    finished, _ = await asyncio.wait(tasks, timeout=SECONDS)
    rate = done[0] / (time.perf_counter() - started)
    for task in finished:
        task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return rate


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


async def measure(kubeconfig: Path) -> dict[str, float]:
    """All figures of one run."""
    load = Load(kubeconfig)
    first = await load.connect()
    for number in range(OBJECTS):
        body = {
            "metadata": {"name": f"bench-{number}", "labels": {"bench": "yes"}},
            "data": {"padding": "x" * 200},
        }
        await first.request("POST", _PATH, json.dumps(body).encode())
    seen = [0]
    figures = {"writes": 0.0, "watched_megabytes": 0.0, "reads": 0.0}
    watchers: list[asyncio.Task[None]] = []
    for _ in range(WATCHERS):
        connection = await load.connect()
        await connection.send("GET", "/api/v1/configmaps?watch=1")
        watchers.append(asyncio.create_task(connection.count_bytes(seen)))
    await asyncio.sleep(1)
    for _ in range(ROUNDS):
        before = seen[0]
        figures["writes"] = max(figures["writes"], await writes(load))
        sent = (seen[0] - before) / 1e6 / SECONDS
        figures["watched_megabytes"] = max(figures["watched_megabytes"], sent)
        figures["reads"] = max(figures["reads"], await reads(load))
    for watcher in watchers:
        watcher.cancel()
    return figures


async def run() -> dict[str, float]:
    """Starts a server, and the load in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        directory = Path(name)
        kubeconfig = directory / "kubeconfig"
        words = ["serve", "--data", str(directory / "data"), "--kubeconfig", str(kubeconfig), "--no-manager"]
        server = await _start("lanloom.cli", *words)
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            load = await _start("bench.apiserver", str(kubeconfig))
            output, _ = await load.communicate()
            figures: dict[str, float] = json.loads(output)
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
    """The figures and what they must reach."""
    figures = asyncio.run(run())
    note = f"{WATCHERS} watchers of every object connected"
    sent = f"{note}, who get {figures['watched_megabytes']:.0f} MB/s"
    return [
        Row(
            name="embedded API: durable writes",
            measured=figures["writes"],
            limit=WRITES_AT_LEAST,
            unit="/s",
            at_least=True,
            note=sent,
        ),
        Row(
            name="embedded API: reads",
            measured=figures["reads"],
            limit=READS_AT_LEAST,
            unit="/s",
            at_least=True,
            note=note,
        ),
    ]


if __name__ == "__main__":
    import uvloop

    print(json.dumps(uvloop.run(measure(Path(sys.argv[1])))))

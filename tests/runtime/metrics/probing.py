"""Asks a probe server as kubelet and Prometheus do: over real HTTP, on a connection of its own each time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from lanloom.runtime.probes import PATIENCE_SECONDS, Page, ProbeServer

T = TypeVar("T")


class Reply(Struct, frozen=True):
    """An answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: str


async def exchange(port: int, request: bytes) -> bytes:
    """Sends these bytes and reads until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


async def ask(port: int, path: str, method: str = "GET") -> Reply:
    """One request."""
    answer = await exchange(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Reply(int(first.split()[1]), headers, body.decode())


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Values of an exposition by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Watched:
    """A process's probe server."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def value(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; 0 where there are none."""
        found = samples((await ask(self.port, "/metrics")).body)
        wanted = labels.items()
        return sum(number for (each, has), number in found.items() if each == name and wanted <= has)

    async def missing(self) -> list[str]:
        """What /readyz says is missing."""
        answer = await ask(self.port, "/readyz")
        assert (answer.status, answer.body == "ok\n") in ((200, True), (503, False))
        return [] if answer.status == 200 else answer.body.splitlines()

    async def until_ready(self) -> None:
        """Waits until nothing is missing."""
        await self.until(self.missing, lambda missing: not missing)

    async def until_value(self, expected: float, name: str, **labels: str) -> None:
        """Waits until a metric has this value."""
        await self.until(lambda: self.value(name, **labels), lambda value: value == expected)

    async def until_at_least(self, least: float, name: str, **labels: str) -> None:
        """Waits until a metric has this value or a greater one."""
        await self.until(lambda: self.value(name, **labels), lambda value: value >= least)

    async def until(self, read: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        """Waits until what `read` gives holds."""
        async with asyncio.timeout(60):
            while True:
                value = await read()
                if holds(value):
                    return value
                await asyncio.sleep(0.02)


@asynccontextmanager
async def serving_pages(
    pages: Mapping[str, Page], patience: float = PATIENCE_SECONDS
) -> AsyncIterator[Watched]:
    """A probe server on a free port."""
    server = ProbeServer(["127.0.0.1:0"], pages, patience=patience)
    task = asyncio.create_task(server.run())
    try:
        yield Watched(server.ports[0])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

"""Watches of all LANNodes, one for each agent of a large cluster, that do nothing but count what they receive.

A watch that ends is opened again after the pauses of an informer. Where the server no longer has what came since, it
goes on at the present: the lists with which agents would begin again are not played.

The process prints a line when all are open. For each line that it reads, it prints the bytes that came so far; for the
line `watches` how many are open, how many requests for them there were, and how many of these in the busiest second.
"""

import asyncio
import json
import math
import sys
from collections import Counter
from contextlib import suppress
from random import Random
from urllib.parse import urlsplit

from lanloom.api.lan import LAN_NODES
from lanloom.kube.config import ClusterConfig, client_context, identity_headers
from lanloom.kube.controller import backoff
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load

_OPENED_AT_ONCE = 64
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
"""Those of an informer."""

_GONE, _END = b'"code":410', b"\r\n0\r\n\r\n"
"""What a server says of a version that is too old, and the end of an answer: the connection stays open after it."""


class Watches:
    """The watches, and the bytes that all of them have received."""

    def __init__(self, config: ClusterConfig, client: HttpClient) -> None:
        self.received = 0
        self._open = 0
        self._expired = 0
        self._asked: Counter[int] = Counter()
        place = urlsplit(config.server)
        self._address = place.hostname or "", place.port
        self._context = client_context(config)
        headers = (f"{name}: {value}" for name, value in identity_headers(config, config.token))
        query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion="
        self._first = f"GET {LAN_NODES.path()}?{query}"
        self._rest = "\r\n".join((" HTTP/1.1", f"Host: {place.netloc}", *headers, "", ""))
        self._client = client
        self._version = ""
        self._looked = -math.inf
        self._looking = asyncio.Lock()
        self._slots = asyncio.Semaphore(_OPENED_AT_ONCE)
        self._rng = Random(0)
        self._reading: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open one more, and keep it open."""
        await self._look()
        async with self._slots:
            reader, writer = await self._opened()
        self._reading.append(asyncio.create_task(self._keep(reader, writer)))

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a watch. Raises OSError."""
        self._asked[math.floor(asyncio.get_running_loop().time())] += 1
        reader, writer = await asyncio.open_connection(*self._address, ssl=self._context)
        writer.write(f"{self._first}{self._version}{self._rest}".encode())
        status = await reader.readline()
        if b" 200 " not in status:
            writer.close()
            raise ConnectionError(status.decode())
        return reader, writer

    async def _look(self) -> None:
        """Take the present version, unless that was done in this second."""
        async with self._looking:
            if asyncio.get_running_loop().time() - self._looked < 1.0:
                return
            page = await self._client.request("GET", LAN_NODES.path(), query={"limit": "1"})
            self._version = page["metadata"]["resourceVersion"]
            self._looked = asyncio.get_running_loop().time()

    async def _keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        failures = 0
        while True:
            self._open += 1
            is_over = is_gone = False
            with suppress(OSError):
                while not is_over and (data := await reader.read(1 << 16)):
                    self.received += len(data)
                    is_gone = _GONE in data
                    is_over = is_gone or data.endswith(_END)
                    failures = failures if is_gone else 0
            self._open -= 1
            writer.close()
            self._expired += is_gone
            reader, writer, failures = await self._again(is_gone, failures)

    async def _again(
        self, is_gone: bool, failures: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
        """Return the watch once the server takes it, and how often that failed."""
        while True:
            await asyncio.sleep(backoff(failures, self._rng, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE))
            failures += 1
            with suppress(OSError, KubeError):
                if is_gone:
                    await self._look()
                return *await self._opened(), failures

    def figures(self) -> dict[str, int]:
        """Return how many are open, and the requests for them since the last call."""
        found = {
            "open": self._open,
            "requests": self._asked.total(),
            "requests in the busiest second": max(self._asked.values(), default=0),
            "were too old": self._expired,
        }
        self._asked.clear()
        self._expired = 0
        return found


async def main(kubeconfig: str, count: int) -> None:
    """Open the watches and tell of them."""
    config = load(kubeconfig)
    async with HttpClient(config) as client:
        watches = Watches(config, client)
        await asyncio.gather(*(watches.open() for _ in range(count)))
        print(count, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            told = watches.figures() if line.strip() == "watches" else watches.received
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""Watches of all LANNodes, one for each agent of a large cluster, that do nothing but count what they receive.

The process prints a line when all are open, and for each line that it reads the bytes that came so far.
"""

import asyncio
import sys
from urllib.parse import urlsplit

from lanloom.api.lan import LAN_NODES
from lanloom.kube.config import ClusterConfig, client_context
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load

_OPENED_AT_ONCE = 64


class Watches:
    """The watches, and the bytes that all of them have received."""

    def __init__(self, config: ClusterConfig, version: str) -> None:
        self.received = 0
        place = urlsplit(config.server)
        self._address = place.hostname or "", place.port
        self._context = client_context(config)
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={version}"
        lines = (
            f"GET {LAN_NODES.path()}?{query} HTTP/1.1",
            f"Host: {place.netloc}",
            f"Authorization: Bearer {config.token}",
        )
        self._request = "\r\n".join((*lines, "", "")).encode()
        self._slots = asyncio.Semaphore(_OPENED_AT_ONCE)
        self._reading: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open one more."""
        async with self._slots:
            reader, writer = await asyncio.open_connection(*self._address, ssl=self._context)
            writer.write(self._request)
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError(status.decode())
        self._reading.append(asyncio.create_task(self._read(reader, writer)))

    async def _read(self, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.received += len(data)


async def main(kubeconfig: str, count: int) -> None:
    """Open the watches and tell of them."""
    config = load(kubeconfig)
    async with HttpClient(config) as client:
        listed = await client.list(LAN_NODES)
    watches = Watches(config, listed.resource_version)
    await asyncio.gather(*(watches.open() for _ in range(count)))
    print(count, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(watches.received, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

"""How a kube-apiserver reaches pods that only nodes can reach: its egress selector, by HTTP CONNECT on a Unix socket.

Clusters whose control plane is outside of the nodes' network do so (konnectivity). Each connection is made in the
network namespace of the node whose range has the pod's address, so nothing of the host's network is changed.
"""

import asyncio
import ipaddress
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.namespaces import call
from tests.harness.nodes.relay import copy

CONNECT_SECONDS = 5.0


def selector(path: Path) -> str:
    """Return the configuration of the kube-apiserver, for --egress-selector-config-file."""
    transport = {"uds": {"udsName": str(path)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    body = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return json.dumps(body)


class Egress:
    """Use as a context manager; `ways` names the network namespace of each range of pods, and may grow."""

    def __init__(self, path: Path) -> None:
        self.ways: dict[ipaddress.IPv4Network, Path] = {}
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="egress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_unix_server(self._serve, self._path)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            host, _, port = head.split()[1].decode().rpartition(":")
            try:
                made = await asyncio.to_thread(self._connect, host, int(port))
            except OSError as error:
                writer.write(f"HTTP/1.1 503 Service Unavailable\r\n\r\n{error}".encode())
            else:
                from_pod, to_pod = await asyncio.open_connection(sock=made)
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(copy(reader, to_pod))
                    directions.create_task(copy(from_pod, writer))
        with suppress(OSError, asyncio.CancelledError):
            writer.close()

    def _connect(self, host: str, port: int) -> socket.socket:
        """Connect from within the node that has the pod. Raises OSError."""
        address = ipaddress.ip_address(host)
        ways = [path for network, path in self.ways.items() if address in network]
        if not ways:
            raise OSError(f"no node has {host}")
        made = call(ways[0], lambda: socket.create_connection((host, port), timeout=CONNECT_SECONDS))
        made.setblocking(False)
        return made

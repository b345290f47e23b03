"""Connections from a node's network namespace to a server on the host's loopback address.

A socket stays in the namespace in which it was made. So the listening one is made in the node's, on the address of the
server, and served from here: nothing else gets out of the node, and one kubeconfig is right on both sides.
"""

import asyncio
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.namespaces import call


class Relay:
    """Use as a context manager; `network` is the path of the namespace, `port` the server's on 127.0.0.1.

    `services` are more addresses of the namespace, with ports, at which it is reached there.
    """

    def __init__(self, network: Path, port: int, services: Sequence[tuple[str, int]] = ()) -> None:
        self._network = network
        self._port = port
        self._places = (("127.0.0.1", port), *services)
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for place in self._places:
            listening = call(self._network, partial(socket.create_server, place))
            serving = asyncio.start_server(self._serve, sock=listening)
            self._servers.append(asyncio.run_coroutine_threadsafe(serving, self._loop).result())
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
        for server in self._servers:
            server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A server that is not there is told of by closing the connection.
        with suppress(OSError, asyncio.CancelledError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(copy(reader, to_server))
                directions.create_task(copy(from_server, writer))
        with suppress(OSError, asyncio.CancelledError):
            writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until the end, and the end."""
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()

"""Servers of tests that pass connections on, in a thread of their own, whatever the test's own loop does."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

Serving = Coroutine[Any, Any, asyncio.Server]


class Forwarding:
    """Use as a context manager. A kind of it says at which servers it listens, and where a connection goes."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)

    def _listen(self) -> Iterator[Serving]:
        """Yield the servers, each to be started in the thread."""
        raise NotImplementedError

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on. Raises OSError where that can't be: the connection is closed."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        for serving in self._listen():
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
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await self._forward(reader, writer)
        with suppress(OSError, asyncio.CancelledError):
            writer.close()


async def join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    others: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Pass on what comes, both ways, until both ends."""
    async with asyncio.TaskGroup() as directions:
        directions.create_task(_copy(reader, others[1]))
        directions.create_task(_copy(others[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until the end, and the end."""
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()

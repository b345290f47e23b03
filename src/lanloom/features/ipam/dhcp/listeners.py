"""A socket at the port of one client: it hands over requests of that client, as many as a client needs."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from lanloom.features.ipam.dhcp.answers import is_of
from lanloom.features.ipam.dhcp.clients import Client, SeenPort
from lanloom.features.ipam.dhcp.packet import Request, read
from lanloom.features.ipam.dhcp.packet6 import Heard6, read6

Heard = Request | Heard6
"""What a client says that is answered."""

FRAME_MAX = 2048
BURST, PER_SECOND = 20, 4.0
"""Requests that are looked at: some at once, and then a few a second. A client sends two, and then one in minutes."""

PAUSE_SECONDS = 2.0
"""How long a port is not read that has had its share; what does not fit into its buffer meanwhile is lost."""


class Listener:
    """`port` and `client` may change while the link stays. `failed` tells that the link went down or away."""

    def __init__(
        self,
        sock: socket.socket,
        port: SeenPort,
        client: Client,
        *,
        answer: Callable[["Listener", Heard], Awaitable[None]],
        count: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        self.port = port
        self.client = client
        self.failed = False
        self._sock = sock
        self._answer = answer
        self._count = count
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._share, self._counted = float(BURST), self._loop.time()
        self._waiting: dict[type[Heard], Heard] = {}
        self._task: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._readable)

    def send(self, frame: bytes) -> None:
        """Send a frame to the client. One that can't be sent is lost, as on any wire."""
        with suppress(OSError):
            self._sock.send(frame)

    def close(self) -> None:
        """Hear nothing any more."""
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for each in (self._task, self._pause):
            if each is not None:
                each.cancel()

    def _readable(self) -> None:
        try:
            frame = self._sock.recv(FRAME_MAX)
        except BlockingIOError:
            return
        except OSError:
            frame = b""
        if not frame:
            self._loop.remove_reader(self._sock)
            self.failed = True
            self._lost()
            return
        if not self._has_share():
            self._count("limited")
            self._loop.remove_reader(self._sock)
            self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)
            return
        self._take(read(frame) or read6(frame))

    def _take(self, request: Heard | None) -> None:
        """Answer the latest request of each kind; a client that asks again has no use for earlier answers."""
        if request is None:
            self._count("unreadable")
            return
        if isinstance(request, Request) and not is_of(request, request.client):
            self._count("foreign")
            return
        self._waiting[type(request)] = request
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                await self._answer(self, self._waiting.pop(next(iter(self._waiting))))
        finally:
            self._task = None

    def _has_share(self) -> bool:
        now = self._loop.time()
        self._share = min(self._share + (now - self._counted) * PER_SECOND, BURST)
        self._counted = now
        if self._share < 1:
            return False
        self._share -= 1
        return True

    def _resume(self) -> None:
        self._loop.add_reader(self._sock, self._readable)

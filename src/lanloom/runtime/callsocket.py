"""Answer CNI calls: sockets of the agent, errors by CNI's numbers, and the list for garbage collection.

A socket takes one request and gives one answer for each connection, and only root may ask. The protocol is the
feature's. Nothing here trusts the other side: a request is bounded in time and in size.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct

READ_SECONDS = 5.0
"""How long a program may take to say what it wants."""

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of SO_PEERCRED: pid, uid, gid."""

log = structlog.get_logger(__name__)


class Unread(Exception):
    """A request that did not end; the message says at which limit."""


class CallSocket:
    """Listen on `path`, whose directory must be there, and answer each request of at most `largest` bytes.

    `reply` is called with the bytes of a request and must not raise; `refuse` makes the answer to a request that did
    not end. `on_ready` is called when calls can come. `users` are the ids of the users that may call; `patience` is
    in seconds (READ_SECONDS).
    """

    def __init__(
        self,
        path: Path,
        reply: Callable[[bytes], Awaitable[bytes]],
        refuse: Callable[[str], bytes],
        *,
        largest: int,
        on_ready: Callable[[], None] = lambda: None,
        users: Container[int] | None = None,
        patience: float = READ_SECONDS,
    ) -> None:
        self._path = path
        self._reply = reply
        self._refuse = refuse
        self._largest = largest
        self._on_ready = on_ready
        self._users = (0, os.geteuid()) if users is None else users
        self._patience = patience

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when it can't listen."""
        listening = listen(self._path)
        server = await asyncio.start_unix_server(self._serve, sock=listening, limit=self._largest)
        mine = identity(self._path)
        log.info("cni-socket-ready", path=str(self._path))
        self._on_ready()
        async with server:
            try:
                await server.serve_forever()
            finally:
                if identity(self._path) == mine:  # and not that of an agent that has taken our place already
                    self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._may(writer):
                writer.write(await self._answer(reader))
                await writer.drain()
        except OSError as error:  # the program, or whoever it was, has gone
            log.info("cni-plugin-gone", error=str(error))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _may(self, writer: asyncio.StreamWriter) -> bool:
        """Return whether the other side is root, or who runs this agent.

        The socket's mode says the same to the kernel.
        """
        peer: socket.socket = writer.get_extra_info("socket")
        _, uid, _ = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in self._users:
            log.warning("cni-caller-refused", uid=uid)
        return uid in self._users

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            text = await _read(reader, self._largest, self._patience)
        except Unread as error:
            return self._refuse(str(error))
        # Without a word it is somebody, `lanloom doctor` say, who only wanted to know whether we are here.
        return await self._reply(text) if text else b""


async def _read(reader: asyncio.StreamReader, largest: int, patience: float) -> bytes:
    """Return all that the program says until it closes its side. Raises Unread."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(patience):
            while sum(map(len, parts)) <= largest and (part := await reader.read(largest + 1)):
                parts.append(part)
    except TimeoutError:
        raise Unread(f"the request did not end within {patience:.0f} s") from None
    text = b"".join(parts)
    if len(text) > largest:
        raise Unread(f"the request is larger than {largest} bytes")
    return text


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def listen(path: Path) -> socket.socket:
    """Open a socket that replaces a dead agent's in one step; no other user can write to it at any moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(fresh))
        finally:
            os.umask(before)
        listening.listen(64)
        listening.setblocking(False)
        fresh.rename(path)
    except BaseException:
        listening.close()
        raise
    return listening


INCOMPATIBLE, UNKNOWN_CONTAINER, BAD_ENVIRONMENT, NOT_DECODED, BAD_CONFIG, TRY_AGAIN, NOT_AVAILABLE = (
    1,
    3,
    4,
    6,
    7,
    11,
    50,
)
"""CNI's codes for errors."""

REFUSED, DIFFERENT = 100, 101
"""Lanloom's own: what is asked for is not allowed; a CHECK found another state than the result of ADD."""


class CniError(Exception):
    """A call that fails; the texts are what the runtime shows."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details


def network_name(config: dict[str, Any]) -> str:
    """Return the name of the CNI network of a configuration. Raises CniError."""
    name = config.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 253 or not name.isprintable():
        raise CniError(BAD_CONFIG, "name: the network configuration must have a name")
    return name


_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""The key, and a misspelling of it that runtimes send beside it."""

_Short = Annotated[str, Meta(max_length=255)]


class _Valid(Struct, frozen=True, rename={"container": "containerID"}):
    container: _Short
    ifname: _Short


def valid_attachments(config: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """Container and interface of each. Raises CniError also where there is no list: nothing is garbage by default."""
    listed = next((config[key] for key in _KEYS if key in config), None)
    if listed is None:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: GC needs the list of attachments that are in use")
    try:
        return frozenset((item.container, item.ifname) for item in msgspec.convert(listed, list[_Valid]))
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: {error}") from None

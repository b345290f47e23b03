"""The agent's socket for the CNI plugin: one request and one answer for each connection, and only root may ask."""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from pathlib import Path

import structlog

from lanloom.features.ipam.agent.protocol import (
    LARGEST,
    NOT_DECODED,
    TRY_AGAIN,
    CniError,
    Raw,
    Request,
    decode,
    encode_error,
    encode_result,
)

READ_SECONDS = 5.0
"""How long a plugin may take to say what it wants."""

Observer = Callable[[str, int], None]
"""Called after each call with the command, empty where it could not be read, and the code of its error, 0 for none."""

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of SO_PEERCRED: pid, uid, gid."""

log = structlog.get_logger(__name__)


class CniServer:
    """Listens on `path`, whose directory must be there, and hands each request to `answer`.

    `observe` is called after each call, `on_ready` when calls can come. `users` are the ids of the users
    that may call; `patience` is in seconds (READ_SECONDS).
    """

    def __init__(
        self,
        path: Path,
        answer: Callable[[Request], Awaitable[Raw]],
        *,
        observe: Observer = lambda _command, _code: None,
        on_ready: Callable[[], None] = lambda: None,
        users: Container[int] | None = None,
        patience: float = READ_SECONDS,
    ) -> None:
        self._path = path
        self._answer = answer
        self._observe = observe
        self._on_ready = on_ready
        self._users = (0, os.geteuid()) if users is None else users
        self._patience = patience

    async def run(self) -> None:
        """Serves until cancelled. Raises OSError when it can't listen."""
        server = await asyncio.start_unix_server(self._serve, sock=_listen(self._path), limit=LARGEST)
        mine = _identity(self._path)
        log.info("cni-socket-ready", path=str(self._path))
        self._on_ready()
        async with server:
            try:
                await server.serve_forever()
            finally:
                if _identity(self._path) == mine:  # and not that of an agent that has taken our place already
                    self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._may(writer):
                writer.write(await self._reply(reader))
                await writer.drain()
        except OSError as error:  # the plugin, or whoever it was, has gone
            log.info("cni-plugin-gone", error=str(error))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _may(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the other side is root, or who runs this agent; the socket's mode says the same to the kernel."""
        peer: socket.socket = writer.get_extra_info("socket")
        _, uid, _ = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in self._users:
            log.warning("cni-caller-refused", uid=uid)
        return uid in self._users

    async def _reply(self, reader: asyncio.StreamReader) -> bytes:
        command = ""
        try:
            text = await _read(reader, self._patience)
            if not text:
                return b""  # somebody, `lanloom doctor` say, who only wanted to know whether we are here
            request = decode(text)
            command = request.command
            answer, code = encode_result(await self._answer(request)), 0
        except CniError as error:
            answer, code = encode_error(error), error.code
            log.warning("cni-call-failed", command=command, code=code, error=error.msg, details=error.details)
        except MemoryError:
            raise
        except Exception:
            log.exception("cni-call-broke", command=command)
            failure = CniError(TRY_AGAIN, "Lanloom's agent failed; see its log, and try again later")
            answer, code = encode_error(failure), failure.code
        self._observe(command, code)
        return answer


async def _read(reader: asyncio.StreamReader, patience: float) -> bytes:
    """All that the plugin says until it closes its side. Raises CniError."""
    try:
        async with asyncio.timeout(patience):
            text = await reader.read(LARGEST + 1)
            while text and len(text) <= LARGEST and (more := await reader.read(LARGEST + 1)):
                text += more
    except TimeoutError:
        raise CniError(NOT_DECODED, f"the request did not end within {patience:.0f} s") from None
    if len(text) > LARGEST:
        raise CniError(NOT_DECODED, f"the request is larger than {LARGEST} bytes")
    return text


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _listen(path: Path) -> socket.socket:
    """A socket that takes the place of a dead agent's in one step, and that nobody else can write to at any moment."""
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

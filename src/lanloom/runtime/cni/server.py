"""The agent's socket of CNI programs: one request and one answer for each connection, and only root may ask.

Each program's calls go to the feature that has it. Nothing here trusts the other side: a request is bounded in time and
in size. A DEL that is a call by CNI's rules succeeds whatever comes of it: what a pod had is removed when the pod is,
and a DEL that fails would keep the pod in Terminating.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec import Struct

from lanloom.runtime.cni.calls import (
    LARGEST,
    NOT_DECODED,
    TRY_AGAIN,
    Call,
    CallRefused,
    CniError,
    Raw,
    answer_to_earlier,
    decode,
    encode_error,
    encode_result,
)
from lanloom.runtime.sockets import file_identity, listen_at

log = structlog.get_logger(__name__)

READ_SECONDS = 5.0
"""How long a program may take to say what it wants."""

RETRY_SECONDS = 10.0
"""After the socket could not be made."""

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of SO_PEERCRED: pid, uid, gid."""

BROKEN = CniError(TRY_AGAIN, "Lanloom's agent failed; see its log, and try again later")

Answer = Callable[[Call], Awaitable[Raw | None]]
"""Carries out a call. Returns the result of an ADD; that of another call is ignored. Raises CniError."""


class CniService(Struct, frozen=True, kw_only=True):
    """What a feature has for its CNI programs.

    `called` receives the program, the command and the error of each call, 0 for none; `serves` whether calls can come.
    `unversioned` is the version of a configuration that names none; where it is empty, each must name one.
    """

    answer: Answer
    called: Callable[[str, str, int], None] = lambda _program, _command, _code: None
    serves: Callable[[bool], None] = lambda _there: None
    unversioned: str = ""

    async def counted(self, call: Call) -> Raw | None:
        """Return what `answer` does, and tell `called` what came of it."""
        code = TRY_AGAIN
        try:
            result = await self.answer(call)
            code = 0
            return result
        except CniError as error:
            code = error.code
            raise
        finally:
            self.called(call.program, call.command, code)


class _Unread(Exception):
    """A request that did not end; the message says at which limit."""


class CniServer:
    """Listen on `path`, whose directory must be there, and answer the calls of these programs.

    `on_ready` is called when calls can come. `users` are the ids of the users that may call; `patience` is in seconds.
    """

    def __init__(
        self,
        path: Path,
        programs: Mapping[str, CniService],
        *,
        on_ready: Callable[[], None] = lambda: None,
        users: Container[int] | None = None,
        patience: float = READ_SECONDS,
    ) -> None:
        self._path = path
        self._programs = programs
        self._versions = {name: service.unversioned for name, service in programs.items()}
        self._on_ready = on_ready
        self._users = (0, os.geteuid()) if users is None else users
        self._patience = patience

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when it can't listen."""
        listening = listen_at(self._path)
        server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LARGEST)
        mine = file_identity(self._path)
        log.info("cni-socket-ready", path=str(self._path))
        self._on_ready()
        async with server:
            try:
                await server.serve_forever()
            finally:
                if (
                    file_identity(self._path) == mine
                ):  # and not that of an agent that has taken our place already
                    self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._may(writer):
                writer.write(await self._read_and_reply(reader))
                await writer.drain()
        except OSError as error:  # the client has gone
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

    async def _read_and_reply(self, reader: asyncio.StreamReader) -> bytes:
        try:
            text = await _read(reader, self._patience)
        except _Unread as error:
            return self._refused(CallRefused(CniError(NOT_DECODED, str(error))))
        # A connection without a request is a probe, of `lanloom doctor` say, whether we are here.
        return answer_to_earlier(text) or await self.reply(text) if text else b""

    async def reply(self, text: bytes) -> bytes:
        """Return the answer to a request; never raises."""
        try:
            call = decode(text, self._versions)
        except CallRefused as refused:
            return self._refused(refused)
        try:
            result = await self._programs[call.program].counted(call)
        except CniError as error:
            return self._failed(call, error)
        except MemoryError:
            raise
        except Exception:
            log.exception("cni-call-broke", program=call.program, command=call.command)
            return self._failed(call, BROKEN)
        return encode_result(result if call.command == "ADD" else None)

    def _refused(self, refused: CallRefused) -> bytes:
        """Answer what is no call; one of no known program counts for each of them."""
        program = refused.program
        services = (self._programs[program],) if program else dict.fromkeys(self._programs.values())
        for service in services:
            service.called(program, refused.command, refused.error.code)
        _log_failure(program, refused.command, refused.error)
        return encode_error(refused.version, refused.error)

    def _failed(self, call: Call, error: CniError) -> bytes:
        _log_failure(call.program, call.command, error)
        if call.command == "DEL" and error.code >= TRY_AGAIN:
            return encode_result(None)
        return encode_error(call.version, error)


def _log_failure(program: str, command: str, error: CniError) -> None:
    log.warning(
        "cni-call-failed",
        program=program,
        command=command,
        code=error.code,
        error=error.msg,
        details=error.details,
    )


async def _read(reader: asyncio.StreamReader, patience: float) -> bytes:
    """Return all that the program says until it closes its side. Raises _Unread."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(patience):
            while sum(map(len, parts)) <= LARGEST and (part := await reader.read(LARGEST + 1)):
                parts.append(part)
    except TimeoutError:
        raise _Unread(f"the request did not end within {patience:.0f} s") from None
    text = b"".join(parts)
    if len(text) > LARGEST:
        raise _Unread(f"the request is larger than {LARGEST} bytes")
    return text


async def keep_serving(
    path: Path,
    programs: Mapping[str, CniService],
    on_socket: Callable[[bool], None] = lambda _there: None,
    retry: float = RETRY_SECONDS,
) -> None:
    """Answer the programs until cancelled. A failure to listen is logged and tried again: all else goes on without."""
    services, complained = tuple(dict.fromkeys(programs.values())), ""

    def report(there: bool) -> None:
        on_socket(there)
        for service in services:
            service.serves(there)

    while True:
        report(False)
        try:
            await asyncio.to_thread(path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
            await CniServer(path, programs, on_ready=lambda: report(True)).run()
        except OSError as error:
            if str(error) != complained:
                log.error("cni-not-served", socket=str(path), error=str(error))
            complained = str(error)
        await asyncio.sleep(retry)

"""IPAM programs, called as CNI says: the whole configuration on standard input, a result on standard output.

The agent is root, and whoever may write a NAD chooses the program and what it reads. So a program must be one that the
agent was told of, lie in the agent's own directory of CNI programs, and be a file that nobody but root can write; the
`CNI_PATH` of a call is not searched. It gets no variables of the agent but PATH. Time, output and number of programs
are limited, and one that is stopped is stopped with all that it started.

The agent that waits here may be the one that answers the program: nothing of LANs is locked meanwhile.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import structlog

from lanloom.features.lan.agent.calls import Call, ipam_type, ipam_variables
from lanloom.features.lan.agent.options import IPAM_PROGRAMS
from lanloom.features.lan.rules.addressing import Given, read_given
from lanloom.runtime.callsocket import BAD_CONFIG, NOT_DECODED, TRY_AGAIN, CniError

SECONDS = {"ADD": 20.0, "DEL": 8.0, "CHECK": 10.0, "GC": 20.0, "STATUS": 4.0}
"""How long a program may take."""

LARGEST, LARGEST_COMPLAINT = 1 << 20, 1 << 16
"""Bytes of a result, and of what is said on standard error."""

AT_ONCE = 8
"""Programs that run at the same time; other calls wait."""

_DYING_SECONDS = 2.0
_SHOWN = 500
_LARGEST_CODE = 1 << 31

log = structlog.get_logger(__name__)


class NothingGiven(CniError):
    """An ADD that failed without an effect: there is nothing to be released."""


class Ipam:
    """The programs in `directory` (None for none) with a name in `allowed`. `owners` may own their files."""

    def __init__(
        self,
        directory: Path | None,
        allowed: Collection[str] = IPAM_PROGRAMS,
        *,
        seconds: Mapping[str, float] = SECONDS,
        owners: Collection[int] = (0,),
    ) -> None:
        self._directory = directory
        self._allowed = allowed
        self._seconds = seconds
        self._owners = owners
        self._running = asyncio.Semaphore(AT_ONCE)

    async def add(self, call: Call) -> Given:
        """The addresses that the program gives. Raises CniError, and NothingGiven where it gave none."""
        name = ipam_type(call.config)
        output = await self._called(call, "ADD")
        try:
            return read_given(msgspec.json.decode(output))
        except (ValueError, RecursionError) as error:
            raise CniError(
                NOT_DECODED, f"ipam.type: {name} gave a result that can't be used", str(error)
            ) from None

    async def run(self, call: Call, command: str) -> None:
        """Call the program for a command without a result. Raises CniError."""
        await self._called(call, command)

    async def _called(self, call: Call, command: str) -> bytes:
        name = ipam_type(call.config)
        try:
            path = await asyncio.to_thread(self._find, name)
        except (OSError, RuntimeError):  # Python 3.11 says so of a circle of symbolic links
            raise NothingGiven(
                BAD_CONFIG,
                f"ipam.type: there is no program {name} in the agent's directory {self._directory}",
            ) from None
        given = {**ipam_variables(call), "CNI_COMMAND": command, "CNI_PATH": str(path.parent)}
        text = msgspec.json.encode(call.config)
        seconds = self._seconds[command]
        try:
            async with asyncio.timeout(seconds), self._running:
                status, output, complaint = await _executed(path, given, text)
        except TimeoutError:
            raise CniError(
                TRY_AGAIN, f"ipam.type: {name} did not end within {seconds:g} s; try again later"
            ) from None
        except _TooLarge:
            raise CniError(NOT_DECODED, f"ipam.type: {name} gave more than {LARGEST} bytes") from None
        except OSError as error:
            raise NothingGiven(TRY_AGAIN, f"ipam.type: {name} can't be started: {error.strerror}") from None
        if complaint:
            log.info("lan-ipam-complaint", program=name, command=command, text=_printable(complaint))
        if status != 0:
            raise _refusal(name, status, output)
        return output

    def _find(self, name: str) -> Path:
        """The program. Raises CniError for one that must not be run, and OSError for one that is not there."""
        directory = self._directory
        if directory is None:
            raise NothingGiven(
                BAD_CONFIG, "ipam: this agent has no directory of CNI programs; start it with --cni-bin"
            )
        if name not in self._allowed:
            raise NothingGiven(
                BAD_CONFIG,
                f"ipam.type: {name} is not one of {', '.join(self._allowed)}; if it is an IPAM program, start the "
                f"agent with --ipam-program={name}",
            )
        path = directory / name
        target = path.resolve(strict=True)
        status = target.stat()
        if not target.is_relative_to(directory.resolve()):
            why = "is outside of the directory"
        elif not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
            why = "is not an executable file"
        elif status.st_uid not in self._owners or status.st_mode & 0o022:
            why = "can be written by others than root"
        else:
            return path
        raise NothingGiven(BAD_CONFIG, f"ipam.type: {path} {why}; the agent does not run it")


class _TooLarge(Exception):
    """More output than a program may give."""


class _Output(asyncio.SubprocessProtocol):
    """Collects what a program says; `ended` is when it has exited and closed its output, or said too much."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.texts = {1: bytearray(), 2: bytearray()}
        self._open = {1, 2}
        self.exited = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """As the base says."""
        self.texts[fd] += data
        if len(self.texts[fd]) > _LIMITS[fd] and not self.ended.done():
            self.ended.set_exception(_TooLarge())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """As the base says."""
        self._open.discard(fd)
        self._check()

    def process_exited(self) -> None:
        """As the base says."""
        self.exited.set()
        self._check()

    def _check(self) -> None:
        if self.exited.is_set() and not self._open and not self.ended.done():
            self.ended.set_result(None)


_LIMITS = {1: LARGEST, 2: LARGEST_COMPLAINT}


async def _executed(path: Path, variables: Mapping[str, str], text: bytes) -> tuple[int, bytes, bytes]:
    """Status, output and complaint of a program that has ended. Raises OSError and _TooLarge."""
    pipe = asyncio.subprocess.PIPE
    transport, output = await asyncio.get_running_loop().subprocess_exec(
        _Output,
        path,
        env={"PATH": os.environ.get("PATH", os.defpath), **variables},
        cwd="/",
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    entrance = transport.get_pipe_transport(0)
    assert isinstance(entrance, asyncio.WriteTransport)
    try:
        entrance.write(text)
        entrance.close()  # once all of it is written; a program may end without having read it
        await output.ended
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        # One that hangs in the kernel dies later; nothing waits for that.
        with suppress(TimeoutError):
            await asyncio.wait_for(output.exited.wait(), _DYING_SECONDS)
        raise
    finally:
        transport.close()
    status = transport.get_returncode()
    assert status is not None
    return status, bytes(output.texts[1]), bytes(output.texts[2])


def _refusal(name: str, status: int, output: bytes) -> CniError:
    """The error that a program answered with, in its words."""
    try:
        body: Any = msgspec.json.decode(output)
        code, msg, details = body["code"], body["msg"], body.get("details", "")
        if isinstance(code, int) and 0 < code < _LARGEST_CODE and isinstance(msg, str) and msg:
            return NothingGiven(code, f"{name}: {_printable(msg)}", _printable(details))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    return CniError(
        NOT_DECODED, f"ipam.type: {name} failed with status {status} and no error by CNI", _printable(output)
    )


def _printable(text: object) -> str:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    shown = text if isinstance(text, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in shown[:_SHOWN]).strip()

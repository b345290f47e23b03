"""Talk to a program that was started: all of its input, and a limited part of its output, until it has ended."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

LARGEST, LARGEST_COMPLAINT = 1 << 20, 1 << 16
"""Bytes of a result, and of what is said on standard error."""

_DYING_SECONDS = 2.0

Process = subprocess.Popen[bytes]


class TooLarge(Exception):
    """More output than a program may give."""


class Ended(NamedTuple):
    """A program that has ended."""

    status: int
    output: bytes
    complaint: bytes


async def run(start: Callable[[], Process], text: bytes) -> Ended:
    """Give a program a text, and return what it said. `start` blocks; one that is cancelled is killed.

    Raises OSError and TooLarge.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_late)
        raise
    descriptor, exited = os.pidfd_open(process.pid), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, exited.set)
    try:
        return await _conversation(process, text, exited)
    except BaseException:
        process.kill()
        # One that hangs in the kernel dies later; nothing waits for that.
        with suppress(TimeoutError):
            await asyncio.wait_for(exited.wait(), _DYING_SECONDS)
        raise
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        process.poll()


async def _conversation(process: Process, text: bytes, exited: asyncio.Event) -> Ended:
    loop = asyncio.get_running_loop()
    output, complaint = _Output(LARGEST), _Output(LARGEST_COMPLAINT)
    transports: list[asyncio.BaseTransport] = []
    try:
        transports.append((await loop.connect_read_pipe(lambda: output, process.stdout))[0])
        transports.append((await loop.connect_read_pipe(lambda: complaint, process.stderr))[0])
        entrance, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        transports.append(entrance)
        entrance.write(text)
        entrance.write_eof()  # once all of it is written; a program may end without having read it
        await asyncio.gather(output.ended, complaint.ended)
        await exited.wait()
    finally:
        for transport in transports:
            transport.close()
    return Ended(process.wait(), bytes(output.text), bytes(complaint.text))


class _Output(asyncio.Protocol):
    """Collect an output; `ended` is when it was closed, or became too large."""

    def __init__(self, largest: int) -> None:
        self.text = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._largest = largest

    def data_received(self, data: bytes) -> None:
        """Do as the base says."""
        self.text += data
        if len(self.text) > self._largest and not self.ended.done():
            self.ended.set_exception(TooLarge())

    def connection_lost(self, exc: Exception | None) -> None:
        """Do as the base says."""
        if not self.ended.done():
            self.ended.set_result(None)


def _kill_late(starting: "asyncio.Future[Process]") -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()

"""How the command line talks to a running lab."""

import asyncio
import os

from msgspec import Struct

from lanloom.lab import protocol
from lanloom.lab.errors import NotRunning, PartFailed
from lanloom.lab.inside import as_error
from lanloom.lab.layout import Layout
from lanloom.lab.polling import until
from lanloom.lab.protocol import AnyMessage, Channel

DOWN_TIMEOUT = 60.0


async def connect(layout: Layout) -> Channel:
    """A connection to the supervisor of a running lab. Raises NotRunning."""
    if layout.runs():
        try:
            return Channel(*await _open(layout))
        except OSError:
            raise NotRunning(
                f"the lab in {layout.state} is starting or stopping",
                "Try again when `lanloom lab up` has ended.",
            ) from None
    raise not_running(layout)


def not_running(layout: Layout) -> NotRunning:
    """The error for a lab that does not run; tells why it ended where it did so by itself."""
    if layout.last_words.exists():
        reason = layout.last_words.read_text()
        return NotRunning(f"the lab has ended: {reason}", "Start it again with `lanloom lab up`.")
    return NotRunning(f"no lab runs (looked in {layout.state})", "Start one with `lanloom lab up`.")


async def _open(layout: Layout) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # Through a descriptor: the path of a state directory may be longer than the address of a socket.
    try:
        directory = os.open(layout.state, os.O_PATH)
    except OSError:
        raise ConnectionRefusedError from None
    try:
        path = f"/proc/self/fd/{directory}/{layout.socket.name}"
        return await asyncio.open_unix_connection(path, limit=protocol.LINE_MAX)
    finally:
        os.close(directory)


async def ask(layout: Layout, request: Struct) -> AnyMessage:
    """The supervisor's answer. Raises LabError."""
    channel = await connect(layout)
    try:
        await channel.send(request)
        answer = await channel.receive()
    finally:
        await channel.close()
    if answer is None:
        raise PartFailed("the lab ended before it answered", f"See {layout.logs / 'supervisor.log'}.")
    if isinstance(answer, protocol.Failed):
        raise as_error(answer)
    return answer


async def status(layout: Layout) -> protocol.LabStatus:
    """How the lab is. Raises LabError."""
    answer = await ask(layout, protocol.Status())
    assert isinstance(answer, protocol.LabStatus)
    return answer


async def down(layout: Layout, *, keep: bool) -> bool:
    """Ends a lab, waits until it is gone, and removes its files unless they are to be kept. Returns whether one ran."""
    ran = layout.runs()
    if ran:
        channel = await connect(layout)
        await channel.send(protocol.Down())
        try:
            async with asyncio.timeout(DOWN_TIMEOUT):
                await channel.receive()
                await until(lambda: not layout.runs())
        except TimeoutError:
            raise PartFailed(
                "the lab does not end",
                f"See {layout.logs / 'supervisor.log'}; killing its supervisor ends all of it.",
            ) from None
        await channel.close()
    if not keep:
        layout.remove()
    return ran

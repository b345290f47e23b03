"""What a kubelet of the lab can do on a node: run a program, or keep one and talk with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from lanloom.lab import protocol
from lanloom.lab.inside import Inside, as_error, hear
from lanloom.lab.protocol import Channel

END_SECONDS = 5.0
"""That a program has which is not to be talked with any more."""


class Ran(Struct, frozen=True):
    """How a program ended, and what it printed."""

    status: int
    output: str
    errors: str


class Talk(Protocol):
    """A program that runs on a node, and is killed with all that it started when nobody talks with it any more."""

    async def say(self, line: str) -> None:
        """Gives it a line."""
        ...

    def hear(self) -> AsyncIterator[str]:
        """The lines that it prints, until it has ended."""
        ...


class Hosts(Protocol):
    """The nodes. Everything raises LabError or OSError where the node does not run."""

    async def run(self, node: str, *command: str, given: str = "") -> Ran:
        """Runs a program with this standard input."""
        ...

    def talk(self, node: str, *command: str, log: Path) -> AbstractAsyncContextManager[Talk]:
        """Keeps a program; what it complains about is appended to `log`."""
        ...


class InsideHosts:
    """The nodes behind the inner daemon."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    async def run(self, node: str, *command: str, given: str = "") -> Ran:
        """As the port says."""
        printed: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        channel = await self._inside.converse(protocol.Exec(node, command))
        try:
            if given:
                await channel.send(protocol.Input(given.encode()))
            await channel.send(protocol.Input(b""))
            status = await hear(channel, node, lambda output: printed[output.stream].append(output.data))
        finally:
            await channel.close()
        return Ran(status, *(b"".join(parts).decode(errors="replace") for parts in printed.values()))

    @asynccontextmanager
    async def talk(self, node: str, *command: str, log: Path) -> AsyncIterator[Talk]:
        """As the port says."""
        channel = await self._inside.converse(protocol.Exec(node, command))
        try:
            yield InsideTalk(channel, log)
            await _let_end(channel)
        finally:
            await channel.close()


async def _let_end(channel: Channel) -> None:
    """Waits a moment for the end of a program that finds nothing more to read."""
    await channel.send(protocol.Input(b""))
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while await channel.receive():
                pass


class InsideTalk:
    """A program behind the inner daemon."""

    def __init__(self, channel: Channel, log: Path) -> None:
        self._channel = channel
        self._log = log

    async def say(self, line: str) -> None:
        """As the port says."""
        await self._channel.send(protocol.Input(f"{line}\n".encode()))

    async def hear(self) -> AsyncIterator[str]:
        """As the port says. Raises LabError where the node does not run."""
        rest = b""
        while message := await self._channel.receive():
            match message:
                case protocol.Output("stdout", data):
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        yield line.decode(errors="replace")
                case protocol.Output(_, data):
                    with self._log.open("ab") as file:
                        file.write(data)
                case protocol.Failed():
                    raise as_error(message)
                case protocol.Exited():
                    return

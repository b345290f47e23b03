"""The nodes of a lab for its kubelets: which ones run, since which boot, and running programs on them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from lanloom_lab import protocol
from lanloom_lab.protocol import Channel, InnerClient, as_error, receive


class Machines:
    """The lab tells of its nodes; kubelets ask."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._boots: dict[str, int] = {}
        self._removed: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call with a node's name whenever it comes or goes."""
        self._listeners.append(listener)

    def boot(self, node: str) -> int | None:
        """Return the number of its boot, a new one each time; None while it is off."""
        return self._boots.get(node) if node in self._addresses else None

    def address(self, node: str) -> str:
        """Return the address of a node that runs."""
        return self._addresses[node]

    def is_removed(self, node: str) -> bool:
        """Return whether there is no such node any more."""
        return node in self._removed

    def started(self, node: str, address: str) -> None:
        """Note that the node runs from now on."""
        self._removed.discard(node)
        self._addresses[node] = address
        self._boots[node] = self._boots.get(node, 0) + 1
        self._notify(node)

    def stopped(self, node: str) -> None:
        """Note that the node is off, or will be in a moment."""
        if self._addresses.pop(node, None) is not None:
            self._notify(node)

    def removed(self, node: str) -> None:
        """Note that the node will not come back."""
        self._addresses.pop(node, None)
        self._removed.add(node)
        self._notify(node)

    def _notify(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)


END_SECONDS = 5.0
"""That a program has which is not to be talked with any more."""


class CompletedProcess(Struct, frozen=True):
    """How a program ended, and what it printed."""

    status: int
    output: str
    errors: str


class ExecSession(Protocol):
    """A program that runs on a node, and is killed with all that it started when its client is gone."""

    async def send_line(self, line: str) -> None:
        """Give it a line."""
        ...

    def receive(self) -> AsyncIterator[str]:
        """Return the lines that it prints, until it has ended."""
        ...


class Hosts(Protocol):
    """The nodes. Everything raises LabError or OSError where the node does not run."""

    async def run(self, node: str, *command: str, given: str = "") -> CompletedProcess:
        """Run a program with this standard input."""
        ...

    def session(self, node: str, *command: str, log: Path) -> AbstractAsyncContextManager[ExecSession]:
        """Keep a program; what it complains about is appended to `log`."""
        ...


class InsideHosts:
    """The nodes behind the inner daemon."""

    def __init__(self, inside: InnerClient) -> None:
        self._inner = inside

    async def run(self, node: str, *command: str, given: str = "") -> CompletedProcess:
        """As the port says."""
        printed: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        channel = await self._inner.converse(protocol.Exec(node, command))
        try:
            if given:
                await channel.send(protocol.Input(given.encode()))
            await channel.send(protocol.Input(b""))
            status = await receive(channel, node, lambda output: printed[output.stream].append(output.data))
        finally:
            await channel.close()
        return CompletedProcess(
            status, *(b"".join(parts).decode(errors="replace") for parts in printed.values())
        )

    @asynccontextmanager
    async def session(self, node: str, *command: str, log: Path) -> AsyncIterator[ExecSession]:
        """As the port says."""
        channel = await self._inner.converse(protocol.Exec(node, command))
        try:
            yield InsideSession(channel, log)
            await _let_end(channel)
        finally:
            await channel.close()


async def _let_end(channel: Channel) -> None:
    """Wait a moment for the end of a program that finds nothing more to read."""
    await channel.send(protocol.Input(b""))
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while await channel.receive():
                pass


class InsideSession:
    """A program behind the inner daemon."""

    def __init__(self, channel: Channel, log: Path) -> None:
        self._channel = channel
        self._log = log

    async def send_line(self, line: str) -> None:
        """As the port says."""
        await self._channel.send(protocol.Input(f"{line}\n".encode()))

    async def receive(self) -> AsyncIterator[str]:
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

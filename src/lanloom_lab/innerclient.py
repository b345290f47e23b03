"""The supervisor's line to the inner daemon, and how a program at the other end of a line is heard."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from lanloom_lab import errors, protocol
from lanloom_lab.errors import LabError, ProcessFailed
from lanloom_lab.processes import until_done
from lanloom_lab.protocol import AnyMessage, Channel

PATIENCE = 20.0
PAUSE = 0.2

Opener = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class InnerClient:
    """Asks the daemon behind `opener`, which opens a connection to it."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    async def wait(self) -> None:
        """Waits until the daemon answers; whoever calls sets the limit."""
        await until_done(self._answers)

    async def _answers(self) -> bool:
        try:
            await self.ask(protocol.Survey())
        except (OSError, LabError):
            return False
        return True

    async def ask(self, request: Struct) -> AnyMessage:
        """The answer to a request. Raises the LabError that the daemon raised, or ProcessFailed when it is gone."""
        channel = await self.converse(request)
        try:
            answer = await channel.receive()
        finally:
            await channel.close()
        if answer is None:
            raise ProcessFailed("the lab's inner daemon gave no answer", "See `lanloom lab status`.")
        if isinstance(answer, protocol.Failed):
            raise as_error(answer)
        return answer

    async def tell(self, request: Struct) -> None:
        """Sends a request that has no answer."""
        channel = await self._open()
        await channel.send(request)
        await channel.close()

    async def relay(self, request: Struct, caller: Channel) -> None:
        """Passes a request on, and all messages of both sides until both have ended."""
        daemon = await self.converse(request)
        try:
            await asyncio.gather(_copy(caller, daemon), _copy(daemon, caller))
        finally:
            await daemon.close()

    async def converse(self, request: Struct) -> Channel:
        """A connection on which the request was sent, and to which the caller listens. Raises ProcessFailed."""
        daemon = await self._open_patiently()
        await daemon.send(request)
        return daemon

    async def _open_patiently(self) -> Channel:
        """A kernel that is busy for seconds does not answer for its address; it will. Raises ProcessFailed."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                return await self._open()
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ProcessFailed(
                        f"the lab's kernel does not answer: {error}", "See `lanloom lab status`."
                    ) from None
            await asyncio.sleep(PAUSE)

    async def _open(self) -> Channel:
        return Channel(*await self._opener())


async def _copy(source: Channel, target: Channel) -> None:
    while message := await source.receive():
        await target.send(message)
    target.end()


async def receive(channel: Channel, node: str, output: Callable[[protocol.Output], None]) -> int:
    """The exit status of the program that was asked for on a node, after all that it printed. Raises LabError."""
    while message := await channel.receive():
        match message:
            case protocol.Output():
                output(message)
            case protocol.Exited(status):
                return status
            case protocol.Failed():
                raise as_error(message)
    raise ProcessFailed(f"the node {node} went away while the program ran", "See `lanloom lab status`.")


def as_error(failure: protocol.Failed) -> LabError:
    """The exception that was sent as a message."""
    kind = getattr(errors, failure.kind, ProcessFailed)
    return (
        kind(failure.problem, failure.remedy)
        if issubclass(kind, LabError)
        else ProcessFailed(failure.problem, failure.remedy)
    )

"""How the parts of a lab talk: one request per connection, JSON lines both ways; and the client of the inner daemon.

The command line asks the supervisor over a Unix socket; the supervisor asks the inner daemon, which may be inside
another kernel, over TCP in the lab's own network namespace. An `Exec` is relayed as it is. Small and stateless on
purpose. Whoever asked closes the connection, and ends the request by that; who answers says that nothing more comes and
waits for it: a connection that is closed while something is on its way to the closing side forgets, on the other side,
also what has not been read yet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom_lab import errors
from lanloom_lab.errors import LabError, ProcessFailed
from lanloom_lab.plan import DhcpNetwork, KernelChoice, NodeSpec
from lanloom_lab.processes import until_done

LINE_MAX = 1 << 20
CHUNK = 1 << 15
"""Largest piece of a stream in one message; base64 makes it a third longer."""


class Request(Struct, frozen=True, tag_field="type", tag=lambda name: name.lower()):
    """Base of what opens a connection."""


class Exec(Request, frozen=True):
    """Run a program on a node, on a terminal if one is given.

    Followed by `Input` and `Terminal`; answered by `Output`… and one `Exited`.
    """

    node: str
    command: tuple[str, ...]
    terminal: "Terminal | None" = None


class Plug(Request, frozen=True):
    """To the inner daemon: build the switch with these DHCP networks."""

    dhcp: tuple[DhcpNetwork, ...]


class PowerOn(Request, frozen=True):
    """To the inner daemon: start this node."""

    node: NodeSpec


class PowerOff(Request, frozen=True):
    """To the inner daemon: end everything on this node at once, as if its plug were pulled."""

    name: str


class Survey(Request, frozen=True):
    """To the inner daemon: which programs run where? Answered by `Programs`."""


class Status(Request, frozen=True):
    """To the supervisor: how is the lab? Answered by `LabStatus`."""


class NodeAction(Request, frozen=True):
    """To the supervisor: do this with a node. Answered by `Done`."""

    action: Literal["add", "start", "stop", "reboot", "remove"]
    name: str


class Cut(Request, frozen=True):
    """To the supervisor or the inner daemon: cut the nodes off from the API server, or join them again."""

    cut: bool


class Down(Request, frozen=True):
    """End the lab, or to the inner daemon: its kernel. Answered by the end of the connection."""


class Message(Struct, frozen=True, tag_field="type", tag=lambda name: name.lower()):
    """Base of everything after the request."""


class Input(Message, frozen=True):
    """A piece of standard input; an empty one is its end."""

    data: bytes


class Terminal(Message, frozen=True):
    """A terminal: the value of TERM, and its size in characters."""

    kind: str
    rows: int
    columns: int


class Output(Message, frozen=True):
    """A piece of what the program printed."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class Exited(Message, frozen=True):
    """The program's exit status, 128 and more for a signal as in a shell."""

    status: int


class Progress(Message, frozen=True):
    """Something for a person who waits."""

    text: str


class Done(Message, frozen=True):
    """The request is fulfilled."""


class Failed(Message, frozen=True):
    """The request can't be fulfilled; `kind` names the class of `lanloom_lab.errors`."""

    kind: str
    problem: str
    remedy: str


class Program(Struct, frozen=True):
    """A program that the lab keeps running. `restarts` counts how often it ended by itself."""

    name: str
    running: bool
    restarts: int = 0


class Programs(Message, frozen=True):
    """The programs of each running node, and those of the switch under the empty name."""

    nodes: dict[str, tuple[Program, ...]]


class NodeReport(Struct, frozen=True):
    """One node in a `LabStatus`. `state` is running, stopped or failed."""

    name: str
    address: str
    state: Literal["running", "stopped", "failed"]
    programs: tuple[Program, ...] = ()


class LabStatus(Message, frozen=True):
    """What `lanloom lab status` shows. `server` is the API server's URL on the host; `started` is in epoch seconds."""

    kernel: KernelChoice
    reason: str
    server: str
    kubeconfig: str
    started: float
    nodes: tuple[NodeReport, ...]
    dhcp: tuple[DhcpNetwork, ...]
    version: str = ""


AnyRequest = Exec | Plug | PowerOn | PowerOff | Survey | Status | NodeAction | Cut | Down
AnyMessage = Input | Terminal | Output | Exited | Progress | Done | Failed | Programs | LabStatus

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_messages: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


def encode(value: Struct) -> bytes:
    """One line of the protocol, with its end."""
    return _encoder.encode(value) + b"\n"


def decode_message(line: bytes) -> AnyMessage:
    """The message of a line. Raises msgspec.DecodeError."""
    return _messages.decode(line)


class Channel:
    """One connection. Sending to somebody who went away is no error: the next `receive` says so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, value: Struct) -> None:
        """Sends a request or a message, and waits while the other side is slow to read."""
        try:
            self._writer.write(encode(value))
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive_request(self) -> AnyRequest | None:
        """The request that opens the connection, None if there is none."""
        line = await self._line()
        return _requests.decode(line) if line else None

    async def receive(self) -> AnyMessage | None:
        """The next message, None when the other side closed the connection."""
        line = await self._line()
        return _messages.decode(line) if line else None

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except (ConnectionError, asyncio.LimitOverrunError):
            return b""
        return line if line.endswith(b"\n") else b""

    def end(self) -> None:
        """Tells the other side that nothing more comes, and goes on receiving."""
        with suppress(OSError):
            self._writer.write_eof()

    async def finish(self) -> None:
        """Ends the answers, waits until the other side has closed the connection, and closes it."""
        self.end()
        with suppress(ConnectionError):
            while await self._reader.read(CHUNK):
                pass
        await self.close()

    async def close(self) -> None:
        """Closes the connection, after everything sent has left."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


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
            await self.ask(Survey())
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
        if isinstance(answer, Failed):
            raise as_error(answer)
        return answer

    async def send(self, request: Struct) -> None:
        """Send a request without a response."""
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


async def receive(channel: Channel, node: str, output: Callable[[Output], None]) -> int:
    """The exit status of the program that was asked for on a node, after all that it printed. Raises LabError."""
    while message := await channel.receive():
        match message:
            case Output():
                output(message)
            case Exited(status):
                return status
            case Failed():
                raise as_error(message)
    raise ProcessFailed(f"the node {node} went away while the program ran", "See `lanloom lab status`.")


def as_error(failure: Failed) -> LabError:
    """The exception that was sent as a message."""
    kind = getattr(errors, failure.kind, ProcessFailed)
    return (
        kind(failure.problem, failure.remedy)
        if issubclass(kind, LabError)
        else ProcessFailed(failure.problem, failure.remedy)
    )

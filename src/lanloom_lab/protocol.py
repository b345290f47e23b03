"""The protocol between the processes of a lab, and the client of the inner daemon.

A connection has one request, and JSON lines in both directions. The command line sends requests to the supervisor over
a Unix socket. The supervisor sends requests to the inner daemon, which may be on another kernel, over TCP in the
network namespace of the lab. An `Exec` is relayed unchanged. The protocol is small and stateless on purpose.

The client closes the connection, which ends the request. The server announces its last message and waits for that: if a
side closed the connection while data were on their way to it, the other side would lose data that it has not read yet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom_lab import errors
from lanloom_lab.errors import LabError, ProcessFailed
from lanloom_lab.plan import DhcpNetwork, KernelName, NodeSpec
from lanloom_lab.processes import until_done

LINE_MAX = 1 << 20
CHUNK = 1 << 15
"""Largest piece of a stream in one message; base64 makes it a third longer."""


class Request(Struct, frozen=True, tag_field="type", tag=lambda name: name.lower()):
    """Base of the messages that open a connection."""


class Exec(Request, frozen=True):
    """Run a program on a node, on a terminal if one is given.

    Followed by `Input` and `Terminal`; answered by `Output`… and one `Exited`.
    """

    node: str
    command: tuple[str, ...]
    terminal: "Terminal | None" = None


class RunInGuest(Request, frozen=True):
    """To the supervisor: run a shell command of one line in the guest of a machine.

    Answered by one `Output` and one `Exited`.
    """

    namespace: str
    name: str
    command: str


class Plug(Request, frozen=True):
    """To the inner daemon: build the switch with these DHCP networks."""

    dhcp: tuple[DhcpNetwork, ...]


class PowerOn(Request, frozen=True):
    """To the inner daemon: start this node."""

    node: NodeSpec


class PowerOff(Request, frozen=True):
    """To the inner daemon: end all processes of this node at once, as a power failure would."""

    name: str


class Survey(Request, frozen=True):
    """To the inner daemon: report the programs of each node. Answered by `Programs`."""


class Status(Request, frozen=True):
    """To the supervisor: report the state of the lab. Answered by `LabStatus`."""


class NodeAction(Request, frozen=True):
    """To the supervisor: execute an action on a node. Answered by `Done`."""

    action: Literal["add", "start", "stop", "reboot", "remove"]
    name: str


class Cut(Request, frozen=True):
    """To supervisor or inner daemon: disconnect the nodes from the API server, or reconnect them."""

    cut: bool


class LinkToConsole(Request, frozen=True):
    """To the supervisor: let one browser into the console. Answered by `Link`."""


class Down(Request, frozen=True):
    """End the lab, or to the inner daemon: its kernel. Answered by the end of the connection."""


class Message(Struct, frozen=True, tag_field="type", tag=lambda name: name.lower()):
    """Base of all messages after the request."""


class Input(Message, frozen=True):
    """A piece of standard input; an empty one is its end."""

    data: bytes


class Terminal(Message, frozen=True):
    """A terminal: the value of TERM, and its size in characters."""

    kind: str
    rows: int
    columns: int


class Output(Message, frozen=True):
    """A piece of the program's output."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class Exited(Message, frozen=True):
    """The program's exit status, 128 and more for a signal as in a shell."""

    status: int


class Progress(Message, frozen=True):
    """A step, for the waiting user."""

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


class Link(Message, frozen=True):
    """An address that can be used once and soon."""

    url: str


class LabStatus(Message, frozen=True):
    """What `lanloom lab status` shows. `server` is the API server's URL on the host; `started` is in epoch seconds.

    `console` is the URL of the console, which needs a link or a login.
    """

    kernel: KernelName
    reason: str
    server: str
    kubeconfig: str
    started: float
    nodes: tuple[NodeReport, ...]
    dhcp: tuple[DhcpNetwork, ...]
    version: str = ""
    console: str = ""


AnyRequest = (
    Exec | RunInGuest | Plug | PowerOn | PowerOff | Survey | Status | NodeAction | Cut | LinkToConsole | Down
)
AnyMessage = Input | Terminal | Output | Exited | Progress | Done | Failed | Programs | Link | LabStatus

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_messages: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


def encode(value: Struct) -> bytes:
    """Return one line of the protocol, with its end."""
    return _encoder.encode(value) + b"\n"


def decode_message(line: bytes) -> AnyMessage:
    """Return the message of a line. Raises msgspec.DecodeError."""
    return _messages.decode(line)


class Channel:
    """One connection. Sending to a closed connection is no error: the next `receive` reports it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, value: Struct) -> None:
        """Send a request or a message, and wait while the other side reads slowly."""
        try:
            self._writer.write(encode(value))
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive_request(self) -> AnyRequest | None:
        """Return the request that opens the connection, None if there is none."""
        line = await self._line()
        return _requests.decode(line) if line else None

    async def receive(self) -> AnyMessage | None:
        """Return the next message, None when the other side closed the connection."""
        line = await self._line()
        return _messages.decode(line) if line else None

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except (ConnectionError, asyncio.LimitOverrunError):
            return b""
        return line if line.endswith(b"\n") else b""

    def end(self) -> None:
        """Announce that no message follows, and continue to receive."""
        with suppress(OSError):
            self._writer.write_eof()

    async def finish(self) -> None:
        """End the responses, wait until the other side has closed the connection, and close it."""
        self.end()
        with suppress(ConnectionError):
            while await self._reader.read(CHUNK):
                pass
        await self.close()

    async def close(self) -> None:
        """Close the connection after all messages were sent."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


PATIENCE = 20.0
PAUSE = 0.2

Opener = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class InnerClient:
    """The client of the daemon behind `opener`, which opens a connection to it."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    async def wait(self) -> None:
        """Wait until the daemon answers; the caller sets the limit."""
        await until_done(self._answers)

    async def _answers(self) -> bool:
        try:
            await self.ask(Survey())
        except (OSError, LabError):
            return False
        return True

    async def ask(self, request: Struct) -> AnyMessage:
        """Return the response to a request. Raises the LabError of the daemon, or ProcessFailed when it has ended."""
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
        """Relay a request, and all messages of both sides until both have ended."""
        daemon = await self.converse(request)
        try:
            await asyncio.gather(_copy(caller, daemon), _copy(daemon, caller))
        finally:
            await daemon.close()

    async def converse(self, request: Struct) -> Channel:
        """Return a connection on which the request was sent. Raises ProcessFailed."""
        daemon = await self._open_patiently()
        await daemon.send(request)
        return daemon

    async def _open_patiently(self) -> Channel:
        """Open a connection, also if the kernel is busy for seconds and does not answer. Raises ProcessFailed."""
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
    """Return the exit status of the requested program, after all of its output. Raises LabError."""
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
    """Return the exception in a message."""
    kind = getattr(errors, failure.kind, ProcessFailed)
    return (
        kind(failure.problem, failure.remedy)
        if issubclass(kind, LabError)
        else ProcessFailed(failure.problem, failure.remedy)
    )

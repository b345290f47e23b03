"""How the parts of a lab talk: one request per connection, JSON lines both ways.

The command line asks the supervisor over a Unix socket; the supervisor asks the inner daemon, which may be inside
another kernel, over TCP in the lab's own network namespace. An `Exec` is relayed as it is. Small and stateless on
purpose. Whoever asked closes the connection, and ends the request by that; who answers says that nothing more comes and
waits for it: a connection that is closed while something is on its way to the closing side forgets, on the other side,
also what has not been read yet.
"""

import asyncio
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom_lab.plan import DhcpNetwork, KernelChoice, NodeSpec

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

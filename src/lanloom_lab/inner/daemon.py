"""The inner daemon: starts and stops nodes and runs programs on them, as the supervisor requests.

A program on a node has three streams or a terminal, and ends when its output is no longer read.
"""

import asyncio
import ctypes
import fcntl
import os
import pty
import struct
import termios
import traceback
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Literal

from lanloom_lab import protocol
from lanloom_lab.errors import LabError, Refused
from lanloom_lab.inner import node as nodes
from lanloom_lab.inner.node import NODE_ENVIRONMENT, Node
from lanloom_lab.inner.sandbox import ENVIRONMENT, adopt_orphans, kill_group
from lanloom_lab.inner.switch import Switch
from lanloom_lab.plan import INNER_ADDRESS, INNER_PORT, SUPERVISOR_ADDRESS, NodeSpec
from lanloom_lab.protocol import Channel


async def execute(channel: Channel, node: Node, request: protocol.Exec) -> None:
    """Run the requested program, relay its streams until it ends, and send its exit status."""
    if request.terminal is None:
        status = await _with_pipes(channel, node.sandbox.command(*request.command))
    else:
        # The session begins inside: out here, its process group would be unknown to a shell in there.
        command = node.sandbox.on_terminal(*request.command)
        status = await _on_terminal(channel, command, request.terminal)
    await channel.send(protocol.Exited(status if status >= 0 else 128 - status))


async def _with_pipes(channel: Channel, command: tuple[str, ...]) -> int:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=ENVIRONMENT | NODE_ENVIRONMENT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    listener = asyncio.create_task(_feed_pipe(channel, process, process.stdin))
    try:
        await asyncio.gather(
            _relay(channel, "stdout", process.stdout), _relay(channel, "stderr", process.stderr)
        )
        return await process.wait()
    finally:
        await _end(listener)


async def _feed_pipe(channel: Channel, process: Process, stdin: asyncio.StreamWriter) -> None:
    while message := await channel.receive():
        if isinstance(message, protocol.Input):
            with suppress(ConnectionError):
                if message.data:
                    stdin.write(message.data)
                    await stdin.drain()
                else:
                    stdin.close()
    kill_group(process)


async def _on_terminal(channel: Channel, command: tuple[str, ...], terminal: protocol.Terminal) -> int:
    ours, theirs = pty.openpty()
    try:
        resize(ours, terminal)
        process = await asyncio.create_subprocess_exec(
            *command,
            env=ENVIRONMENT | NODE_ENVIRONMENT | {"TERM": terminal.kind},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
    )
    listener = asyncio.create_task(_feed_terminal(channel, ours, transport))
    try:
        await _relay(channel, "stdout", reader)
        return await process.wait()
    finally:
        await _end(listener)


async def _feed_terminal(channel: Channel, ours: int, transport: asyncio.BaseTransport) -> None:
    while message := await channel.receive():
        match message:
            case protocol.Input(data):
                # A terminal's buffer takes what a person types at once.
                os.write(ours, data)
            case protocol.Terminal():
                resize(ours, message)
    # A closed terminal hangs up on its session.
    transport.close()


async def _end(task: asyncio.Task[None]) -> None:
    # Until it has ended, no other task can read what it reads.
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _relay(channel: Channel, name: Literal["stdout", "stderr"], stream: asyncio.StreamReader) -> None:
    # A terminal whose last program has gone reads as an error, not as an end.
    with suppress(OSError):
        while data := await stream.read(protocol.CHUNK):
            await channel.send(protocol.Output(name, data))


def resize(descriptor: int, terminal: protocol.Terminal) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))


POWER_OFF = 0x4321FEDC
"""RB_POWER_OFF of reboot(2)."""


class Daemon:
    """The nodes and the switch of one lab. `state` is the lab's state directory as seen from here."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._switch = Switch(state / "log")
        self._nodes: dict[str, nodes.Node] = {}

    async def serve(self, address: str, port: int) -> None:
        """Answer requests until cancelled."""
        adopt_orphans()
        server = await asyncio.start_server(self._accept, address, port, limit=protocol.LINE_MAX)
        async with server:
            await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        peer, *_ = writer.get_extra_info("peername")
        # The nodes are in the management network too, but they have no business here.
        if peer != SUPERVISOR_ADDRESS:
            await channel.close()
            return
        try:
            await self._answer(channel)
        except LabError as error:
            await channel.send(protocol.Failed(type(error).__name__, error.problem, error.remedy))
        except OSError as error:
            text = f"the lab's inner side failed: {error}"
            await channel.send(
                protocol.Failed("ProcessFailed", text, "See log/kernel.log in the lab's state.")
            )
        await channel.finish()

    async def _answer(self, channel: Channel) -> None:
        match await channel.receive_request():
            case protocol.Plug(networks):
                await self._switch.build(networks)
                await channel.send(protocol.Done())
            case protocol.Cut(cut):
                await self._switch.cut(cut)
                await channel.send(protocol.Done())
            case protocol.PowerOn(spec):
                await self._power_on(spec)
                await channel.send(protocol.Done())
            case protocol.PowerOff(name):
                if node := self._nodes.pop(name, None):
                    await node.power_off()
                await channel.send(protocol.Done())
            case protocol.Survey():
                await channel.send(self._survey())
            case protocol.Exec(name) as request:
                await execute(channel, self._node(name), request)
            case protocol.Down():
                halt()

    async def _power_on(self, spec: NodeSpec) -> None:
        if spec.name in self._nodes:
            raise Refused(f"the node {spec.name} runs already", "Nothing needs to be done.")
        self._nodes[spec.name] = await nodes.start(spec, self._state / "nodes" / spec.name)

    def _node(self, name: str) -> nodes.Node:
        if node := self._nodes.get(name):
            return node
        remedy = (
            f"`lanloom lab status` shows the nodes; `lanloom lab node start {name}` starts one that is off."
        )
        raise Refused(f"the node {name} does not run", remedy)

    def _survey(self) -> protocol.Programs:
        return protocol.Programs(
            {"": self._switch.report()} | {name: node.report() for name, node in self._nodes.items()}
        )


def halt() -> None:
    """End the kernel if this is its PID 1, else the daemon. No data is lost, because files are on the host."""
    if os.getpid() == 1:
        ctypes.CDLL(None).reboot(POWER_OFF)
    raise SystemExit


if __name__ == "__main__":
    try:
        asyncio.run(Daemon(Path("/mnt/state")).serve(INNER_ADDRESS, INNER_PORT))
    except Exception:
        traceback.print_exc()
    finally:
        halt()

"""Programs that somebody runs on a node: with three streams, or on a terminal. They end when nobody looks any more."""

import asyncio
import fcntl
import os
import pty
import struct
import termios
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Literal

from lanloom.lab import protocol
from lanloom.lab.inner.capsule import ENVIRONMENT
from lanloom.lab.inner.node import NODE_ENVIRONMENT, Node
from lanloom.lab.inner.program import kill_group
from lanloom.lab.protocol import Channel


async def execute(channel: Channel, node: Node, request: protocol.Exec) -> None:
    """Runs what is asked for, relays its streams until it ends, and sends its exit status."""
    if request.terminal is None:
        status = await _with_pipes(channel, node.capsule.command(*request.command))
    else:
        # The session begins inside: out here, its process group would be unknown to a shell in there.
        command = node.capsule.command("setsid", "--ctty", "--wait", *request.command)
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
    # Until it has ended, nobody else can read what it reads.
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _relay(channel: Channel, name: Literal["stdout", "stderr"], stream: asyncio.StreamReader) -> None:
    # A terminal whose last program has gone reads as an error, not as an end.
    with suppress(OSError):
        while data := await stream.read(protocol.CHUNK):
            await channel.send(protocol.Output(name, data))


def resize(descriptor: int, terminal: protocol.Terminal) -> None:
    """Gives a terminal its size."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))

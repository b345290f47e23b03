"""Running a program on a node from here, with the standard streams or the terminal of this process."""

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from lanloom.lab import protocol
from lanloom.lab.client import connect
from lanloom.lab.inside import hear
from lanloom.lab.layout import Layout
from lanloom.lab.protocol import Channel


async def execute(layout: Layout, node: str, command: Sequence[str]) -> int:
    """Runs a program on a node, on a terminal if this process has one; its exit status. Raises LabError."""
    terminal = _terminal() if sys.stdin.isatty() and sys.stdout.isatty() else None
    channel = await connect(layout)
    try:
        await channel.send(protocol.Exec(node, tuple(command), terminal))
        _send_input(channel, asyncio.get_running_loop())
        with _raw(channel) if terminal else nullcontext():
            return await hear(channel, node, _print)
    finally:
        await channel.close()


async def capture(layout: Layout, node: str, *command: str) -> tuple[int, str]:
    """Runs a program on a node without input; its exit status, and what it printed. Raises LabError."""
    channel = await connect(layout)
    printed: list[bytes] = []
    try:
        await channel.send(protocol.Exec(node, command))
        await channel.send(protocol.Input(b""))
        status = await hear(channel, node, lambda output: printed.append(output.data))
    finally:
        await channel.close()
    return status, b"".join(printed).decode(errors="replace")


def _print(output: protocol.Output) -> None:
    target = sys.stdout.buffer if output.stream == "stdout" else sys.stderr.buffer
    target.write(output.data)
    target.flush()


def _send_input(channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
    # A thread, because a file as standard input can't be awaited; a daemon, because a terminal may never end.
    def pump() -> None:
        data = b"-"
        with suppress(RuntimeError, OSError):
            while data:
                data = os.read(0, protocol.CHUNK)
                taken = threading.Event()
                loop.call_soon_threadsafe(send, data, taken)
                taken.wait()

    def send(data: bytes, taken: threading.Event) -> None:
        loop.create_task(channel.send(protocol.Input(data))).add_done_callback(lambda _: taken.set())

    threading.Thread(target=pump, daemon=True).start()


def _terminal() -> protocol.Terminal:
    size = os.get_terminal_size()
    return protocol.Terminal(os.environ.get("TERM", "dumb"), size.lines, size.columns)


@contextmanager
def _raw(channel: Channel) -> Iterator[None]:
    """Leaves all keys to the program on the node, and tells it when the window changes."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(0)
    tty.setraw(0)
    loop.add_signal_handler(signal.SIGWINCH, lambda: asyncio.ensure_future(channel.send(_terminal())))
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

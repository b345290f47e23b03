"""The command line's side of a running lab: requests, logs, and programs on a node with the streams of this process."""

import asyncio
import os
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec import Struct

from lanloom_lab import protocol
from lanloom_lab.errors import NotRunning, ProcessFailed, Refused
from lanloom_lab.layout import Layout, log_name
from lanloom_lab.processes import until
from lanloom_lab.protocol import AnyMessage, Channel, as_error, receive


async def execute(layout: Layout, node: str, command: Sequence[str]) -> int:
    """Run a program on a node, on a terminal if this process has one; return its exit status. Raises LabError."""
    terminal = _terminal() if sys.stdin.isatty() and sys.stdout.isatty() else None
    channel = await connect(layout)
    try:
        await channel.send(protocol.Exec(node, tuple(command), terminal))
        _send_input(channel, asyncio.get_running_loop())
        with _raw(channel) if terminal else nullcontext():
            return await receive(channel, node, _print)
    finally:
        await channel.close()


async def capture(layout: Layout, node: str, *command: str) -> tuple[int, str]:
    """Run a program on a node without input; return its exit status and its output. Raises LabError."""
    channel = await connect(layout)
    printed: list[bytes] = []
    try:
        await channel.send(protocol.Exec(node, command))
        await channel.send(protocol.Input(b""))
        status = await receive(channel, node, lambda output: printed.append(output.data))
    finally:
        await channel.close()
    return status, b"".join(printed).decode(errors="replace")


class Running:
    """A program that runs on a node, without input."""

    def __init__(self, channel: Channel, node: str) -> None:
        self._channel = channel
        self._node = node
        self._rest = b""

    async def line(self) -> str:
        """Return the next line that it prints. Raises LabError where it ends before."""
        while b"\n" not in self._rest:
            match await self._channel.receive():
                case protocol.Output("stdout", data):
                    self._rest += data
                case protocol.Output():
                    pass
                case protocol.Failed() as failure:
                    raise as_error(failure)
                case _:
                    raise ProcessFailed(f"a program on {self._node} ended early", "See `lanloom lab status`.")
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    async def finish(self) -> str:
        """End its input; what it prints then. Raises LabError."""
        await self._channel.send(protocol.Input(b""))
        printed = [self._rest]
        await receive(self._channel, self._node, lambda output: printed.append(output.data))
        return b"".join(printed).decode(errors="replace")


@asynccontextmanager
async def running(layout: Layout, node: str, *command: str) -> AsyncIterator[Running]:
    """Provide a program on a node, which is killed at the end of the block if it runs still. Raises LabError."""
    channel = await connect(layout)
    try:
        await channel.send(protocol.Exec(node, command))
        yield Running(channel, node)
    finally:
        await channel.close()


async def run_in_guest(layout: Layout, namespace: str, name: str, command: str) -> tuple[int, str]:
    """Run a shell command in the guest of a machine; return its exit status and its output. Raises LabError."""
    channel = await connect(layout)
    printed: list[bytes] = []
    try:
        await channel.send(protocol.RunInGuest(namespace, name, command))
        status = await receive(channel, name, lambda output: printed.append(output.data))
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
    """Pass all keys to the program on the node, and report changes of the window."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(0)
    tty.setraw(0)
    loop.add_signal_handler(signal.SIGWINCH, lambda: asyncio.ensure_future(channel.send(_terminal())))
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


PAUSE = 0.3


def find(layout: Layout, node: str, program: str) -> Path:
    """Return the log file of a program of a node. Raises Refused with the existing ones."""
    directory = layout.disk(node) / "log"
    known = {file.name: file for file in sorted(directory.glob("*.log"))}
    if not known:
        raise Refused(f"there are no logs of a node {node!r}", "See the nodes with `lanloom lab status`.")
    name = log_name(program)
    if name not in known:
        have = ", ".join(file.stem for file in known.values())
        raise Refused(f"{program!r} has no log on {node}", f"These have: {have}.")
    return known[name]


def read(log: Path, *, follow: bool, wait: Callable[[float], None] = time.sleep) -> Iterator[bytes]:
    """Yield the content of a log, and with `follow` forever what is added to it."""
    with log.open("rb") as file:
        while True:
            while piece := file.read(1 << 16):
                yield piece
            if not follow:
                return
            wait(PAUSE)


DOWN_TIMEOUT = 60.0


async def connect(layout: Layout) -> Channel:
    """Return a connection to the supervisor of a running lab. Raises NotRunning."""
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
    """Return the error for a lab that does not run, with the reason if it ended by itself."""
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
    """Return the response of the supervisor. Raises LabError."""
    channel = await connect(layout)
    try:
        await channel.send(request)
        answer = await channel.receive()
    finally:
        await channel.close()
    if answer is None:
        raise ProcessFailed("the lab ended before it answered", f"See {layout.logs / 'supervisor.log'}.")
    if isinstance(answer, protocol.Failed):
        raise as_error(answer)
    return answer


async def status(layout: Layout) -> protocol.LabStatus:
    """Return the state of the lab. Raises LabError."""
    answer = await ask(layout, protocol.Status())
    assert isinstance(answer, protocol.LabStatus)
    return answer


async def down(layout: Layout, *, keep: bool) -> bool:
    """End a lab, wait for its end, and remove its files unless they are to be kept; return whether one ran."""
    was_running = layout.runs()
    if was_running:
        channel = await connect(layout)
        await channel.send(protocol.Down())
        try:
            async with asyncio.timeout(DOWN_TIMEOUT):
                await channel.receive()
                await until(lambda: not layout.runs())
        except TimeoutError:
            raise ProcessFailed(
                "the lab does not end",
                f"See {layout.logs / 'supervisor.log'}; killing its supervisor ends all of it.",
            ) from None
        await channel.close()
    if not keep:
        layout.remove()
    return was_running

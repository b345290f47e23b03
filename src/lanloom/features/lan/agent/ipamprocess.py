"""Run an IPAM program: what it may see of the node, and the talk with it until it has ended.

It sees its own files and sockets, and nothing of the agent's; one that only an operator knows sees the network, and the
directories that the operator gave it. It gets all of its input, and may give a limited output.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from lanloom.features.lan.rules.ipamconfig import RESOLV_CONF
from lanloom.node.sandbox import Sandbox

LARGEST, LARGEST_COMPLAINT = 1 << 20, 1 << 16
"""Bytes of a result, and of what is said on standard error."""

_DYING_SECONDS = 2.0

Process = subprocess.Popen[bytes]

NETWORKS = Path("/var/lib/cni/networks")
"""Where host-local keeps the addresses of a network, in a directory of its name."""

_CONNECTED = tuple(map(Path, ("/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", RESOLV_CONF)))
_WHEREABOUTS = tuple(
    Path(place, "cni/net.d/whereabouts.d") for place in ("/etc", "/etc/kubernetes", "/host/etc")
)


class TooLarge(Exception):
    """More output than a program may give."""


class Ended(NamedTuple):
    """A program that has ended."""

    status: int
    output: bytes
    complaint: bytes


async def run(start: Callable[[], Process], text: bytes) -> Ended:
    """Give a program a text, and return what it said. `start` blocks; one that is cancelled is killed.

    Raises OSError and TooLarge.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_late)
        raise
    descriptor, exited = os.pidfd_open(process.pid), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, exited.set)
    try:
        return await _conversation(process, text, exited)
    except BaseException:
        process.kill()
        # One that hangs in the kernel dies later; nothing waits for that.
        with suppress(TimeoutError):
            await asyncio.wait_for(exited.wait(), _DYING_SECONDS)
        raise
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        process.poll()


async def _conversation(process: Process, text: bytes, exited: asyncio.Event) -> Ended:
    loop = asyncio.get_running_loop()
    output, complaint = _Output(LARGEST), _Output(LARGEST_COMPLAINT)
    transports: list[asyncio.BaseTransport] = []
    try:
        transports.append((await loop.connect_read_pipe(lambda: output, process.stdout))[0])
        transports.append((await loop.connect_read_pipe(lambda: complaint, process.stderr))[0])
        entrance, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        transports.append(entrance)
        entrance.write(text)
        entrance.write_eof()  # once all of it is written; a program may end without having read it
        await asyncio.gather(output.ended, complaint.ended)
        await exited.wait()
    finally:
        for transport in transports:
            transport.close()
    return Ended(process.wait(), bytes(output.text), bytes(complaint.text))


class _Output(asyncio.Protocol):
    """Collect an output; `ended` is when it was closed, or became too large."""

    def __init__(self, largest: int) -> None:
        self.text = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._largest = largest

    def data_received(self, data: bytes) -> None:
        """Do as the base says."""
        self.text += data
        if len(self.text) > self._largest and not self.ended.done():
            self.ended.set_exception(TooLarge())

    def connection_lost(self, exc: Exception | None) -> None:
        """Do as the base says."""
        if not self.ended.done():
            self.ended.set_result(None)


def _kill_late(starting: "asyncio.Future[Process]") -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class _View(Struct, frozen=True):
    readable: tuple[Path, ...] = ()
    on_network: bool = False


_VIEWS = {
    "host-local": _View((Path(RESOLV_CONF),)),
    "static": _View(),
    "dhcp": _View((Path("/run/cni"),)),  # the daemon's socket; its network is the daemon's matter
    "whereabouts": _View((*_WHEREABOUTS, Path("/etc/hostname"), *_CONNECTED), on_network=True),
}
_UNKNOWN = _View(_CONNECTED, on_network=True)


class IpamViews:
    """`sockets` is the directory of the agent's sockets, `state` that of programs' files.

    `networks` is where host-local kept its files as long as it ran with the agent's view of the node.
    """

    def __init__(self, sockets: Path | None, state: Path | None, *, networks: Path = NETWORKS) -> None:
        self._sockets = sockets
        self._state = state
        self._networks = networks

    def sandbox(self, program: str, network: str, programs: Path, given: tuple[Path, ...]) -> Sandbox:
        """Return what a program of the directory `programs` sees for a network of CNI. It may block.

        Raises OSError.
        """
        if program == "lanloom-ipam":
            view = _View((self._sockets,) if self._sockets is not None else ())
        else:
            view = _VIEWS.get(program, _UNKNOWN)
        writable = {path: path for path in given}
        if program == "host-local":
            writable[NETWORKS / network] = self._addresses_of(network)
        return Sandbox(readable=(programs, *view.readable), writable=writable, on_network=view.on_network)

    def _addresses_of(self, network: str) -> Path:
        """Show addresses that were given before; keep all else in the agent's own directory."""
        earlier = self._networks / network
        if self._state is None or earlier.is_dir():
            return earlier
        own = self._state / "host-local" / network
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return own

"""The program that runs a guest on a node: `python -m lanloom_lab.guests.launcher`, in the network namespace of a pod.

It does what virt-launcher does with libvirt: the pod's network, QEMU, and live migration by QMP. It gets calls on
standard input, and ends with its guest, or when nothing more can come.
"""

import asyncio
import os
import re
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct
from qemu.qmp import QMPClient, QMPError

from lanloom_lab.guests import calls, podnetwork
from lanloom_lab.guests.assets import GuestAssets
from lanloom_lab.guests.domain import Domain, Nic, command, device

BOOT_SECONDS = 180.0
COMMAND_SECONDS = 120.0
"""Limits for a machine that has much else to do; a boot takes seconds, a command milliseconds."""

SHOWN_LINES = 25
KEPT_LINES = 2000

_READY = re.compile(r"guest: ready ([0-9a-f-]{36})")
_DONE = re.compile(r"guest: done (\d+) (\d+)")


class GuestError(Exception):
    """A guest ended, or did not answer in time. Has the end of the console."""


class Output(Struct, frozen=True):
    """What a command printed, and its exit status."""

    status: int
    text: str


class Console:
    """The console of one QEMU. `moved` is a guest that has booted elsewhere."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, moved: bool) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader = reader
        self._writer = writer
        self._ready = moved
        self._boot_id = ""
        self._requests = 0
        self._lock = asyncio.Lock()
        self._unread: asyncio.Queue[str | None] = asyncio.Queue()

    async def follow(self) -> None:
        """Read what the guest prints, until QEMU closes the console."""
        try:
            async for line in self._reader:
                text = line.decode(errors="replace").rstrip("\r\n")
                self.lines.append(text)
                self._unread.put_nowait(text)
        finally:
            self._unread.put_nowait(None)

    async def run(self, command: str) -> Output:
        """Return the outcome of a shell command of one line. Raises GuestError."""
        if not command.isprintable():
            raise GuestError(f"a command of a guest is one line of printable characters, not {command!r}")
        async with self._lock:
            await self._boot()
            return await self._run(command)

    async def booted(self) -> str:
        """Return the identity of the boot, once the guest's first program runs. Raises GuestError."""
        async with self._lock:
            await self._boot()
        return self._boot_id

    async def _boot(self) -> None:
        if not self._ready:
            self._boot_id = (await self._find(_READY, BOOT_SECONDS, "the boot"))[1]
            self._ready = True

    async def _run(self, command: str) -> Output:
        self._requests += 1
        # What was asked before and elsewhere may still be on its way.
        while not self._unread.empty():
            if self._unread.get_nowait() is None:
                raise self.error(f"QEMU ended before {command}")
        self._writer.write(f"{self._requests} {command}\n".encode())
        await self._writer.drain()
        printed: list[str] = []
        done = await self._find(_DONE, COMMAND_SECONDS, command, printed)
        while int(done[1]) != self._requests:
            printed.clear()
            done = await self._find(_DONE, COMMAND_SECONDS, command, printed)
        return Output(int(done[2]), "\n".join(printed).strip())

    async def _find(
        self, wanted: re.Pattern[str], seconds: float, purpose: str, printed: list[str] | None = None
    ) -> re.Match[str]:
        """Return the next line that has `wanted`; those before it go to `printed`."""
        try:
            async with asyncio.timeout(seconds):
                while isinstance(line := await self._unread.get(), str):
                    if found := wanted.search(line):
                        return found
                    if printed is not None:
                        printed.append(line)
        except TimeoutError:
            raise self.error(f"{purpose} took longer than {seconds:.0f} s") from None
        raise self.error(f"QEMU ended during {purpose}")

    def error(self, message: str) -> GuestError:
        """Return an error with the end of the console."""
        end = list(self.lines)[-SHOWN_LINES:]
        return GuestError("\n".join([f"{message}; the console's end:", *end]))


ASSETS = Path("/opt/lanloom/guests")
"""Where a node sees what guests run on."""

PAUSE = 0.01
"""Between two looks at a migration."""

STOP_SECONDS = 10.0
UNPLUG_SECONDS = 20.0
LINE_MAX = 1 << 20

_SHARED = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}
"""The guest's memory stays where it is, in a file that both QEMUs have open: only devices are sent.

A copy of memory while the guest runs is not reliable without hardware virtualization: a write between QEMU's look at
the page and the copy is lost, and the guest hangs or panics on the other node.
"""

BANDWIDTH_MAX = 1 << 40
"""Bytes per second: no limit for what is sent here."""

_BEGINNING = ("none", "setup")
_OVER = ("completed", "failed", "cancelled")

Raw = dict[str, Any]


class Qemu:
    """A QEMU that runs."""

    def __init__(self, process: Process, qmp: QMPClient, console: Console, domain: Domain) -> None:
        self.process = process
        self.console = console
        self.domain = domain
        self._qmp = qmp

    @classmethod
    async def start(cls, domain: Domain, *, incoming: bool) -> "Qemu":
        """Start a domain. Raises OSError, QMPError."""
        taps = {nic.name: podnetwork.open_tap(nic.link) for nic in domain.nics if nic.link}
        ours, theirs = socket.socketpair()
        assets = GuestAssets(ASSETS)
        words = command(assets, domain, taps, theirs.fileno(), incoming=incoming)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                pass_fds=(*taps.values(), theirs.fileno()),
                env={**os.environ, **assets.environment},
            )
        finally:
            theirs.close()
            for descriptor in taps.values():
                os.close(descriptor)
        assert process.stdin is not None and process.stdout is not None
        qmp = QMPClient(domain.name)
        qmp.logger.propagate = False
        await qmp.connect(ours)
        qemu = cls(process, qmp, Console(process.stdout, process.stdin, moved=incoming), domain)
        for nic in domain.nics:
            if not nic.up and not incoming:
                await qemu.set_link(nic.name, up=False)
        return qemu

    async def receive(self, path: str) -> None:
        """Listen for a guest. Raises QMPError."""
        await self._qmp.execute("migrate-set-capabilities", _SHARED)
        await self._qmp.execute("migrate-incoming", {"uri": f"unix:{path}"})

    async def send(self, path: str, bandwidth: int | None) -> None:
        """Begin to send the guest: return when QEMU is sending. Raises QMPError, GuestError where it can't."""
        await self._qmp.execute("migrate-set-capabilities", _SHARED)
        limit = BANDWIDTH_MAX if bandwidth is None else bandwidth
        await self._qmp.execute("migrate-set-parameters", {"max-bandwidth": limit})
        await self._qmp.execute("migrate", {"uri": f"unix:{path}"})
        await self._sent(lambda status: status not in _BEGINNING)

    async def arrival(self) -> Raw:
        """Return what QEMU says when the guest has gone. Raises QMPError, GuestError where it stays."""
        return await self._sent(lambda status: status in _OVER)

    async def _sent(self, is_enough: Callable[[str], bool]) -> Raw:
        while True:
            found: Raw = await self._qmp.execute("query-migrate")  # type: ignore[assignment]
            status = str(found.get("status", "none"))
            if status in _OVER and status != "completed":
                raise GuestError(f"the migration {status}: {found.get('error-desc', 'no reason given')}")
            if is_enough(status):
                return found
            await asyncio.sleep(PAUSE)

    async def cancel(self) -> None:
        """Keep a guest that is being sent. Raises QMPError."""
        await self._qmp.execute("migrate_cancel")

    async def plug(self, nic: Nic) -> None:
        """Add a NIC. Raises OSError, QMPError."""
        if nic.link:
            descriptor = podnetwork.open_tap(nic.link)
            try:
                self._qmp.send_fd_scm(descriptor)
                await self._qmp.execute("getfd", {"fdname": nic.id})
            finally:
                os.close(descriptor)
            await self._qmp.execute("netdev_add", {"type": "tap", "id": f"{nic.id}-tap", "fd": nic.id})
        await self._qmp.execute("device_add", device(nic))
        self.domain = self.domain.with_nic(nic)
        if not nic.up:
            await self.set_link(nic.name, up=False)

    async def unplug(self, name: str) -> None:
        """Take a NIC away. Raises QMPError, GuestError where the guest does not let go of it."""
        nic = self._nic(name)
        with self._qmp.listener("DEVICE_DELETED") as gone:
            await self._qmp.execute("device_del", {"id": nic.id})
            try:
                async with asyncio.timeout(UNPLUG_SECONDS):
                    async for event in gone:
                        if f"'device': '{nic.id}'" in str(event["data"]):
                            break
            except TimeoutError:
                raise self.console.error(f"the guest does not let go of {name}") from None
        if nic.link:
            await self._qmp.execute("netdev_del", {"id": f"{nic.id}-tap"})
        self.domain = self.domain.without(name)

    async def set_link(self, name: str, *, up: bool) -> None:
        """Set a NIC's link state. Raises QMPError."""
        nic = self._nic(name)
        await self._qmp.execute("set_link", {"name": nic.id, "up": up})

    async def end(self) -> None:
        """End QEMU at once: nothing of a guest is kept."""
        for end in (self.process.terminate, self.process.kill):
            with suppress(ProcessLookupError):
                end()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self.process.wait()
                    return

    def _nic(self, name: str) -> Nic:
        nic = self.domain.nic(name)
        if nic is None:
            raise GuestError(f"the guest has no NIC {name}")
        return nic


class Launcher:
    """Carries out calls; `send` gets the answers."""

    def __init__(self, send: Callable[[calls.AnyAnswer], None], rng: Random) -> None:
        self._send = send
        self._rng = rng
        self._qemu: Qemu | None = None
        self._following: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()

    def take(self, call: calls.AnyCall) -> None:
        """Begin with a call."""
        task = asyncio.create_task(self._answer(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """End the guest, if there is one."""
        if self._qemu is not None:
            await self._qemu.end()

    async def _answer(self, call: calls.AnyCall) -> None:
        try:
            self._send(await self._carry_out(call))
        except (QMPError, GuestError, OSError, ValueError, msgspec.MsgspecError) as error:
            self._send(calls.Reply(number=call.number, error=str(error) or type(error).__name__))

    async def _carry_out(self, call: calls.AnyCall) -> calls.Reply:
        done = calls.Reply(number=call.number)
        if isinstance(call, calls.Start):
            return calls.Reply(number=call.number, mtus=await self._start(call))
        qemu = self._qemu
        if qemu is None:
            raise GuestError("no guest runs here")
        work: Awaitable[object]
        match call:
            case calls.Run(command=command):
                output = await qemu.console.run(command)
                return calls.Reply(number=call.number, status=output.status, text=output.text)
            case calls.Send(path=path, bandwidth=bandwidth):
                work = qemu.send(path, bandwidth)
            case calls.Arrival():
                found = await qemu.arrival()
                return calls.Reply(number=call.number, milliseconds=int(found.get("downtime", 0)))
            case calls.Receive(path=path):
                work = qemu.receive(path)
            case calls.Cancel():
                work = qemu.cancel()
            case calls.Plug(nic=nic):
                mtus = self._wire([nic.link])
                (wired,) = Domain(name="", memory="", nics=(nic,)).with_mtus(mtus).nics
                await qemu.plug(wired)
                return calls.Reply(number=call.number, mtus=mtus)
            case calls.Unplug(name=name):
                work = qemu.unplug(name)
            case calls.SetLink(name=name, up=up):
                work = qemu.set_link(name, up=up)
            case calls.Stop():
                work = qemu.end()
        await work
        return done

    async def _start(self, call: calls.Start) -> dict[str, int]:
        if self._qemu is not None:
            raise GuestError("a guest runs here already")
        mtus = self._wire([nic.link for nic in call.domain.nics])
        self._qemu = await Qemu.start(call.domain.with_mtus(mtus), incoming=call.incoming)
        self._following = asyncio.create_task(self._follow(self._qemu))
        return mtus

    def _wire(self, links: list[str]) -> dict[str, int]:
        """Wire interfaces of the pod; return the MTUs of all."""
        found = podnetwork.read_links()
        podnetwork.wire(filter(None, links), found, self._rng)
        return {name: link.mtu for name, link in found.items()}

    async def _follow(self, qemu: Qemu) -> None:
        await qemu.console.follow()
        status = await qemu.process.wait()
        end = deque(qemu.console.lines, maxlen=15)
        self._send(calls.Ended(status=status, text="\n".join(end)))
        self.ended.set()


async def run() -> None:
    """Carry out the calls of standard input, until the guest or the input has ended."""
    launcher = Launcher(_print, Random())
    reader = asyncio.StreamReader(limit=LINE_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    ended = asyncio.create_task(launcher.ended.wait())
    reading = asyncio.create_task(_read(reader, launcher))
    await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
    for task in (ended, reading):
        task.cancel()
    await launcher.end()


async def _read(reader: asyncio.StreamReader, launcher: Launcher) -> None:
    async for line in reader:
        launcher.take(calls.decode_call(line))


def _print(answer: calls.AnyAnswer) -> None:
    sys.stdout.write(f"{calls.encode(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run())

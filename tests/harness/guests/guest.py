"""A virtual machine for a test: QEMU without hardware virtualization, with commands on its serial console.

Its network device is a tap that is open already, given by file descriptor as libvirt does it, so a guest runs alike on
a macvtap's device and on a tap in a pod. Every wait is for a line of the console.
"""

import asyncio
import os
import re
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from tests.harness.guests.assets import GuestAssets

BOOT_SECONDS = 120.0
COMMAND_SECONDS = 60.0
STOP_SECONDS = 10.0
"""Limits for a machine that has much else to do; a boot takes about two seconds, a command milliseconds."""

SHOWN_LINES = 25

MEMORY_MIB = 128

_READY = re.compile(r"guest: ready ([0-9a-f-]{36})")
_DONE = re.compile(r"guest: done (\d+) (\d+)")


class GuestError(Exception):
    """A guest ended, did not answer in time, or a command of its failed. Has the end of the console."""


class Output(Struct, frozen=True):
    """What a command printed, and its exit status."""

    status: int
    text: str


class Guest:
    """A guest that has booted.

    `boot_id` is its kernel's identity, new with each boot; `console` has all lines so far.
    """

    def __init__(self, process: Process) -> None:
        self.boot_id = ""
        self.console: list[str] = []
        self._process = process
        self._requests = 0

    @property
    def pid(self) -> int:
        """QEMU's process."""
        return self._process.pid

    async def run(self, command: str) -> Output:
        """The outcome of a shell command of one line, run in the guest. Raises GuestError if none comes."""
        if not command.isprintable():
            raise GuestError(f"a command of a guest is one line of printable characters, not {command!r}")
        self._requests += 1
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._requests} {command}\n".encode())
        await self._process.stdin.drain()
        begun = len(self.console)
        done = await self._line(_DONE, COMMAND_SECONDS, command)
        if int(done[1]) != self._requests:
            raise self._error(f"the answer to request {done[1]} came, not to {self._requests}")
        return Output(int(done[2]), "\n".join(self.console[begun:-1]).strip())

    async def call(self, command: str) -> str:
        """What a command prints. Raises GuestError if it fails."""
        output = await self.run(command)
        if output.status != 0:
            raise self._error(f"{command!r} failed in the guest with exit status {output.status}")
        return output.text

    async def reaches(self, address: str) -> bool:
        """Whether an address answers one ping within a second."""
        return (await self.run(f"ping -c 1 -W 1 {address}")).status == 0

    async def neighbours(self) -> dict[str, str]:
        """The hardware addresses of the neighbours that are known, by address."""
        words = [line.split() for line in (await self.call("ip neigh show")).splitlines()]
        return {line[0]: line[line.index("lladdr") + 1] for line in words if "lladdr" in line}

    async def carrier_changes(self) -> int:
        """How often the link of the guest's device has gone down and up since its boot."""
        return int(await self.call("carrier_changes"))

    async def add_foreign(self, mac: str, address: str) -> None:
        """Give the guest a second interface behind its device, with frames from another hardware address.

        `address` is a CIDR; no other interface may have it or be in its network.
        """
        await self.call(f"add_foreign {mac} {address}")

    async def boot(self) -> None:
        """Wait for the first program of the guest. Raises GuestError."""
        self.boot_id = (await self._line(_READY, BOOT_SECONDS, "the boot"))[1]

    async def stop(self) -> None:
        """End QEMU; a guest that ended already is no error."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(ProcessLookupError):
                end()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    # Not wait() alone: it waits for the pipe's end, which QEMU may fill.
                    await self._process.communicate()
                    return

    async def _line(self, wanted: re.Pattern[str], seconds: float, purpose: str) -> re.Match[str]:
        """The next line of the console that has `wanted`."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                async for line in self._process.stdout:
                    self.console.append(line.decode(errors="replace").rstrip("\r\n"))
                    if found := wanted.search(self.console[-1]):
                        return found
        except TimeoutError:
            raise self._error(f"{purpose} took longer than {seconds:.0f} s") from None
        raise self._error(f"QEMU ended during {purpose} with status {await self._process.wait()}")

    def _error(self, message: str) -> GuestError:
        return GuestError("\n".join([f"{message}; the console's end:", *self.console[-SHOWN_LINES:]]))


@asynccontextmanager
async def guest(
    assets: GuestAssets,
    *,
    namespace: Path,
    tap: Path,
    mac: str,
    mtu: int,
    address: str,
    options: Sequence[str] = (),
) -> AsyncIterator[Guest]:
    """A guest that has booted, and ends with the block. Raises GuestError, OSError where the tap can't be opened.

    QEMU runs in the network namespace at the path; `tap` is the device of a macvtap; `mac` and `mtu` are those
    of the guest's interface, `address` its CIDR. `options` are further ones of QEMU's.
    """
    descriptor = os.open(tap, os.O_RDWR | os.O_NONBLOCK)
    try:
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net={namespace}", "setpriv", "--pdeathsig", "KILL"),
            *command(assets, descriptor, mac, mtu, address),
            *options,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            pass_fds=(descriptor,),
            env={**os.environ, **assets.environment},
        )
    finally:
        # From now on it is QEMU's alone.
        os.close(descriptor)
    machine = Guest(process)
    try:
        await machine.boot()
        yield machine
    finally:
        await machine.stop()


def command(assets: GuestAssets, tap: int, mac: str, mtu: int, address: str) -> tuple[str, ...]:
    """The words that start QEMU."""
    device = f"virtio-net-pci,netdev=lan,mac={mac},host_mtu={mtu},romfile="
    parameters = f"console=ttyS0 quiet panic=-1 guest_address={address}"
    return (
        *assets.qemu,
        *("-machine", "pc", "-accel", "tcg", "-m", str(MEMORY_MIB), "-nodefaults", "-no-reboot"),
        *("-display", "none", "-serial", "stdio", "-monitor", "none"),
        *("-kernel", str(assets.kernel), "-initrd", str(assets.initramfs), "-append", parameters),
        *("-netdev", f"tap,id=lan,fd={tap}", "-device", device),
    )

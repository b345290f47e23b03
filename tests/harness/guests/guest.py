"""A virtual machine for a test: QEMU without hardware virtualization, with commands on its serial console.

Its network device is a tap that is open already, given by file descriptor as libvirt does it, so a guest runs alike on
a macvtap's device and on a tap in a pod. Every wait is for a line of the console.
"""

import asyncio
import os
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from lanloom_lab.guests.assets import GuestAssets
from lanloom_lab.guests.domain import ADDRESS_PARAMETER, KERNEL_PARAMETERS
from lanloom_lab.guests.launcher import Console, Output

STOP_SECONDS = 10.0
"""Limit for a machine that has much else to do."""

MEMORY_MIB = 128


class Guest:
    """A guest that has booted.

    `boot_id` is its kernel's identity, new with each boot.
    """

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.boot_id = ""
        self._process = process
        self._console = Console(process.stdout, process.stdin, moved=False)
        self._following = asyncio.create_task(self._console.follow())

    @property
    def pid(self) -> int:
        """QEMU's process."""
        return self._process.pid

    async def run(self, command: str) -> Output:
        """The outcome of a shell command of one line, run in the guest. Raises GuestError if none comes."""
        return await self._console.run(command)

    async def call(self, command: str) -> str:
        """What a command prints. Raises GuestError if it fails."""
        output = await self.run(command)
        if output.status != 0:
            raise self._console.error(f"{command!r} failed in the guest with exit status {output.status}")
        return output.text

    async def reaches(self, address: str) -> bool:
        """Whether an address answers one ping, for which a guest on a busy machine has five seconds."""
        return (await self.run(f"ping -c 1 -W 5 {address}")).status == 0

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
        self.boot_id = await self._console.booted()

    async def stop(self) -> None:
        """End QEMU; a guest that ended already is no error."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(ProcessLookupError):
                end()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.gather(self._process.wait(), self._following)
                    return


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
    parameters = f"{KERNEL_PARAMETERS} {ADDRESS_PARAMETER}_eth0={address}"
    return (
        *assets.qemu,
        *("-machine", "pc", "-accel", "tcg", "-m", str(MEMORY_MIB), "-nodefaults", "-no-reboot"),
        *("-display", "none", "-serial", "stdio", "-monitor", "none"),
        *("-kernel", str(assets.kernel), "-initrd", str(assets.initramfs), "-append", parameters),
        *("-netdev", f"tap,id=lan,fd={tap}", "-device", device),
    )

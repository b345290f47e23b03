"""How a guest fails, on programs that stand in for QEMU."""

import asyncio
from asyncio.subprocess import PIPE

import pytest

from tests.harness.guests.guest import Guest, GuestError

BOOT = "echo guest: ready 00000000-0000-4000-8000-000000000001; "


async def started(script: str) -> Guest:
    """A guest that is a shell script on its console."""
    return Guest(await asyncio.create_subprocess_exec("sh", "-c", script, stdin=PIPE, stdout=PIPE))


async def test_ends_early() -> None:
    """A QEMU that ends before its guest has booted is an error with its status and what it printed."""
    machine = await started("echo no such tap; exit 3")
    with pytest.raises(GuestError, match=r"(?s)during the boot with status 3.*no such tap"):
        await machine.boot()
    await machine.stop()


async def test_commands() -> None:
    """A command's outcome is what comes before its end mark; other lines and carriage returns do not matter."""
    machine = await started(
        BOOT + r"read number line; printf '%s\r\n\nguest: done %s 4\n' " + '"$line" "$number"; exec cat'
    )
    await machine.boot()
    assert machine.boot_id == "00000000-0000-4000-8000-000000000001"
    output = await machine.run("ping -c 1 172.16.0.1")
    assert (output.status, output.text) == (4, "ping -c 1 172.16.0.1")
    await machine.stop()
    await machine.stop()


async def test_failed_command() -> None:
    """A command that fails where it must not is named with its status, and so is the end of QEMU meanwhile."""
    machine = await started(BOOT + "read number line; echo guest: done $number 1; read number line")
    await machine.boot()
    with pytest.raises(GuestError, match="'carrier_changes' failed in the guest with exit status 1"):
        await machine.carrier_changes()
    with pytest.raises(GuestError, match="QEMU ended during ip address with status 0"):
        await machine.run("ip address")
    await machine.stop()


@pytest.mark.parametrize("command", ["true\nfalse", "a\0b", "\x1b[A"])
async def test_bad_commands(command: str) -> None:
    """A command that is not one line of printable characters never reaches the console."""
    machine = await started(BOOT + "exec cat")
    await machine.boot()
    with pytest.raises(GuestError, match="one line of printable characters"):
        await machine.run(command)
    await machine.stop()

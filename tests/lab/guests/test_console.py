"""Commands on the console of a guest, on programs that stand in for QEMU."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lanloom_lab.guests.assets import INIT
from lanloom_lab.guests.launcher import Console, GuestError

BOOT = "echo guest: ready 00000000-0000-4000-8000-000000000001; "
ECHO = r"while read -r number line; do printf '%s\r\n\nguest: done %s 4\n' " + '"$line" "$number"; done'


@asynccontextmanager
async def console(script: str, *, moved: bool = False) -> AsyncIterator[Console]:
    """The console of a guest that is a shell script."""
    process: Process = await asyncio.create_subprocess_exec("sh", "-c", script, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None and process.stdout is not None
    made = Console(process.stdout, process.stdin, moved=moved)
    following = asyncio.create_task(made.follow())
    try:
        yield made
    finally:
        process.stdin.close()
        await following
        await process.wait()


async def test_ends_early() -> None:
    """A QEMU that ends before its guest has booted is an error with what it printed."""
    async with console("echo no such tap; exit 3") as guest:
        with pytest.raises(GuestError, match=r"(?s)ended during the boot.*no such tap"):
            await guest.booted()


async def test_commands() -> None:
    """A command's outcome is what comes before its end mark; other lines and carriage returns do not matter."""
    async with console(BOOT + ECHO) as guest:
        assert await guest.booted() == "00000000-0000-4000-8000-000000000001"
        for command in ("ping -c 1 172.16.0.1", "ip address"):
            output = await guest.run(command)
            assert (output.status, output.text) == (4, command)


async def test_commands_at_once() -> None:
    """Commands of several callers are run one after the other, each with its own outcome."""
    async with console(BOOT + ECHO) as guest:
        outputs = await asyncio.gather(*(guest.run(f"command {number}") for number in range(5)))
    assert [output.text for output in outputs] == [f"command {number}" for number in range(5)]


async def test_a_guest_that_came_from_elsewhere() -> None:
    """The console of a guest that has booted elsewhere is used at once, and an older command's end is no answer."""
    async with console("echo guest: done 7 0; " + ECHO, moved=True) as guest:
        assert (await guest.run("boot_id")).text == "boot_id"


async def test_the_end_during_a_command() -> None:
    """The end of QEMU during a command is an error that names the command."""
    async with console(BOOT + "read number line") as guest:
        with pytest.raises(GuestError, match="QEMU ended during ip address"):
            await guest.run("ip address")


@pytest.mark.parametrize("command", ["true\nfalse", "a\0b", "\x1b[A"])
async def test_bad_commands(command: str) -> None:
    """A command that is not one line of printable characters never reaches the console."""
    async with console(BOOT + "exec cat") as guest:
        with pytest.raises(GuestError, match="one line of printable characters"):
            await guest.run(command)


async def test_commands_that_the_shell_refuses() -> None:
    """A command with an error in it, or one that ends its shell, ends with its status, and the guest goes on."""
    _, loop, rest = INIT.read_text().partition("while IFS")
    async with console(f"{BOOT}{loop}{rest.partition('poweroff')[0]}") as guest:
        for command, status in (('echo "', 2), ("a;; b", 2), ("exit 3", 3), ("echo ok", 0)):
            assert (await guest.run(command)).status == status

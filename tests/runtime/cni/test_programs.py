"""CNI programs in the runtime's directory: put there, kept there, next to programs of others."""

import asyncio
from pathlib import Path

import pytest

from lanloom.runtime.cni.programs import (
    ForeignProgram,
    NoShim,
    install,
    keep_installed,
    program,
    socket_in,
)

PROGRAM = b"#!/bin/sh\n# lanloom's\n"


def test_an_older_program_is_replaced(tmp_path: Path) -> None:
    """A program of Lanloom's, of another version, is replaced; the same one is left alone."""
    (tmp_path / "macvtap").write_bytes(b"lanloom-cni of old")
    assert install(tmp_path, "macvtap", PROGRAM)
    assert (tmp_path / "macvtap").read_bytes() == PROGRAM
    assert not install(tmp_path, "macvtap", PROGRAM)


@pytest.mark.parametrize("content", [b"\x7fELF of somebody else", b"", b"lanloom" + b"\0" * (1 << 22)])
def test_a_program_of_somebody_else_stays(tmp_path: Path, content: bytes) -> None:
    """A program that is not Lanloom's is never overwritten; the error says what to do."""
    (tmp_path / "macvtap").write_bytes(content)
    with pytest.raises(ForeignProgram, match="left alone; stop what installs it"):
        install(tmp_path, "macvtap", PROGRAM)
    assert (tmp_path / "macvtap").read_bytes() == content


def test_a_link_to_a_program_of_somebody_else_stays(tmp_path: Path) -> None:
    """A link counts as what it leads to; a directory is none of ours."""
    (tmp_path / "other").write_bytes(b"somebody's")
    (tmp_path / "macvtap").symlink_to("other")
    (tmp_path / "k8slanveth").mkdir()
    for name in ("macvtap", "k8slanveth"):
        with pytest.raises(ForeignProgram):
            install(tmp_path, name, PROGRAM)


async def test_one_that_cannot_be_installed_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """The other programs are put into place; the part counts as missing until the last one is."""
    (tmp_path / "macvtap").write_bytes(b"somebody's")
    told: list[tuple[str, bool]] = []
    seen = asyncio.Event()

    def observe(part: str, there: bool) -> None:
        told.append((part, there))
        seen.set()

    names = ("macvtap", "k8slanveth")
    task = asyncio.create_task(keep_installed(names, lambda: PROGRAM, tmp_path, observe, every=0.001))
    await seen.wait()
    assert told[0] == ("plugin", False)
    assert (tmp_path / "k8slanveth").read_bytes() == PROGRAM
    (tmp_path / "macvtap").unlink()
    while not told[-1][1]:
        seen.clear()
        await seen.wait()
    task.cancel()
    assert (tmp_path / "macvtap").read_bytes() == PROGRAM


async def test_a_shim_that_is_missing(tmp_path: Path) -> None:
    """Without a shim nothing is installed, what is there stays, and the part counts as missing until there is one."""
    shim = tmp_path / "shim"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/lanloom-ipam").write_bytes(PROGRAM)
    told: list[bool] = []
    seen = asyncio.Event()

    def observe(_part: str, there: bool) -> None:
        told.append(there)
        seen.set()

    def content() -> bytes:
        return program(tmp_path / "cni.sock", shim)

    task = asyncio.create_task(
        keep_installed(("lanloom-ipam",), content, tmp_path / "bin", observe, every=0.001)
    )
    await seen.wait()
    assert told == [False] and (tmp_path / "bin/lanloom-ipam").read_bytes() == PROGRAM
    shim.write_bytes(SHIM)
    while not told[-1]:
        seen.clear()
        await seen.wait()
    task.cancel()
    assert socket_in((tmp_path / "bin/lanloom-ipam").read_bytes()) == tmp_path / "cni.sock"


SHIM = b"ELF lanloom-cni-shim 1 " + b"\0" * 109 + b"more"


def test_the_socket_of_a_program(tmp_path: Path) -> None:
    """The path of the agent's socket takes the place that the shim has for it, and can be read from it."""
    (tmp_path / "shim").write_bytes(SHIM)
    path = tmp_path / ("a" * (106 - len(str(tmp_path))))
    content = program(path, tmp_path / "shim")
    assert len(content) == len(SHIM) and content.endswith(b"\0more")
    assert socket_in(content) == path
    assert socket_in(b"#!/bin/sh\n# lanloom's of old") is None
    with pytest.raises(ValueError, match="too long"):
        program(tmp_path / ("a" * 107), tmp_path / "shim")


@pytest.mark.parametrize("content", [b"", b"lanloom-cni-shim 2 " + b"\0" * 200, SHIM + SHIM])
def test_a_shim_of_another_version(tmp_path: Path, content: bytes) -> None:
    """A shim that speaks another protocol is not installed; the message says where one is to be had."""
    (tmp_path / "shim").write_bytes(content)
    with pytest.raises(NoShim, match="is of another version; take Lanloom's image"):
        program(tmp_path / "cni.sock", tmp_path / "shim")


def test_what_a_dead_agent_left_half_written(tmp_path: Path) -> None:
    """A draft of a program whose agent died goes with the next installation; those of other programs stay."""
    (tmp_path / ".macvtap.tmp-0a").write_bytes(b"ha")
    (tmp_path / ".bridge.tmp-0a").write_bytes(b"somebody's")
    assert install(tmp_path, "macvtap", PROGRAM)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bridge.tmp-0a", "macvtap"]


def test_a_program_without_its_mode(tmp_path: Path) -> None:
    """A program that lost its mode is installed again."""
    install(tmp_path, "lanloom-ipam", PROGRAM)
    (tmp_path / "lanloom-ipam").chmod(0o700)
    assert install(tmp_path, "lanloom-ipam", PROGRAM)
    assert (tmp_path / "lanloom-ipam").stat().st_mode & 0o777 == 0o755

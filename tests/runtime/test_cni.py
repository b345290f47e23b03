"""CNI programs in the runtime's directory: put there, kept there, and beside programs of others."""

import asyncio
from pathlib import Path

import pytest

from lanloom.runtime.cni import ForeignProgram, install, keep_installed

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

    programs = {"macvtap": PROGRAM, "k8slanveth": PROGRAM}
    task = asyncio.create_task(keep_installed(programs, tmp_path, observe, every=0.001))
    await seen.wait()
    assert told[0] == ("plugin", False)
    assert (tmp_path / "k8slanveth").read_bytes() == PROGRAM
    (tmp_path / "macvtap").unlink()
    while not told[-1][1]:
        seen.clear()
        await seen.wait()
    task.cancel()
    assert (tmp_path / "macvtap").read_bytes() == PROGRAM

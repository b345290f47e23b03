"""The parts of a guest's files that are made here."""

from pathlib import Path

import pytest

from lanloom_lab.errors import AssetError
from lanloom_lab.guests.assets import Archive, module_order, needed_libraries


def test_the_loader_is_no_library() -> None:
    """The loader, which lists itself by an absolute path, is not among the libraries, nor is what has no file."""
    listed = (
        "\tlinux-vdso.so.1 (0x00007fff)\n"
        "\tlibz.so.1 => /tree/usr/lib/libz.so.1 (0x00007f00)\n"
        "\t/lib64/ld-linux-x86-64.so.2 => /tree/lib/ld-linux-x86-64.so.2 (0x00007f01)\n"
    )
    assert needed_libraries(listed) == {"libz.so.1": Path("/tree/usr/lib/libz.so.1")}


def test_a_missing_library() -> None:
    """A library that no package has is named."""
    with pytest.raises(AssetError, match=r"libodd\.so\.3"):
        needed_libraries("\tlibodd.so.3 => not found\n")


def test_modules_in_order(tmp_path: Path) -> None:
    """A module comes after those that it depends on, each comes once, and one that is missing is named."""
    folder = tmp_path / "lib/modules/6.1/kernel"
    folder.mkdir(parents=True)
    for name, needed in {"a-x": "b,c", "b": "c", "c": "", "d": ""}.items():
        (folder / f"{name}.ko").write_bytes(b"\x7fELF\0license=GPL\0depends=" + needed.encode() + b"\0more")
    assert [path.stem for path in module_order(tmp_path, ("a_x", "b"))] == ["c", "b", "a-x"]
    with pytest.raises(AssetError, match="no module e"):
        list(module_order(tmp_path, ("e",)))


def test_archive() -> None:
    """Names and contents of an archive begin at multiples of four bytes, and it ends with the trailer."""
    archive = Archive()
    archive.add("init", 0o100755, b"#!/bin/sh\n")
    data = archive.finished()
    assert data[:6] == b"070701"
    assert data[110:115] == b"init\0"
    assert data[116:126] == b"#!/bin/sh\n"
    assert data[128:134] == b"070701"
    assert data.rstrip(b"\0").endswith(b"TRAILER!!!")

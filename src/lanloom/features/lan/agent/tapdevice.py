"""The character devices of macvtaps: `/dev/tapN` of the node, for a guest's process.

N is the link's index, which every network namespace gives by itself, while `/dev` is one for the node: two macvtaps of
one index share a path silently. So the number of a device is taken from sysfs, and the file at the path is made or
corrected by it. sysfs has it under the link's name only for links of its own namespace. For one in a pod there is the
list of all devices of the node, whatever their namespace, which takes longer the more there are.
"""

import os
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from lanloom.node.errors import LinkError

GUEST = 107
"""User and group of QEMU in KubeVirt's images."""

MODE = 0o660

READINGS = 5
"""How often the kernel's list is read for a device that is not in it: it may skip an entry while others are removed."""

_NUMBERS = Path("/sys/dev/char")
"""The list of the kernel."""

_TARGET = re.compile(r".*/macvtap/tap(\d+)")


class _Entry(Struct, frozen=True):
    """A device in the kernel's list; the index is 0 for one that is no macvtap."""

    index: int
    number: int


class TapDevices:
    """Devices below `devices`, with the list of the kernel."""

    def __init__(self, devices: Path = Path("/dev")) -> None:
        self._devices = devices
        self._known: dict[tuple[str, int], _Entry] | None = None
        self._lock = Lock()

    def path(self, index: int) -> Path:
        """Return where the device of a macvtap is."""
        return self._devices / f"tap{index}"

    def has(self, index: int) -> bool:
        """Return whether a macvtap of the node has an index, in whatever namespace."""
        with self._lock:
            return any(entry.index == index for entry in self._all().values())

    def ensure(self, indices: Collection[int], *, quick: bool = False) -> None:
        """Make or correct the devices of macvtaps, with the owner and mode that a guest's process needs.

        The kernel makes the file in a devtmpfs, with root as its owner. A `quick` look takes a file whose number is
        that of a macvtap with its index, and reads the list of all devices only for others. Raises LinkError.
        """
        filed = {index: self._filed(index) if quick else 0 for index in indices}
        listed = self._listed([index for index, number in filed.items() if not number])
        for index, number in filed.items():
            self._ensure(index, number or self._only(index, listed[index]))

    def _ensure(self, index: int, number: int) -> None:
        path = self.path(index)
        try:
            status = _status(path)
            if status is not None and not (stat.S_ISCHR(status.st_mode) and status.st_rdev == number):
                path.unlink()
                status = None
            if status is None:
                os.mknod(path, stat.S_IFCHR | MODE, number)
            if status is None or (status.st_uid, status.st_gid) != (GUEST, GUEST):
                os.chown(path, GUEST, GUEST, follow_symlinks=False)
            if status is None or stat.S_IMODE(status.st_mode) != MODE:
                path.chmod(MODE)
        except OSError as error:
            raise LinkError(
                f"can't prepare the device {path}: {error.strerror}; the agent needs the host's /dev and the rights "
                "MKNOD, CHOWN and FOWNER"
            ) from error

    def forget(self, index: int) -> None:
        """Remove the file of a macvtap that is gone. Raises LinkError."""
        path = self.path(index)
        try:
            status = _status(path)
            if status is None or not stat.S_ISCHR(status.st_mode) or self.has(index):
                return
            path.unlink(missing_ok=True)
        except OSError as error:
            raise LinkError(f"can't remove the device {path}: {error.strerror}") from error

    def _filed(self, index: int) -> int:
        """Return the number that the file has, 0 unless it is that of a macvtap with this index."""
        status = _status(self.path(index))
        if status is None or not stat.S_ISCHR(status.st_mode):
            return 0
        entry = _NUMBERS / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        with suppress(OSError):
            match = _TARGET.fullmatch(str(entry.readlink()))
            return status.st_rdev if match and int(match[1]) == index else 0
        return 0

    def _listed(self, indices: Collection[int]) -> dict[int, set[int]]:
        """Return the numbers of all macvtaps of the node with these indices, by index."""
        found: dict[int, set[int]] = {index: set() for index in indices}
        for _ in range(READINGS):
            if all(found.values()):
                break
            with self._lock:
                for entry in self._all().values():
                    if entry.index in found:
                        found[entry.index].add(entry.number)
        return found

    def _only(self, index: int, numbers: set[int]) -> int:
        """Return the number of the one macvtap with this index.

        Raises LinkError where there is none, or another one.
        """
        if len(numbers) > 1:
            raise LinkError(
                f"{len(numbers)} macvtaps of the node have the index {index}, in several network namespaces; delete "
                "those that Lanloom did not make"
            )
        if not numbers:
            status = _status(self.path(index))
            raise LinkError(
                f"the kernel lists no macvtap with the index {index}; the agent needs the host's /sys"
                + ("" if status is None else f", or {self.path(index)} is a leftover")
            )
        return next(iter(numbers))

    def _all(self) -> dict[tuple[str, int], _Entry]:
        """Return all macvtaps. Only entries of the kernel's list that are new since the last look are followed."""
        known, names = self._known or {}, self._names()
        for name in known.keys() - names:
            del known[name]
        for name in names - known.keys():
            if (entry := self._followed(name[0])) is not None:
                known[name] = entry
        self._known = known
        return known

    def _names(self) -> set[tuple[str, int]]:
        """Name and inode of each entry of the kernel's list that may be a macvtap: another one has another inode."""
        with suppress(FileNotFoundError), os.scandir(_NUMBERS) as entries:
            prefixes = _majors()
            return {(entry.name, entry.inode()) for entry in entries if entry.name.startswith(prefixes)}
        return set()

    def _followed(self, name: str) -> _Entry | None:
        with suppress(OSError):
            match = _TARGET.fullmatch(str((_NUMBERS / name).readlink()))
            major, minor = name.split(":")
            return _Entry(int(match[1]) if match else 0, os.makedev(int(major), int(minor)))
        return None


def _majors() -> tuple[str, ...]:
    """Return what device numbers of macvtaps begin with; an empty text, for all, where that can't be read."""
    with suppress(OSError):
        lines = Path("/proc/devices").read_bytes().splitlines()
        return tuple(f"{int(line.split()[0])}:" for line in lines if line.endswith(b" macvtap")) or ("",)
    return ("",)


def _status(path: Path) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return path.lstat()
    return None

"""The character devices of macvtaps: `/dev/tapN` of the node, for a guest's process.

N is the link's index, which every network namespace gives by itself, while `/dev` is one for the node: two macvtaps of
one index share a path silently. So the number of a device is taken from sysfs, which lists all devices of the node
whatever their namespace, and the file at the path is made or corrected by it.
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from lanloom.features.lan.agent.ports import Tap
from lanloom.node.errors import LinkError

GUEST = 107
"""User and group of QEMU in KubeVirt's images."""

MODE = 0o660

READINGS = 5
"""How often the kernel's list is read for a device that is not in it: it may skip an entry while others are removed."""

_TARGET = re.compile(r".*/macvtap/tap(\d+)")


class TapDevices:
    """Devices below `devices` (/dev), with the kernel's list below `system` (/sys)."""

    def __init__(self, devices: Path = Path("/dev"), system: Path = Path("/sys")) -> None:
        self._devices = devices
        self._numbers = system / "dev/char"

    def path(self, index: int) -> Path:
        """Where the device of a macvtap is."""
        return self._devices / f"tap{index}"

    def indices(self) -> frozenset[int]:
        """The indices of all macvtaps of the node, in whatever namespace."""
        return frozenset(index for index, _ in self._all())

    def ensure(self, index: int, *, quick: bool = False) -> Tap:
        """The device of a macvtap, with the owner and mode that a guest's process needs. Raises LinkError.

        The kernel makes the file in a devtmpfs, and makes it anew, with root as its owner, when the link moves. A
        `quick` look takes a file whose number is that of a macvtap with this index, and reads no list of all devices.
        """
        path = self.path(index)
        number = (self._filed(index) if quick else 0) or self._number(index)
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
        return Tap(str(path), os.major(number), os.minor(number))

    def forget(self, index: int) -> None:
        """Removes the file of a macvtap that is gone. Raises LinkError."""
        if index in self.indices():
            return
        path = self.path(index)
        try:
            if (status := _status(path)) is not None and stat.S_ISCHR(status.st_mode):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise LinkError(f"can't remove the device {path}: {error.strerror}") from error

    def _filed(self, index: int) -> int:
        """The number that the file has, 0 unless it is that of a macvtap with this index."""
        status = _status(self.path(index))
        if status is None or not stat.S_ISCHR(status.st_mode):
            return 0
        entry = self._numbers / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        with suppress(OSError):
            match = _TARGET.fullmatch(str(entry.readlink()))
            return status.st_rdev if match and int(match[1]) == index else 0
        return 0

    def _number(self, index: int) -> int:
        """The number of the one macvtap with this index; the file at the path says which to look at first."""
        status = _status(self.path(index))
        numbers: set[int] = set()
        for _ in range(READINGS):
            numbers |= {number for found, number in self._all() if found == index}
            if numbers:
                break
        if len(numbers) > 1:
            raise LinkError(
                f"{len(numbers)} macvtaps of the node have the index {index}, in several network namespaces; delete "
                "those that Lanloom did not make"
            )
        if not numbers:
            raise LinkError(
                f"the kernel lists no macvtap with the index {index}; the agent needs the host's /sys"
                + ("" if status is None else f", or {self.path(index)} is a leftover")
            )
        return numbers.pop()

    def _all(self) -> list[tuple[int, int]]:
        """Index and device number of all macvtaps."""
        found = []
        majors = {f"{number}:" for number in _majors()}
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._numbers):
                if majors and entry.name[: entry.name.index(":") + 1] not in majors:
                    continue
                with suppress(OSError):
                    if match := _TARGET.fullmatch(str(Path(entry.path).readlink())):
                        major, minor = entry.name.split(":")
                        found.append((int(match[1]), os.makedev(int(major), int(minor))))
        return found


def _majors() -> set[int]:
    """The major numbers that the kernel gave to macvtap; empty where it can't be read, for a look at all devices."""
    with suppress(OSError):
        lines = Path("/proc/devices").read_text().splitlines()
        return {int(line.split()[0]) for line in lines if line.split()[1:] == ["macvtap"]}
    return set()


def _status(path: Path) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return path.lstat()
    return None

"""User-mode Linux as the lab's kernel: its command line, and the wire that joins it to the supervisor.

Its root is the private tree, read-only, through the host's files; the first words of its init mount the project, where the
rest of the boot is (`inner/boot.sh`). It needs no rights beyond the lab's own namespaces.
"""

import os
from pathlib import Path

from lanloom.lab.assets import UmlKernel
from lanloom.lab.plan import INNER_ADDRESS, SUPERVISOR_ADDRESS

TAP = "vec0"
MEMORY_MIB = 2048
"""The kernel's memory: an upper bound, given by the host as it is touched."""

TAP_BATCH = f"""\
tuntap add dev {TAP} mode tap
address add {SUPERVISOR_ADDRESS}/24 dev {TAP}
link set {TAP} up
link set lo up
"""
"""For `ip -batch`: the supervisor's end of the wire."""

_FIRST_WORDS = (
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/src && mount -t hostfs none /mnt/src -o $LAB_SRC"
    " && exec /bin/sh /mnt/src/lanloom/lab/inner/boot.sh"
)


def command(kernel: UmlKernel, tree: Path, state: Path, scratch: Path, source: Path, site: Path) -> list[str]:
    """The command line that boots `tree` with the lab's directories. Its console is standard output."""
    return [
        str(kernel.binary),
        f"mem={MEMORY_MIB}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={tree}",
        "ro",
        "init=/bin/sh",
        "con=null",
        "con0=null,fd:1",
        "quiet",
        f"vec0:transport=tap,ifname={TAP}",
        f"uml_dir={scratch}",
        "umid=kernel",
        f"LAB_ADDRESS={INNER_ADDRESS}",
        f"LAB_SRC={source}",
        f"LAB_SITE={site}",
        f"LAB_STATE={state}",
        f"LAB_MODULES={kernel.modules}",
        "--",
        "-c",
        f'"{_FIRST_WORDS}"',
    ]


def memory_directory(scratch: Path, shared: Path = Path("/dev/shm")) -> Path:
    """Where the kernel's memory is mapped from: shared memory, or the disk where that is small (64 MB in a container)."""
    try:
        room = os.statvfs(shared)
    except OSError:
        return scratch
    enough = room.f_bavail * room.f_frsize > MEMORY_MIB << 20
    return shared if enough and os.access(shared, os.W_OK) else scratch

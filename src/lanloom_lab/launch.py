"""Launch the inner side of a lab, on a kernel of its own or that of the host.

This module has the command lines, the wire to the supervisor, and the settings that `lanloom_lab.start` passes to the
supervisor.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from lanloom_lab.kernel import SelectedKernel
from lanloom_lab.layout import LabRecord
from lanloom_lab.plan import (
    INNER_ADDRESS,
    MANAGEMENT_MAC,
    MANAGEMENT_VLAN,
    SUPERVISOR_ADDRESS,
)
from lanloom_lab.uml import BOOT, UmlKernel

UML_MEMORY_MIB = 3072
"""Least memory of user-mode Linux: an upper bound, taken from the host as it is touched; enough for 10 nodes and 10
guests, or for 30 nodes.
"""

NODE_MEMORY_MIB = 100
"""What a node takes; its agent is most of it."""

_SCRIPTS = Path(__file__).parent / "inner"


class Directories(Struct, frozen=True):
    """What the inner side sees of the host: private tree, source and packages, guests, state of the lab."""

    tree: Path
    source: Path
    site: Path
    guests: Path
    state: Path
    scratch: Path

    def environment(self) -> dict[str, str]:
        """Return the variables that the scripts of the inner side read."""
        return {
            "LAB_TREE": str(self.tree),
            "LAB_SRC": str(self.source),
            "LAB_SITE": str(self.site),
            "LAB_GUESTS": str(self.guests),
            "LAB_STATE": str(self.state),
        }


HOST_WIRE = f"""\
link set lo up
link add mgmt address {MANAGEMENT_MAC} type bridge vlan_filtering 1 vlan_default_pvid {MANAGEMENT_VLAN}
address add {SUPERVISOR_ADDRESS}/24 dev mgmt
address add {INNER_ADDRESS}/24 dev mgmt
link set mgmt up
"""
"""For `ip -batch`: the management switch, which supervisor and inner daemon share on the host's kernel."""

UML_WIRE = f"""\
link set lo up
tuntap add dev vec0 mode tap
address add {SUPERVISOR_ADDRESS}/24 dev vec0
link set vec0 up
"""
"""For `ip -batch`: the supervisor's end of the wire into user-mode Linux."""


def host_command() -> list[str]:
    """Return the command line of the inner side on the host's kernel; it needs `Directories.environment`."""
    return ["unshare", "--mount", "/bin/sh", str(_SCRIPTS / "host.sh")]


_CONTAIN = 'mount --bind "$LAB_STATE" "$LAB_STATE" && mount -o remount,bind,ro / ; exec "$@"'
"""Where the host's root can't be made read-only, the lab does without this second fence."""


def uml_command(kernel: UmlKernel, directories: Directories, nodes: int) -> list[str]:
    """Return the command line that boots the tree in user-mode Linux, with its console on standard output.

    The kernel is PID 1 of a PID namespace, and the host is read-only for it except for the state of the lab. If it were
    killed otherwise, it would release the processes of the guest, which are also processes of the host, and they would
    continue for a moment with the system calls of the host.
    """
    cage = ["unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "/bin/sh", "-c", _CONTAIN, "sh"]
    variables = directories.environment() | {
        "vec0:transport": "tap,ifname=vec0",
        "bonding.max_bonds": "0",
        "dummy.numdummies": "0",
        "LAB_MODULES": str(kernel.modules),
        "LAB_ADDRESS": INNER_ADDRESS,
        "LAB_MAC": MANAGEMENT_MAC,
        "LAB_VLAN": str(MANAGEMENT_VLAN),
    }
    words = kernel.command(
        tree=directories.tree,
        scratch=directories.scratch,
        memory_mib=max(UML_MEMORY_MIB, nodes * NODE_MEMORY_MIB),
        variables=variables,
        first_words=BOOT + "/mnt/src/lanloom_lab/inner/boot.sh",
    )
    return [*cage, *words]


def memory_directory(scratch: Path, shared: Path = Path("/dev/shm")) -> Path:
    """Return the directory for the memory of user-mode Linux: shared memory, or the disk if that is unsuitable.

    Shared memory in containers has 64 MB and is noexec.
    """
    try:
        room = os.statvfs(shared)
    except OSError:
        return scratch
    enough = room.f_bavail * room.f_frsize > UML_MEMORY_MIB << 20
    usable = not room.f_flag & os.ST_NOEXEC and os.access(shared, os.W_OK)
    return shared if enough and usable else scratch


class Settings(Struct, frozen=True):
    """One run of a lab. `uml` is None on the host's kernel; the descriptors are inherited.

    `nodes` is the minimum number of nodes; `report_fd` receives Progress and then Done or Failed. `follow_fd` is of a
    process with which the lab ends, if any.
    """

    selected: SelectedKernel
    directories: Directories
    uml: UmlKernel | None
    nodes: int
    record: LabRecord
    api_fd: int
    console_fd: int
    report_fd: int
    follow_fd: int | None = None


def encode(settings: Settings) -> bytes:
    """Return the settings as JSON, with paths as strings."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode(text: bytes) -> Settings:
    """Return the settings from the output of `encode`."""
    return msgspec.json.decode(text, type=Settings, dec_hook=lambda kind, value: kind(value))

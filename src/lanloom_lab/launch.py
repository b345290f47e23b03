"""How a lab's inner side is launched, on a kernel of its own or the host's: command lines, the wire to the supervisor,
and the settings that `lanloom_lab.start` gives the supervisor.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from lanloom_lab.kernel import Choice
from lanloom_lab.layout import LabRecord
from lanloom_lab.plan import (
    INNER_ADDRESS,
    MANAGEMENT_MAC,
    MANAGEMENT_VLAN,
    SUPERVISOR_ADDRESS,
)
from lanloom_lab.uml import BOOT, UmlKernel

UML_MEMORY_MIB = 2048
"""Least memory of user-mode Linux: an upper bound, taken from the host as it is touched; enough for 20 nodes."""

NODE_MEMORY_MIB = 100
"""What a node takes; its agent is most of it."""

_SCRIPTS = Path(__file__).parent / "inner"


class Directories(Struct, frozen=True):
    """What the inner side sees of the host: the private tree, the project's source and packages, the lab's state."""

    tree: Path
    source: Path
    site: Path
    state: Path
    scratch: Path

    def environment(self) -> dict[str, str]:
        """The variables that the scripts of the inner side read."""
        return {
            "LAB_TREE": str(self.tree),
            "LAB_SRC": str(self.source),
            "LAB_SITE": str(self.site),
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
    """The command line of the inner side on the host's kernel; wants `Directories.environment`."""
    return ["unshare", "--mount", "/bin/sh", str(_SCRIPTS / "host.sh")]


_CONTAIN = 'mount --bind "$LAB_STATE" "$LAB_STATE" && mount -o remount,bind,ro / ; exec "$@"'
"""Where the host's root can't be made read-only, the lab does without this second fence."""


def uml_command(kernel: UmlKernel, directories: Directories, nodes: int) -> list[str]:
    """The command line that boots the tree in user-mode Linux for so many nodes, its console on standard output.

    The kernel is PID 1 of a PID namespace, and the host is read-only for it except for the lab's state: killed
    hard, it would let go of the guest's processes, which are the host's too, and they would go on for a moment with
    the host's system calls.
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
    """Where user-mode Linux maps its memory from: shared memory, or the disk where that is too small or noexec.

    Containers have 64 MB of it, and noexec.
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

    `nodes` is how many nodes there must be at least; `report_fd` takes Progress and then Done or Failed.
    """

    choice: Choice
    directories: Directories
    uml: UmlKernel | None
    nodes: int
    record: LabRecord
    api_fd: int
    report_fd: int


def encode(settings: Settings) -> bytes:
    """The settings as JSON; paths as strings."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode(text: bytes) -> Settings:
    """The settings of `encode`."""
    return msgspec.json.decode(text, type=Settings, dec_hook=lambda kind, value: kind(value))

"""Namespaces and control groups in which a node's programs run, and with which they end.

Kubelet and containerd write to places that no option moves: the device plugin directory below /var/lib/kubelet,
/run/netns, the control groups, kernel settings. So each node has mount, network, process and control group namespaces.
Its first process reads a pipe of the test's: when the test ends, in whatever way, that process ends, and the kernel
kills all others with it, daemons included.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from types import TracebackType
from typing import Self

CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
CGROUPS = Path("/sys/fs/cgroup")

END_SECONDS = 60.0
"""Within which the kernel ends the last processes of a control group."""
PREFIX = "lanloom-node"

FIRST_PROCESS = r"""
set -e
for controller in $CONTROLLERS; do echo $$ >"/sys/fs/cgroup/$controller/${!controller}/cgroup.procs"; done
exec unshare --cgroup --net --mount --propagation private --pid --fork --kill-child --mount-proc bash -ec '
    mount -t tmpfs -o mode=755 tmpfs /run
    for place in opt var/lib var/log; do
        # What the machine has there stays readable: it may be this checkout, or its Python.
        mkdir -p /run/node/layers/$place/{upper,work}
        (cd /run/node/layers/$place && mount -t overlay -o lowerdir=/$place,upperdir=upper,workdir=work overlay /$place)
    done
    mkdir -p /var/lib/containerd /var/lib/kubelet
    for place in containerd kubelet; do mount -t tmpfs -o mode=755 tmpfs /var/lib/$place; done
    # Programs find control groups by the list of mounts, in which hidden ones would come first.
    umount --recursive --lazy /sys
    mount -t sysfs sysfs /sys
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for controller in $CONTROLLERS; do
        mkdir /sys/fs/cgroup/$controller
        mount -t cgroup -o $controller cgroup /sys/fs/cgroup/$controller
    done
    mkdir -p /run/netns /run/node/sysctl
    # Kubelet writes these settings of the whole machine unless they have the values that it wants.
    for setting in kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxbytes=25000000 \
            kernel/keys/root_maxkeys=1000000 vm/overcommit_memory=1 vm/panic_on_oom=0; do
        copy=/run/node/sysctl/$(basename ${setting%=*})
        echo ${setting#*=} >$copy
        mount --bind $copy /proc/sys/${setting%=*}
    done
    ip link set lo up
    # As systemd has it: containers see mounts of the node that are made later, and privileged ones make some.
    mount --make-rshared /
    echo ready
    # The shell reaps orphans meanwhile.
    while read -r line; do :; done
'
"""

PROGRAM = r"""
echo $$ >"/run/node/$0.pid"
for group in /sys/fs/cgroup/*/cgroup.procs; do echo $$ >"$group"; done
exec "$@"
"""
"""Run with the program's name and its command: it is moved below the node's control groups, and its id noted."""


class EnclosureError(Exception):
    """An enclosure can't be made, or a command in it failed; the text has its output."""


def obstacle() -> str:
    """Say why this machine can't run a real node; empty if it can."""
    if os.geteuid() != 0:
        return "a real node needs root"
    missing = [name for name in CONTROLLERS if not (CGROUPS / name / "cgroup.procs").exists()]
    if missing:
        return (
            f"a real node needs control groups of version 1; not mounted in {CGROUPS}: {', '.join(missing)}"
        )
    return ""


class Enclosure:
    """Use as a context manager. Logs of its programs are in `directory`, which is the caller's."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self._directory = directory
        self._group = f"{PREFIX}-{os.getpid()}-{name}"
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        remove_stale_groups()
        own = own_groups()
        groups = {controller: f"{own[controller]}/{self._group}".strip("/") for controller in CONTROLLERS}
        for controller, group in groups.items():
            _make_group(CGROUPS / controller / group, controller)
        self._first = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "bash", "-c", FIRST_PROCESS],
            env=os.environ | groups | {"CONTROLLERS": " ".join(CONTROLLERS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert self._first.stdout is not None and self._first.stderr is not None
            if self._first.stdout.readline() != b"ready\n":
                raise EnclosureError(f"{self.name}: {self._first.stderr.read().decode()}")
            # `unshare` waits for the process that it forked, the first one of the namespace.
            children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
            self.pid = int(children.read_text().split()[0])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything inside, and remove the control groups."""
        # It has --kill-child: the first process of the namespace dies with it, and the kernel kills the others.
        self._first.kill()
        self._first.communicate()
        for process in self._programs.values():
            process.wait()
        self._programs.clear()
        for controller in CONTROLLERS:
            _remove_groups(control_groups(controller, self._group))

    def entering(self, *command: str | Path) -> list[str]:
        """Return the words that run a command in the namespaces."""
        namespaces = ("--mount", "--net", "--pid", "--cgroup")
        return ["nsenter", "--target", str(self.pid), *namespaces, "--", *map(str, command)]

    def run(self, *command: str | Path, given: str = "", seconds: float = 60.0) -> str:
        """Run a command and return its output; EnclosureError if it fails."""
        done = subprocess.run(
            self.entering(*command), input=given, capture_output=True, text=True, check=False, timeout=seconds
        )
        if done.returncode != 0:
            words = " ".join(map(str, command))
            raise EnclosureError(
                f"{self.name}: {words} ended with {done.returncode}: {done.stderr}{done.stdout}"
            )
        return done.stdout

    def start(self, program: str, *command: str | Path, environment: dict[str, str] | None = None) -> None:
        """Start a program that goes on until `stop`, or the end; what it writes is appended to its log."""
        with self.log_file(program).open("ab") as log:
            self._programs[program] = subprocess.Popen(
                self.entering("bash", "-c", PROGRAM, program, *command),
                env=os.environ | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self, program: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a program a signal and wait for its end."""
        process = self._programs.pop(program)
        pid = Path(f"/proc/{self.pid}/root/run/node/{program}.pid").read_text().strip()
        self.run("kill", f"-{number.name.removeprefix('SIG')}", pid)
        process.wait(timeout=60)

    def kill_all(self) -> None:
        """Kill every process but the first one."""
        # `kill -1` is everyone of the namespace but the first process and who sends it.
        self.run("bash", "-c", "kill -KILL -1")
        for process in self._programs.values():
            process.wait(timeout=60)
        self._programs.clear()

    def wait(self, program: str) -> int:
        """Wait for a program that ends by itself and return its exit status."""
        return self._programs[program].wait(timeout=60)

    def is_running(self, program: str) -> bool:
        """Whether a started program has not ended."""
        return self._programs[program].poll() is None

    def log_file(self, program: str) -> Path:
        """Return the file with the output of a program."""
        return self._directory / f"{self.name}-{program}.log"

    def root(self, path: str | Path) -> Path:
        """Return the path by which a file of the node is reached from outside."""
        return Path(f"/proc/{self.pid}/root") / str(path).lstrip("/")

    @property
    def network(self) -> Path:
        """The node's network namespace."""
        return Path(f"/proc/{self.pid}/ns/net")


def own_groups() -> dict[str, str]:
    """Return the control group of this process by controller, as `/` or `/a/b`."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), group.rstrip("/"))
    return found


def remove_stale_groups() -> None:
    """Remove the control groups of runs that were killed before they could."""
    for controller in CONTROLLERS:
        for group in control_groups(controller, f"{PREFIX}-*"):
            if not Path("/proc", group.name.removeprefix(f"{PREFIX}-").partition("-")[0]).exists():
                _remove_groups([group])


def _make_group(group: Path, controller: str) -> None:
    group.mkdir()
    if controller == "cpuset":
        for name in ("cpuset.cpus", "cpuset.mems"):
            (group / name).write_text((group.parent / name).read_text())


def control_groups(controller: str, pattern: str) -> list[Path]:
    """Return the control groups of that name. Others come and go meanwhile: a walk leaves those out, a glob raises."""
    found = os.walk(CGROUPS / controller)
    return [Path(directory) for directory, _, _ in found if fnmatch(Path(directory).name, pattern)]


def _remove_groups(groups: Iterable[Path]) -> None:
    """Remove control groups, which another process may do at the same time, and whose processes may just be ending."""
    for top in groups:
        for directory, _, _ in os.walk(top, topdown=False):
            _remove_group(Path(directory), time.monotonic() + END_SECONDS)


def _remove_group(group: Path, deadline: float) -> None:
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def connect(one: Enclosure, other: Enclosure, link: str = "eth0") -> None:
    """Join two nodes by a cable; the host's network does not see it."""
    ends = (
        "name",
        link,
        "netns",
        str(one.pid),
        "type",
        "veth",
        "peer",
        "name",
        link,
        "netns",
        str(other.pid),
    )
    subprocess.run(["ip", "link", "add", *ends], check=True)


def python() -> list[str]:
    """Return the words that run a module with this project's packages: `[*python(), "-m", "lanloom", …]`."""
    return [
        "env",
        f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}",
        shutil.which(sys.executable) or "python3",
    ]

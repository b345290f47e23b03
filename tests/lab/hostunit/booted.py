"""A host that systemd booted: the lab's private tree with its own PID 1, NetworkManager and network namespace.

For use inside `tests.harness.kernel` only: mounts, links and control groups that systemd changes end with the kernel.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab.hostunit.host import BRIDGE, LANLOOM, PROFILES
from tests.node.contract.real import CONFIGURATION

BOOT = """\
mount --make-rprivate /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
ip link add eth1 up type veth peer name peer
ip link set peer up
ip link add c-br up type bridge vlan_filtering 1
ip link set eth1 master c-br
printf '%s' "$CONFIGURATION" >/etc/NetworkManager/NetworkManager.conf
export container=lanloom
exec /lib/systemd/systemd --system --log-target=null --show-status=0 </dev/null
"""


class BootedHost:
    """The host; its files are those of the tree that the tests see."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "CONFIGURATION": CONFIGURATION.replace(";interface-name:cable2", ";peer"),
        }
        spaces = ["unshare", "--pid", "--fork", "--mount", "--net", "--uts", "--ipc", "--kill-child=KILL"]
        self._process = subprocess.Popen([*spaces, "/bin/sh", "-euc", BOOT], env=environment)
        self.directory = Path(PROFILES)
        self.until(
            lambda: self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")
        )
        self.until(lambda: self.run("nmcli", "-t", "-f", "RUNNING", "general").stdout.strip() == "running")

    def close(self) -> None:
        """Ends everything on the host."""
        self._process.kill()
        self._process.wait()

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command on the host."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        enter = ["nsenter", f"--target={children[0]}", "--all"] if children else ["false"]
        return subprocess.run([*enter, *words], capture_output=True, text=True, check=False, timeout=300)

    def lanloom(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Runs Lanloom's command on the host."""
        return self.run(*LANLOOM, *words)

    def put(self, name: str, content: bytes) -> None:
        """Writes a profile as the agent does."""
        hidden = self.directory / f".{name}"
        hidden.write_bytes(content)
        hidden.chmod(0o600)
        hidden.rename(self.directory / name)

    def address(self, vid: int) -> str:
        """The address of a VLAN link; empty if there is none."""
        words = self.run("ip", "-4", "-brief", "address", "show", "dev", f"{BRIDGE}.{vid}").stdout.split()
        return words[2] if len(words) > 2 else ""

    def until(self, condition: Callable[[], object], seconds: float = 240.0) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.run("journalctl", "--no-pager", "-n", "50").stdout
            time.sleep(0.2)

"""The node as these tests see it: its profiles, what NetworkManager made of them, and the unit's script."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lanloom import hostunit
from tests.harness.examples import played
from tests.node.contract.profile import profile, static
from tests.node.contract.real import Machine, batch

SCRIPT = Path(hostunit.__file__).parent / "nm-reload"
LANLOOM = ("env", f"PYTHONPATH={os.pathsep.join(sys.path)}", "python3", "-m", "lanloom")
PROFILES = "/etc/NetworkManager/system-connections"
BRIDGE = "c-br"
MANY = played(200)
LINKS = f"link add {BRIDGE} up type bridge vlan_filtering 1\nlink set eth1 master {BRIDGE}\n"
VLANS = f"vlan add vid 2-4094 dev eth1\nvlan add vid 2-4094 dev {BRIDGE} self\n"


def address(number: int, host: int = 1) -> str:
    """An address of a network that belongs to profile `number` alone."""
    return f"10.7.{number}.{host}/24"


def content(number: int, host: int = 1) -> bytes:
    """The profile of VLAN 100 + `number` with its static address."""
    return profile(number, vid=100 + number, ipv4=static(address(number, host), dad_timeout=0))


def name(number: int) -> str:
    """Its file."""
    return f"c-vlan{100 + number}.nmconnection"


class HostNode:
    """One node, cleaned before each test."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.directory = machine.inside(PROFILES)

    def prepare(self) -> None:
        """No profile, no memory, no VLAN link; a bridge that carries every VLAN id to the switch."""
        if not self._machine.network_manager_runs:
            self.start_network_manager()
        self.until(self.answers)
        for path in self.directory.iterdir():
            path.unlink()
        self.run("nmcli", "connection", "reload")
        subprocess.run(["ip", "-n", "node", "link", "delete", BRIDGE], capture_output=True, check=False)
        self.run("rm", "-rf", "/run/lanloom-nm-reload")
        self.until(lambda: not self.addresses())
        batch("ip", "node", LINKS)
        batch("bridge", "node", VLANS)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Starts a command on the node."""
        command = [*self._machine.enter, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *words: str, status: int = 0) -> str:
        """What a command on the node prints."""
        process = self.start(*words)
        output = process.communicate(timeout=300)[0]
        assert process.returncode == status, f"{words}: {process.returncode}\n{output}"
        return output

    def reload(self, status: int = 0) -> str:
        """One run of the script; what it says."""
        return self.run(str(SCRIPT), status=status)

    def put(self, file: str | bytes, text: bytes) -> None:
        """Writes a profile as the agent does: hidden, then renamed."""
        hidden = self.directory / ".new"
        hidden.write_bytes(text)
        hidden.chmod(0o600)
        target = file.encode() if isinstance(file, str) else file
        hidden.rename(bytes(self.directory).decode() + "/" + target.decode(errors="surrogateescape"))

    def remove(self, file: str) -> None:
        """Removes a profile."""
        (self.directory / file).unlink()

    def addresses(self) -> dict[str, str]:
        """The address of every VLAN link of the bridge."""
        return {
            link["ifname"]: f"{item['local']}/{item['prefixlen']}"
            for link in self._links("-4", "address")
            for item in link["addr_info"]
        }

    def devices(self) -> set[str]:
        """The VLAN links of the bridge."""
        return {link["ifname"] for link in self._links("link")}

    def _links(self, *words: str) -> list[dict[str, Any]]:
        command = ["ip", "-n", "node", "-json", *words, "show", "type", "vlan"]
        # While links come and go, `ip` may end in the middle of its JSON: it is asked again.
        while (done := subprocess.run(command, capture_output=True, check=False)).returncode:
            time.sleep(0.1)
        return [link for link in json.loads(done.stdout or "[]") if link]

    def known(self) -> set[str]:
        """The names of all profiles that NetworkManager has loaded."""
        return set(self.run("nmcli", "--get-values", "NAME", "connection", "show").split())

    def answers(self) -> bool:
        """Whether NetworkManager does."""
        done = self.start("nmcli", "--terse", "--fields", "RUNNING", "general")
        return done.communicate(timeout=300)[0].strip() == "running"

    def stop_network_manager(self) -> None:
        """Ends NetworkManager."""
        self._machine.stop_network_manager()

    def start_network_manager(self) -> None:
        """Starts NetworkManager."""
        self._machine.start_network_manager()

    def until(self, condition: Callable[[], object], seconds: float = 360.0) -> None:
        """Waits for a condition. A look at hundreds of links takes time from those who make them."""
        began = time.monotonic()
        deadline = began + seconds
        while not condition():
            now = time.monotonic()
            assert now < deadline, f"it did not become true; there is {self.addresses()}"
            time.sleep(max(0.2, 2 * (now - began)))
            began = time.monotonic()

    def until_addresses(self, numbers: Iterable[int], host: int = 1) -> None:
        """Waits until just these profiles have their addresses."""
        wanted = {f"{BRIDGE}.{100 + number}": address(number, host) for number in numbers}
        self.until(lambda: self.addresses() == wanted)

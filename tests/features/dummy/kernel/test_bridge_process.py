"""`lanloom dummy bridge` as a process, in a network namespace that stands for a node."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lanloom.features.dummy.rules.hostbridge import alias_of
from tests.harness.namespaces import namespace

OWNER, OTHER = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001", "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f002"
CAPABILITIES = ("setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs")
"""Runs a program as root with CAP_NET_ADMIN and no other capability."""

PATIENCE = 90.0
"""Seconds until something is a failure that takes as long as the machine takes."""

SOON = 20.0
"""Seconds for what a change brings about, on any machine; looks that nothing brings about are further apart."""


def ip(arguments: str, *, where: str = "host") -> str:
    """What `ip ARGUMENTS` prints in a namespace; empty where it fails."""
    words = ["ip", "-n", where, *arguments.split()]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Waits until a condition holds; how many seconds that took. Most of them pass between two looks."""
    started = began = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it did not become so in time"
        time.sleep(max(0.005, time.monotonic() - began))
        began = time.monotonic()
    return time.monotonic() - started


def there() -> bool:
    """Whether the bridge is there, up, and marked."""
    shown = ip("link show up dev dummy-br")
    return "dummy-br" in shown and f"alias {alias_of(OWNER)}" in shown


class Daemons:
    """The processes of one test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def ready(self, name: str = "ready") -> Path:
        """The file that a process shows that it is ready by."""
        return self.directory / name

    def start(
        self,
        state: str = "present",
        *,
        owner: str = OWNER,
        bridge: str = "dummy-br",
        ready: str = "ready",
        gateway: str = "",
    ) -> subprocess.Popen[bytes]:
        """Starts one on the node, with the rights of its pod."""
        words = ["ip", "netns", "exec", "host", *CAPABILITIES]
        words += [sys.executable, "-m", "lanloom", "dummy", "bridge"]
        words += ["--name", bridge, "--owner", owner, "--state", state]
        words += ["--gateway", gateway] if gateway else []
        words += ["--ready-file", str(self.ready(ready)), "--termination-log", str(self.directory / "why")]
        environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
        process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE)
        self._running.append(process)
        return process

    def end(self) -> None:
        """Ends what is left."""
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """A node without any link but lo, and the processes on it."""
    with namespace("host"):
        found = Daemons(tmp_path)
        try:
            yield found
        finally:
            found.end()


def test_present(daemons: Daemons) -> None:
    """The bridge is made, and healed soon; SIGTERM ends the process at once and leaves the bridge."""
    process = daemons.start()
    until(daemons.ready().exists)
    assert there()
    for damage in ("link delete dummy-br", "link set dummy-br down"):
        ip(damage)
        assert until(there) < SOON
        until(daemons.ready().exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == 0
    assert there() and not daemons.ready().exists()


def test_no_address_of_its_own(daemons: Daemons) -> None:
    """The host gets no IPv6 link-local address on the bridge, also with a port that is up, and no spanning tree."""
    daemons.start()
    until(daemons.ready().exists)
    ip("link add veth1 type veth peer name veth2")
    ip("link set veth1 master dummy-br up")
    ip("link set veth2 up")
    until(lambda: "state UP" in ip("link show dev dummy-br"))
    details = ip("-d link show dev dummy-br")
    assert "inet6" not in ip("address show dev dummy-br")
    assert "stp_state 0" in details and "vlan_filtering 0" in details and "addrgenmode none" in details


def test_deleted_under_a_port(daemons: Daemons) -> None:
    """A bridge that an operator deletes is soon back with the ports that it had."""
    daemons.start()
    until(daemons.ready().exists)
    ip("link add veth1 up type veth peer name cable")
    # As CNI's plugin before a pod joins; without that the bridge is not ready.
    setting = "net.ipv6.conf.dummy-br.accept_ra=0"
    subprocess.run(["ip", "netns", "exec", "host", "sysctl", "-q", "-w", setting], check=True)
    ip("link set veth1 master dummy-br")
    for _ in range(2):
        # The port is known by what was seen of it, as it is now when this is healed.
        ip("link set dummy-br alias mine")
        until(there)
        until(daemons.ready().exists)
        ip("link delete dummy-br")
        assert until(lambda: "veth1" in ip("link show master dummy-br")) < SOON
        until(daemons.ready().exists)


def test_alias_changed(daemons: Daemons) -> None:
    """A bridge that gets another alias soon has its mark again."""
    daemons.start()
    until(daemons.ready().exists)
    for alias in ("mine", "''"):
        ip(f"link set dummy-br alias {alias}")
        assert until(there) < SOON
        until(daemons.ready().exists)


LISTEN = (
    "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 9)); print(flush=True); s.recv(9)"
)
SEND = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'hello', ('{address}', 9))"
ASK = """
import socket, struct
for sender in ("0.0.0.0", "10.9.9.9"):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x806) as sock:
        sock.bind(("net1", 0x806))
        sock.settimeout({seconds})
        own = sock.getsockname()[4]
        words = struct.pack("!6s6sHHHBBH", b"\\xff" * 6, own, 0x806, 1, 0x800, 6, 4, 1) + own
        sock.send(words + socket.inet_aton(sender) + bytes(6) + socket.inet_aton("192.0.2.1"))
        try:
            while sock.recv(99)[20:22] != b"\\0\\2":
                pass
            print(sender)
        except TimeoutError:
            pass
"""
"""Asks, as one who looks for duplicates does and as a neighbour, who has the node's address; prints who got answers."""

NODE, OUTSIDE = "192.0.2.1", "192.0.2.2"


def run(where: str, code: str) -> subprocess.Popen[bytes]:
    """Runs Python in a namespace."""
    words = ["ip", "netns", "exec", where, sys.executable, "-c", code]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


@pytest.fixture
def guest() -> Iterator[str]:
    """A pod with routes as if node and outside were on its network; the node passes on what it may."""
    with namespace("outside"), namespace("pod"):
        subprocess.run(
            ["ip", "netns", "exec", "host", "sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1"],
            check=True,
        )
        ip("link add eth0 up type veth peer name eth0 netns outside")
        ip(f"address add {NODE}/24 dev eth0")
        ip("link set eth0 up", where="outside")
        ip(f"address add {OUTSIDE}/24 dev eth0", where="outside")
        ip("link add veth1 up type veth peer name net1 netns pod")
        ip("link set net1 up", where="pod")
        ip("address add 10.9.9.9/24 dev net1", where="pod")
        ip("route add 192.0.2.0/24 dev net1", where="pod")
        yield "pod"


def attach_guest() -> str:
    """Puts the pod's cable on the bridge; the bridge's hardware address."""
    ip("link set veth1 master dummy-br")
    until(lambda: "state UP" in ip("link show dev dummy-br"))
    return ip("link show dev dummy-br").split("link/ether ")[1].split()[0]


@pytest.mark.parametrize("address", [NODE, OUTSIDE])
def test_nothing_gets_out(daemons: Daemons, guest: str, address: str) -> None:
    """What a guest sends to the bridge's hardware address reaches neither the node nor, through it, the outside."""
    for isolated in (False, True):
        ip("link delete dummy-br")
        if isolated:
            daemons.start()
            until(daemons.ready().exists)
        else:
            ip("link add dummy-br up type bridge")
        ip(f"neighbour replace {address} lladdr {attach_guest()} dev net1", where=guest)
        with run("host" if address == NODE else "outside", LISTEN) as listener:
            assert listener.stdout is not None
            listener.stdout.readline()
            run(guest, SEND.format(address=address)).wait()
            try:
                listener.wait(1 if isolated else PATIENCE)
            except subprocess.TimeoutExpired:
                listener.kill()
            assert (listener.wait() != 0) is isolated


def test_every_address_is_free(daemons: Daemons, guest: str) -> None:
    """No host answers on the network for the node's own address: a guest may have it, and find no duplicate."""
    ip("link add dummy-br up type bridge")
    attach_guest()
    answered = run(guest, ASK.replace("{seconds}", "10")).communicate()[0]
    assert answered.split() == [b"0.0.0.0", b"10.9.9.9"]
    ip("link delete dummy-br")
    daemons.start()
    until(daemons.ready().exists)
    attach_guest()
    assert not run(guest, ASK.replace("{seconds}", "0.5")).communicate()[0]


def test_a_hardware_address_of_its_own(daemons: Daemons) -> None:
    """The bridge's hardware address stays, whatever ports come and go: it may be a gateway."""
    daemons.start()
    until(daemons.ready().exists)
    (before,) = [line for line in ip("link show dev dummy-br").splitlines() if "link/ether" in line]
    ip("link add veth1 type veth peer name veth2")
    ip("link set veth1 address 02:00:00:00:00:01 master dummy-br up")
    assert before in ip("link show dev dummy-br")
    ip("link delete veth1")
    assert before in ip("link show dev dummy-br")


def test_absent(daemons: Daemons) -> None:
    """A pod's port keeps the bridge; soon after the pod's end the bridge is gone, and the process ready."""
    daemons.start().send_signal(signal.SIGSTOP)  # one that hangs holds no other up
    made = daemons.start(ready="first")
    until(daemons.ready("first").exists)
    made.send_signal(signal.SIGTERM)
    made.wait()
    with namespace("pod"):
        ip("link add veth1 type veth peer name eth0 netns pod")
        ip("link set veth1 master dummy-br up")
        daemons.start("absent")
        time.sleep(3)
        assert there() and not daemons.ready().exists()
        ip("link delete eth0", where="pod")
        assert until(lambda: not ip("link show dev dummy-br")) < SOON
        assert until(daemons.ready().exists) < SOON


@pytest.mark.parametrize("kind", ["bridge", "veth peer name cable"])
def test_foreign_link(daemons: Daemons, kind: str) -> None:
    """A link that is another program's stays as it is; the process fails, and says why where a kubelet looks for it."""
    ip(f"link add dummy-br type {kind}")
    (daemons.directory / "why").touch()
    process = daemons.start()
    _, printed = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    message = (
        "can't create the bridge dummy-br: Lanloom did not create the link of this name; rename or delete it"
    )
    assert printed.decode().splitlines()[-1].startswith(f"Error: {message}")
    assert (daemons.directory / "why").read_text().startswith(message)
    assert "alias" not in ip("link show dev dummy-br") and not there()
    assert not daemons.ready().exists()


def test_many_that_die(daemons: Daemons) -> None:
    """Processes for several bridges that are killed at any moment leave nothing half-made behind those that live."""
    rng = Random(1)
    bridges = {f"d{number}-br": f"{OWNER[:-1]}{number}" for number in range(3)}
    for _ in range(4):
        doomed = [daemons.start(owner=owner, bridge=name) for name, owner in bridges.items()]
        time.sleep(rng.random())
        for process in doomed:
            process.kill()
        ip(f"link delete {rng.choice(list(bridges))}")
    for name, owner in bridges.items():
        for copy in "12":
            daemons.start(owner=owner, bridge=name, ready=name + copy)
    for name in bridges:
        for copy in "12":
            until(daemons.ready(name + copy).exists)
    # Of two that begin at once one is late; what it has half-made goes with its next look.
    until(lambda: "lanloom-" not in ip("link").replace("lanloom-dummy", ""))
    shown = ip("link")
    assert all(f"alias {alias_of(owner)}" in shown for owner in bridges.values())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--name", "sixteen-chars-br", "--owner", OWNER), "a link's name has 1 to 15 characters"),
        (("--name", "d-br", "--owner", "a b"), "'a b' is not a uid"),
        (
            ("--name", "d-br", "--owner", OWNER, "--gateway", "10.7.0.1"),
            "'10.7.0.1' is not an address such as",
        ),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    """A name or an owner that can't be is wrong usage."""
    command = [sys.executable, "-m", "lanloom", "dummy", "bridge", *words]
    command += ["--state", "present", "--ready-file", str(tmp_path / "ready")]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and complaint in done.stderr

"""A LAN with a physical VLAN, on a real kernel: what passes, what does not, and that the link ends with the agent."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path

from structlog.testing import capture_logs

from lanloom.api.core import NAMESPACES
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.links.uplinklinks import TABLE, UplinkLinks
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import far_name, uplink_bridge
from lanloom.node.namespaces import Namespace, make_namespace, open_namespace
from lanloom.node.netlink import changes, overlay, reader
from lanloom.node.netlink.packetfilter import close_bridges, open_filter_socket, remove_table
from tests.features.lan.agent.borders import check_others_stay
from tests.features.lan.agent.contract import check_uplink
from tests.features.lan.agent.test_uplink import UPLINK, VLAN
from tests.features.lan.kernel.machines import Lab, Machine, Wire, frame, played, reaches, run, until
from tests.features.lan.kernel.test_contract import checked
from tests.harness.others import installed, names, others

OUTSIDE = "172.16.0.9"
BRIDGE = (
    "ip link add cluster-1-br up type bridge vlan_filtering 1",
    "ip link add cluster-1-bo up type veth peer name wire0",
    "ip link set cluster-1-bo master cluster-1-br up",
)
"""What makes a host's bridge of a cluster network, whose uplink leads to `wire0`."""


def cabled(node: Machine, ids: str = f"vid {VLAN}") -> None:
    """The host's bridge of the cluster network, whose uplink leads to a station `out` with the VLAN."""
    path = node.pod("out")
    for command in BRIDGE:
        run(node.host, command)
    if ids:
        run(node.host, f"bridge vlan add dev cluster-1-bo {ids}")
    with open(path) as target:
        run_with(node.host, target.fileno())
    for command in (
        "link set wire0 up",
        f"link add link wire0 name v{VLAN} type vlan id {VLAN}",
        f"link set v{VLAN} up",
        f"address add {OUTSIDE}/24 dev v{VLAN}",
    ):
        run(path, f"ip {command}")


def run_with(host: Path, descriptor: int) -> None:
    """Moves the station's end of the wire into its namespace."""
    os.set_inheritable(descriptor, True)
    words = f"ip link set wire0 netns /proc/{os.getpid()}/fd/{descriptor}".split()
    subprocess.run(["nsenter", f"--net={host}", *words], check=True)


def ports(node: Machine, uid: str) -> bool:
    """Whether the LAN has a port at the host's bridge."""
    return far_name(uid) in run(node.host, "ip link show master cluster-1-br", check=False)


def is_only_in_the_vlan(node: Machine, port: str) -> bool:
    """Whether a port of the host's bridge is untagged in the VLAN, in no other one, and has no address."""
    vlans = run(node.host, f"bridge vlan show dev {port}", check=False)
    addresses = run(node.host, f"ip address show dev {port}", check=False)
    return f"{VLAN} PVID Egress Untagged" in vlans and " 1 " not in vlans and "inet" not in addresses


async def begun(made: Lab, *nodes: Machine) -> str:
    """A LAN with an uplink, nodes that have its VLAN, and a pod at the LAN on the last node; the LAN's uid."""
    await made.cluster.keep(NAMESPACES, {"metadata": {"name": BRIDGES_NAMESPACE}})
    uid = await made.cluster.lan(uplink=UPLINK)
    for node in nodes:
        await asyncio.to_thread(cabled, node)
    for machine in made.machines:
        await machine.offers()
    await made[-1].attach("blue-b", "p", "172.16.0.2/24")
    return uid


async def test_contract(tmp_path: Path) -> None:
    """The kernel joins LANs to VLANs, and ends that, as the port says."""
    await checked(tmp_path, check_uplink, *BRIDGE, f"bridge vlan add dev cluster-1-bo vid {VLAN}")


async def test_links_of_others(tmp_path: Path) -> None:
    """A bridge as installers leave it, its uplink and the VLAN link on it keep every attribute next to a LAN's link."""
    host = tmp_path / "places" / "host"

    async def check(kernel: LanKernel, lan: DesiredLan) -> None:
        look = partial(others, host, ("lo", "u0", *names("cluster-1-br", "cluster-1-bo")))
        joined = uplink_bridge("cluster-1", VLAN)
        await check_others_stay(kernel, lan, joined, look, partial(run, host), "cluster-1-bo")

    made = installed("cluster-1-br", "cluster-1-bo", filtering=True)
    await checked(tmp_path, check, *made, f"bridge vlan add dev cluster-1-bo vid {VLAN}")


@played(2)
async def test_untagged_on_the_lan(made: Lab) -> None:
    """A pod on another node reaches a station on the VLAN; other VLANs and LLDP pass neither way."""
    first, second = made.machines
    uid = await begun(made, first)
    await until(lambda: reaches(second.pods.path("p"), OUTSIDE))
    await until(lambda: is_only_in_the_vlan(first, far_name(uid)))
    station, pod = first.pods.path("out"), second.pods.path("p")
    with (
        open_namespace(station) as there,
        open_namespace(pod) as here,
        Wire(there, "wire0") as outside,
        Wire(here, "net1") as inside,
    ):
        everybody, me = "ff:ff:ff:ff:ff:ff", "0e:00:00:00:00:55"
        sent: list[tuple[int, bytes]] = []
        got: list[tuple[int, bytes]] = []

        def arrived() -> bool:
            # Again each time: where the agent gets no CPU for seconds, the uplink link ends and is made again.
            inside.send(frame("01:80:c2:00:00:0e", me, b"lldp", kind=0x88B5))
            inside.send(frame(everybody, me, b"hello", kind=0x88B5))
            outside.send(frame(everybody, me, b"other vlan", kind=0x88B5, vlan=2013))
            outside.send(frame(everybody, me, b"untagged", kind=0x88B5))
            outside.send(frame(everybody, me, b"answer", kind=0x88B5, vlan=VLAN))
            sent.extend(outside.heard())
            got.extend(inside.heard())
            return any(b"hello" in each for _, each in sent) and any(b"answer" in each for _, each in got)

        await until(arrived)
    assert {vlan for vlan, each in sent if b"hello" in each} == {VLAN}
    assert not any(b"lldp" in each for _, each in sent)
    assert not any(b"other vlan" in each or b"untagged" in each for _, each in got)


@played(2)
async def test_one_node_at_a_time(made: Lab) -> None:
    """Of two nodes with the VLAN one joins; when its agent dies its links go with it, and the other node joins."""
    first, second = made.machines
    uid = await begun(made, first, second)
    joined: list[Machine] = []

    def found() -> bool:
        joined[:] = [machine for machine in (first, second) if ports(machine, uid)]
        return bool(joined)

    await until(found)
    node, other = (first, second) if joined[0] is first else (second, first)
    await until(
        lambda: reaches(node.pods.path("out"), "172.16.0.2") or reaches(other.pods.path("p"), OUTSIDE)
    )
    assert not await asyncio.to_thread(ports, other, uid)
    await node.kill()
    await until(lambda: not ports(node, uid))
    await until(partial(ports, other, uid), 60)
    node.start()
    await until(lambda: not node.spokes.unready())
    assert not await asyncio.to_thread(ports, node, uid)


@played(1)
async def test_repair_and_no_vlan(made: Lab) -> None:
    """An uplink link that is deleted comes back, one with a wrong VLAN is corrected, and one goes with its VLAN."""
    (node,) = made.machines
    uid = await begun(made, node)
    far = far_name(uid)
    await until(lambda: ports(node, uid))
    await asyncio.to_thread(run, node.host, f"ip link delete {far}")
    await until(lambda: ports(node, uid))
    await asyncio.to_thread(run, node.host, f"bridge vlan add dev {far} vid 7")
    await until(lambda: " 7" not in run(node.host, f"bridge vlan show dev {far}", check=False))
    await until(lambda: reaches(node.pods.path("p"), OUTSIDE))
    await asyncio.to_thread(run, node.host, f"bridge vlan del dev cluster-1-bo vid {VLAN}")
    await until(lambda: not ports(node, uid))


def bridged(between: Namespace, near: Namespace, far: Namespace) -> None:
    """A bridge between two namespaces, whose ends there are `near0` and `far0`."""
    with between.socket() as sock:
        overlay.add_bridge(sock, "br0")
        bridge = reader.link(sock, name="br0").index
        for port, name, target in (("p0", "near0", near), ("p1", "far0", far)):
            overlay.add_veth(
                sock, port, name, master=bridge, mtu=1500, peer_mac="", peer_namespace=target.fileno()
            )


def raised(near: Namespace, far: Namespace) -> None:
    """Sets both ends up."""
    for name, target in (("near0", near), ("far0", far)):
        with target.socket() as sock:
            changes.set_up(sock, reader.link(sock, name=name).index)


NUMBERS = count(1)


def passes(sender: Wire, receiver: Wire) -> bool:
    """Whether a frame passes, and not only an earlier one that was under way."""
    text = b"frame %d over the uplink link." % next(NUMBERS)
    sender.send(frame("ff:ff:ff:ff:ff:ff", "0e:00:00:00:00:55", text))
    time.sleep(0.02)
    return any(text in each for _, each in receiver.heard())


async def test_process_that_is_stopped(tmp_path: Path) -> None:
    """The kernel itself closes an uplink link whose process is stopped as a whole."""
    with make_namespace("near") as near, make_namespace("far") as far:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            STOPPED,
            str(near.fileno()),
            str(far.fileno()),
            pass_fds=(near.fileno(), far.fileno()),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            assert process.stdout is not None and await process.stdout.readline() == b"joined\n"
            with Wire(near, "near0") as sender, Wire(far, "far0") as receiver:
                await until(lambda: passes(sender, receiver))
                process.send_signal(signal.SIGSTOP)
                await until(lambda: not any(passes(sender, receiver) for _ in range(10)))
        finally:
            process.kill()
            await process.wait()


STOPPED = """
import sys, time
from lanloom.features.lan.agent.links.uplinklinks import UplinkLinks
from lanloom.node.namespaces import Namespace
from tests.features.lan.kernel.test_uplink import bridged, raised

near, far = (Namespace(int(number), "a side") for number in sys.argv[1:3])
uplink_links = UplinkLinks()
uplink_links.keep("a", 10.0)
uplink_links.make("a", lambda between: bridged(between, near, far))
raised(near, far)
print("joined", flush=True)
while True:
    uplink_links.keep("a", 10.0)
    time.sleep(0.2)
"""
"""A process that joins two namespaces, whose descriptors it is given, for as long as it runs."""


async def test_uplink_link_without_a_word(tmp_path: Path) -> None:
    """A link ends by itself when no agent says in time that its node is elected, whatever else the process does."""
    uplink_links = UplinkLinks()
    built: list[object] = []
    uplink_links.keep("a", 600)
    await asyncio.to_thread(uplink_links.make, "a", built.append)
    assert uplink_links.is_held("a") and len(built) == 1
    began = time.monotonic()
    uplink_links.keep("a", 0.6)
    while uplink_links.is_held("a"):  # the event loop does nothing else: it hangs
        assert time.monotonic() - began < 60
    assert time.monotonic() - began > 0.2


async def test_word_that_is_late(tmp_path: Path) -> None:
    """A link whose time is over ends, also where its process was stopped and goes on as if nothing had happened."""
    now = [1000.0]
    uplink_links = UplinkLinks(lambda: now[0])
    uplink_links.keep("a", 3.0)
    await asyncio.to_thread(uplink_links.make, "a", lambda _between: None)
    try:
        uplink_links.keep("a", 3.0)
        assert uplink_links.is_held("a")
        now[0] += 20.0
        uplink_links.keep("a", 3.0)
        assert not uplink_links.is_held("a")
    finally:
        uplink_links.close()


async def test_refused_once(tmp_path: Path) -> None:
    """A link that the kernel refused to keep open is kept open again as soon as the kernel does not refuse it."""
    looks: list[float] = []

    def clock() -> float:
        if threading.current_thread().name == "lan-uplinks":
            looks.append(time.monotonic())
        return time.monotonic()

    async def looked() -> None:
        """A whole look, of which no part was before."""
        end = len(looks) + 2
        await until(lambda: len(looks) >= end)

    uplink_links = UplinkLinks(clock)
    built: list[Namespace] = []
    uplink_links.keep("a", 600)
    await asyncio.to_thread(uplink_links.make, "a", built.append)
    try:
        with built[0].call(open_filter_socket) as sock:
            with capture_logs() as refused:
                remove_table(sock, TABLE)
                uplink_links.keep("a", 700)
                await looked()
            assert {each["event"] for each in refused} == {"lan-uplink-not-prolonged"}
            close_bridges(sock, TABLE)
        await looked()
        with capture_logs() as later:
            uplink_links.keep("a", 800)
            await looked()
        assert not later
    finally:
        uplink_links.close()


async def test_cut_at_once(tmp_path: Path) -> None:
    """Nothing passes a link from the moment at which it is cut, even where the kernel has not deleted it yet."""
    uplink_links = UplinkLinks()
    kept: list[int] = []

    def build(between: Namespace) -> None:
        kept.append(os.dup(between.fileno()))  # so the kernel does not delete it at all
        bridged(between, near, far)

    with make_namespace("near") as near, make_namespace("far") as far:
        uplink_links.keep("a", 600)
        await asyncio.to_thread(uplink_links.make, "a", build)
        try:
            raised(near, far)
            with Wire(near, "near0") as sender, Wire(far, "far0") as receiver:
                await until(lambda: passes(sender, receiver))
                uplink_links.cut("a")
                receiver.heard()
                assert not any(passes(sender, receiver) for _ in range(10))
        finally:
            uplink_links.close()
            os.close(kept[0])

"""A LAN with ten spokes on a node: the data plane against the same messages of rtnetlink, and nothing else, in one run.

Both make a namespace without IP, a bridge, a VXLAN link, and ten machines' spokes: pair, macvtap in a pod's namespace,
and the settings of ports. The program runs on this machine's own kernel, in namespaces that end with it; it needs root.

Each begins once the kernel has put away the namespace before it, which holds the lock of all links for a while. What
counts is the time by the clock without that in which other programs had the processors.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from bench.cost import threads_kept_waiting
from bench.processes import printed
from bench.report import Row
from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, alias_of
from lanloom.features.lan.rules.plan import plan
from lanloom.node.links import Vtep
from lanloom.node.namespaces import Namespace, NamespaceDirectory, make_namespace
from lanloom.node.netlink import addressing, bridgeports, changes, forwarding, overlay, reader

ROUNDS = 30
SPOKES = 10
RATIO = 1.5
UID = "bench"
PEERS = ("10.0.0.2", "10.0.0.3")
FIRST = 400_000_000
PAUSE = 0.005


class Seconds(Struct, frozen=True):
    """A LAN made by the data plane, by plain messages, a look at one that is well, and its removal.

    Each is that of the quarter of rounds that were the fastest: on a busy machine, what takes longer is interrupted
    more often, and has to wait for locks that other programs hold.
    """

    plane: float
    plain: float
    look: float
    removal: float


def rows() -> Iterator[Row]:
    """Yield the ratio, and what a look costs."""
    seconds = Seconds(**json.loads(printed([sys.executable, "-m", "bench.lan"], seconds=600)))
    yield Row(
        name=f"a LAN with {SPOKES} spokes on a node, against plain rtnetlink messages",
        measured=seconds.plane / seconds.plain,
        limit=RATIO,
        unit="×",
        note=f"{_ms(seconds.plane)} against {_ms(seconds.plain)}, first quartiles of {ROUNDS}; a look at one that is "
        f"well takes {_ms(seconds.look)}, a removal {_ms(seconds.removal)}",
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def measure() -> Seconds:
    """Measure rounds of both by turns, in a namespace that plays the host."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        names, devices = NamespaceDirectory(Path(name)), Path(name) / "dev"
        devices.mkdir()
        with make_namespace("host") as host, make_namespace("pod") as pod:
            names.bind("host", host)
            names.bind("pod", pod)
            try:
                device = underlay(host)
                return asyncio.run(_rounds(names, host, pod, device, devices))
            finally:
                names.remove("host")
                names.remove("pod")


def underlay(host: Namespace, address: str = "") -> int:
    """Return the index of a link that is up."""
    with host.socket() as sock:
        overlay.add_bridge(sock, "u0")
        index = reader.link(sock, name="u0").index
        if address:
            addressing.add_address(sock, index, address)
        return index


async def _rounds(
    names: NamespaceDirectory, host: Namespace, pod: Namespace, underlay: int, devices: Path
) -> Seconds:
    kernel = NetlinkLanKernel(names, TapDevices(devices), host=names.path("host"))
    vtep = Vtep(7, 4789, underlay, "", "")
    wanted = DesiredLan(
        uid=UID,
        ns="bench",
        bridge="br0",
        vxlan="vx0",
        vtep=vtep,
        mtu=1450,
        ports=tuple(
            DesiredPort(
                name=f"s{number}M0",
                spoke=f"s{number}",
                mode="macvtap",
                index=FIRST + number,
                netns=str(names.path("pod")),
                interface=f"net{number}",
                mac=_mac(number),
            )
            for number in range(SPOKES)
        ),
        flood=frozenset(PEERS),
    )
    gone = DesiredLan(uid=UID, ns="bench", bridge="br0", vxlan="vx0", present=False, built=True)
    times: dict[str, list[float]] = {name: [] for name in Seconds.__struct_fields__}
    for _ in range(ROUNDS):
        _settle(host)
        began = _clock()
        await kernel.apply(wanted, plan(wanted, await kernel.observe(wanted)))
        times["plane"].append(_clock() - began)
        began = _clock()
        seen = await kernel.observe(wanted)
        if plan(wanted, seen):
            raise RuntimeError("the LAN is not as it should be")
        times["look"].append(_clock() - began)
        began = _clock()
        await kernel.apply(gone, plan(gone, seen))
        times["removal"].append(_clock() - began)
        _settle(host)
        times["plain"].append(await asyncio.to_thread(_timed, lambda: plain(names, host, pod, vtep)))
    await kernel.close()
    return Seconds(**{name: statistics.quantiles(found, n=4)[0] for name, found in times.items()})


def _timed(work: Callable[[], Callable[[], None]]) -> float:
    began = _clock()
    clear = work()
    seconds = _clock() - began
    clear()
    return seconds


def _clock() -> float:
    return time.perf_counter() - threads_kept_waiting()


def _settle(host: Namespace) -> None:
    """Wait until the kernel has put away a namespace that ends now, and with it those that ended before."""
    with host.socket() as sock:
        with make_namespace("last") as last:
            overlay.add_veth(
                sock, "last0", "last1", master=0, mtu=1500, peer_mac="", peer_namespace=last.fileno()
            )
        while reader.find(sock, "last0") is not None:
            time.sleep(PAUSE)


def plain(
    names: NamespaceDirectory,
    host: Namespace,
    pod: Namespace,
    vtep: Vtep,
    ns: str = "plain",
    first: int = FIRST,
    spoke: str = "s",
) -> Callable[[], None]:
    """Return the same by messages alone, with indices that are known; what takes it away.

    `spoke` begins names in the pod.
    """
    space = make_namespace(ns)
    space.call(_seal)
    names.bind(ns, space)
    sock = space.socket()
    overlay.add_bridge(sock, "br0")
    bridge = 2
    changes.change(sock, bridge, changes.alias(alias_of(UID)))
    with host.socket() as outside:
        overlay.add_vxlan(
            outside,
            space.fileno(),
            "vx0",
            vtep,
            mtu=1450,
            master=bridge,
            policy=True,
        )
    vxlan = reader.link(sock, name="vx0").index
    bridgeports.set_forwarding(sock, vxlan, FORWARD_ALL)
    for peer in PEERS:
        forwarding.add_receiver(sock, vxlan, peer, vtep.device)
    for number in range(SPOKES):
        inner = vxlan + 1 + 2 * number
        overlay.add_veth(sock, f"s{number}M0", f"s{number}M1", master=bridge, mtu=1450, peer_mac=_mac(number))
        changes.set_up(sock, inner)
        bridgeports.set_forwarding(sock, inner + 1, FORWARD_ALL)
        overlay.add_macvtap(
            sock, pod.fileno(), f"{spoke}{number}", lower=inner, index=first + number, mtu=1450
        )

    def clear() -> None:
        for each in reader.links(sock):
            if each.kind == "vxlan" or each.name.endswith("M0"):
                changes.delete(sock, each.index)
        sock.close()
        space.close()
        names.remove(ns)

    return clear


def _seal() -> None:
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")


def _mac(number: int) -> str:
    return f"02:00:00:00:00:{number + 1:02x}"


if __name__ == "__main__":
    result = measure()
    sys.stdout.write(json.dumps({name: getattr(result, name) for name in result.__struct_fields__}) + "\n")

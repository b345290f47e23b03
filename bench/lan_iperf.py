"""TCP between two pods on a LAN: the agents' data plane against the same bridge, VXLAN and veth made by hand.

Two nodes are namespaces on this machine's kernel, joined by one underlay; it needs root. `iperf3` runs by turns over
the LAN and over the path by hand, in an order that changes, and each round is a ratio of its own: what else the machine
does in a round takes from both. The program is unpacked in the cache and not installed.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.processes import printed
from bench.report import Row
from lanloom_lab.assets import debian_package, default_cache
from tests.features.lan.kernel.machines import Lab, Machine, lab, reaches, run, until

ROUNDS = 31
SECONDS = 1
RATIO = 0.97
PACKAGES = ("iperf3", "libiperf0", "libsctp1")
PORT_BY_HAND = 4790
"""Of VXLAN: a link of a LAN has other settings, and the kernel shares a port only between equal ones."""

MTU = 1450
PEER = {"lan": "172.16.0.2", "hand": "172.17.0.2"}


class Round(Struct, frozen=True):
    """Bits per second, and the seconds of CPU that both ends took for each."""

    rate: float
    cpu: float


Rounds = dict[str, list[Round]]


def rows() -> Iterator[Row]:
    """Yield the ratio of the rates, and that of the bits for a second of CPU, which tells more on a busy machine."""
    found = msgspec.json.decode(printed([sys.executable, "-m", "bench.lan_iperf"], seconds=900), type=Rounds)
    yield _row(
        "TCP between pods on a LAN of two nodes, against the same path by hand", found, _rate, "Gbit/s"
    )
    yield _row("the same for a second of CPU time of both ends", found, _thrift, "Gbit for a second")


def _rate(each: Round) -> float:
    return each.rate / 1e9


def _thrift(each: Round) -> float:
    return each.rate / each.cpu / 1e9


def _row(name: str, found: Rounds, figure: Callable[[Round], float], unit: str) -> Row:
    lan, hand = ([figure(each) for each in found[path]] for path in PEER)
    low, middle, high = statistics.quantiles(
        [over / other for over, other in zip(lan, hand, strict=True)], n=4
    )
    return Row(
        name=name,
        measured=middle,
        limit=RATIO,
        unit="×",
        at_least=True,
        note=f"medians {statistics.median(lan):.2f} {unit} against {statistics.median(hand):.2f}; {ROUNDS} rounds of "
        f"{SECONDS} s, half of them within {low:.2f} and {high:.2f} ×",
    )


async def measure() -> Rounds:
    """Measure rounds of both."""
    files = debian_package(default_cache(), PACKAGES, partial(print, file=sys.stderr))
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        async with lab(Path(name), 2) as made:
            await made.cluster.lan()
            for number, machine in enumerate(made.machines, 1):
                await machine.offers()
                await machine.attach(f"blue-{'ab'[number - 1]}", "lan", f"172.16.0.{number}/24")
                _by_hand(machine, number, made.machines[2 - number].address)
            for path, peer in PEER.items():
                await until(partial(reaches, made[0].pods.path(path), peer))
            return await asyncio.to_thread(_rounds, made, Iperf(files))


def _by_hand(machine: Machine, number: int, peer: str) -> None:
    """Make the path by hand on a node, to the node with the address `peer`."""
    pod = machine.pod("hand")
    vxlan = f"id 99 dstport {PORT_BY_HAND} local {machine.address} dev u0"
    for command in (
        f"ip link add br1 up mtu {MTU} type bridge mcast_snooping 0",
        f"ip link add vx1 up mtu {MTU} master br1 type vxlan {vxlan}",
        f"bridge fdb append 00:00:00:00:00:00 dev vx1 dst {peer}",
        f"ip link add hand0 up mtu {MTU} master br1 type veth peer name net1",
        f"ip link set net1 netns {pod}",
    ):
        run(machine.host, command)
    run(pod, f"ip link set net1 up mtu {MTU}")
    run(pod, f"ip address add 172.17.0.{number}/24 dev net1")


class Iperf(Struct, frozen=True):
    """The program in its unpacked packages."""

    files: Path

    def _words(self, pod: Path, *options: str) -> list[str]:
        libraries = ":".join(str(path) for path in self.files.glob("usr/lib/*-linux-*"))
        program = ["env", f"LD_LIBRARY_PATH={libraries}", str(self.files / "usr/bin/iperf3")]
        return ["nsenter", f"--net={pod}", *program, *options]

    def round(self, sender: Path, receiver: Path, address: str) -> Round:
        """Return what arrives in a pod, which has the address."""
        words = self._words(receiver, "--server", "--one-off", "--forceflush")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                if not any("listening" in line for line in iter(process.stdout.readline, "")):
                    raise RuntimeError("iperf3 ended before it served anything")
                words = self._words(sender, "--client", address, "--time", str(SECONDS), "--json")
                end = json.loads(printed(words, seconds=SECONDS + 30))["end"]
                process.communicate(timeout=30)
            finally:
                process.kill()
        used = end["cpu_utilization_percent"]
        return Round(
            rate=end["sum_received"]["bits_per_second"],
            cpu=(used["host_total"] + used["remote_total"]) / 100,
        )


def _rounds(made: Lab, iperf: Iperf) -> Rounds:
    found: Rounds = {path: [] for path in PEER}
    sender, receiver = (machine.pods for machine in made.machines)
    for number in range(ROUNDS):
        for path in sorted(PEER, reverse=bool(number % 2)):
            found[path].append(iperf.round(sender.path(path), receiver.path(path), PEER[path]))
    return found


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sys.stdout.write(msgspec.json.encode(asyncio.run(measure())).decode() + "\n")

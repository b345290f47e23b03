"""A pair of pods on a LAN of two nodes, while a machine bridges two other spokes: with storm control and without.

Two nodes are namespaces on this machine's kernel; it needs root. Each round has all three, in an order that changes, so
what else the machine does takes from all. The pair pings, and knows each other's MAC address. What goes round are some
broadcast frames from the machine, which multiply on their way.
"""

import asyncio
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.processes import printed
from bench.report import Row
from lanloom.api.lan import LANS
from lanloom.features.lan.agent.links.optionsteps import STORM
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink.packetfilter import open_filter_socket, owners
from tests.features.lan.agent.nodes import NAMESPACE
from tests.features.lan.kernel.machines import Lab, batch, frame, lab, reaches, run, until
from tests.features.lan.kernel.test_options import BROADCAST, wires
from tests.features.lan.kernel.test_storms import loop

ROUNDS = 7
PINGS, INTERVAL = 500, 0.002
RATIO = 0.5
RATES = {"in peace": None, "with storm control": None, "without": 0}
"""What stormControl says in each part of a round; None is the default."""

STARTED = 200
"""Frames that begin to go round."""


class Part(Struct, frozen=True):
    """The share of answered pings, and the mean of their times in milliseconds."""

    answered: float
    time: float


Parts = dict[str, list[Part]]


def rows() -> Iterator[Row]:
    """Yield the time of a ping next to the loop, with storm control against without.

    The answered share is in the note.
    """
    found = msgspec.json.decode(printed([sys.executable, "-m", "bench.lan_storm"], seconds=600), type=Parts)
    answered = {name: statistics.median(each.answered for each in parts) for name, parts in found.items()}
    times = {name: statistics.median(each.time for each in parts) for name, parts in found.items()}
    yield Row(
        name="a ping between two pods on a LAN while a machine bridges two other spokes, against without storm control",
        measured=times["with storm control"] / times["without"],
        limit=RATIO,
        unit="×",
        note=", ".join(f"{times[name]:.2f} ms ({answered[name]:.1%} answered) {name}" for name in RATES)
        + f"; medians of {ROUNDS} rounds",
    )


async def measure() -> Parts:
    """Measure rounds of all three."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        async with lab(Path(name), 2) as made:
            await made.cluster.lan()
            macs = []
            for number, machine in enumerate(made.machines, 1):
                await machine.offers()
                attached = await machine.attach(f"blue-{'ab'[number - 1]}", "pair", f"172.16.0.{number}/24")
                macs.append(attached.mac)
            for number, machine in enumerate(made.machines):
                peer = f"172.16.0.{2 - number} lladdr {macs[1 - number]}"
                batch(
                    machine.pods.path("pair"),
                    "link set net1 addrgenmode none",
                    "address flush dev net1 scope link",
                    f"neigh replace {peer} dev net1 nud permanent",
                )
            await loop(made[0], "blue-c", "blue-d")
            run(made[0].pods.path("vnf"), "ip link set br0 down")
            # What the machine sent round until then has others look for the pair at it.
            for number in (1, 0, 1):
                pod = made[1 - number].pods.path("pair")
                run(pod, f"ping -c 1 -W 1 172.16.0.{number + 1}", check=False)
            await until(partial(reaches, made[0].pods.path("pair"), "172.16.0.2"))
            found: Parts = {name: [] for name in RATES}
            for number in range(ROUNDS):
                for part in sorted(RATES, reverse=bool(number % 2)):
                    found[part].append(await _part(made, part))
            return found


async def _part(made: Lab, part: str) -> Part:
    rate = RATES[part]
    control = None if rate is None else {"packetsPerSecond": rate}
    await made.cluster.client.patch(LANS, "blue", {"spec": {"stormControl": control}}, NAMESPACE)
    await until(lambda: (STORM in _tables(made)) is (rate is None))
    return await asyncio.to_thread(_measured, made, looped=part != "in peace")


def _measured(made: Lab, *, looped: bool) -> Part:
    run(made[0].pods.path("vnf"), f"ip link set br0 {'up' if looped else 'down'}")
    try:
        if looped:
            with wires((made[0], "pair")) as (sender,):
                for _ in range(STARTED):
                    with suppress(OSError):  # a loop without storm control leaves no room for more
                        sender.send(frame(BROADCAST, "0e:00:00:00:00:01", b"round and round"))
        return _pings(made)
    finally:
        run(made[0].pods.path("vnf"), "ip link set br0 down")


def _tables(made: Lab) -> dict[str, str]:
    with open_namespace(made[0].lan()) as space, space.call(open_filter_socket) as sock:
        return owners(sock)


def _pings(made: Lab) -> Part:
    text = run(made[0].pods.path("pair"), f"ping -q -i {INTERVAL} -c {PINGS} -W 1 172.16.0.2", check=False)
    answered = re.search(r"(\d+) received", text)
    times = re.search(r"= [\d.]+/([\d.]+)/", text)
    return Part(
        answered=int(answered[1]) / PINGS if answered else 0.0, time=float(times[1]) if times else 1000.0
    )


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sys.stdout.write(msgspec.json.encode(asyncio.run(measure())).decode() + "\n")

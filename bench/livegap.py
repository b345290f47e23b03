"""How long a peer does not hear from a guest whose network changes while it runs; on a lab, with a real guest.

A pod that is on both networks asks the guest all the time. All by turns in one run:

* Moves in place, between two VLANs of one bridge, with bare netlink: one process that has all ready and sends the two
  requests that a port needs for that, in one go. No program looks which port it is, and none gets a report.
* Live migrations to another network by Lanloom, with those of the lab's stand-in for KubeVirt 1.9, where Lanloom
  writes nothing but a condition; and with migrations that change no network.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.report import Row
from lanloom.api.core import PODS, VALIDATING_WEBHOOKS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.cli.cluster import connect
from lanloom.kube.ports import Client
from lanloom_lab import client, examples
from lanloom_lab.cli.demo import run_command
from lanloom_lab.demo import Verifier
from lanloom_lab.demomachine import ADDRESS, BLUE, EXAMPLE, MACHINE, NIC, PEER, PEER_NODE, PROBER, RED, peer
from lanloom_lab.guests.prober import INTERVAL, Findings
from lanloom_lab.kubevirt.installed import install
from lanloom_lab.kubevirt.virtapi import CONFIGURATION
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done
from lanloom_lab.start import Options, start

MOVES = 20
MIGRATIONS_EACH = 20
RATIO = 1.2
EVERY = 0.001
"""Seconds between two questions while a NIC moves in place."""

VLAN_IDS = {RED: 2015, BLUE: 2016}
"""Those of the example's networks, on one bridge."""

BARE = """
import socket, struct, sys
from lanloom.node.netlink.bridgeports import PVID, UNTAGGED
from lanloom.node.netlink.messages import (
    AF_BRIDGE, IFLA_AF_SPEC, IFLA_BRIDGE_VLAN_INFO, RTM_DELLINK, RTM_SETLINK, attribute, batch, nested, open_socket
)
from lanloom.node.netlink.reader import link

def message(kind, flags, vid):
    entry = attribute(IFLA_BRIDGE_VLAN_INFO, struct.pack("=HH", flags, vid))
    return kind, struct.pack("=BxHiII", AF_BRIDGE, 0, index, 0, 0) + nested(IFLA_AF_SPEC, entry)

name, old, new = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_socket() as sock:
    index = link(sock, name=name).index
    messages = [message(RTM_DELLINK, 0, old), message(RTM_SETLINK, PVID | UNTAGGED, new)]
    print("ready", flush=True)
    sys.stdin.read()
    batch(sock, messages)
"""
"""The program of bare moves, on the node: LINK, the VLAN id that it leaves, and the one that it gets.

It moves when its input ends: its start takes the node's one processor for longer than the move.
"""

IN_PLACE_MS = 50.0
PAUSE = 0.1
STEP_SECONDS = 120.0


class Gaps(Struct, frozen=True):
    """What the peer found: of moves in place and bare ones; of migrations by Lanloom, the stand-in, and plain ones."""

    in_place: tuple[Findings, ...]
    bare: tuple[Findings, ...]
    swapping: tuple[Findings, ...]
    standing_in: tuple[Findings, ...]
    plain: tuple[Findings, ...]


def rows() -> Iterator[Row]:
    """Yield the median of moves in place, and the ratio of migrations."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        layout = Layout(Path(name) / "state")
        try:
            start(layout, Options(3), lambda line: None)
            gaps = asyncio.run(measure(layout))
        finally:
            asyncio.run(client.down(layout, keep=False))
    silences = [item.moved for item in gaps.in_place]
    yield Row(
        name="a NIC that moves in place: silence of the guest towards a peer",
        measured=statistics.median(silences),
        limit=IN_PLACE_MS,
        unit="ms",
        note=f"median of {MOVES}, {min(silences):.0f} to {max(silences):.0f} ms; asked every ms",
    )
    moved, longest = attrgetter("moved"), attrgetter("longest")
    yield _ratio(
        "the same, against bare netlink that gives the port its other VLAN id",
        gaps.in_place,
        gaps.bare,
        moved,
    )
    title = "a live migration to another network, against"
    yield _ratio(
        f"{title} that of KubeVirt's stand-in without Lanloom", gaps.swapping, gaps.standing_in, moved
    )
    yield _ratio(f"{title} one that changes no network", gaps.swapping, gaps.plain, longest)


def _ratio(
    name: str, found: Sequence[Findings], others: Sequence[Findings], silence: Callable[[Findings], float]
) -> Row:
    own, other = (statistics.median(map(silence, each)) for each in (found, others))
    return Row(
        name=name,
        measured=own / other,
        limit=RATIO,
        unit="×",
        note=f"{own:.1f} ms against {other:.1f} ms of silence, medians of {len(found)} and {len(others)} by turns",
    )


async def measure(layout: Layout) -> Gaps:
    """Boot the guest, move it, and look how long it is silent. Raises LabError, KubeError."""
    async with connect(str(layout.kubeconfig)) as api:
        bench = _Bench(layout, api)
        await bench.boot()
        nads = (BLUE, RED)
        swapping: list[Findings] = []
        standing_in: list[Findings] = []
        plain: list[Findings] = []
        for _ in range(MIGRATIONS_EACH):
            plain.append(await bench.during(bench.migrate, changes=False))
            for nad, release, found in ((BLUE, "none", swapping), (RED, "1.9", standing_in)):
                await bench.play(release)
                found.append(await bench.during(partial(bench.edit, nad), changes=True))
        await bench.play("none")
        in_place: list[Findings] = []
        bare: list[Findings] = []
        for number in range(MOVES):
            here, there = nads[number % 2], nads[1 - number % 2]
            in_place.append(await bench.during(partial(bench.move, here), changes=True, every=EVERY))
            for source, target in ((here, there), (there, here)):
                work = partial(bench.bare_move, source, target)
                bare.append(await bench.during(work, changes=True, every=EVERY))
        return Gaps(*map(tuple, (in_place, bare, swapping, standing_in, plain)))


class _Bench:
    def __init__(self, layout: Layout, api: Client) -> None:
        self._layout = layout
        self._api = api
        self._verifier = Verifier(layout)
        self._mac = ""

    async def boot(self) -> None:
        await examples.apply(self._api, EXAMPLE)
        await self._api.create(PODS, peer(), PEER.namespace)
        await self._until(self._is_up)
        self._mac = (await self._verifier.guest(MACHINE, "hardware_address")).strip()

    async def play(self, release: str) -> None:
        """Play a release of KubeVirt from now on."""
        await install(self._api, release, ("LiveMigrate",))

        async def is_played() -> bool:
            found = (await self._api.list(VALIDATING_WEBHOOKS)).items
            return any(item.metadata.name == CONFIGURATION.name for item in found) == (release != "none")

        await self._until(is_played)

    async def during(
        self, work: Callable[[], Awaitable[None]], *, changes: bool, every: float = INTERVAL
    ) -> Findings:
        """Return what a peer finds while something is done that `changes` the guest's network or not."""
        words = (
            "ip",
            "netns",
            "exec",
            f"{PEER.namespace}.{PEER.name}",
            *PROBER,
            f"--every={every}",
            self._mac,
            ADDRESS,
            "net1",
            "net2",
        )
        async with client.running(self._layout, PEER_NODE, *words) as asking:
            await asking.line()
            await work()
            if changes:
                async with asyncio.timeout(STEP_SECONDS):
                    await asking.line()
            return msgspec.json.decode(await asking.finish(), type=Findings)

    async def move(self, nad: str) -> None:
        """Move in place, as users do."""
        words = f"vm move {MACHINE.name} {NIC} --to {nad} --policy in-place --wait"
        await asyncio.to_thread(run_command, self._layout.kubeconfig, words)

    async def bare_move(self, source: str, target: str) -> None:
        """Give the port its other VLAN id by two requests in one go."""
        swaps = (await self._api.list(NETWORK_SWAPS, MACHINE.namespace)).items
        last = max(swaps, key=lambda item: item.status.completed_at)
        assert last.status.port is not None
        words = (last.status.port.link, str(VLAN_IDS[source]), str(VLAN_IDS[target]))
        async with client.running(self._layout, last.status.node, "python3", "-c", BARE, *words) as moving:
            await moving.line()
            await asyncio.sleep(PAUSE)
            await moving.finish()

    async def edit(self, nad: str) -> None:
        """Name another NAD, and wait for the migration of that."""
        before = await self._migrations()
        networks = [{"name": NIC, "multus": {"networkName": nad}}]
        patch = {"spec": {"template": {"spec": {"networks": networks}}}}
        await self._api.patch(VIRTUAL_MACHINES, MACHINE.name, patch, MACHINE.namespace)

        async def is_over() -> bool:
            return any(name not in before for name in await self._migrations(final=True))

        await self._until(is_over)

    async def _migrations(self, *, final: bool = False) -> set[str]:
        found = (await self._api.list(MIGRATIONS)).items
        return {item.metadata.name for item in found if item.is_final or not final}

    async def migrate(self) -> None:
        body = {"metadata": {"generateName": "bench-"}, "spec": {"vmiName": MACHINE.name}}
        made = await self._api.create(MIGRATIONS, body, MACHINE.namespace)

        async def is_over() -> bool:
            return (await self._api.get(MIGRATIONS, made.metadata.name, MACHINE.namespace)).is_final

        await self._until(is_over)

    async def _is_up(self) -> bool:
        found = await self._api.list(VIRTUAL_MACHINE_INSTANCES)
        peers = await self._api.get(PODS, PEER.name, PEER.namespace)
        running = any(item.status.phase == "Running" for item in found.items)
        return running and peers.status.phase == "Running" and await self._verifier.boots(MACHINE)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(STEP_SECONDS):
            await until_done(condition, PAUSE)

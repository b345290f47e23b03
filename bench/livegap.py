"""How long a peer does not hear from a guest whose network changes while it runs; on a lab, with a real guest.

A pod that is on both networks asks the guest every 5 ms. A live migration that changes the network is compared with the
same migration that does not, by turns in one run. Moves in place go to and fro between both networks, by turns with
what a script does for that: the port goes down, gets its other VLAN id, and comes up, and nobody is told.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.report import Row
from lanloom.api.core import PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.cli.cluster import connect
from lanloom.kube.ports import Client
from lanloom_lab import client, examples
from lanloom_lab.cli.demo import run_command
from lanloom_lab.demo import Verifier
from lanloom_lab.demomachine import ADDRESS, BLUE, EXAMPLE, MACHINE, NIC, PEER, PEER_NODE, PROBER, RED, peer
from lanloom_lab.guests.prober import Findings
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done
from lanloom_lab.start import Options, start

MOVES = 20
MIGRATIONS_EACH = 5
RATIO = 1.2
BARE_RATIO = 1.0
VLAN_IDS = {RED: 2015, BLUE: 2016}
"""Those of the example's networks, on one bridge."""

IN_PLACE_MS = 50.0
PAUSE = 0.1
STEP_SECONDS = 120.0


class Gaps(Struct, frozen=True):
    """Silences in milliseconds: of moves in place, of bare ones, and of migrations with and without another network."""

    in_place: tuple[float, ...]
    bare: tuple[float, ...]
    swapping: tuple[float, ...]
    plain: tuple[float, ...]


def rows() -> Iterator[Row]:
    """The median of moves in place, and the ratio of migrations."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        layout = Layout(Path(name) / "state")
        try:
            start(layout, Options(3), lambda line: None)
            gaps = asyncio.run(measure(layout))
        finally:
            asyncio.run(client.down(layout, keep=False))
    yield Row(
        name="a NIC that moves in place: silence of the guest towards a peer",
        measured=statistics.median(gaps.in_place),
        limit=IN_PLACE_MS,
        unit="ms",
        note=f"median of {MOVES}, {min(gaps.in_place):.0f} to {max(gaps.in_place):.0f} ms; asked every 5 ms",
    )
    in_place, bare = statistics.median(gaps.in_place), statistics.median(gaps.bare)
    yield Row(
        name="the same, against a script of ip and bridge that gives the port its other VLAN id",
        measured=in_place / bare,
        limit=BARE_RATIO,
        unit="×",
        note=f"{in_place:.0f} ms against {bare:.0f} ms of silence, medians of {len(gaps.bare)} by turns",
    )
    swapping, plain = statistics.median(gaps.swapping), statistics.median(gaps.plain)
    yield Row(
        name="a live migration to another network, against the same one without",
        measured=swapping / plain,
        limit=RATIO,
        unit="×",
        note=f"{swapping:.0f} ms against {plain:.0f} ms of silence, medians of {MIGRATIONS_EACH} by turns",
    )


async def measure(layout: Layout) -> Gaps:
    """Boot the guest, move it, and look how long it is silent. Raises LabError, KubeError."""
    async with connect(str(layout.kubeconfig)) as api:
        bench = _Bench(layout, api)
        await bench.boot()
        nads = (BLUE, RED)
        swapping, plain = [], []
        for number in range(MIGRATIONS_EACH):
            plain.append((await bench.during(bench.migrate, changes=False)).longest)
            found = await bench.during(partial(bench.edit, nads[number % 2]), changes=True)
            swapping.append(found.longest)
        in_place, bare = [], []
        for number in range(MIGRATIONS_EACH, MIGRATIONS_EACH + MOVES):
            here, there = nads[number % 2], nads[1 - number % 2]
            found = await bench.during(partial(bench.move, here), changes=True)
            in_place.append(found.moved)
            for source, target in ((here, there), (there, here)):
                found = await bench.during(partial(bench.bare_move, source, target), changes=True)
                bare.append(found.moved)
        return Gaps(tuple(in_place), tuple(bare), tuple(swapping), tuple(plain))


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

    async def during(self, work: Callable[[], Awaitable[None]], *, changes: bool) -> Findings:
        """What a peer finds while something is done that `changes` the guest's network or not."""
        words = (
            "ip",
            "netns",
            "exec",
            f"{PEER.namespace}.{PEER.name}",
            *PROBER,
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
        """Move the port as a script does, with a program for each request."""
        swaps = (await self._api.list(NETWORK_SWAPS, MACHINE.namespace)).items
        last = max(swaps, key=lambda item: item.status.completed_at)
        assert last.status.port is not None
        link = last.status.port.link
        script = "; ".join(
            (
                f"ip link set {link} down",
                f"bridge vlan del dev {link} vid {VLAN_IDS[source]}",
                f"bridge vlan add dev {link} vid {VLAN_IDS[target]} pvid untagged",
                f"ip link set {link} up",
            )
        )
        await client.capture(self._layout, last.status.node, "sh", "-c", script)

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

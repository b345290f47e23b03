"""Floods of MAC addresses on a real kernel: they stay where they are, and what is fixed or moves finds its place."""

import asyncio
from functools import partial

from lanloom.node.links import KernelLink
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink import reader
from tests.features.lan.kernel.machines import Lab, Machine, Wire, frame, played, reaches, run, until
from tests.features.lan.kernel.test_options import BROADCAST, patch, wires
from tests.features.lan.kernel.test_traffic import joined

LIMIT, SPOKES, FLOOD = 100, 4, 20_000
STATION = "172.16.0.{}/24"


def flood(sender: Wire, count: int = FLOOD) -> None:
    """Sends frames from so many addresses."""
    for number in range(count):
        source = f"0e:01:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        sender.send(frame(BROADCAST, source, b"flood"))


def entries(machine: Machine) -> tuple[int, int]:
    """How many entries of the flood the bridge and the VXLAN link of a node have."""
    lines = run(machine.lan(), "bridge fdb show").splitlines()
    found = [line for line in lines if line.startswith("0e:01:00:")]
    at_peers = sum(" self" in line for line in found)
    return len(found) - at_peers, at_peers


def links(machine: Machine) -> tuple[KernelLink, KernelLink]:
    """The bridge and the VXLAN link of a node."""
    with open_namespace(machine.lan()) as space, space.socket() as sock:
        return reader.link(sock, name="br0"), reader.link(sock, name="vx0")


async def flooded(made: Lab, limit: int) -> None:
    """Two nodes with a pod each, and a flood from the first one's to both."""
    await made.cluster.lan(maxLearnedMacs=limit)
    for machine in made.machines:
        await machine.offers(2 * SPOKES)
    await made[0].attach("blue-a", "p", STATION.format(1))
    await made[1].attach("blue-b", "q", STATION.format(2))
    await joined(made)
    with wires((made[0], "p")) as (sender,):
        await asyncio.to_thread(flood, sender)
    await until(lambda: entries(made[1])[1] >= limit)


@played(2)
async def test_a_flood_from_a_spoke(made: Lab) -> None:
    """Of a flood of addresses, each node learns as many as the limit says, in the bridge and in the VXLAN link."""
    await flooded(made, LIMIT)
    bridge, vxlan = links(made[1])
    assert vxlan.entry_limit == LIMIT + 1 + SPOKES
    assert LIMIT <= entries(made[1])[1] <= vxlan.entry_limit
    if bridge.learned_limit is not None:
        assert max(entries(machine)[0] for machine in made.machines) <= LIMIT
    # Storm control drops questions for addresses, too, for a moment after the flood.
    await until(partial(reaches, made[0].pods.path("p"), "172.16.0.2"))


@played(1)
async def test_a_limit_that_nobody_asked_for(made: Lab) -> None:
    """A LAN that asks for no limit has a generous one, in the bridge where the kernel knows it, and at peers."""
    await made.cluster.lan()
    (machine,) = made.machines
    await machine.offers()
    await machine.attach("blue-a", "p")
    bridge, vxlan = links(machine)
    assert bridge.learned_limit in (None, 65_535) and vxlan.entry_limit == 65_536 + SPOKES
    assert machine.entries()[0].ready


@played(2)
async def test_what_stays_where_all_is_full(made: Lab) -> None:
    """Nodes that join and secured addresses find room in a table that a flood has filled, and while it goes on."""
    await flooded(made, 3)
    await made[1].kill()
    done = asyncio.Event()
    with wires((made[0], "p")) as (sender,):

        async def on_and_on() -> None:
            while not done.is_set():
                await asyncio.to_thread(flood, sender, 1000)

        going_on = asyncio.create_task(on_and_on())
        run(made[1].lan(), "bridge fdb del 00:00:00:00:00:00 dev vx0 dst 10.99.0.1 self")
        await patch(made, spokeOptions={"blue-c": {"portSecurity": True}})
        secured = await made[0].attach("blue-c", "r")
        made[1].start()
        await joined(made)
        await until(lambda: f"{secured.mac} dst 10.99.0.1" in run(made[1].lan(), "bridge fdb show dev vx0"))
        done.set()
        await going_on
    assert "vx0" not in made[1].entries()[0].message


@played(2)
async def test_a_move_where_all_is_full(made: Lab) -> None:
    """An address that moves to another node, and back, is found there although the tables of both are full."""
    await flooded(made, 3)
    own = "02:00:00:00:00:77"
    ends = [(made[0], "p", "172.16.0.1"), (made[1], "q", "172.16.0.2")]
    for number in range(3):
        here = made[number % 2]
        await here.attach("blue-d", f"vm{number}", STATION.format(7), mac=own)
        for machine, pod, target in ends:
            await until(partial(reaches, machine.pods.path(pod), "172.16.0.7"))
            await until(partial(reaches, here.pods.path(f"vm{number}"), target))
        await here.spokes.detach(f"c-vm{number}", "net1")


@played(2)
async def test_a_limit_that_changes(made: Lab) -> None:
    """A limit that is lowered holds for what was learned before, too, and pods reach each other afterwards."""
    await flooded(made, 1000)
    kept = run(made[1].lan(), "ip -o link show blue-bV0")
    await patch(made, maxLearnedMacs=LIMIT)
    await until(
        lambda: f"maxaddr {LIMIT + 1 + SPOKES} " in run(made[1].lan(), "ip -d link show", check=False)
    )
    await joined(made)
    with wires((made[0], "p")) as (sender,):
        await asyncio.to_thread(flood, sender, 2000)
    assert entries(made[1])[1] <= LIMIT + 1 + SPOKES
    assert run(made[1].lan(), "ip -o link show blue-bV0") == kept
    await until(partial(reaches, made[0].pods.path("p"), "172.16.0.2"))

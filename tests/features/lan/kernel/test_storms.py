"""Storm control on a real kernel: floods and loops are limited at the port that they come from, and nothing else is."""

import asyncio
from functools import partial
from typing import Any

from lanloom.api.lan import STORM_DEFAULT
from lanloom.features.lan.agent.links.optionsteps import STORM
from lanloom.features.lan.agent.ports import Attachment, Device
from lanloom.features.lan.rules.options import STORM_CONTROL, StormFilter
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink.packetfilter import open_filter_socket, owners, remove_table
from tests.features.lan.kernel.machines import Lab, Machine, Wire, batch, frame, played, run, until
from tests.features.lan.kernel.test_options import BROADCAST, Probe, patch, wires
from tests.features.lan.kernel.test_traffic import FOREIGN, joined

RATE, SENT = 5, 2000
LOOP = {"blue-c", "blue-d"}
NOBODY, GROUP = "0e:00:00:00:00:99", "01:00:5e:00:00:07"


def dropped(machine: Machine, spoke: str) -> int:
    """How many frames storm control has dropped of a spoke."""
    return dict(machine.traffic()[spoke].refused)[STORM_CONTROL]


def is_dropped(machine: Machine, count: int) -> bool:
    """Whether storm control has dropped as many frames of the first spoke."""
    return dropped(machine, "blue-a") >= count


def made_by(machine: Machine) -> str:
    """The mark of the storm control of a node, empty without one."""
    with open_namespace(machine.lan()) as space, space.call(open_filter_socket) as sock:
        return owners(sock).get(STORM, "")


def wanted(rate: int) -> str:
    """That mark, for a rate."""
    return StormFilter(rate=rate, vxlan="vx0").digest


def burst(sender: Wire, destination: str, source: str) -> None:
    """Many frames at once."""
    for _ in range(SENT):
        sender.send(frame(destination, source, destination.encode()))


async def built(made: Lab, **spec: Any) -> None:
    """Pods p and q on the first node, r on the second."""
    await made.cluster.lan(**spec)
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[0].attach("blue-b", "q", "172.16.0.2/24")
    await made[1].attach("blue-c", "r", "172.16.0.3/24")
    await joined(made)


@played(2)
async def test_floods_of_every_kind(made: Lab) -> None:
    """Broadcast, multicast and unknown unicast frames beyond the rate are dropped and counted at the sender's port."""
    await built(made, stormControl={"packetsPerSecond": RATE})
    own = "0e:00:00:00:00:01"
    before = dropped(made[0], "blue-a")
    with wires((made[0], "p"), (made[1], "r")) as (sender, far):
        for destination in (BROADCAST, GROUP, NOBODY):
            await asyncio.to_thread(burst, sender, destination, own)
            await until(partial(is_dropped, made[0], before + SENT // 2))
            assert sum(destination.encode() in got for _, got in far.heard()) < SENT / 2
            before = dropped(made[0], "blue-a")
    assert max(dropped(made[0], "blue-b"), dropped(made[1], "blue-c")) < SENT / 10


@played(2)
async def test_what_is_no_storm(made: Lab) -> None:
    """Frames for stations that were heard pass at any rate, on the same node and on another one, and others' floods."""
    await built(made, stormControl={"packetsPerSecond": RATE})
    probe = Probe()
    near, remote = "0e:00:00:00:00:02", "0e:00:00:00:00:03"
    with wires((made[0], "p"), (made[0], "q"), (made[1], "r")) as (sender, same, far):
        await probe.passes(same, sender, near)
        await probe.passes(far, sender, remote)
        before = dropped(made[0], "blue-a")
        for station in (near, remote):
            await asyncio.to_thread(burst, sender, station, FOREIGN)
        assert dropped(made[0], "blue-a") == before
        await asyncio.to_thread(burst, sender, BROADCAST, FOREIGN)
        await probe.passes(same, far, near)
        await probe.passes(far, same, remote)
    assert max(dropped(made[0], "blue-b"), dropped(made[1], "blue-c")) < SENT / 10


async def loop(machine: Machine, *spokes: str) -> None:
    """A machine that bridges two spokes."""
    path = await asyncio.to_thread(machine.pod, "vnf")
    for number, spoke in enumerate(spokes):
        await machine.spokes.attach(
            Attachment(
                device=Device(spoke, "veth"),
                container=f"vnf{number}",
                netns=str(path),
                interface=f"net{number}",
                pod="default/vnf",
            )
        )
    await asyncio.to_thread(
        batch,
        path,
        "link add br0 up type bridge mcast_snooping 0",
        *(f"link set net{number} up master br0" for number in range(len(spokes))),
    )


@played(2)
async def test_a_loop(made: Lab) -> None:
    """A machine that bridges two spokes is reported by its node, and the frames that go round are dropped."""
    await made.cluster.lan(stormControl={"packetsPerSecond": RATE})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[1].attach("blue-b", "q", "172.16.0.2/24")
    await joined(made)
    await loop(made[0], *sorted(LOOP))
    running = asyncio.get_running_loop()
    with wires((made[0], "p")) as (sender,):

        def is_told() -> bool:
            """One frame goes round until storm control drops it."""
            sender.send(frame(BROADCAST, FOREIGN, b"once"))
            running.call_soon_threadsafe(made[0].look)
            return any(spoke.storming for spoke in made[0].entries()[0].spokes if spoke.name in LOOP)

        await until(is_told)
    assert dropped(made[0], "blue-c") + dropped(made[0], "blue-d") > 0
    storming = {spoke.name for spoke in made[0].entries()[0].spokes if spoke.storming}
    assert made[0].entries()[0].ready and storming & LOOP


def ports(machine: Machine) -> set[str]:
    """The ports of a node's LAN, each with the index of its other end."""
    return {line.split()[0] for line in run(machine.lan(), "ip -br link show type veth").splitlines()}


@played(1)
async def test_it_comes_back(made: Lab) -> None:
    """Storm control that is removed comes back, and follows the LAN while pods run; with 0 there is none."""
    await made.cluster.lan()
    (machine,) = made.machines
    await machine.offers()
    await machine.attach("blue-a", "p")
    before = ports(machine)
    assert made_by(machine) == wanted(STORM_DEFAULT)
    with open_namespace(machine.lan()) as space, space.call(open_filter_socket) as sock:
        remove_table(sock, STORM)
    machine.look()
    await until(lambda: made_by(machine) == wanted(STORM_DEFAULT))
    await patch(made, stormControl={"packetsPerSecond": 7})
    await until(lambda: made_by(machine) == wanted(7))
    await machine.kill()
    machine.start()
    await machine.offers()
    assert made_by(machine) == wanted(7)
    await patch(made, stormControl={"packetsPerSecond": 0})
    await until(lambda: made_by(machine) == "")
    assert ports(machine) == before

"""Options of LANs on a real kernel, by attack: forged addresses, stolen ones, and ways around isolation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.links.optionsteps import PORTS
from lanloom.features.lan.agent.ports import MtuRefused
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink.packetfilter import open_filter_socket, owners
from tests.features.lan.agent.nodes import NAMESPACE
from tests.features.lan.kernel.machines import Lab, Machine, Wire, frame, played, run, until
from tests.features.lan.kernel.test_traffic import FOREIGN, joined

BROADCAST = "ff:ff:ff:ff:ff:ff"


@contextmanager
def wires(*ends: tuple[Machine, str]) -> Iterator[list[Wire]]:
    """The interfaces of pods, by machine and pod."""
    with ExitStack() as stack:
        spaces = [stack.enter_context(open_namespace(machine.pods.path(pod))) for machine, pod in ends]
        yield [stack.enter_context(Wire(space, "net1")) for space in spaces]


class Probe:
    """Frames with a text of their own, sent until they arrive, or until a later one has."""

    def __init__(self) -> None:
        self._count = 0

    def frame(self, source: str, destination: str = BROADCAST) -> tuple[bytes, bytes]:
        """A fresh text, and the frame with it."""
        self._count += 1
        text = b"probe %d." % self._count
        return text, frame(destination, source, text)

    async def passes(self, sender: Wire, receiver: Wire, source: str, destination: str = BROADCAST) -> None:
        """Fails unless a frame from that address arrives."""
        text, sent = self.frame(source, destination)

        def arrived() -> bool:
            sender.send(sent)
            return any(text in got for _, got in receiver.heard())

        await until(arrived)

    async def is_stopped(
        self, sender: Wire, receiver: Wire, source: str, *, witness: Callable[[], Awaitable[None]]
    ) -> None:
        """Fails if a frame from that address arrives before what the witness sends has."""
        text, sent = self.frame(source)
        for _ in range(5):
            sender.send(sent)
        heard = receiver.heard()
        await witness()
        heard += receiver.heard()
        assert not any(text in got for _, got in heard)


def address(machine: Machine, pod: str) -> str:
    """The address of a pod's interface."""
    return run(machine.pods.path(pod), "ip -br link show net1").split()[2]


async def patch(made: Lab, **spec: Any) -> None:
    """A change of the LAN."""
    await made.cluster.client.patch(LANS, "blue", {"spec": spec}, NAMESPACE)


@pytest.mark.parametrize("mode", ["veth", "macvtap"])
async def test_forged_source(tmp_path: Any, mode: str) -> None:
    """With port security frames from other addresses than the interface's own pass no port, whatever they are for."""

    @played(2)
    async def story(made: Lab) -> None:
        await made.cluster.lan(portSecurity=True)
        for machine in made.machines:
            await machine.offers()
        await made[0].attach("blue-a", "thief", mode=mode)
        await made[0].attach("blue-b", "near")
        await made[1].attach("blue-c", "far")
        await joined(made)
        own = address(made[0], "thief")
        probe = Probe()
        with wires((made[0], "thief"), (made[0], "near"), (made[1], "far")) as (thief, near, far):
            for receiver in (near, far):
                witness = partial(probe.passes, thief, receiver, own)
                await witness()
                for forged in (FOREIGN, address(made[0], "near"), address(made[1], "far")):
                    await probe.is_stopped(thief, receiver, forged, witness=witness)
            for destination in ("01:80:c2:00:00:02", "01:80:c2:00:00:0e"):
                await probe.passes(thief, far, own, destination)

    await story(tmp_path)


@played(2)
async def test_stolen_address(made: Lab) -> None:
    """An address of a secured spoke can't be stolen by a spoke that sends from any address, on no node."""
    await made.cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "victim")
    await made[0].attach("blue-b", "near")
    await made[1].attach("blue-c", "far")
    await made[1].attach("blue-d", "friend")
    await joined(made)
    own = address(made[0], "victim")
    await until(lambda: own in run(made[1].lan(), "bridge fdb show"))
    probe = Probe()
    ends = ((made[0], "victim"), (made[0], "near"), (made[1], "far"), (made[1], "friend"))
    with wires(*ends) as (victim, near, far, friend):
        await probe.passes(victim, friend, own)
        for thief in (near, far):
            for _ in range(5):
                thief.send(frame(BROADCAST, own, b"stealing"))
            await probe.passes(thief, victim, FOREIGN)
            text, sent = probe.frame("0e:00:00:00:00:12", own)

            def arrived(sent: bytes = sent, text: bytes = text) -> bool:
                friend.send(sent)
                return any(text in got for _, got in victim.heard())

            await until(arrived)
            assert not any(text in got for _, got in thief.heard())


@played(2)
async def test_secured_at_run_time(made: Lab) -> None:
    """Port security that is switched on while a pod runs stops what was learned before, and off lets it pass again."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p")
    await made[1].attach("blue-b", "q")
    await joined(made)
    probe = Probe()
    own = address(made[0], "p")
    with wires((made[0], "p"), (made[1], "q")) as (sender, receiver):
        await probe.passes(sender, receiver, FOREIGN)
        await patch(made, spokeOptions={"blue-a": {"portSecurity": True}})
        await until(lambda: "locked on" in run(made[0].lan(), "bridge -d link show dev blue-aV0"))
        witness = partial(probe.passes, sender, receiver, own)
        await witness()
        await probe.is_stopped(sender, receiver, FOREIGN, witness=witness)
        await patch(made, spokeOptions=None)
        await probe.passes(sender, receiver, FOREIGN)
        await until(lambda: "sticky" not in run(made[1].lan(), "bridge fdb show"))


@played(2)
async def test_isolated(made: Lab) -> None:
    """Isolated spokes reach others only, on one node and across nodes, and whatever address they send from."""
    await made.cluster.lan(spokeOptions={f"blue-{each}": {"isolated": True} for each in "ab"})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "here")
    await made[1].attach("blue-b", "there", mode="macvtap")
    await made[0].attach("blue-c", "open")
    await made[1].attach("blue-d", "far")
    await joined(made)
    probe = Probe()
    ends = ((made[0], "here"), (made[1], "there"), (made[0], "open"), (made[1], "far"))
    with wires(*ends) as (here, there, near, far):
        for isolated in (here, there):
            for other in (near, far):
                await probe.passes(isolated, other, FOREIGN)
                await probe.passes(other, isolated, "0e:00:00:00:00:13")
        for sender, receiver in ((here, there), (there, here)):
            witness = partial(probe.passes, far, receiver, "0e:00:00:00:00:14")
            for source in (FOREIGN, "0e:00:00:00:00:14"):
                await probe.is_stopped(sender, receiver, source, witness=witness)
        unicast = address(made[1], "there")
        await probe.passes(there, near, unicast)
        text, sent = probe.frame(FOREIGN, unicast)
        for _ in range(5):
            here.send(sent)
        await probe.passes(far, there, "0e:00:00:00:00:15", unicast)
        assert not any(text in got for _, got in there.heard())


@played(2)
async def test_isolated_at_run_time(made: Lab) -> None:
    """Spokes of a running LAN become isolated, and are not any more when the option is gone."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p")
    await made[1].attach("blue-b", "q")
    await made[0].attach("blue-c", "same")
    await made[1].attach("blue-d", "open")
    await joined(made)
    probe = Probe()
    ends = ((made[0], "p"), (made[1], "q"), (made[0], "same"), (made[1], "open"))
    with wires(*ends) as (first, second, same, free):
        await probe.passes(first, second, FOREIGN)
        await patch(made, spokeOptions={f"blue-{each}": {"isolated": True} for each in "abc"})
        for machine, port in ((made[0], "blue-aV0"), (made[1], "blue-bV0"), (made[0], "blue-cV0")):
            await until(
                lambda machine=machine, port=port: (  # type: ignore[misc]
                    "isolated on" in run(machine.lan(), f"bridge -d link show dev {port}")
                )
            )
        for receiver in (second, same):
            witness = partial(probe.passes, free, receiver, "0e:00:00:00:00:14")
            await probe.is_stopped(first, receiver, FOREIGN, witness=witness)
        await probe.passes(first, free, FOREIGN)
        await patch(made, spokeOptions=None)
        await probe.passes(first, second, FOREIGN)
        await probe.passes(first, same, FOREIGN)


@played(1)
async def test_limited_addresses(made: Lab) -> None:
    """A spoke with a limit sends from so many addresses, and others are not concerned."""
    await made.cluster.lan(spokeOptions={"blue-a": {"maxLearnedMacs": 3}})
    (machine,) = made.machines
    await machine.offers()
    await machine.attach("blue-a", "limited")
    await machine.attach("blue-b", "free")
    probe = Probe()
    own = address(machine, "limited")
    with wires((machine, "limited"), (machine, "free")) as (limited, free):
        await probe.passes(limited, free, own)
        for number in (1, 2):
            await probe.passes(limited, free, f"0e:00:00:00:01:0{number}")
        witness = partial(probe.passes, limited, free, "0e:00:00:00:01:01")
        await probe.is_stopped(limited, free, "0e:00:00:00:01:03", witness=witness)
        for number in range(5):
            await probe.passes(free, limited, f"0e:00:00:00:02:0{number}")


@played(1)
async def test_limited_bridge(made: Lab) -> None:
    """A node learns at most so many addresses of a LAN, or says that its kernel has no such limit."""
    await made.cluster.lan(maxLearnedMacs=3)
    (machine,) = made.machines
    await machine.offers()
    await machine.attach("blue-a", "p")
    await machine.attach("blue-b", "q")
    with wires((machine, "p"), (machine, "q")) as (sender, receiver):
        probe = Probe()
        for number in range(20):
            await probe.passes(sender, receiver, f"0e:00:00:00:03:{number:02x}")
    learned = [
        line
        for line in run(machine.lan(), "bridge fdb show").splitlines()
        if line.startswith("0e:00:00:00:03:")
    ]
    (entry,) = machine.entries()
    if "spec.maxLearnedMacs is 3" in entry.message:
        assert not entry.ready and len(learned) == 20
    else:
        assert entry.ready and len(learned) <= 3


@played(2)
async def test_mtu(made: Lab) -> None:
    """An interface has the MTU that is asked for; one that does not fit is refused, and nothing of it is left."""
    await made.cluster.lan(mtu=1400, spokeOptions={"blue-a": {"mtu": 1300}})
    for machine in made.machines:
        await machine.offers()
    assert (await made[0].attach("blue-a", "p")).mtu == 1300
    assert (await made[0].attach("blue-b", "q", mode="macvtap")).mtu == 1400
    await asyncio.to_thread(run, made[1].host, "ip link set u0 mtu 1400")
    with pytest.raises(MtuRefused, match="asks for 1400, and the LAN has MTU 1350, as node n2"):
        await made[1].attach("blue-c", "r")
    assert made[1].links() == set()
    await patch(made, mtu=1350)
    await until(lambda: "mtu 1350" in run(made[0].pods.path("q"), "ip link show net1"))
    await made[1].attach("blue-c", "s")
    await joined(made)
    await patch(made, mtu=1380)
    await until(lambda: "spec.mtu is 1380" in made[0].entries()[0].message)
    with pytest.raises(MtuRefused, match="asks for 1380, and the LAN has MTU 1350, as node n2"):
        await made[0].attach("blue-d", "t")
    assert "blue-dV0" not in made[0].links()


@played(2)
async def test_two_places_at_once(made: Lab) -> None:
    """A secured address at two nodes, as of a machine that migrates, is learned where it is; forged ones still stop."""
    await made.cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    own = "02:00:00:00:00:77"
    for machine in made.machines:
        await machine.attach("blue-a", "vm", mac=own)
        silence(machine, "vm")
    await made[0].attach("blue-b", "friend")
    await joined(made)
    for machine in made.machines:
        await until(partial(is_unpinned, machine))
    probe = Probe()
    with wires((made[0], "vm"), (made[1], "vm"), (made[0], "friend")) as (before, after, friend):
        for sender, other in ((before, after), (after, before)):
            await probe.passes(sender, friend, own)
            text, sent = probe.frame("0e:00:00:00:00:12", own)
            friend.send(sent)
            await until(partial(has_heard, sender, text))
            assert not any(text in got for _, got in other.heard())
            witness = partial(probe.passes, sender, friend, own)
            await probe.is_stopped(sender, friend, FOREIGN, witness=witness)


@played(3)
async def test_stolen_while_it_migrates(made: Lab) -> None:
    """The address of a secured machine that is at two nodes can't be stolen by others, on these nodes or a third."""
    await made.cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    own = "02:00:00:00:00:77"
    for machine in made.machines[:2]:
        await machine.attach("blue-a", "vm", mac=own)
        silence(machine, "vm")
    await made[0].attach("blue-b", "friend")
    await made[0].attach("blue-c", "near")
    await made[2].attach("blue-d", "far")
    await joined(made)
    for machine in made.machines:
        await until(partial(guards, machine, own))
    probe = Probe()
    ends = ((made[0], "vm"), (made[0], "friend"), (made[0], "near"), (made[2], "far"))
    with wires(*ends) as (victim, friend, near, far):
        await probe.passes(victim, friend, own)
        for thief in (near, far):
            witness = partial(probe.passes, thief, friend, FOREIGN)
            await probe.is_stopped(thief, friend, own, witness=witness)
            text, sent = probe.frame("0e:00:00:00:00:12", own)
            friend.send(sent)
            await until(partial(has_heard, victim, text))
            assert not any(text in got for _, got in thief.heard())


def silence(machine: Machine, pod: str) -> None:
    """Keeps a pod's own kernel from looking for routers: of two pods with one address, it would be heard last."""
    with open_namespace(machine.pods.path(pod)) as space:
        space.call(lambda: Path("/proc/sys/net/ipv6/conf/net1/disable_ipv6").write_bytes(b"1"))


def guards(machine: Machine, mac: str) -> bool:
    """Whether a node lets only its owner send from an address."""
    with open_namespace(machine.lan()) as space, space.call(open_filter_socket) as sock:
        there = PORTS in owners(sock)
    return there and mac not in "".join(
        line for line in run(machine.lan(), "bridge fdb show").splitlines() if "sticky" in line
    )


@played(2)
async def test_refused_frames_are_counted(made: Lab) -> None:
    """What options drop is counted at the spoke: forged sources, addresses beyond the limit, frames of the isolated."""
    await made.cluster.lan(
        spokeOptions={
            "blue-a": {"portSecurity": True},
            "blue-b": {"maxLearnedMacs": 1, "isolated": True},
            "blue-c": {"isolated": True},
        }
    )
    for machine in made.machines:
        await machine.offers()
    for spoke, pod in (("blue-a", "secured"), ("blue-b", "limited"), ("blue-d", "open")):
        await made[0].attach(spoke, pod)
    await made[1].attach("blue-c", "alone")
    await joined(made)
    probe = Probe()
    own = address(made[0], "limited")
    before = [dict(refused(machine)) for machine in made.machines]
    ends = ((made[0], "secured"), (made[0], "limited"), (made[0], "open"), (made[1], "alone"))
    with wires(*ends) as (secured, limited, free, alone):
        await probe.passes(limited, free, own)
        for sender, source in ((secured, FOREIGN), (limited, "0e:00:00:00:01:03"), (limited, own)):
            witness = partial(probe.passes, free, alone, "0e:00:00:00:00:15")
            await probe.is_stopped(sender, alone, source, witness=witness)
    after = [dict(refused(machine)) for machine in made.machines]

    def more(node: int, spoke: str, option: str) -> int:
        return after[node][spoke, option] - before[node][spoke, option]

    assert more(0, "blue-a", "port-security") >= 5
    assert more(0, "blue-b", "mac-limit") >= 5
    assert more(1, "blue-c", "isolation") >= 5
    assert {option for spoke, option in (*after[0], *after[1]) if spoke == "blue-d"} == {"storm-control"}


def refused(machine: Machine) -> Iterator[tuple[tuple[str, str], int]]:
    """How many frames each option of each spoke has dropped."""
    for spoke, traffic in machine.traffic().items():
        for option, count in traffic.refused:
            yield (spoke, option), count


def has_heard(wire: Wire, text: bytes) -> bool:
    """Whether a frame with the text has come since."""
    return any(text in got for _, got in wire.heard())


def is_unpinned(machine: Machine) -> bool:
    """Whether the spoke's port is not locked, and no address is pinned."""
    flags = run(machine.lan(), "bridge -d link show dev blue-aV0")
    return "locked off" in flags and "sticky" not in run(machine.lan(), "bridge fdb show")

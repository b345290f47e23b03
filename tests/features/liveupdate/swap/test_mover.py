"""The agent's mover on a kernel in memory: what it moves, what it refuses, and what the next one makes of its death."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.lan import Mode, MultusReport
from lanloom.api.liveupdate import NetworkSwap, NetworkSwapSpec, NetworkSwapStatus, Phase
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.liveupdate.agent.mover import Mover, Outcome, SwapView
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.features.liveupdate.rules.port import Bridge, PortBinding
from lanloom.node.errors import LinkError
from lanloom.node.vlanids import VlanEntry
from lanloom.runtime.ports import LanPlace, PodNic
from tests.fakes.ports import Died, FakePorts, PortWorld
from tests.fakes.profiles import FakeRecords
from tests.features.liveupdate.swap.scene import (
    FROM,
    INTERFACE,
    MACHINE,
    NIC,
    NODE,
    PLACE,
    TO,
    nad_body,
    spec_body,
    status_text,
)

TEN, TWENTY = (
    (VlanEntry(1, 1, untagged=True), VlanEntry(vid, vid, pvid=True, untagged=True)) for vid in (10, 20)
)
AT_HOME = PortBinding(link="veth7", bridge="one-br", entries=TEN, mtu=1500)
BLUE = "/run/netns/blue"


class Lans:
    """LANs of the node: a place for each spoke, and what is recorded of it."""

    def __init__(self, world: PortWorld) -> None:
        self.world = world
        self.recorded: dict[str, str] = {}
        world.bridges[BLUE, "br0"] = Bridge(name="br0", mtu=1450)

    def find(self, spoke: str) -> LanPlace:
        """As the port says."""
        if spoke not in ("web", "db"):
            raise LinkError(f"no LAN has the spoke {spoke}; add it to spec.spokes of one")
        return LanPlace(BLUE, "br0", f"{spoke}V0", 1450)

    def pod_at(self, _spoke: str, _mode: Mode) -> str:
        """As the port says."""
        return ""

    async def relocate(
        self, nic: PodNic, leave: str, enter: str, move: Callable[[LanPlace | None], Awaitable[Any]]
    ) -> Any:
        """As the port says."""
        for spoke in filter(None, (leave, enter)):
            self.recorded[spoke] = "in transit"
        result = await move(self.find(enter) if enter else None)
        self.recorded.pop(leave, None)
        if enter:
            self.recorded[enter] = nic.interface
        return result


class Node:
    """An agent's mover, which may die and be made again, and the kernel and records that stay."""

    def __init__(self, binding: PortBinding = AT_HOME, **nads: dict[str, Any]) -> None:
        self.world = PortWorld(binding=binding)
        self.records = FakeRecords()
        self.lans = Lans(self.world)
        self.multus: MultusReport | None = None
        given: dict[str, dict[str, Any]] = {
            "vlan10": {"bridge": "one-br", "vlan": 10},
            "vlan20": {"bridge": "two-br", "vlan": 20},
            "k8slan-veth-web": {"type": "k8slanveth", "veth": "web"},
            "k8slan-veth-db": {"type": "k8slanveth", "veth": "db"},
        }
        self.nads = given | nads

    async def bring(self, phase: Phase, source: str = FROM, target: str = TO, **status: Any) -> Outcome:
        """A process that has just been started does what a phase wants."""
        return await self.mover().bring(self.scene(phase, source, target, **status))

    def mover(self) -> Mover:
        """The mover of a process that has just been started."""

        async def multus() -> MultusReport | None:
            return self.multus

        return Mover(FakePorts(self.world), MoveRecords(self.records), lambda: self.lans, multus)

    def scene(self, phase: Phase, source: str = FROM, target: str = TO, **status: Any) -> SwapView:
        """What the API server has."""
        swap = NetworkSwap(
            metadata=ObjectMeta(name="move", namespace=PLACE, uid="u1"),
            spec=NetworkSwapSpec(machine=MACHINE, network=NIC, from_=source, to=target),
            status=NetworkSwapStatus(phase=phase, node=NODE, **status),
        )
        pod = {
            "metadata": {
                "name": "virt-launcher-db",
                "namespace": PLACE,
                "uid": "p1",
                "annotations": {"k8s.v1.cni.cncf.io/network-status": status_text(source)},
            },
            "status": {"podIP": "10.0.0.7"},
        }
        machine = {"metadata": {"name": MACHINE, "namespace": PLACE}, "spec": spec_body(source)}
        return SwapView(
            swap,
            msgspec.convert(pod, Pod),
            msgspec.convert(machine, VirtualMachineInstance),
            self._nad(source),
            self._nad(target),
        )

    def _nad(self, title: str) -> NetworkAttachmentDefinition | None:
        name = title.split("/")[1]
        if name not in self.nads:
            return None
        return msgspec.convert(nad_body(name, **self.nads[name]), NetworkAttachmentDefinition)


async def test_a_port_moves_and_is_announced() -> None:
    """A port goes to the bridge and VLAN of the new NAD, keeps its name, and the machine is announced there."""
    node = Node()
    found = await node.bring("Moving")
    assert (found.nad, found.error, found.gap) == (TO, "", 1.5)
    assert node.world.binding == PortBinding(link="veth7", bridge="two-br", entries=TWENTY, mtu=1500)
    assert node.world.sent[0][6:12] == bytes.fromhex("020000000007")


async def test_a_port_that_is_there_is_left_alone() -> None:
    """A port that is where its phase wants it is not moved again, and nothing is announced."""
    node = Node()
    mover = node.mover()
    await mover.bring(node.scene("Moving"))
    sent = len(node.world.sent)
    assert await mover.bring(node.scene("Recording")) == Outcome("veth7", TO)
    assert node.world.moves == 1 and len(node.world.sent) == sent


async def test_a_port_that_another_process_moved_is_announced() -> None:
    """A process that finds a move of the one before tells the network once, as that one may have died before it did."""
    node = Node()
    await node.bring("Moving")
    sent, mover = len(node.world.sent), node.mover()
    found = [await mover.bring(node.scene(phase)) for phase in ("Moving", "Recording")]
    assert found == [Outcome("veth7", TO, moved=True), Outcome("veth7", TO)]
    assert node.world.moves == 1 and len(node.world.sent) == 2 * sent


async def test_a_port_comes_back() -> None:
    """A swap that reverts gets the port exactly where it was, even when its NADs are gone or say something else."""
    odd = PortBinding(
        link="veth7", bridge="one-br", entries=(VlanEntry(10, 10, True, True), VlanEntry(77, 79)), mtu=1400
    )
    node = Node(odd)
    await node.bring("Moving")
    node.nads.clear()
    assert (await node.bring("Reverting")).nad == FROM
    assert node.world.binding == odd


async def test_a_move_that_was_never_begun() -> None:
    """A swap that reverts before the node began touches nothing."""
    node = Node()
    assert await node.bring("Reverting") == Outcome("veth7", FROM)
    assert node.world.moves == 0


@pytest.mark.parametrize("phase", ["Moving", "Recording", "UntilRestart", "Reverting", "Failed"])
async def test_another_nic_under_the_name(phase: Phase) -> None:
    """A NIC that was plugged in under the name of one that moved stays where it is, whatever becomes of that move."""
    node = Node()
    await node.bring("Moving")
    node.world.nic, node.world.binding = 4, AT_HOME
    found = await node.bring(phase)
    assert "was unplugged during its move" in found.error and found.final and found.nad == ""
    assert node.world.moves == 1 and node.world.binding == AT_HOME


async def test_a_record_of_an_earlier_release() -> None:
    """A port whose record does not tell the NIC comes back all the same."""
    node = Node()
    await node.bring("Moving")
    name, kept = next(iter(node.records.contents.items()))
    node.records.contents[name] = kept.replace(b'"nic":2', b'"nic":0')
    assert (await node.bring("Reverting")).nad == FROM


async def test_what_the_kernel_refuses_is_taken_back_at_once() -> None:
    """A move that fails half-way leaves the port where it was, with the reason."""
    node = Node()
    node.world.broken.add("two-br")
    found = await node.bring("Moving")
    assert found.final and found.nad == FROM and "Device or resource busy" in found.error
    assert node.world.binding == AT_HOME


@pytest.mark.parametrize(
    ("nads", "binding", "words"),
    [
        ({"vlan20": {"bridge": "none-br"}}, AT_HOME, "there is no bridge none-br"),
        ({"vlan20": {"type": "ovs"}}, AT_HOME, "spec.config.type"),
        ({"vlan20": {"bridge": "two-br", "macspoofchk": True}}, AT_HOME, "macspoofchk"),
        ({"vlan20": {"bridge": "two-br", "vlan": 5000}}, AT_HOME, "spec.config.vlan"),
        ({}, PortBinding(link="veth7", bridge="two-br"), "another program moved it"),
    ],
)
async def test_refusals_touch_nothing(nads: dict[str, Any], binding: PortBinding, words: str) -> None:
    """What can't be moved is refused before the port is touched, with the object and the field."""
    node = Node(binding, **nads)
    found = await node.bring("Moving")
    assert words in found.error and found.nad == ""
    assert node.world.moves == 0 and node.world.binding == binding


async def test_an_ambiguous_pod_is_refused() -> None:
    """A port that can't be distinguished from another is not moved, and another try is left to the user."""
    node = Node()
    node.world.ambiguous = True
    found = await node.bring("Moving")
    assert found.final and "2 namespaces" in found.error


async def test_a_port_goes_to_a_lan_and_back() -> None:
    """A LAN records the place of a port that comes, and forgets it when the port leaves."""
    node, lan = Node(), f"{PLACE}/k8slan-veth-web"
    assert (await node.bring("Moving", target=lan)).nad == lan
    assert (node.world.binding.ns, node.world.binding.link) == (BLUE, "webV0")
    assert node.lans.recorded == {"web": INTERFACE}
    assert (await node.bring("Reverting", target=lan)).nad == FROM
    assert node.world.binding == AT_HOME and node.lans.recorded == {}


async def test_a_port_leaves_a_lan() -> None:
    """A port of a LAN gets a name of its own on the node, the same each time."""
    node = Node(PortBinding(link="webV0", ns=BLUE, bridge="br0", group_forwarding=0xFFFD, mtu=1450))
    lan = f"{PLACE}/k8slan-veth-web"
    await node.bring("Moving", source=lan)
    first = node.world.binding
    await node.bring("Reverting", source=lan)
    assert node.world.binding.link == "webV0" and node.lans.recorded == {"web": INTERFACE}
    await node.bring("Moving", source=lan)
    assert node.world.binding == first and first.link.startswith("veth") and node.lans.recorded == {}


async def test_addresses_of_the_new_network_are_announced() -> None:
    """The addresses that the machine has of the new network are announced with its hardware address."""
    node = Node()
    await node.bring("Moving", addresses=("192.0.2.4/24", "2001:db8::4"))
    assert len(node.world.sent) == 3
    assert bytes([192, 0, 2, 4]) in node.world.sent[1]


@pytest.mark.parametrize("target", [TO, f"{PLACE}/k8slan-veth-web"])
@pytest.mark.parametrize("end", ["Moving", "Reverting"])
async def test_an_agent_that_dies_anywhere(target: str, end: Phase) -> None:
    """Wherever an agent dies, the next one brings the port to where the phase wants it, and the LAN knows."""
    for step in range(12):
        node = Node()
        node.world.dies = step
        with suppress(Died):
            await node.bring("Moving", target=target)
        node.world.dies = -1
        found = await node.bring(end, target=target)
        assert (found.nad, found.error) == (target if end == "Moving" else FROM, "")
        kept = {"web": INTERFACE} if end == "Moving" and target != TO else {}
        assert node.lans.recorded == kept
        if end == "Reverting":
            assert node.world.binding == AT_HOME


async def test_a_record_that_cannot_be_read() -> None:
    """A port whose record is damaged goes back to where its NAD puts it, if it is where the swap moved it."""
    node = Node()
    await node.bring("Moving")
    for name in await node.records.names():
        await node.records.write(name, json.dumps({"uid": 1}).encode())
    assert (await node.bring("Reverting")).nad == FROM
    assert node.world.binding == AT_HOME


async def test_a_port_that_somebody_moved_away() -> None:
    """A port that is neither where it was nor where it was to be is left where it is."""
    node = Node(PortBinding(link="veth7", bridge="three-br"))
    found = await node.bring("Reverting")
    assert found.final and "neither where it was nor where it was to be" in found.error
    assert node.world.moves == 0


@pytest.mark.parametrize("missing", [False, True])
async def test_what_multus_would_refuse_is_not_begun(missing: bool) -> None:
    """Where Multus isolates namespaces, no port goes to another one's NAD, be it there or not, and it may come back."""
    node = Node()
    if missing:
        del node.nads["vlan20"]
    node.multus = MultusReport(file="00-multus.conf", namespace_isolation=True)
    found = await node.bring("Moving", target="secret/vlan20")
    assert "start the manager with --namespace-isolation" in found.error
    assert (found.final, node.world.binding, node.records.contents) == (True, AT_HOME, {})
    node.nads["vlan20"] = {"bridge": "two-br", "vlan": 20}
    back = await node.bring("Reverting", target="secret/vlan20")
    assert (back.nad, back.error) == (FROM, "")
    assert (await node.bring("Moving")).nad == TO


async def test_isolation_does_not_hold_a_port_half_way() -> None:
    """A move that was begun before Multus isolated namespaces goes on, or back, as its phase says."""
    node = Node()
    assert (await node.bring("Moving", target="secret/vlan20")).nad == "secret/vlan20"
    node.multus = MultusReport(file="00-multus.conf", namespace_isolation=True)
    assert (await node.bring("Recording", target="secret/vlan20")).error == ""
    assert (await node.bring("Reverting", target="secret/vlan20")).nad == FROM


GUARDED = {"bridge": "two-br", "vlan": 20, "macspoofchk": True}


@pytest.mark.parametrize(
    ("source", "target", "guarded", "words"),
    [
        ({"macspoofchk": True}, GUARDED, True, ""),
        ({"macspoofchk": True}, GUARDED, False, "no rule of macspoofchk names the port veth7"),
        ({}, GUARDED, True, "spec.config.macspoofchk is set in one of them"),
        (
            {"macspoofchk": True},
            {"bridge": "two-br", "vlan": 20},
            True,
            "spec.config.macspoofchk is set in one",
        ),
        (
            {"macspoofchk": True},
            {"type": "k8slanveth", "veth": "web"},
            True,
            "spec.config.macspoofchk is set in one",
        ),
    ],
    ids=["alike", "rules are missing", "only the target", "only the source", "a LAN"],
)
async def test_rules_of_macspoofchk(
    source: dict[str, Any], target: dict[str, Any], guarded: bool, words: str
) -> None:
    """A port moves with its rules where both NADs want them and they are there; else it stays, with the reason."""
    node = Node(vlan10={"bridge": "one-br", "vlan": 10} | source, vlan20=target)
    node.world.guarded = {"veth7"} if guarded else set()
    found = await node.bring("Moving")
    assert words in found.error
    assert (found.nad == TO, found.final) == (not words, bool(words))
    assert bool(node.world.moves) == (not words)

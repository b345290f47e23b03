"""Nodes on a real kernel that heal: an operator deletes links, agents die, LANs come and go."""

import asyncio
import errno
import os
import re
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from lanloom.api.lan import LANS
from lanloom.features.lan.agent.links import portsteps
from lanloom.features.lan.agent.ports import Device
from lanloom.node.errors import NamespaceError, NamespaceMissing
from lanloom.node.namespaces import NamespaceDirectory, make_namespace
from tests.features.lan.agent.nodes import NAMESPACE
from tests.features.lan.kernel.machines import Lab, Machine, lab, owner, played, reaches, run, until
from tests.features.lan.kernel.test_options import address
from tests.harness.examples import repetitions

LINKS = {"br0", "vx0", "blue-aV0", "blue-cM0", "blue-cM1"}


async def furnished(made: Lab) -> None:
    """Two nodes with a pod each, the first with a machine as well."""
    await made.cluster.lan()
    for number, machine in enumerate(made.machines, 1):
        await machine.offers()
        await machine.attach(f"blue-{'ab'[number - 1]}", "p", f"172.16.0.{number}/24")
    await made[0].spokes.allocate(Device("blue-c", "macvtap"))
    await made[0].attach("blue-c", "vm", mode="macvtap")
    await made[0].floods({made[1].address})
    await made[1].floods({made[0].address})


def whole(machine: Machine, peer: str) -> bool:
    """Whether the first node has all of its LAN."""
    if machine.links() != LINKS or machine.receivers() != {peer}:
        return False
    ports = {
        line.split(": ")[1].split("@")[0]
        for line in run(machine.lan(), "ip -o link show master br0").splitlines()
    }
    there = run(machine.pods.path("p"), "ip -o link show net1", check=False)
    guest = run(machine.pods.path("vm"), "ip -o link show net1", check=False)
    up = "UP" in there and "UP" in guest
    return ports == {"vx0", "blue-aV0", "blue-cM0"} and up and len(machine.taps()) == 1


@played(2)
async def test_deleted(made: Lab) -> None:
    """Any link, the namespace's name and a forwarding entry come back when they are deleted, wherever that is done."""
    await furnished(made)
    first, peer = made[0], made[1].address
    await until(lambda: whole(first, peer))
    mac = await asyncio.to_thread(address, first, "p")
    commands = [(first.lan(), f"ip link delete {name}") for name in sorted(LINKS)]
    commands += [(first.pods.path(pod), "ip link delete net1") for pod in ("p", "vm")]
    commands += [
        (first.lan(), f"bridge fdb delete 00:00:00:00:00:00 dev vx0 dst {peer} self"),
        (first.lan(), "ip link set blue-aV0 nomaster"),
        (first.lan(), "ip link set vx0 down"),
        (first.lan(), "ip link set br0 down"),
        (first.lan(), "ip link set vx0 mtu 1300"),
        (first.lan(), "bridge fdb append 00:00:00:00:00:00 dev vx0 dst 10.99.0.77 self"),
    ]
    for where, command in commands:
        await asyncio.to_thread(run, where, command)
        await until(lambda: whole(first, peer))
    await asyncio.to_thread(first.names.remove, "blue")
    await until(lambda: whole(first, peer))
    assert mac == await asyncio.to_thread(address, first, "p")


@played(2)
async def test_unfinished(made: Lab) -> None:
    """A pod's interface is set up also where a step failed, or an agent died, after it was made."""
    await furnished(made)
    first, peer = made[0], made[1].address
    await until(lambda: whole(first, peer))
    assert "DYNAMIC" not in await asyncio.to_thread(run, first.lan(), "ip -o link show blue-aV0")
    with patch.object(portsteps, "_finish", side_effect=OSError(errno.EIO, "broken")):
        await asyncio.to_thread(run, first.pods.path("p"), "ip link delete net1")
        await until(lambda: "broken" in problem(first))
        await first.kill()
    assert "DYNAMIC" in await asyncio.to_thread(run, first.lan(), "ip -o link show blue-aV0")
    first.start()
    await until(lambda: whole(first, peer))
    assert "DYNAMIC" not in await asyncio.to_thread(run, first.lan(), "ip -o link show blue-aV0")


@played(1)
async def test_port_that_cannot_be(made: Lab) -> None:
    """A pod that can't have its interface keeps no other pod from the LAN, whose report says so."""
    first = made[0]
    await made.cluster.lan()
    await first.offers()
    for spoke, pod in (("blue-a", "p"), ("blue-b", "q")):
        await first.attach(spoke, pod)
    await first.kill()
    for command in ("ip link delete net1", "ip link add net1 type bridge"):
        await asyncio.to_thread(run, first.pods.path("p"), command)
    await asyncio.to_thread(run, first.pods.path("q"), "ip link delete net1")
    first.start()
    await until(lambda: "has an interface net1 already" in problem(first))
    assert "UP" in await asyncio.to_thread(run, first.pods.path("q"), "ip -o link show net1")
    await first.attach("blue-c", "r")
    assert first.links() == {"br0", "vx0", "blue-bV0", "blue-cV0"}


@played(2)
async def test_held_namespace(made: Lab) -> None:
    """A LAN is whole again where its former namespace has no name any more, and a program is still in it."""
    await furnished(made)
    first, peer = made[0], made[1].address
    await until(lambda: whole(first, peer))
    with first.names.open("blue") as held:
        before = held.identity
        await first.kill()
        await asyncio.to_thread(first.names.remove, "blue")
        first.start()
        await until(lambda: whole(first, peer))
        with first.names.open("blue") as now:
            assert now.identity != before
        left = await asyncio.to_thread(run, Path(f"/proc/self/fd/{held.fileno()}"), "ip -o link")
        assert [line.split(": ")[1] for line in left.splitlines()] == ["lo"]


@pytest.mark.parametrize("lingers", [False, True], ids=["old one ended", "old one lingers"])
async def test_replaced_namespace(tmp_path: Path, lingers: bool) -> None:
    """Nothing is made in another namespace that has the path of a pod's now, and the next pod there gets the spoke."""
    async with lab(tmp_path, 1) as made:
        await made.cluster.lan()
        machine = made[0]
        await machine.offers()
        await machine.attach("blue-a", "p")
        await machine.attach("blue-b", "q", mode="macvtap")
        await machine.attach("blue-c", "r")
        await until(lambda: record(machine).count(b"netns_cookie") == 3)
        held = [machine.pods.open(name) for name in ("p", "q")]
        try:
            for namespace in () if lingers else held:
                namespace.close()
            for name in ("p", "q"):
                machine.pods.remove(name)
            paths = [await asyncio.to_thread(machine.pod, name) for name in ("p", "q")]
            await until(lambda: machine.links() == {"br0", "vx0", "blue-cV0"})
            for path in paths:
                assert "net1" not in await asyncio.to_thread(run, path, "ip -o link")
            machine.pods.remove("p")
            await machine.attach("blue-a", "p")
            assert machine.links() == {"br0", "vx0", "blue-aV0", "blue-cV0"}
        finally:
            for namespace in held:
                namespace.close()


def record(machine: Machine) -> bytes:
    """What the agent remembers of its LAN."""
    return b"".join(path.read_bytes() for path in (machine.directory / "state").glob("lan-*"))


@played(1)
async def test_dead_agent(made: Lab) -> None:
    """What happens while no agent runs is put right by the next one, and pods keep what they have meanwhile."""
    await made.cluster.lan()
    await made[0].offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[0].attach("blue-b", "q", "172.16.0.2/24")
    await made[0].kill()
    await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))
    await asyncio.to_thread(run, made[0].lan(), "ip link delete blue-aV0")
    await asyncio.to_thread(made[0].pods.remove, "q")
    made[0].start()
    await until(lambda: made[0].links() == {"br0", "vx0", "blue-aV0"})


@played(2)
async def test_vni_of_another_tenant(made: Lab) -> None:
    """A LAN that says another LAN's VNI under its pods, living and in deletion, takes no pod there; nor a new agent."""
    await made.cluster.lan()
    await made.cluster.lan("red", vni=8)
    for machine in made.machines:
        await machine.offers(16)
    await made[1].attach("red-a", "victim", "172.16.0.9/24")
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[1].attach("blue-b", "q", "172.16.0.2/24")
    await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))
    before = [await asyncio.to_thread(vxlan, machine) for machine in made.machines]
    hold = {"metadata": {"finalizers": ["example.com/held"]}}
    await made.cluster.client.patch(LANS, "blue", hold, NAMESPACE)
    for deleted in (False, True):
        if deleted:
            await made.cluster.client.delete(LANS, "blue", NAMESPACE)
        await made.cluster.client.patch(LANS, "blue", {"spec": {"vni": 8, "ns": "red"}}, NAMESPACE)
        for machine in made.machines:
            await until(lambda machine=machine: "spec.vni is 8" in problem(machine))  # type: ignore[misc]
        await made[0].kill()
        made[0].start()
        await until(lambda: "spec.vni is 8" in problem(made[0]))
        assert not await asyncio.to_thread(reaches, made[0].pods.path("p"), "172.16.0.9")
        assert await asyncio.to_thread(reaches, made[0].pods.path("p"), "172.16.0.2", 10)
        await made.cluster.client.patch(LANS, "blue", {"spec": {"vni": 7, "ns": "blue"}}, NAMESPACE)
        await until(lambda: not problem(made[0]) and not problem(made[1]))
    after = [await asyncio.to_thread(vxlan, machine) for machine in made.machines]
    assert after == before


def vxlan(machine: Machine) -> list[str]:
    """The index of a node's VXLAN link of the LAN blue, and its VNI."""
    return re.findall(r"^\d+|vxlan id \d+", run(machine.lan(), "ip -d -o link show vx0"))


def problem(machine: Machine) -> str:
    """What a node reports of the LAN blue; empty while it is ready."""
    return next((each.message for each in machine.entries() if each.name == "blue" and not each.ready), "")


@played(1)
async def test_device_file(made: Lab) -> None:
    """The file of a machine that has gone is gone too, while the LAN stays for others."""
    await made.cluster.lan()
    await made[0].offers()
    await made[0].attach("blue-a", "p")
    await made[0].attach("blue-b", "q", mode="macvtap")
    (name,) = made[0].taps()
    await asyncio.to_thread(run, made[0].host, f"chown 0:0 {made[0].directory}/dev/{name}")
    await until(lambda: (made[0].directory / "dev" / name).stat().st_uid == 107, 60)
    await made[0].spokes.detach("c-q", "net1")
    assert made[0].taps() == set() and made[0].links() == {"br0", "vx0", "blue-aV0"}


def is_devtmpfs() -> bool:
    """Whether the kernel makes the files in /dev."""
    return "devtmpfs /dev " in Path("/proc/mounts").read_text()


def devices() -> list[Path]:
    """The files in /dev."""
    return list(Path("/dev").iterdir())


async def test_devtmpfs(tmp_path: Path) -> None:
    """Where the kernel makes the file itself, it belongs to the guest, has the path of Allocate, and goes with DEL."""
    if not is_devtmpfs():
        pytest.skip("/dev is no devtmpfs here")
    async with lab(tmp_path, 1, devices=Path("/dev")) as made:
        await made.cluster.lan()
        await made[0].offers()
        tap = await made[0].spokes.allocate(Device("blue-a", "macvtap"))
        await made[0].attach("blue-a", "vm", mode="macvtap")
        assert owner(tap) == (107, 107, 0o660)
        await made[0].spokes.detach("c-vm", "net1")
        assert tap not in [str(path) for path in await asyncio.to_thread(devices)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@played(2)
async def test_random(made: Lab) -> None:
    """After 200 deletions and deaths at random moments all is as it was."""
    await furnished(made)
    first, peer, rng = made[0], made[1].address, Random(15)
    for _ in range(200):
        await asyncio.to_thread(_harm, first, rng)
        if rng.random() < 0.5:
            await asyncio.sleep(rng.random() * 0.05)
            await first.kill()
            first.start()
    await until(lambda: whole(first, peer), 120)


def _harm(machine: Machine, rng: Random) -> None:
    names = sorted(machine.links())
    match rng.randrange(6):
        case 0:
            machine.names.remove("blue")
        case 1:
            run(machine.pods.path(rng.choice(["p", "vm"])), "ip link delete net1", check=False)
        case 2:
            for peer in machine.receivers() if names else ():
                run(
                    machine.lan(),
                    f"bridge fdb delete 00:00:00:00:00:00 dev vx0 dst {peer} self",
                    check=False,
                )
        case _ if names:
            run(machine.lan(), f"ip link delete {rng.choice(names)}", check=False)


@pytest.mark.parametrize("count", repetitions(20, 200, seconds=1200))
async def test_no_leaks(tmp_path: Path, count: int) -> None:
    """LANs that come and go leave no link, namespace, record, device or descriptor."""
    async with lab(tmp_path, 1) as made:
        machine = made[0]
        before, descriptors = _possessions(machine), _descriptors()
        for number in range(count):
            await _come_and_go(made, number)
        await until(lambda: _possessions(machine) == before)
        await until(lambda: _descriptors() <= descriptors + HELD)


async def _come_and_go(made: Lab, number: int) -> None:
    machine, name = made[0], f"l{number}"
    await made.cluster.lan(name, vni=number + 1)
    await machine.offers()
    await machine.spokes.allocate(Device(f"{name}-b", "macvtap"))
    await machine.attach(f"{name}-a", "p")
    await machine.attach(f"{name}-b", "q", mode="macvtap")
    await machine.spokes.detach("c-p", "net1")
    await machine.spokes.detach("c-q", "net1")
    machine.pods.remove("p")
    machine.pods.remove("q")
    await made.cluster.client.delete(LANS, name, NAMESPACE)
    await machine.offers(0)


def _possessions(machine: Machine) -> tuple[object, ...]:
    links = sorted(line.split(": ")[1] for line in run(machine.host, "ip -o link").splitlines())
    state = machine.directory / "state"
    names = [path.name for path in (machine.directory / "netns").glob("*")]
    records = [path.name for path in state.glob("*")]
    return links, names, records, machine.taps()


HELD = 2
"""Descriptors that stay open from the first LAN on: the host's namespace, and a socket in it."""


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_directory(tmp_path: Path) -> None:
    """A file of a dead process is used, another's file is not, and removing twice is no error."""
    names = NamespaceDirectory(tmp_path)
    (tmp_path / "half").touch()
    with pytest.raises(NamespaceMissing):
        names.open("half")
    with make_namespace("half") as made:
        names.bind("half", made)
        with names.open("half") as found:
            assert found.identity == made.identity
        with pytest.raises(NamespaceError, match="already"):
            names.bind("half", made)
    names.remove("half")
    names.remove("half")
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(NamespaceError, match="another file"):
        names.remove("notes")
    for name in ("", "..", "a/b", "-a", "a\n"):
        with pytest.raises(NamespaceError, match="can't be the name"):
            names.open(name)

"""Frames over LANs between nodes on a real kernel: what must arrive, and what must not."""

import asyncio
import os
import struct
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from lanloom.features.lan.agent.ports import Device
from lanloom.features.lan.rules.lansteps import ForgetLearned
from lanloom.node.namespaces import open_namespace
from tests.features.lan.kernel.machines import Lab, Wire, frame, lab, owner, played, reaches, run, until

FOREIGN = "0e:00:00:00:00:77"
"""A source address that is no interface's."""


async def joined(made: Lab, ns: str = "blue") -> None:
    """Waits until all nodes flood to all others."""
    addresses = {machine.address for machine in made.machines}
    for machine in made.machines:
        await machine.floods(addresses - {machine.address}, ns)


@pytest.mark.parametrize("replication", ["head-end", "multicast"])
async def test_ping(tmp_path: Path, replication: str) -> None:
    """Pods on three nodes ping each other, by head-end replication and by multicast."""
    async with lab(tmp_path, 3) as made:
        await made.cluster.lan(replication=replication)
        for number, machine in enumerate(made.machines, 1):
            await machine.offers()
            attached = await machine.attach(f"blue-{'abc'[number - 1]}", "p", f"172.16.0.{number}/24")
            assert attached.mtu == (1450 if replication == "head-end" else 1430)
        if replication == "head-end":
            await joined(made)
        for source in made.machines:
            await until(partial(reaches_all, source.pods.path("p")))


def reaches_all(where: Path) -> bool:
    """Whether each of the three nodes' pods answers."""
    return all(reaches(where, f"172.16.0.{number}") for number in (1, 2, 3))


@played(2)
async def test_any_frame(made: Lab) -> None:
    """Frames from foreign addresses, with VLAN tags, and of LACP, STP and LLDP reach a pod and a machine elsewhere."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p")
    await made[1].attach("blue-b", "p")
    tap = await made[1].spokes.allocate(Device("blue-c", "macvtap"))
    await made[1].attach("blue-c", "vm", mode="macvtap")
    await joined(made)
    guest = os.open(tap, os.O_RDWR | os.O_NONBLOCK)
    frames = {
        name: frame(destination, FOREIGN, name.encode(), kind=kind, vlan=vlan)
        for name, destination, kind, vlan in (
            ("unicast to nobody", "0e:00:00:00:00:99", 0x88B5, 0),
            ("broadcast", "ff:ff:ff:ff:ff:ff", 0x88B5, 0),
            ("tagged", "0e:00:00:00:00:99", 0x88B5, 2012),
            ("STP", "01:80:c2:00:00:00", 0x88B5, 0),
            ("LACP", "01:80:c2:00:00:02", 0x8809, 0),
            ("LLDP", "01:80:c2:00:00:0e", 0x88CC, 0),
            ("IPv6 multicast", "33:33:00:00:00:16", 0x88B5, 0),
        )
    }
    with (
        open_namespace(made[0].pods.path("p")) as here,
        open_namespace(made[1].pods.path("p")) as there,
        Wire(here, "net1") as sender,
        Wire(there, "net1") as receiver,
    ):
        heard: dict[str, int] = {}
        guests: set[str] = set()

        def complete() -> bool:
            for each in frames.values():
                sender.send(each)
            for vlan, got in receiver.heard():
                heard.update({name: vlan for name in frames if name.encode() in got})
            guests.update(name for got in _read(guest) for name in frames if name.encode() in got)
            return set(heard) == set(frames) == guests

        try:
            await until(complete)
        finally:
            os.close(guest)
            assert (set(heard), guests) == (set(frames), set(frames))
        assert heard["tagged"] == 2012


def _read(guest: int) -> list[bytes]:
    found = []
    try:
        while True:
            found.append(os.read(guest, 9000))
    except BlockingIOError:
        return found


@played(2)
async def test_guest_sends(made: Lab) -> None:
    """What a guest writes to its device, from any address, reaches a pod on another node."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    tap = await made[0].spokes.allocate(Device("blue-a", "macvtap"))
    assert not made[0].taps()
    await made[0].attach("blue-a", "vm", mode="macvtap")
    assert owner(tap) == (107, 107, 0o660)
    await made[1].attach("blue-b", "p")
    await joined(made)
    guest = os.open(tap, os.O_RDWR | os.O_NONBLOCK)
    with open_namespace(made[1].pods.path("p")) as there, Wire(there, "net1") as receiver:

        def arrives() -> bool:
            # The header of virtio-net comes before the frame.
            os.write(guest, bytes(10) + frame("ff:ff:ff:ff:ff:ff", FOREIGN, b"from a guest"))
            return any(b"from a guest" in got for _, got in receiver.heard())

        try:
            await until(arrives)
        finally:
            os.close(guest)


ADVERTISEMENT = (
    struct.pack(">IHBB", 0x60000000, 48, 58, 255)
    + bytes.fromhex("fe80000000000000000000000000aaaa")
    + bytes.fromhex("ff020000000000000000000000000001")
)


def advertisement() -> bytes:
    """A router advertisement with the prefix 2001:db8:66::/64, from a pod."""
    prefix = bytes.fromhex("20010db8006600000000000000000000")
    body = struct.pack(">BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
    body += struct.pack(">BBBBIII", 3, 4, 64, 0xC0, 86400, 14400, 0) + prefix
    pseudo = ADVERTISEMENT[8:40] + struct.pack(">II", len(body), 58) + body
    total = sum(struct.unpack(f">{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack(">H", ~total & 0xFFFF) + body[4:]
    return frame("33:33:00:00:00:01", FOREIGN, ADVERTISEMENT + body, kind=0x86DD)


@played(2)
async def test_host_is_apart(made: Lab) -> None:
    """A pod's router advertisement reaches other pods and no host, and no host answers on the LAN.

    There is neither an address nor a link of the LAN in a host's namespace, and nothing of a machine that has not come.
    """
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[1].attach("blue-b", "p", "172.16.0.2/24")
    await made[0].spokes.allocate(Device("blue-c", "macvtap"))
    await joined(made)
    pod = made[1].pods.path("p")
    with open_namespace(made[0].pods.path("p")) as here, Wire(here, "net1") as sender:

        def advertised() -> bool:
            sender.send(advertisement())
            return "2001:db8:66:" in run(pod, "ip -6 address show dev net1")

        await until(advertised)
    for machine in made.machines:
        assert "2001:db8" not in run(machine.host, "ip -6 address")
        assert "2001:db8" not in run(machine.host, "ip -6 route")
        assert "inet" not in run(machine.lan(), "ip address show")
    names = {line.split(": ")[1].split("@")[0] for line in run(made[0].host, "ip -o link").splitlines()}
    assert names == {"lo", "u0"}
    run(made[0].pods.path("p"), f"ip neighbour add {made[0].address} lladdr ff:ff:ff:ff:ff:ff dev net1")
    run(made[0].pods.path("p"), f"ip route add {made[0].address} dev net1")
    assert not await asyncio.to_thread(reaches, made[0].pods.path("p"), made[0].address)


@played(2)
async def test_lans_are_apart(made: Lab) -> None:
    """Two LANs never hear each other, on one node and across nodes."""
    await made.cluster.lan("blue", vni=7)
    await made.cluster.lan("red", vni=8)
    for machine in made.machines:
        await machine.offers(16)
    for number, machine in enumerate(made.machines):
        await machine.attach(f"blue-{'ab'[number]}", "blue")
        await machine.attach(f"red-{'ab'[number]}", "red")
    await joined(made, "blue")
    await joined(made, "red")
    with (
        open_namespace(made[0].pods.path("blue")) as here,
        open_namespace(made[0].pods.path("red")) as beside,
        open_namespace(made[1].pods.path("red")) as there,
        open_namespace(made[1].pods.path("blue")) as friend,
        Wire(here, "net1") as sender,
        Wire(beside, "net1") as near,
        Wire(there, "net1") as far,
        Wire(friend, "net1") as same,
    ):
        count = 0

        def arrived() -> bool:
            nonlocal count
            sender.send(frame("ff:ff:ff:ff:ff:ff", FOREIGN, b"blue's own"))
            count += any(b"blue's own" in got for _, got in same.heard())
            return count == 20

        await until(arrived)
        assert not any(b"blue's own" in got for _, got in near.heard() + far.heard())


@played(2)
async def test_learned_addresses_are_forgotten(made: Lab) -> None:
    """What was learned to be at a peer is forgotten in the bridge and in the VXLAN link; what is pinned there stays."""
    await made.cluster.lan(spokeOptions={"blue-b": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    secured = await made[1].attach("blue-b", "q", "172.16.0.2/24")
    learned = await made[1].attach("blue-c", "r", "172.16.0.3/24")
    await joined(made)
    lan, pod = made[0].lan(), made[0].pods.path("p")

    def known(mac: str) -> set[str]:
        lines = run(lan, "bridge fdb show dev vx0").splitlines()
        return {"peer" if " dst " in line else "bridge" for line in lines if line.startswith(mac)}

    for address in ("172.16.0.2", "172.16.0.3"):
        await until(partial(reaches, pod, address))
    await until(lambda: known(secured.mac) == known(learned.mac) == {"peer", "bridge"})
    await made[1].kill()
    for name in ("q", "r"):
        await asyncio.to_thread(run, made[1].pods.path(name), "ip link set net1 down")
    await made[0].apply(ForgetLearned(ns="blue", vxlan="vx0"))
    assert known(learned.mac) == set()
    assert known(secured.mac) == {"peer", "bridge"}
    assert made[0].receivers() == {made[1].address}


VIRTUAL = "00:00:5e:00:01:01"
"""The MAC address of a virtual router (VRRP): its master has it."""


@played(2)
async def test_virtual_mac_moves(made: Lab) -> None:
    """Frames for a virtual router come to the pod that announced it last, on whichever node, and to it alone."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    places = ((made[0], "blue-a", "r1"), (made[1], "blue-b", "r2"), (made[1], "blue-c", "r3"))
    for machine, spoke, pod in places:
        await machine.attach(spoke, pod)
    await joined(made)
    with ExitStack() as stack:
        first, second, station = (
            stack.enter_context(Wire(stack.enter_context(open_namespace(machine.pods.path(pod))), "net1"))
            for machine, _, pod in places
        )
        for master, backup in ((first, second), (second, first), (first, second)):
            announced = asyncio.get_running_loop().time()
            master.send(frame("ff:ff:ff:ff:ff:ff", VIRTUAL, b"announcement"))
            await until(lambda: any(b"announcement" in got for _, got in station.heard()))
            master.heard(), backup.heard()
            name = f"at {announced}".encode()

            def arrives(name: bytes = name, master: Wire = master) -> bool:
                station.send(frame(VIRTUAL, "02:bb:00:00:00:77", name))
                return any(name in got for _, got in master.heard())

            await until(arrives)
            assert not any(name in got for _, got in backup.heard())

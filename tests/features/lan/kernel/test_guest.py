"""Real guests on spokes: QEMU has the device of a macvtap open, and talks to pods on another node."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from lanloom.features.lan.agent.ports import Attached, Attachment, Device, SpokeError
from lanloom.node.namespaces import open_namespace
from lanloom_lab.guests.assets import GuestAssets
from tests.features.lan.kernel.machines import (
    PATIENCE,
    Lab,
    Machine,
    Wire,
    forget_neighbours,
    lab,
    run,
    until,
)
from tests.harness.guests.guest import Guest, guest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPOKE = Device("blue-a", "macvtap")
FOREIGN = "0e:00:00:00:00:77"
"""The address of a machine inside the guest, which is no interface's on a node."""

GUEST, POD, INNER, OUTER = "172.16.0.1", "172.16.0.2", "172.17.0.1", "172.17.0.2"
"""Addresses on the LAN: the guest's and the pod's, those of a machine inside the guest and of the pod for it."""


class Place(NamedTuple):
    """Where a guest can run: the path of its device, and its interface."""

    tap: str
    attached: Attached


async def placed(machine: Machine) -> Place:
    """A new pod for a guest on a node's spoke."""
    tap = await machine.spokes.allocate(SPOKE)
    return Place(tap, await machine.attach(SPOKE.spoke, "vm", mode="macvtap"))


@asynccontextmanager
async def booted(files: GuestAssets, machine: Machine, place: Place) -> AsyncIterator[Guest]:
    """A guest on a node's spoke."""
    async with guest(
        files,
        namespace=machine.pods.path("vm"),
        tap=Path(place.tap),
        mac=place.attached.mac,
        mtu=place.attached.mtu,
        address=f"{GUEST}/24",
    ) as made:
        yield made


@asynccontextmanager
async def nodes(directory: Path) -> AsyncIterator[tuple[Lab, Place]]:
    """Two nodes: a place for a guest on the first, on the second a pod with addresses for it and what is inside it."""
    async with lab(directory, 2) as made:
        await made.cluster.lan()
        for machine in made.machines:
            await machine.offers()
        await made[1].attach("blue-b", "p", f"{POD}/24")
        await asyncio.to_thread(run, made[1].pods.path("p"), f"ip address add {OUTER}/24 dev net1")
        yield made, await placed(made[0])


async def joined(made: Lab, machine: Guest) -> None:
    """Waits until the guest and the pod on the other node reach each other."""
    await made[0].floods({made[1].address})
    await made[1].floods({made[0].address})
    async with asyncio.timeout(PATIENCE):
        # A link that has just come up may lose a packet.
        while not await machine.reaches(POD):
            pass
    await until(lambda: answers(made[1], GUEST))


async def healed(machine: Machine) -> None:
    """Waits until the node has restored all that the guest's pod needs, by itself."""
    attachment = Attachment(
        device=SPOKE,
        container="c-vm",
        netns=str(machine.pods.path("vm")),
        interface="net1",
        pod="default/vm",
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(SpokeError):
                await machine.spokes.check(attachment)
                return


def answers(machine: Machine, address: str, size: int = 56) -> bool:
    """Whether an address answers a ping of the node's pod; packets are not fragmented."""
    printed = run(machine.pods.path("p"), f"ping -c 1 -W 5 -M do -s {size} {address}", check=False)
    return " 0% packet loss" in printed


async def test_guest_and_pod(tmp_path: Path, guest_files: GuestAssets) -> None:
    """A guest and a pod on another node ping each other, with packets as large as the LAN carries."""
    async with nodes(tmp_path) as (made, place), booted(guest_files, made[0], place) as machine:
        await joined(made, machine)
        assert await asyncio.to_thread(answers, made[1], GUEST, 1450 - 28)
        assert await machine.call("hardware_address") == place.attached.mac
        mac = await asyncio.to_thread(run, made[1].pods.path("p"), "ip -o link show net1")
        assert (await machine.neighbours())[POD] in mac


async def test_machine_inside_a_guest(tmp_path: Path, guest_files: GuestAssets) -> None:
    """A machine inside a guest, with a hardware address of its own, and a pod on another node ping each other."""
    async with nodes(tmp_path) as (made, place), booted(guest_files, made[0], place) as machine:
        await joined(made, machine)
        await machine.add_foreign(FOREIGN, f"{INNER}/24")
        with open_namespace(made[1].pods.path("p")) as there, Wire(there, "net1") as receiver:
            assert await machine.reaches(OUTER)
            senders = {got[6:12].hex(":") for _, got in receiver.heard()}
        assert FOREIGN in senders
        await asyncio.to_thread(forget_neighbours, made[1].pods.path("p"))
        assert await asyncio.to_thread(answers, made[1], INNER)
        assert FOREIGN in await asyncio.to_thread(run, made[1].pods.path("p"), f"ip neighbour show {INNER}")


async def test_agent_restarts(tmp_path: Path, guest_files: GuestAssets) -> None:
    """A guest loses no packet, and its link does not go down, while the agents of both nodes die and come back."""
    async with nodes(tmp_path) as (made, place), booted(guest_files, made[0], place) as machine:
        await joined(made, machine)
        changes = await machine.carrier_changes()
        pings = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net={made[1].pods.path('p')}", "ping", "-i", "0.02", "-c", "100000", GUEST),
            stdout=asyncio.subprocess.PIPE,
        )
        assert pings.stdout
        # On a slow kernel the program starts after the agents have come back, unless it is waited for.
        printed = await pings.stdout.readuntil(b" ttl=")
        try:
            for node in made.machines:
                await node.kill()
                assert await machine.reaches(POD)
                node.start()
                await until(lambda: not any(each.spokes.unready() for each in made.machines))
                await node.offers()
                assert await machine.reaches(POD)
            tap = await made[0].spokes.allocate(SPOKE)
        finally:
            pings.send_signal(2)
            printed += (await pings.communicate())[0]
        # What was sent after the last one that was answered is under way: on a busy machine it is more than one.
        answered = [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", printed.decode())]
        assert sorted(answered) == list(range(1, max(answered) + 1))
        assert tap == place.tap
        assert await machine.carrier_changes() == changes
        assert await machine.call("boot_id") == machine.boot_id


def _device(number: int) -> str:
    """What the kernel says of a device's number."""
    return str(Path(f"/sys/dev/char/{os.major(number)}:{os.minor(number)}").readlink())


async def test_same_device_for_another_pod(tmp_path: Path, guest_files: GuestAssets) -> None:
    """A guest that starts again in another pod finds its device at the same path."""
    async with nodes(tmp_path) as (made, place):
        first = made[0]
        async with booted(guest_files, first, place) as machine:
            await joined(made, machine)
        await first.spokes.detach("c-vm", "net1")
        first.pods.remove("vm")
        again = await placed(first)
        assert again.tap == place.tap
        async with booted(guest_files, first, again) as machine:
            await joined(made, machine)


@pytest.mark.parametrize("loss", ["links", "namespace"])
async def test_same_device_after_a_loss(tmp_path: Path, guest_files: GuestAssets, loss: str) -> None:
    """A guest finds its device at the same path after its links or the LAN's namespace were deleted below it."""
    async with nodes(tmp_path) as (made, place):
        first = made[0]
        async with booted(guest_files, first, place) as machine:
            await joined(made, machine)
            boot = machine.boot_id
            before = await asyncio.to_thread(Path(place.tap).stat)
            await asyncio.to_thread(run, first.lan(), "ip link delete blue-aM0")
            if loss == "namespace":
                first.names.remove("blue")
        await healed(first)
        assert await first.spokes.allocate(SPOKE) == place.tap
        after = await asyncio.to_thread(Path(place.tap).stat)
        target = await asyncio.to_thread(_device, after.st_rdev)
        assert target.endswith(f"macvtap/{Path(place.tap).name}")
        assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
        async with booted(guest_files, first, place) as machine:
            assert machine.boot_id != boot
            await joined(made, machine)

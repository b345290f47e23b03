"""Machines behind KubeVirt's bridge binding, on a real kernel: pods' interfaces, migration, healing."""

import asyncio
from pathlib import Path

from lanloom.features.lan.agent.ports import Attached, Attachment, Device
from lanloom.node.namespaces import open_namespace
from tests.features.lan.agent.test_migration import launcher
from tests.features.lan.kernel.kubevirt import bind
from tests.features.lan.kernel.machines import (
    Lab,
    Machine,
    Wire,
    finds_well,
    frame,
    played,
    reaches,
    run,
    until,
)

INTERFACE = "pod16477688c0e"
"""What KubeVirt calls the interface of a machine's network: a hash behind `pod`."""

VM, OTHER = "172.16.0.1", "172.16.0.2"


async def prepared(made: Lab, node: Machine, name: str) -> Attached:
    """A launcher pod on a node, with its interface in KubeVirt's bridge and the machine's NIC behind it, down."""
    await launcher(made.cluster, name)
    path = await asyncio.to_thread(node.pod, name)
    attached = await node.spokes.attach(attachment(node, name))
    await asyncio.to_thread(bind, path, INTERFACE, attached.mac)
    return attached


def attachment(node: Machine, name: str) -> Attachment:
    """What Multus asks for with such a pod."""
    return Attachment(
        device=Device("blue-a", "veth"),
        container=f"c-{name}",
        netns=str(node.pods.path(name)),
        interface=INTERFACE,
        pod=f"default/{name}",
        bridged=True,
    )


async def begun(made: Lab) -> None:
    """A LAN, and a pod at it on the last node."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await made[-1].attach("blue-b", "p", f"{OTHER}/24")


def runs(pod: Path) -> None:
    """The machine runs in a pod: its NIC is up and has an address."""
    for command in ("link set guest0 up", f"address add {VM}/24 dev guest0"):
        run(pod, f"ip {command}")


def place_of(machine: Machine, mac: str) -> str:
    """Where the LAN's bridge of a node has learned a hardware address."""
    lines = run(machine.lan(), "bridge fdb show br br0").splitlines()
    return next(
        (line.split(" dev ")[1].split()[0] for line in lines if line.startswith(mac) and " dst " not in line),
        "",
    )


@played(3)
async def test_migration(made: Lab) -> None:
    """The interface of a migration's target is silent until the machine runs there; then frames go to the new place."""
    source, target, third = made.machines
    await begun(made)
    attached = await prepared(made, source, "old")
    await third.floods({source.address})
    await asyncio.to_thread(runs, source.pods.path("old"))
    await until(lambda: reaches(third.pods.path("p"), VM))
    with open_namespace(third.pods.path("p")) as there, Wire(there, "net1") as ear:
        assert await prepared(made, target, "new") == attached
        await target.floods({source.address, third.address})
        await third.floods({source.address, target.address})
        assert place_of(target, attached.mac) in ("", "vx0"), run(target.lan(), "bridge fdb show br br0")
        await until(lambda: reaches(third.pods.path("p"), VM))
        senders = [heard[6:12].hex(":") for _, heard in ear.heard()]
    assert place_of(target, attached.mac) in ("", "vx0")
    assert place_of(source, attached.mac) == "blue-aV0"
    assert attached.mac in senders
    await asyncio.to_thread(run, source.pods.path("old"), "ip link delete guest0")
    await asyncio.to_thread(run, target.pods.path("new"), "ip link set guest0 up")
    await asyncio.to_thread(run, target.pods.path("new"), f"ip address add {VM}/24 dev guest0")
    with open_namespace(target.pods.path("new")) as guest, Wire(guest, "guest0") as nic:

        def is_announced() -> bool:
            """Again each time: the pod's bridge forwards a moment after the NIC is up."""
            nic.send(frame("ff:ff:ff:ff:ff:ff", attached.mac, bytes(46), kind=0x8035))
            return place_of(target, attached.mac) == "blue-aV0" and place_of(source, attached.mac) == "vx0"

        await until(is_announced)
    await until(lambda: reaches(third.pods.path("p"), VM))
    await source.spokes.detach("c-old", INTERFACE)
    await until(lambda: reaches(third.pods.path("p"), VM))


@played(2)
async def test_silence(made: Lab) -> None:
    """An interface for a machine sends nothing by itself, whatever a kernel sends for a pod's."""
    first, second = made.machines
    await begun(made)
    await launcher(made.cluster, "vm")
    path = await asyncio.to_thread(first.pod, "vm")
    await first.attach("blue-c", "q", f"{VM}/24")
    await first.floods({second.address})
    await second.floods({first.address})
    with open_namespace(second.pods.path("p")) as there, Wire(there, "net1") as ear:
        attached = await first.spokes.attach(attachment(first, "vm"))
        await asyncio.to_thread(bind, path, INTERFACE, attached.mac)
        pod = await first.attach("blue-d", "r")
        # The pod's interface asks for its IPv6 address a second or so after it is up; the machine's was up before it.
        heard: list[str] = []

        def hears_the_pod() -> bool:
            heard.extend(each[6:12].hex(":") for _, each in ear.heard())
            return pod.mac in heard

        await until(hears_the_pod)
    assert attached.mac not in heard
    assert "inet6" not in await asyncio.to_thread(run, path, "ip address show dev 16477688c0e-nic")


@played(2)
async def test_heals_into_the_bridge(made: Lab) -> None:
    """A link that is deleted below a running machine comes back in KubeVirt's bridge, and a check finds it well.

    It has an address of its own: with the machine's, the bridge would keep the machine's frames for itself.
    """
    first, second = made.machines
    await begun(made)
    attached = await prepared(made, first, "vm")
    path = first.pods.path("vm")
    await asyncio.to_thread(runs, path)
    await until(lambda: reaches(second.pods.path("p"), VM))
    await finds_well(first, attachment(first, "vm"))
    await asyncio.to_thread(run, first.lan(), "ip link delete blue-aV0")
    await until(lambda: "16477688c0e-nic" in run(path, "ip -o link show master k6t-16477688c0e"))
    await until(lambda: reaches(second.pods.path("p"), VM))
    await finds_well(first, attachment(first, "vm"))
    assert attached.mac not in await asyncio.to_thread(run, path, "ip -o link show dev 16477688c0e-nic")
    assert "learning off" in await asyncio.to_thread(run, path, "bridge -d link show dev 16477688c0e-nic")

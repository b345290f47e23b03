"""Which address of an underlay a node's VXLAN has, on a real kernel, while others come and go."""

import asyncio
from functools import partial
from pathlib import Path

from lanloom.api.lan import LANS
from tests.features.lan.agent.nodes import NAMESPACE
from tests.features.lan.kernel.machines import Machine, batch, lab, reaches, run, until

OWN, VIRTUAL, OTHER = "fd00:1::1", "fd00:1::100", "fd00:1::200"


async def change(machine: Machine, *commands: str) -> None:
    """Change the node's network by lines of `ip`."""
    await asyncio.to_thread(batch, machine.host, *commands)


def vxlan(machine: Machine) -> str:
    """The index of the LAN's VXLAN: another one after it was made again."""
    return run(machine.lan(), "ip -o link show dev vx0").partition(":")[0]


async def reported(machine: Machine, address: str, mtu: int) -> None:
    """Wait until the agent reports an endpoint and an MTU."""
    await until(lambda: [(each.address, each.mtu) for each in machine.entries()] == [(address, mtu)])


async def test_the_first_address_of_ipv6_stays_the_endpoint(tmp_path: Path) -> None:
    """a virtual address and another one next to a node's own leave its VXLAN alone; without it, the older is next.

    The kernel lists the newest one first.
    """
    async with lab(tmp_path, 1) as made:
        machine = made[0]
        await made.cluster.lan()
        await change(machine, "address flush dev u0", f"address add {OWN}/64 dev u0 nodad")
        await machine.offers()
        await machine.attach("blue-a", "p", "172.16.0.1/24")
        await reported(machine, OWN, 1430)
        before = await asyncio.to_thread(vxlan, machine)
        await change(
            machine,
            f"address add {VIRTUAL}/128 dev u0 nodad",
            f"address add {OTHER}/64 dev u0 nodad",
            "link set u0 mtu 1400",  # which the agent reads together with the addresses
        )
        await reported(machine, OWN, 1330)
        assert await asyncio.to_thread(vxlan, machine) == before
        await change(machine, f"address delete {OWN}/64 dev u0")
        await reported(machine, VIRTUAL, 1330)


async def test_a_half_migrated_cluster(tmp_path: Path) -> None:
    """Nodes with IPv4 and one with IPv6 alone name each other; with spec.underlayFamily all reach each other."""
    async with lab(tmp_path, 3) as made:
        await made.cluster.lan()
        for number, machine in enumerate(made.machines, 1):
            await change(machine, f"address add fd00:1::{number}/64 dev u0 nodad")
        await change(made[2], f"address delete {made[2].address}/24 dev u0")
        for number, machine in enumerate(made.machines, 1):
            await machine.offers()
            await machine.attach(f"blue-{'abc'[number - 1]}", "p", f"172.16.0.{number}/24")
        await until(
            lambda: all("underlayFamily" in machine.entries()[0].message for machine in made.machines)
        )
        await made.cluster.client.patch(LANS, "blue", {"spec": {"underlayFamily": "IPv6"}}, NAMESPACE)
        for number, machine in enumerate(made.machines, 1):
            await until(lambda machine=machine: machine.entries()[0].ready)  # type: ignore[misc]
            assert machine.entries()[0].address == f"fd00:1::{number}"
        for other in ("172.16.0.2", "172.16.0.3"):
            await until(partial(reaches, made[0].pods.path("p"), other))

"""Which address of an underlay a node's VXLAN has, on a real kernel, while others come and go."""

import asyncio
from pathlib import Path

from tests.features.lan.kernel.machines import Machine, batch, lab, run, until

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

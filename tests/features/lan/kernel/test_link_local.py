"""LANs over an underlay whose only addresses are link-local, on a real kernel."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from lanloom.node.netlink.forwarding import PLACEHOLDER
from tests.features.lan.kernel.machines import Lab, Machine, batch, lab, reaches, run, until


async def lose_addresses(machine: Machine) -> None:
    """Leave the underlay its link-local address, next to a link that has a route to such addresses before it."""
    await asyncio.to_thread(
        batch,
        machine.host,
        "address flush dev u0",
        "link set u0 down",
        "link add other up type veth peer name other2",
        "link set other2 up",
    )
    # The kernel gives a link its address once it has a carrier, which is a moment later.
    await until(lambda: "fe80::/64" in run(machine.host, "ip -6 route show dev other"))
    await asyncio.to_thread(run, machine.host, "ip link set u0 up")


def link_local(machine: Machine) -> str:
    """The address of the underlay."""
    words = run(machine.host, "ip -6 -o address show dev u0 scope link").split()
    return words[words.index("inet6") + 1].split("/")[0] if words else ""


async def furnished(made: Lab) -> list[str]:
    """A pod on each node, once each sends to all others; the addresses of the nodes."""
    for number, machine in enumerate(made.machines, 1):
        await lose_addresses(machine)
        await until(partial(link_local, machine))  # type: ignore[arg-type]
        await machine.offers()
        attached = await machine.attach(f"blue-{'abc'[number - 1]}", "p", f"172.16.0.{number}/24")
        assert attached.mtu == 1430
    return [await asyncio.to_thread(link_local, machine) for machine in made.machines]


@pytest.mark.parametrize("replication", ["head-end", "multicast"])
@pytest.mark.parametrize("secured", [False, True], ids=["open", "secured"])
async def test_link_local(tmp_path: Path, replication: str, secured: bool) -> None:
    """Pods reach each other by it in both kinds of replication, also where their addresses are pinned to nodes."""
    async with lab(tmp_path, 2) as made:
        options = {spoke: {"portSecurity": secured} for spoke in ("blue-a", "blue-b")}
        await made.cluster.lan(replication=replication, spokeOptions=options)
        addresses = await furnished(made)
        if replication == "head-end":
            for machine, peer in zip(made.machines, reversed(addresses), strict=True):
                await machine.floods({peer})
        await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))
        await until(lambda: all(entry.ready for machine in made.machines for entry in machine.entries()))
        assert [machine.entries()[0].address for machine in made.machines] == addresses
        assert not any(PLACEHOLDER in machine.links() for machine in made.machines)
        if replication == "head-end":
            await made[1].spokes.detach("c-p", "net1")
            await made[0].floods(set())


async def test_two_scopes(tmp_path: Path) -> None:
    """A node with an address and one with a link-local one are not ready, and say so; one more link mends that."""
    async with lab(tmp_path, 2) as made:
        await made.cluster.lan()
        await lose_addresses(made[1])
        for number, machine in enumerate(made.machines, 1):
            await machine.offers()
            await machine.attach(f"blue-{'ab'[number - 1]}", "p", f"172.16.0.{number}/24")
        await until(lambda: "no frames reach n2 (fe80::" in made[0].entries()[0].message)
        await until(lambda: f"no frames reach n1 ({made[0].address})" in made[1].entries()[0].message)
        await asyncio.to_thread(run, made[1].host, f"ip address add {made[1].address}/24 dev u0")
        await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))

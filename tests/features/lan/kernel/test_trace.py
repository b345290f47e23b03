"""A trace by real kernels: sound nodes, and nodes that were damaged while no agent heals them."""

import asyncio
import re
from pathlib import Path

from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.trace.hops import Hop, stopped_at, trace
from lanloom.features.lan.trace.reading import Asked, read_facts, with_kernel
from lanloom.node.records import RecordDirectory
from tests.features.lan.kernel.machines import Lab, Machine, played, run
from tests.features.lan.kernel.test_traffic import joined

ASKED = Asked(lan="blue", sender="blue-a", receiver="blue-b")


async def traced(made: Lab, machine: Machine) -> tuple[Hop, ...]:
    """The hops, with those of one machine by its kernel."""
    facts = await read_facts(made.cluster.client, ASKED, now=made.cluster.now())
    kernel = NetlinkLanKernel(machine.names, TapDevices(machine.devices), host=machine.host)
    state = machine.directory / "state"
    return trace(await with_kernel(facts, machine.name, kernel, RecordDirectory(state), state))


async def configured(machine: Machine) -> str:
    """The links of the LAN as they were set up: the kernel updates their operational state up to a second later."""
    return re.sub(r" state \w+", "", await asyncio.to_thread(run, machine.lan(), "ip link show"))


@played(2)
async def test_trace(made: Lab) -> None:
    """On sound kernels each hop is ok; each damage is found at its hop, and nothing is changed by looking."""
    await made.cluster.lan()
    for spoke, machine in zip("ab", made.machines, strict=True):
        await machine.offers()
        await machine.attach(f"blue-{spoke}", "p")
    first, peer = made[0], made[1].address
    await joined(made)

    async def reported() -> bool:
        found = [await made.cluster.entries(machine.name) for machine in made.machines]
        return all(len(entries) == 1 and entries[0].ready for entries in found)

    await made.cluster.until_later(reported)
    for machine in made.machines:
        await machine.kill()
    for machine in made.machines:
        before = await configured(machine)
        hops = await traced(made, machine)
        own = {hop.kind: hop.state for hop in hops if hop.node == machine.name}
        assert set(own.values()) == {"ok"}, hops
        assert stopped_at(hops) is None
        assert await configured(machine) == before

    lan, pod = first.lan(), first.pods.path("p")
    damages: tuple[tuple[Path, str, str, str], ...] = (
        (lan, f"bridge fdb delete 00:00:00:00:00:00 dev vx0 dst {peer} self", "vxlan", "no forwarding entry"),
        (lan, "ip link set vx0 down", "vxlan", "vx0 is down"),
        (lan, "ip link set br0 down", "bridge", "br0 is down"),
        (lan, "ip link set blue-aV0 nomaster", "port", "not a port"),
        (pod, "ip link set net1 down", "interface", "net1 is down"),
    )
    for where, command, kind, words in damages:  # each before the ones earlier in the frame's way
        await asyncio.to_thread(run, where, command)
        hop = stopped_at(await traced(made, first))
        assert hop is not None
        assert hop.kind == kind
        assert words in hop.reason

"""Settings of a LAN's bridge and ports on a real kernel that are changed: each is as it was soon."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.features.lan.kernel.machines import Lab, Machine, forget_neighbours, played, reaches, run, until

PORT_SETTINGS = {
    "flood": "flood off",
    "mcast_flood": "mcast_flood off",
    "bcast_flood": "bcast_flood off",
    "all floods": "flood off mcast_flood off bcast_flood off",
    "learning": "learning off",
    "neigh_suppress": "neigh_suppress on",
    "isolated": "isolated on",
    "locked": "locked on",
    "hairpin": "hairpin on",
    "guard": "guard on",
    "root_block": "root_block on",
    "mcast_to_unicast": "mcast_to_unicast on",
    "vlan_tunnel": "vlan_tunnel on",
    "disabled": "state 0",
    "listening": "state 1",
    "blocking": "state 4",
}
"""Arguments of `bridge link set dev PORT`."""

SECURED = (*PORT_SETTINGS.values(), "learning on", "locked off learning on")
"""The same for a locked port."""

OTHERS = {
    "stp_state": "ip link set br0 type bridge stp_state 1",
    "vlan_filtering": "ip link set br0 type bridge vlan_filtering 1",
    "nf_call_iptables": "ip link set br0 type bridge nf_call_iptables 1",
    "vxlan learning": "ip link set vx0 type vxlan nolearning",
    "protodown": "ip link set vx0 protodown on",
}


def settings(machine: Machine) -> list[str]:
    """The LAN's bridge and ports with all that is set of them, without counters and timers."""
    lines = run(machine.lan(), "bridge -d link").splitlines()
    lines += run(machine.lan(), "ip -d -o link").splitlines()
    text = "\n".join(lines)
    return re.sub(r"(_timer|_id|root|change\w*|state [A-Z]\w*| [\w-]*UP[\w,-]*) *[\d.:a-z]*", "", text).split(
        "\n"
    )


async def at_rest(machine: Machine) -> list[str]:
    """The settings, once all links have a carrier, which the kernel tells a moment after they are up."""
    known: list[str] = []

    def is_steady() -> bool:
        nonlocal known
        before, known = known, settings(machine)
        return before == known and not any("NO-CARRIER" in line for line in known)

    await until(is_steady)
    return known


async def healed(machine: Machine, where: Path, command: str, before: list[str]) -> bool:
    """Whether what a command changed is as before soon; false where the kernel can't do it."""
    try:
        await asyncio.to_thread(run, where, command)
    except AssertionError as error:
        if "not supported" in str(error) or "Invalid argument" in str(error) or "is garbage" in str(error):
            return False
        raise
    machine.look()
    await until(lambda: settings(machine) == before)
    return True


async def furnished(made: Lab) -> Path:
    """A pod, a machine and a secured pod on the first node, and a pod on the second one; the first one's pod."""
    await made.cluster.lan(spokeOptions={"blue-d": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p", "172.16.0.1/24")
    await made[0].attach("blue-c", "vm", mode="macvtap")
    await made[0].attach("blue-d", "s")
    await made[1].attach("blue-b", "q", "172.16.0.2/24")
    await made[0].floods({made[1].address})
    await made[1].floods({made[0].address})
    pod = made[0].pods.path("p")
    await until(lambda: reaches(pod, "172.16.0.2"))
    return pod


@pytest.mark.slow
@played(2)
async def test_every_setting(made: Lab) -> None:
    """Each setting of each port, of the bridge and of the VXLAN link is healed, and frames pass afterwards."""
    pod = await furnished(made)
    first = made[0]
    before = await at_rest(first)
    commands = [
        f"bridge link set dev {port} {words}"
        for port in ("vx0", "blue-aV0", "blue-cM0")
        for words in PORT_SETTINGS.values()
    ]
    commands += [f"bridge link set dev blue-dV0 {words}" for words in SECURED]
    done = [
        command
        for command in (*commands, *OTHERS.values())
        if await healed(first, first.lan(), command, before)
    ]
    assert len(done) > 60
    await until(lambda: reaches(pod, "172.16.0.2"))


@played(2)
async def test_what_stops_frames(made: Lab) -> None:
    """Floods, a spanning tree and VLAN filtering without VLAN ids that were set are gone, and frames pass again."""
    pod = await furnished(made)
    first = made[0]
    before = await at_rest(first)
    for command in (
        "bridge link set dev vx0 flood off mcast_flood off bcast_flood off",
        "bridge link set dev blue-aV0 state 0",
        OTHERS["stp_state"],
        OTHERS["vlan_filtering"],
    ):
        if await healed(first, first.lan(), command, before) and "filtering" in command:
            await asyncio.to_thread(run, first.lan(), "bridge vlan delete vid 1 dev vx0", check=False)
            assert await healed(first, first.lan(), command, await asyncio.to_thread(settings, first))
        await asyncio.to_thread(forget_neighbours, pod)
        await until(lambda: reaches(pod, "172.16.0.2"))

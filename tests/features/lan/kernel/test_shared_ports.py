"""LANs at the UDP port of VXLAN links of other projects, on a real kernel, whichever came first."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from lanloom.api.lan import LANS
from tests.features.lan.agent.nodes import NAMESPACE
from tests.features.lan.kernel.machines import Lab, Machine, batch, lab, reaches, run, until


class Foreign(NamedTuple):
    """A VXLAN link of another project, and whether a LAN, and one with isolated spokes, can share its port."""

    words: str
    shares: bool
    shares_isolated: bool


FOREIGN = {
    "calico": Foreign("id 4096 dev u0 dstport 4789 nolearning local 10.99.0.1", True, False),
    "cilium": Foreign("external dstport 4789", False, False),
    "flannel": Foreign("id 1 dev u0 dstport 8472 nolearning local 10.99.0.1", True, True),
    "other-port": Foreign("external dstport 8472", True, True),
    "calico-v6": Foreign("id 4096 dev u0 dstport 4789 nolearning local fd00:1::1", True, True),
    "with-marks": Foreign("id 77 dev u0 dstport 4789 local 10.99.0.1 gbp", True, True),
}
ISOLATED = {"blue-d": {"isolated": True}}


async def furnished(made: Lab, **spec: Any) -> None:
    """A pod on each node at the LAN blue."""
    await made.cluster.lan(**spec)
    for number, machine in enumerate(made.machines, 1):
        await machine.offers()
        await machine.attach(f"blue-{'ab'[number - 1]}", "p", f"172.16.0.{number}/24")
    await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))


def comes_up(machine: Machine, name: str) -> bool:
    """Whether the owner of a foreign link can set it up, as it tries again and again."""
    run(machine.host, f"ip link set {name} up")
    return True


def problem(machine: Machine, ns: str = "blue") -> str:
    """What a node reports of a LAN; empty while it is ready."""
    return next((each.message for each in machine.entries() if each.name == ns and not each.ready), "")


@pytest.mark.parametrize("isolated", [False, True], ids=["open", "isolated"])
@pytest.mark.parametrize("name", FOREIGN)
async def test_a_foreign_link_comes_later(tmp_path: Path, name: str, isolated: bool) -> None:
    """It gets its port at once, and is left as it is; the LAN shares the port, or names the link until it is gone."""
    foreign = FOREIGN[name]
    async with lab(tmp_path, 2) as made:
        await furnished(made, spokeOptions=ISOLATED if isolated else {})
        machine = made[0]
        commands = ("address add fd00:1::1/64 dev u0 nodad", f"link add {name} type vxlan {foreign.words}")
        await asyncio.to_thread(batch, machine.host, *commands)
        await until(lambda: comes_up(machine, name))
        before = await asyncio.to_thread(run, machine.host, f"ip -d -o link show {name}")
        if foreign.shares_isolated if isolated else foreign.shares:
            await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))
            await until(lambda: not problem(machine))
        else:
            await until(lambda: f"the VXLAN link {name} of this node has UDP port 4789" in problem(machine))
            assert "recreate the LAN with another spec.vxlanPort, or delete that link" in problem(machine)
            assert "no frames reach" not in problem(machine)
        assert await asyncio.to_thread(run, machine.host, f"ip -d -o link show {name}") == before
        await asyncio.to_thread(run, machine.host, f"ip link delete {name}")
        await until(lambda: not problem(machine))
        await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))


async def test_isolated_spokes_after_a_foreign_link(tmp_path: Path) -> None:
    """Once the link is gone, one LAN's first isolated spoke has the other LANs' links at the port send marks, too."""
    async with lab(tmp_path, 1) as made:
        machine = made[0]
        await asyncio.to_thread(
            batch, machine.host, f"link add calico up type vxlan {FOREIGN['calico'].words}"
        )
        for vni, ns in enumerate(("blue", "red", "green"), 7):
            await made.cluster.lan(ns, vni=vni)
        await machine.offers(24)
        for ns in ("blue", "red", "green"):
            await machine.attach(f"{ns}-a", f"p-{ns}")
        assert not any(marks(machine).values())
        await asyncio.to_thread(run, machine.host, "ip link delete calico")
        await made.cluster.client.patch(LANS, "blue", {"spec": {"spokeOptions": ISOLATED}}, NAMESPACE)
        await until(lambda: all(marks(machine).values()))
        await until(lambda: not any(problem(machine, ns) for ns in ("blue", "red", "green")))


def marks(machine: Machine) -> Mapping[str, bool]:
    """Whether the VXLAN link of each LAN sends marks."""
    return {ns: " gbp " in run(machine.lan(ns), "ip -d -o link show vx0") for ns in ("blue", "red", "green")}


@pytest.mark.parametrize("seed", range(3))
async def test_random_neighbours(tmp_path: Path, seed: int) -> None:
    """After foreign links and isolated spokes came and went in any order, a LAN is as the links that are left ask."""
    rng = Random(seed)
    async with lab(tmp_path, 2) as made:
        await furnished(made)
        machine, there, isolated = made[0], set[str](), False
        await asyncio.to_thread(run, machine.host, "ip address add fd00:1::1/64 dev u0 nodad")
        for _ in range(20):
            name = rng.choice(sorted(FOREIGN.keys() - {"with-marks"}))
            if rng.random() < 0.2:
                isolated = not isolated
                options = ISOLATED if isolated else {"blue-d": {"isolated": False}}
                await made.cluster.client.patch(LANS, "blue", {"spec": {"spokeOptions": options}}, NAMESPACE)
            elif name in there:
                await asyncio.to_thread(run, machine.host, f"ip link delete {name}")
                there.remove(name)
            elif fits(name, there):
                words = f"ip link add {name} type vxlan {FOREIGN[name].words}"
                await asyncio.to_thread(run, machine.host, words)
                there.add(name)
                if rng.random() < 0.7:
                    await until(lambda name=name: comes_up(machine, name))  # type: ignore[misc]
        for name in sorted(there):
            await until(lambda name=name: comes_up(machine, name))  # type: ignore[misc]
        conflicts = [FOREIGN[name] for name in there]
        if all(each.shares_isolated if isolated else each.shares for each in conflicts):
            await until(lambda: not problem(machine))
            await until(lambda: reaches(made[0].pods.path("p"), "172.16.0.2"))
        else:
            await until(lambda: "has UDP port 4789" in problem(machine))


PORTS = {"calico": {(4, 4789)}, "calico-v6": {(6, 4789)}, "flannel": {(4, 8472)}}


def fits(name: str, there: set[str]) -> bool:
    """Whether the kernel lets a foreign link be up next to others: none of these shares its port with another."""
    sockets = {
        each: PORTS.get(each, {(version, 4789 if each == "cilium" else 8472) for version in (4, 6)})
        for each in FOREIGN
    }
    return not any(sockets[name] & sockets[each] for each in there)

"""The dry run of `lanloom vm move` passes if and only if an edit is accepted and ends well, whatever is in the way.

Seeds choose for each machine where its NIC is to go and what stands against that, of which the manager learns by its
own means: objects in deletion, the allocator of addresses, reports of agents, settings.
"""

import asyncio
from random import Random
from typing import Any, NamedTuple

import pytest

from lanloom.api.core import NAMESPACES, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.multus import NADS
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from tests.features.liveupdate.objects import (
    MIGRATABLE,
    PLACE,
    POD_INTERFACE,
    POD_NETWORK,
    devices,
    interface,
    nad,
    network,
)
from tests.features.liveupdate.test_every_way import POLICIES, edited, planned
from tests.features.liveupdate.whole import NODE_NAMES, WholeScene, agent, carry, play
from tests.harness.examples import seeds

Raw = dict[str, Any]
MACHINES = 16
FULL, FREE = "full", "free"

TARGETS = (
    "vlan",
    "vlan without id",
    "lonely",
    "bridge",
    "spoke",
    "macvtap",
    "ovs",
    "missing",
    "other namespace",
)
OBSTACLES = ("", "", "taken", "going", "full", "free")


class Attempt(NamedTuple):
    """A machine, where its NIC is to go, and what is in the way."""

    name: str
    target: str
    obstacle: str
    policy: str
    migratable: bool
    bridged: bool

    @property
    def enters(self) -> str:
        """The NAD to which the NIC is to move."""
        mode = {"spoke": "veth", "macvtap": "mac"}.get(self.target)
        title = f"k8slan-{mode}-{self.name}" if mode else f"{self.name}-target"
        return f"elsewhere/{title}" if self.target == "other namespace" else title

    @property
    def leaves(self) -> str:
        """The NAD on which the machine starts."""
        return "source" if self.bridged else f"k8slan-mac-{self.name}s"


def attempts(rng: Random) -> tuple[Attempt, ...]:
    """Some machines."""
    return tuple(
        Attempt(
            f"m{number}",
            rng.choice(TARGETS),
            rng.choice(OBSTACLES),
            rng.choice(POLICIES),
            rng.random() < 0.8,
            rng.random() < 0.8,
        )
        for number in range(MACHINES)
    )


def _target(attempt: Attempt) -> Raw | None:
    """The NAD to which a machine is to move; None where a LAN has it, or none."""
    configs: dict[str, Raw] = {
        "vlan": {"bridge": "cluster-1-br", "vlan": 10},
        "other namespace": {"bridge": "cluster-1-br", "vlan": 10},
        "vlan without id": {"bridge": "cluster-1-br", "vlan": 99},
        "lonely": {"bridge": "lonely-br", "vlan": 10},
        "bridge": {"bridge": "extern0"},
        "ovs": {"plugin": "ovs"},
    }
    config = configs.get(attempt.target)
    if config is None:
        return None
    if attempt.obstacle in (FULL, FREE):
        config |= {"ipam": {"type": "lanloom-ipam", "network": attempt.obstacle}}
    place, _, title = attempt.enters.rpartition("/")
    body = nad(title, place=place or PLACE, **config)
    held = {"finalizers": ["example.org/held"]} if attempt.obstacle == "going" else {}
    return body | {"metadata": body["metadata"] | held}


async def furnish(scene: WholeScene, every: tuple[Attempt, ...]) -> None:
    """All networks, with what is in the way but for deletions."""
    client = scene.client
    await carry(scene, "cluster-1", "1,10-20")
    await client.create(CLUSTER_NETWORKS, {"metadata": {"name": "lonely"}})
    await client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    await client.create(NADS, nad("source", bridge="cluster-1-br", vlan=11), PLACE)
    for name, cidr, last in ((FULL, "192.0.2", 10), (FREE, "198.51.100", 250)):
        subnet = {"cidr": f"{cidr}.0/24", "pools": [{"range": f"{cidr}.10-{cidr}.{last}"}]}
        await client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": [subnet]}})
    spec: Raw = {"owner": {"kind": "Instance", "name": "x"}, "network": FULL, "ips": ["pool"]}
    await client.create(NICS, {"metadata": {"name": "x"}, "spec": spec}, PLACE)
    names = [name for attempt in every for name in (attempt.name, f"{attempt.name}s")]
    for number, (name, spokes) in enumerate((("stays", names), ("goes", [f"{name}g" for name in names]))):
        lan: Raw = {"ns": name, "bridge": "br0", "vxlan": "vx0", "vni": number + 1, "defaultVxlanDev": "eth0"}
        await client.create(LANS, {"metadata": {"name": name}, "spec": lan | {"spokes": spokes}}, PLACE)
    for attempt in every:
        if (body := _target(attempt)) is not None:
            await client.create(NADS, body, body["metadata"]["namespace"])
    await _take_spokes(scene, every)
    await scene.rest(30)


async def _take_spokes(scene: WholeScene, every: tuple[Attempt, ...]) -> None:
    """Another pod is at the spoke of each machine where one is to be."""
    lan = await scene.client.get(LANS, "stays", PLACE)
    spokes = [
        {"name": attempt.name, "mode": "veth", "pod": f"{PLACE}/other"}
        for attempt in every
        if attempt.obstacle == "taken"
    ]
    entry = {"namespace": PLACE, "name": "stays", "uid": lan.metadata.uid, "ready": True, "spokes": spokes}
    await agent(scene, "node2").create(LAN_NODES, {"metadata": {"name": "node2"}})
    await agent(scene, "node2").patch(LAN_NODES, "node2", {"status": {"lans": [entry]}}, subresource="status")


async def start(scene: WholeScene, attempt: Attempt) -> None:
    """Start a machine on its first network."""
    nic = interface("blue") if attempt.bridged else {"name": "blue", "binding": {"name": "macvtap"}}
    spec = devices([POD_INTERFACE, nic], [POD_NETWORK, network("blue", attempt.leaves)])
    conditions = [{"type": "Ready", "status": "True"}, *([MIGRATABLE] if attempt.migratable else [])]
    await scene.start({"blue": attempt.leaves}, attempt.name, spec=spec, conditions=conditions)
    await scene.set_policy(attempt.policy, attempt.name)


async def cordon(scene: WholeScene) -> None:
    """No node accepts machines any more."""
    for name in NODE_NAMES:
        await scene.client.patch(NODES, name, {"spec": {"unschedulable": True}})


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
def test_a_dry_run_is_the_run(seed: int) -> None:
    """What the dry run lets pass moves, and what it refuses stays where it is and says why."""
    rng = Random(seed)
    every = attempts(rng)
    isolation = NamespaceIsolation(enabled=rng.random() < 0.5)

    async def story(scene: WholeScene) -> None:
        await furnish(scene, every)
        for attempt in every:
            await start(scene, attempt)
        for attempt in every:
            if attempt.obstacle == "going" and _target(attempt) is not None:
                place, _, title = attempt.enters.rpartition("/")
                await scene.client.delete(NADS, title, place or PLACE)
        if rng.random() < 0.2:
            await cordon(scene)
        await scene.rest(30)
        plans = [await planned(scene, attempt.name, attempt.enters) for attempt in every]
        ends = await asyncio.gather(*(edited(scene, attempt.name, attempt.enters) for attempt in every))
        for attempt, plan, end in zip(every, plans, ends, strict=True):
            assert isinstance(plan, str) == bool(end), (attempt, plan, end)
            there = attempt.leaves if end else attempt.enters
            assert await scene.nads(attempt.name) == {"blue": there}, (attempt, plan, end)

    play(story, LiveUpdateSettings(isolation=isolation))

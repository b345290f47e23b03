"""What users do in the stories of VLAN networks: steps that are tried until they succeed, while misfortunes happen."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.kube.errors import AlreadyExists, KubeError, NotFound
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.virtual import run
from tests.sim.cluster import SimCluster
from tests.sim.course import check_processes, disturb, ending
from tests.sim.vlan import (
    DHCP,
    NODE_NAMES,
    Meddlers,
    add_host,
    add_manager,
    first_storage,
    try_again,
)
from tests.sim.vlan_judge import complaints, objects

PATIENCE = 900.0
"""Virtual seconds in which a healed cluster must rest: a silent watch takes 90, NetworkManager's sulk 300."""

QUIET = 95.0
"""Virtual seconds in which a cluster at rest changes nothing: three of the agents' periodic looks."""

_AFTERMATHS = (15.0, 15.0, 15.0, 150.0)
"""Seconds that misfortunes go on after a story, on average: changes take minutes to be undone, and made again."""

Step = Callable[[SimCluster], Awaitable[object]]

_SPACE = "default"
_ADDRESSES = {name: f"192.168.1.{10 + index}/24" for index, name in enumerate(NODE_NAMES)}
_SWAPPED = dict(zip(NODE_NAMES, reversed(_ADDRESSES.values()), strict=True))


def _uplink(name: str, nic: str, **spec: Any) -> Step:
    async def step(sim: SimCluster) -> None:
        await _made(sim.admin.create(CLUSTER_NETWORKS, cluster_network(name)))
        await _made(sim.admin.create(VLAN_CONFIGS, vlan_config(name, name, nics=[nic], **spec)))

    return step


async def _made(request: Awaitable[object]) -> None:
    try:
        await request
    except AlreadyExists:
        return


def _network(name: str, uplink: str, vid: int, mode: str = "", **more: Any) -> Step:
    body = nad(name, uplink, vid, mode=mode, **more)
    return lambda sim: _made(sim.admin.create(NADS, body, _SPACE))


def _annotate(name: str, **annotations: str | None) -> Step:
    named = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return lambda sim: sim.admin.patch(NADS, name, {"metadata": {"annotations": named}}, _SPACE)


def _configure(name: str, uplink: str, vid: int) -> Step:
    spec = nad(name, uplink, vid)["spec"]
    return lambda sim: sim.admin.patch(NADS, name, {"spec": spec}, _SPACE)


def _delete(name: str) -> Step:
    async def step(sim: SimCluster) -> None:
        try:
            await sim.admin.delete(NADS, name, _SPACE)
        except NotFound:
            return

    return step


def _delete_uplink(name: str) -> Step:
    async def step(sim: SimCluster) -> None:
        try:
            await sim.admin.delete(VLAN_CONFIGS, name)
        except NotFound:
            return

    return step


def _select(name: str, labels: dict[str, str] | None) -> Step:
    return lambda sim: sim.admin.patch(VLAN_CONFIGS, name, {"spec": {"nodeSelector": labels}})


def _static(name: str, addresses: dict[str, str]) -> Step:
    return _annotate(name, mode="static", node_ip_map=json.dumps(addresses))


_SETUP = (_uplink("cluster-1", "eth1"),)
_STORY_1 = (*_SETUP, _network("vlan2012", "cluster-1", 2012, "dhcp"))
_STORY_3 = (*_STORY_1, _static("vlan2012", _ADDRESSES))

STORIES: dict[str, tuple[Step, ...]] = {
    "1: addresses by DHCP": _STORY_1,
    "3: from DHCP to static": _STORY_3,
    "3 and again: other addresses": (*_STORY_3, _static("vlan2012", _SWAPPED)),
    "4: node addresses off": (*_STORY_3, _annotate("vlan2012", l3_connectivity="false")),
    "4 and back: on again": (
        *_STORY_1,
        _annotate("vlan2012", l3_connectivity=None),
        _annotate("vlan2012", l3_connectivity="true"),
    ),
    "5: deleted": (*_STORY_1, _delete("vlan2012")),
    "5 and again: deleted and made anew": (
        *_STORY_3,
        _delete("vlan2012"),
        _network("vlan2012", "cluster-1", 2012, "dhcp"),
    ),
    "another VLAN id": (*_STORY_1, _configure("vlan2012", "cluster-1", 2014)),
    "6: uplink deleted": (*_STORY_1, _delete_uplink("cluster-1")),
    "8: fewer nodes": (*_STORY_1, _select("cluster-1", {"zone": "a"})),
    "8 and back: all nodes again": (
        *_STORY_1,
        _select("cluster-1", {"zone": "b"}),
        _select("cluster-1", None),
    ),
    "two cluster networks": (
        *_STORY_3,
        _uplink("cluster-2", "eth2", nodeSelector={"zone": "a"}),
        _network("vlan2013", "cluster-2", 2013, "dhcp"),
        _network("vms", "cluster-1", 100),
    ),
}


def play(seed: int, stories: Mapping[str, tuple[Step, ...]] = STORIES) -> str:
    """Plays one story on a fresh cluster: every misfortune and every step, and how much was written until then.

    Raises AssertionError where the cluster does not come to rest.
    """
    story = stories[Random(seed).choice(list(stories))]
    return "\n".join(run(_play(seed, first_storage(), story), rng=Random(seed)))


async def _play(seed: int, storage: MemoryStorage, story: tuple[Step, ...]) -> list[str]:
    sim = SimCluster(seed, storage)
    for vid in (2012, 2013, 2014):
        sim.switch.set_dhcp(vid, str(DHCP))
    await sim.start()
    for name in NODE_NAMES:
        add_host(sim, name)
    for name in ("manager-1", "manager-2"):
        add_manager(sim, name)
    meddlers = Meddlers(sim, Random(f"meddlers {seed}"))
    async with ending(sim):
        for process in sim.processes.values():
            process.start()
        await disturb(sim, _act(sim, story, Random(f"users {seed}")))
        for _ in range(seed % 4):  # nothing happens after this that would repair it by the way
            await meddlers.meddle()
        await _rest(sim)
    return sim.journal


async def _act(sim: SimCluster, story: tuple[Step, ...], rng: Random) -> None:
    """The story, and some time of misfortunes after its end."""
    for number, step in enumerate(story):
        await asyncio.sleep(rng.expovariate(1 / 8.0))
        await _insist(sim, number, step)
    await asyncio.sleep(rng.expovariate(1 / rng.choice(_AFTERMATHS)))


async def _insist(sim: SimCluster, number: int, step: Step) -> None:
    """Does as people do when they are refused: again, a little later."""
    while True:
        try:
            await step(sim)
        except KubeError as error:
            sim.note(f"users: step {number} refused: {error}")
            await asyncio.sleep(3)
        else:
            sim.note(f"users: step {number} done")
            return


async def _rest(sim: SimCluster) -> None:
    """The cluster becomes what its objects say, and then nothing changes any more."""
    deadline = sim.now() + PATIENCE
    while True:
        await try_again(sim)
        texts = await complaints(sim)
        before, writes = await objects(sim), _writes(sim)
        await asyncio.sleep(QUIET)
        after = await objects(sim)
        if not texts and after == before and _writes(sim) == writes:
            break
        trouble = "\n".join(texts) or f"something changes for ever:\n{before}\n{after}"
        assert sim.now() < deadline, f"the cluster does not come to rest:\n{trouble}"
    sim.note("users: all is well")
    check_processes(sim.processes.values())
    assert not sim.harm, "\n".join(sim.harm)


def _writes(sim: SimCluster) -> dict[str, int]:
    return {name: host.writes for name, host in sim.hosts.items()}

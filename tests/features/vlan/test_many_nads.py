"""NADs without node addresses: there may be thousands of one VLAN, and the manager does nothing for others of them.

What takes part in the node addresses of a cluster network is found by an index. The judge here knows no index: it
derives everything from all objects.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.dualstack import NodeAddresses
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.l3 import AnnotationError
from lanloom.api.l3annotations import l3_of, may_have_addresses
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.rules.report.cluster import annotation_patch, derive_annotations
from lanloom.features.vlan.rules.rollout.policy import revision, rollout_state
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.lookup import ignore_not_found
from lanloom.runtime.ports import NO_LEASES, NodeClaim, NodeLeases
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config
from tests.harness.cluster import Cluster, play
from tests.harness.examples import seeds

Raw = dict[str, Any]

PLACE = "default"
NETWORKS = ("one", "two")
NODE_NAMES = ("node1", "node2")
POLICY = '{"maxUnavailable": "100%"}'


class Pools:
    """Addresses for each claim, which stay until it is given up, as those of address management.

    `asked` are the NADs of all calls.
    """

    def __init__(self) -> None:
        self.asked: list[Key] = []
        self.held: dict[Key, NodeClaim | None] = {}
        self.handlers: list[Callable[[Key], None]] = []

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """As the port says."""
        self.asked.append(nad)
        before = self.held.get(nad)
        if claim is None:
            self.held.pop(nad, None)
        else:
            self.held[nad] = claim
        if before != claim:
            self.tell(nad)

    def leases(self, nad: Key) -> NodeLeases:
        """As the port says."""
        claim = self.held.get(nad)
        if claim is None:
            return NO_LEASES
        return NodeLeases({node: f"10.9.0.{at}/24" for at, node in enumerate(sorted(claim.nodes), 1)}, {})

    def are_complete(self, nad: Key) -> bool:
        """As the port says."""
        return self.held.get(nad) is not None

    def on_change(self, handler: Callable[[Key], None]) -> None:
        """As the port says."""
        self.handlers.append(handler)

    def tell(self, nad: Key) -> None:
        """The leases of a NAD changed."""
        for handler in self.handlers:
            handler(nad)

    def begin(self) -> None:
        """A term begins: addresses are known, and claims of before are not."""
        self.held = dict.fromkeys(self.held)
        self.handlers.clear()

    def find(self, nad: Key) -> None:
        """Addresses of an earlier term come to light that no NAD claims."""
        self.held.setdefault(nad, None)
        self.tell(nad)


class World(Cluster):
    """A cluster of two nodes with two cluster networks, and a manager. `looks` counts reconciles by controller."""

    kinds = (CLUSTER_NETWORKS, VLAN_CONFIGS, NADS, CLUSTER_NETWORK_NODES, VLAN_STATUSES)

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.pools = Pools()
        self.looks: Counter[str] = Counter()

    async def fill(self) -> None:
        """Nodes and cluster networks."""
        for name in NODE_NAMES:
            await self.client.create(NODES, node(name))
        for name in NETWORKS:
            await self.client.create(CLUSTER_NETWORKS, cluster_network(name))
            await self.client.create(VLAN_CONFIGS, vlan_config(name, name))

    async def manage(self, seed: int = 0, *addresses: Key) -> None:
        """Lead with a manager that knows nothing of before but addresses of these NADs."""
        found = dict.fromkeys(addresses)

        def observe(controller: str, _key: str, _seconds: float, _outcome: object) -> None:
            self.looks[controller] += 1

        self.pools.begin()
        rng = Random(seed)
        informers = vlan_informers(Informers(self.client, rng))
        recorder = self.recorder("lanloom-manager", "manager", self.client, rng)
        manager = VlanManager(
            self.client, informers, recorder, now=self.now, rng=rng, pools=self.pools, observe=observe
        )

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for informer in informers.all():
                    group.create_task(informer.run())
                await all_synced(informers.all())
                self.pools.held |= found
                group.create_task(manager.run())

        self.begin("manager", run())
        await all_synced(informers.all())

    async def put(self, body: Raw) -> None:
        """Make a NAD, or write all of it but the metadata that users don't write."""
        name = body["metadata"]["name"]
        present = {item.metadata.name: item for item in await self.nads()}
        if name not in present:
            await self.client.create(NADS, body, PLACE)
            return
        meta = present[name].metadata
        gone = dict.fromkeys(meta.annotations.keys() - body["metadata"]["annotations"].keys())
        merged = {
            "annotations": gone | body["metadata"]["annotations"],
            "labels": dict.fromkeys(meta.labels) | body["metadata"]["labels"],
        }
        await self.client.patch(NADS, name, {"metadata": merged, "spec": body["spec"]}, PLACE)

    async def nads(self) -> tuple[NetworkAttachmentDefinition, ...]:
        """All NADs."""
        return tuple((await self.client.list(NADS, PLACE)).items)

    async def complaints(self) -> list[str]:
        """What is not as it follows from all objects."""
        found = []
        nads = await self.nads()
        configs = (await self.client.list(VLAN_CONFIGS)).items
        leases = {key: NodeAddresses(self.pools.leases(key).addresses, {}) for key in self.pools.held}
        for network in (await self.client.list(CLUSTER_NETWORKS)).items:
            name = network.metadata.name
            mine = [item for item in nads if cluster_network_of(item) == name]
            uplinks = [item for item in configs if item.spec.cluster_network == name]
            wanted = derive_annotations(network, mine, uplinks, leases=leases).annotations
            if patch := annotation_patch(network, wanted):
                found.append(f"{name}: {patch}")
            policy = {key: text for key, text in network.metadata.annotations.items() if key == names.ROLLOUT}
            if policy and rollout_state(network).revision != revision(wanted | policy, uplinks, mine):
                found.append(f"{name}: another revision than {rollout_state(network).revision}")
        # No manager looks at the addresses of a network that is not there.
        judged = [
            item for item in nads if cluster_network_of(item) in NETWORKS or not may_have_addresses(item)
        ]
        pooled = {item.metadata.key for item in judged if _asks_for_pool(item)}
        held = self.pools.held.keys() & {item.metadata.key for item in judged}
        if held != pooled or not all(self.pools.held.get(key) for key in pooled):
            found.append(f"addresses of {held}, not {pooled}")
        return found


def _asks_for_pool(item: NetworkAttachmentDefinition) -> bool:
    try:
        value = l3_of(item)
    except AnnotationError:
        return False
    return value is not None and value.source is not None


def plain(name: str, network: str = "one", vid: int = 100, mtu: int = 1400) -> Raw:
    """A NAD without node addresses."""
    return nad(name, network, vid, config={"mtu": mtu})


def test_nobody_works_for_nads_without_addresses() -> None:
    """A NAD without node addresses that comes, changes or goes has no ClusterNetwork looked at, among many others."""

    async def story(world: World) -> None:
        await world.fill()
        for number in range(20):
            await world.put(plain(f"vm{number}", mtu=1300 + number))
        await world.put(nad("nodes", "one", 100, mode="dhcp"))
        await world.manage()
        await asyncio.sleep(60)
        world.looks.clear()
        await world.put(plain("late"))
        await asyncio.sleep(5)
        assert world.looks == {"nad": 1}, "its label is written, once"
        for step in (
            world.put(plain("late", mtu=1300)),
            world.put(plain("vm3", vid=200)),
            world.put(plain("vm4", network="two")),
            world.client.delete(NADS, "vm5", PLACE),
        ):
            await step
            await asyncio.sleep(5)
        assert world.looks["clusternetwork"] == 0
        await world.put(nad("nodes", "one", 100, mode="dhcp", config={"mtu": 1400}))
        await asyncio.sleep(5)
        assert world.looks["clusternetwork"] == 1
        assert await world.complaints() == []

    play(story, World)


@pytest.mark.parametrize("count", [1, 40])
def test_a_look_goes_by_nads_with_addresses(count: int) -> None:
    """A look at a ClusterNetwork reads no NAD without node addresses, however many there are."""

    async def story(world: World) -> None:
        await world.fill()
        for number in range(count):
            await world.put(plain(f"vm{number}"))
        await world.put(nad("nodes", "one", 100, mode="dhcp"))
        await world.manage()
        await asyncio.sleep(60)
        world.pools.asked.clear()
        await world.put(nad("nodes", "one", 200, mode="dhcp"))
        await asyncio.sleep(5)
        assert set(world.pools.asked) == {Key(PLACE, "nodes")}

    play(story, World)


def test_a_policy_rolls_out_all() -> None:
    """With a policy, NADs without node addresses have part in the revision, and none of them is released before."""

    async def story(world: World) -> None:
        await world.fill()
        await world.put(plain("vm1"))
        await world.manage()
        await asyncio.sleep(5)
        policy = {"metadata": {"annotations": {names.ROLLOUT: POLICY}}}
        await world.client.patch(CLUSTER_NETWORKS, "one", policy)
        revisions = set()
        for body in (plain("vm1", mtu=1300), plain("vm2"), plain("vm1", network="two")):
            await world.put(body)
            await asyncio.sleep(5)
            assert await world.complaints() == []
            revisions.add(rollout_state(await world.client.get(CLUSTER_NETWORKS, "one")).revision)
        assert len(revisions) == 3

    play(story, World)


def variant(rng: Random, name: str) -> Raw:
    """A NAD of that name in any form: of a cluster network or none, with node addresses in any mode, or broken."""
    network, vid = rng.choice((*NETWORKS, "none")), rng.choice((100, 200))
    static = {node: f"10.8.0.{at}/24" for at, node in enumerate(NODE_NAMES, 1)}
    made = rng.choice(
        (
            plain(name, network, vid),
            plain(name, network, vid, mtu=rng.randrange(1280, 1500)),
            nad(name, network, vid, mode="dhcp"),
            nad(name, network, vid, mode="static", addresses=static),
            nad(name, network, vid, mode="static", addresses="{"),
            nad(name, network, vid, mode="pool", more={names.IP_POOL: "net1"}),
            nad(name, network, vid, more={names.L3_CONNECTIVITY: rng.choice(("false", "yes", ""))}),
            nad(name, network, vid, mode="dhcp", config="{"),
        )
    )
    if rng.random() < 0.3:
        made["metadata"]["finalizers"] = ["example.org/keeps"]
    return made


@pytest.mark.parametrize("seed", seeds(60))
def test_any_order_of_events(seed: int) -> None:
    """Whatever NADs become, and in whichever order that is heard, all is at last as it follows from all objects."""
    rng = Random(seed)

    async def change(world: World, name: str) -> None:
        match rng.randrange(8):
            case 0:
                with ignore_not_found(name):
                    await world.client.delete(NADS, name, PLACE)
            case 1:
                with ignore_not_found(name):
                    await world.client.patch(NADS, name, {"metadata": {"finalizers": []}}, PLACE)
            case 2:
                world.pools.find(Key(PLACE, name))
            case 3:
                text = rng.choice((None, POLICY))
                patch = {"metadata": {"annotations": {names.ROLLOUT: text}}}
                await world.client.patch(CLUSTER_NETWORKS, rng.choice(NETWORKS), patch)
            case 4:
                await world.kill("manager")
                await world.manage(rng.randrange(1000), Key(PLACE, name))
            case _:
                await world.put(variant(rng, name))

    async def story(world: World) -> None:
        await world.fill()
        for name in ("a", "b", "c"):
            await world.put(variant(rng, name))
            if rng.random() < 0.5:
                world.pools.find(Key(PLACE, name))
        await world.manage(seed)
        for _ in range(12):
            await change(world, rng.choice(("a", "b", "c", "d")))
            if rng.random() < 0.5:
                await asyncio.sleep(rng.choice((0, 0.01, 0.5, 3)))
        await asyncio.sleep(60)
        assert await world.complaints() == []

    play(story, World, rng=Random(seed), seed=seed)


@given(
    st.one_of(st.none(), st.sampled_from(("true", "false", "True", "")), st.text(max_size=5)),
    st.booleans(),
    st.sampled_from(("dhcp", "static", "pool", "none", "dhcp,slaac", "")),
    st.sampled_from(('{"type": "bridge", "bridge": "one-br", "vlan": 100}', "{", "{}")),
)
def test_whoever_may_not_have_addresses_asks_for_none(
    connectivity: str | None, deleting: bool, mode: str, config: str
) -> None:
    """A NAD that the index leaves out has no configuration of node addresses, not even one that can't be read."""
    body = nad("a", "one", config=config, more={names.MODE: mode})
    if connectivity is not None:
        body["metadata"]["annotations"][names.L3_CONNECTIVITY] = connectivity
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    item = msgspec.convert(body, NetworkAttachmentDefinition)
    assert not (deleting and may_have_addresses(item))
    try:
        value = l3_of(item)
    except AnnotationError:
        assert may_have_addresses(item)
    else:
        assert (value is not None) == may_have_addresses(item)

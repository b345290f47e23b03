"""What a change costs in a large cluster: API calls, which must be proportional to the nodes that it touches.

500 nodes, 200 networks with node addresses on 4 cluster networks, in one process under a virtual clock: the embedded
engine, the real manager, and stand-ins for the agents. A stand-in is no whole agent (500 of those with 100,000
sub-interfaces would measure this machine's memory): it reads the stores that all share, and reports through the agents'
own ReportWriter what its node would carry. All requests of manager and stand-ins are counted, watches aside.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from bench.agent import Counted
from bench.report import Row
from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.clusterranges import ENDPOINT_SLICES, SERVICE_CIDRS
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS, VLAN_CONFIGS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import decode
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.agent.publisher import NODE_REPORTS, ReportWriter
from lanloom.features.vlan.informers import VlanInformers, vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.rules.desired.node import matched_nodes
from lanloom.kube.conditions import set_condition
from lanloom.kube.events import Recorder
from lanloom.kube.informer import ABSENT_SECONDS, all_synced
from lanloom.kube.informers import Informers
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.harness.virtual import run as run_virtually

NODE_COUNT = 500
UPLINKS = 4
VLANS = 50
"""Of each cluster network; two of them with static addresses, as many as fit into its annotations with ease."""

STATIC = 2
TOUCHED = (1, 10, 100, 500)

CALLS_PER_CHANGE = 12
"""What a change may cost besides: annotations, conditions while it spreads, and Events; not the user's own write."""

CALLS_PER_NODE = 2
"""Of a node that is touched: its report, which is two requests where there was none.

Where the last node goes or the first one comes, the label `ready` of every network of the uplink changes besides.
"""

SPREAD_SECONDS = 0.01
"""Between the reports of two nodes: in a real cluster they do not come at one instant."""

SETTLE_SECONDS = 120.0
"""What a change causes is over after this long; an idle cluster's calls in as long are not the change's."""

NOT_SERVED: tuple[Resource[Any], ...] = (HOST_NETWORK_CONFIGS, SERVICE_CIDRS, ENDPOINT_SLICES)
"""Optional kinds that this cluster has not; their informers look for them every ABSENT_SECONDS."""

NAMES = [f"node{number:03}" for number in range(NODE_COUNT)]
_VERBS = ("create", "patch", "delete", "get", "list")


def rows() -> Iterator[Row]:
    """Yield the calls for each change."""
    yield from run_virtually(_changes())


def _addresses(vid: int, shift: Mapping[str, int] = {}) -> dict[str, str]:
    """One address for each node; `shift` moves some nodes to others."""
    places = {name: 10 + number + shift.get(name, 0) for number, name in enumerate(NAMES)}
    return {name: f"10.{vid % 250}.{place // 250}.{place % 250 + 1}/16" for name, place in places.items()}


def _uplink(number: int) -> str:
    return f"cn{number}"


async def _fill(client: LocalClient) -> None:
    for manifest in manifests():
        await client.create(CRDS, manifest)
    for number, name in enumerate(NAMES):
        body = node(name)
        body["metadata"]["labels"] |= {f"beyond{size}": "yes" for size in TOUCHED if number >= size}
        await client.create(NODES, body)
    for number in range(UPLINKS):
        name = _uplink(number)
        await client.create(CLUSTER_NETWORKS, cluster_network(name))
        await client.create(VLAN_CONFIGS, vlan_config(name, name, nics=(f"eth{number + 1}",)))
        for vid in range(2, 2 + VLANS):
            static = (
                {"mode": "static", "addresses": _addresses(vid)} if vid < 2 + STATIC else {"mode": "dhcp"}
            )
            body = nad(f"{name}-{vid}", name, vid, **static)
            body["metadata"]["labels"]["network.harvesterhci.io/ready"] = "false"
            await client.create(NADS, body, "default")


class Fleet:
    """Stand-ins for the agents of all nodes: they look at what they share a moment after a change."""

    def __init__(self, client: Any, informers: VlanInformers, now: Callable[[], float]) -> None:
        self._informers = informers
        self._now = now
        own: Callable[[str], Any] = partial(_Own, informers.statuses)
        self._reporters = {name: ReportWriter(client, name, NODE_REPORTS, own(name)) for name in NAMES}
        self._dirty = asyncio.Event()
        for informer in (informers.cluster_networks, informers.configs, informers.nads):
            informer.on_change(lambda _old, _new: self._dirty.set())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(0.1)
            self._dirty.clear()
            wanted = self._wanted()
            for index, (name, reporter) in enumerate(self._reporters.items()):
                statuses = {
                    network: self._status(name, index, network, values, reporter)
                    for network, (nodes, values) in wanted.items()
                    if name in nodes
                }
                if await reporter.publish(statuses):
                    await asyncio.sleep(SPREAD_SECONDS)

    def _wanted(self) -> dict[str, tuple[set[str], list[L3]]]:
        networks: dict[str, tuple[set[str], list[L3]]] = {}
        for item in self._informers.cluster_networks.store.items():
            values = [entry.value for entry in decode(item.metadata.annotations).values() if entry.value]
            networks[item.metadata.name] = (set(), values)
        for config in self._informers.configs.store.items():
            networks[config.spec.cluster_network][0].update(matched_nodes(config) or ())
        return networks

    def _status(
        self,
        name: str,
        index: int,
        network: str,
        values: list[L3],
        reporter: ReportWriter[ClusterNetworkNodeStatus],
    ) -> ClusterNetworkNodeStatus:
        interfaces = tuple(
            VlanInterface(
                vlan_id=value.vid,
                name=f"{network}-br.{value.vid}",
                mode=value.mode,
                address=value.addresses.get(name, f"10.{value.vid}.{index // 250}.{index % 250 + 1}/16"),
                state="Ready",
                reason="Assigned",
            )
            for value in values
        )
        last = reporter.last(network)
        conditions = last.conditions if last is not None else ()
        for type in ("ready", "L3Ready"):
            conditions = set_condition(
                conditions, type=type, status="True", reason="Fine", generation=1, now=self._now()
            )
        return ClusterNetworkNodeStatus(
            cluster_network=network, node=name, interfaces=interfaces, conditions=conditions
        )


class _Own:
    """The reports of one node from the informer of all."""

    def __init__(self, informer: Any, name: str) -> None:
        self.store = self
        self._all = informer.store
        self._name = name

    def get(self, key: Any) -> Any:
        """One report."""
        return self._all.get(key)

    def items(self) -> Any:
        """Return the node's reports."""
        return self._all.by("node", self._name)


async def _changes() -> list[Row]:
    """Return the rows of all changes."""
    now = asyncio.get_running_loop().time
    engine = Engine(MemoryStorage(), now=now, rng=Random(0))
    await engine.start()
    admin = LocalClient(engine)
    await _fill(admin)
    calls: Counter[str] = Counter()
    client: Any = Counted(admin, calls)
    rng = Random(0)
    shared = Informers(client, rng)
    informers = vlan_informers(shared)
    recorder = Recorder(client, "bench", "bench", now=now, rng=rng)
    manager = VlanManager(client, informers, recorder, now=now, rng=rng)
    fleet = Fleet(client, informers, now)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    tasks += [asyncio.create_task(manager.run()), asyncio.create_task(fleet.run())]
    await all_synced(informers.all())
    await asyncio.sleep(SETTLE_SECONDS)
    try:
        return [row async for row in _measured(admin, calls)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.close()


async def _measured(admin: LocalClient, calls: Counter[str]) -> AsyncIterator[Row]:
    calls.clear()
    await asyncio.sleep(SETTLE_SECONDS)
    idle = Counter(calls)
    yield Row(
        name=f"API calls without a change in {SETTLE_SECONDS:.0f} s",
        measured=idle.total(),
        limit=len(NOT_SERVED) * SETTLE_SECONDS / ABSENT_SECONDS,
        unit="calls",
        note=f"looks for {', '.join(kind.plural for kind in NOT_SERVED)}, which are not served",
    )
    for touched in TOUCHED:
        narrow = {"spec": {"nodeSelector": {f"beyond{touched}": "yes"}}}
        wide = {"spec": {"nodeSelector": None}}
        moved = {"node-ip-map": json.dumps(_addresses(2, dict.fromkeys(NAMES[:touched], 600)))}
        back = {"node-ip-map": json.dumps(_addresses(2))}
        for title, patch in (
            ("other static addresses", partial(_annotate, admin, moved)),
            ("", partial(_annotate, admin, back)),
            ("a selector leaves them out", partial(admin.patch, VLAN_CONFIGS, _uplink(0), narrow)),
            ("a selector takes them in", partial(admin.patch, VLAN_CONFIGS, _uplink(0), wide)),
        ):
            calls.clear()
            started = time.process_time()
            await patch()
            await asyncio.sleep(SETTLE_SECONDS)
            if title:
                yield _row(title, touched, calls - idle, time.process_time() - started)


async def _annotate(admin: LocalClient, annotations: dict[str, str]) -> None:
    named = {names.PREFIX + key: value for key, value in annotations.items()}
    await admin.patch(NADS, f"{_uplink(0)}-2", {"metadata": {"annotations": named}}, "default")


def _row(title: str, touched: int, calls: Counter[str], seconds: float) -> Row:
    counts = {verb: calls[verb] for verb in _VERBS if calls[verb]}
    total = sum(counts.values())
    told = ", ".join(f"{count} {verb}" for verb, count in counts.items())
    return Row(
        name=f"API calls, {touched} of {NODE_COUNT} nodes touched: {title}",
        measured=total,
        limit=CALLS_PER_CHANGE + CALLS_PER_NODE * touched + (VLANS if touched == NODE_COUNT else 0),
        unit="calls",
        note=f"{total / touched:.1f} for each node; {told}; {seconds:.1f} s of CPU",
    )

"""What a large cluster costs a manager in API calls, step by step, alone and alongside Harvester's controller.

500 nodes, 20 cluster networks of 25 nodes each, 200 networks with node addresses. One process under a virtual clock:
the embedded engine, the real manager, and what agents and Harvester's controller would write. The manager's requests
are counted, watches and lists of the start aside.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

from bench.agent import Counted
from bench.report import Row
from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
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
from tests.harness.harvester import install
from tests.harness.virtual import run as run_virtually

NODE_COUNT, NETWORKS, VLANS = 500, 20, 10
PER_NETWORK = NODE_COUNT // NETWORKS

LIMITS = {
    "uplinks": 4 * NETWORKS,
    "reports": 4 * NETWORKS,
    "networks": 2 * NETWORKS * VLANS + NETWORKS,
    "one network changed": 1,
}
"""Of a cluster network: matched nodes, two conditions and annotations; conditions three times and an Event. Of a
network: its label, and a patch of its cluster network, for which nodes wait; a thing more is left for each of those.

Reports are written of at once and then once a second, with two in hand; changes that users make at once, up to
`lanloom.kube.controller.BURST` of a cluster network in a row.
"""

_WRITES = ("create", "patch", "delete")


def rows() -> Iterator[Row]:
    """Yield the calls for each step, in both modes."""
    for mode in ("alone", "beside"):
        yield from run_virtually(_steps(mode))


async def _steps(mode: str) -> list[Row]:
    now = asyncio.get_running_loop().time
    engine = Engine(MemoryStorage(), now=now, rng=Random(0))
    await engine.start()
    admin = LocalClient(engine)
    for manifest in manifests():
        await admin.create(CRDS, manifest)
    if mode == "beside":
        await install(admin)
    for number in range(NODE_COUNT):
        await admin.create(NODES, node(_node(number), group=f"g{number // PER_NETWORK}"))
    calls: Counter[str] = Counter()
    client: Any = Counted(admin, calls)
    rng = Random(0)
    shared = Informers(client, rng)
    informers = vlan_informers(shared)
    recorder = Recorder(client, "bench", "bench", now=now, rng=rng)
    manager = VlanManager(client, informers, recorder, now=now, rng=rng)
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    tasks.append(asyncio.create_task(manager.run()))
    await all_synced(informers.all())
    await asyncio.sleep(30)
    try:
        return [row async for row in _measured(admin, calls, mode)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.close()


async def _measured(admin: LocalClient, calls: Counter[str], mode: str) -> AsyncIterator[Row]:
    for title, step in (
        ("uplinks", _uplinks),
        ("reports", _reports),
        ("networks", _networks),
        ("one network changed", _change),
    ):
        calls.clear()
        await step(admin, mode)
        await asyncio.sleep(60)
        found = {verb: calls[verb] for verb in _WRITES if calls[verb]}
        yield Row(
            name=f"manager's API calls, {mode}: {title}",
            measured=sum(found.values()),
            limit=LIMITS[title],
            unit="calls",
            note=", ".join(f"{count} {verb}" for verb, count in found.items()) or "none",
        )


def _node(number: int) -> str:
    return f"node{number:03}"


async def _uplinks(admin: LocalClient, mode: str) -> None:
    for number in range(NETWORKS):
        name = f"cn{number:02}"
        await admin.create(CLUSTER_NETWORKS, cluster_network(name))
        config = vlan_config(name, name, nodeSelector={"group": f"g{number}"})
        if mode == "beside":
            members = [_node(each) for each in range(number * PER_NETWORK, (number + 1) * PER_NETWORK)]
            config["metadata"]["annotations"] = {names.MATCHED_NODES: json.dumps(members)}
        await admin.create(VLAN_CONFIGS, config)


async def _reports(admin: LocalClient, _mode: str) -> None:
    for number in range(NODE_COUNT):
        network, name = f"cn{number // PER_NETWORK:02}", _node(number)
        conditions = [{"type": type, "status": "True", "reason": "Fine"} for type in ("ready", "L3Ready")]
        body = {"metadata": {"name": report_name(network, name)}}
        await admin.create(CLUSTER_NETWORK_NODES, body)
        status = {"clusterNetwork": network, "node": name, "conditions": conditions}
        title = report_name(network, name)
        await admin.patch(CLUSTER_NETWORK_NODES, title, {"status": status}, subresource="status")
        await asyncio.sleep(0.005)


async def _networks(admin: LocalClient, mode: str) -> None:
    for number in range(NETWORKS * VLANS):
        name = f"cn{number % NETWORKS:02}"
        body = nad(f"net{number:03}", name, 100 + number // NETWORKS, mode="dhcp")
        if mode == "beside":
            body["metadata"]["labels"][names.READY_LABEL] = "true"
        await admin.create(NADS, body, "default")
        await asyncio.sleep(0.01)


async def _change(admin: LocalClient, _mode: str) -> None:
    """From DHCP to 25 static addresses."""
    addresses = {_node(each): f"10.9.0.{each + 1}/24" for each in range(PER_NETWORK)}
    annotations = {names.MODE: "static", names.NODE_IP_MAP: json.dumps(addresses)}
    await admin.patch(NADS, "net000", {"metadata": {"annotations": annotations}}, "default")

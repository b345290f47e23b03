"""A process with the real webhooks over HTTPS, on stores that hold a large cluster, so that no API server is measured.

The cluster: nodes in two racks, cluster networks that each cover all of them, and networks on these, a few of which
have a static map of every node. Every agent has reported on every cluster network, and a VM runs on each network.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.admission import UserInfo
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES, SELF_REVIEWS, SelfReview, SelfReviewStatus
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.live import follow
from lanloom.features.vlan.reader import store_reader, vm_informer
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Listing, WatchEvent
from lanloom.kube.store import freeze_memory
from lanloom.runtime.certificates import issue
from lanloom.runtime.webhooks import TlsServer, webhook_app

Raw = dict[str, Any]

CLUSTER_NETWORKS_COUNT = 20
STATIC_EVERY = 4
"""One network of so many has a static map, the others DHCP."""


class Size(Struct, frozen=True):
    """How many nodes and networks there are."""

    nodes: int
    networks: int


def node_name(number: int) -> str:
    """Return a node as installers name them."""
    return f"node-{number:04}.site.example.org"


def address(network: int, number: int) -> str:
    """Return a node's address on a network."""
    return f"10.{network % 250}.{number >> 7}.{(number & 127) + 1}/16"


def network(number: int, nodes: int, *, static: bool, **addresses: str) -> Raw:
    """Return a NAD with node addresses on all nodes, with its labels.

    Some of the addresses of its map may be changed.
    """
    cluster_network, vid = f"net-{number % CLUSTER_NETWORKS_COUNT}", number + 2
    config = {
        "cniVersion": "0.3.1",
        "name": f"network-{number}",
        "type": "bridge",
        "bridge": f"{cluster_network}-br",
        "promiscMode": True,
        "vlan": vid,
        "ipam": {},
    }
    annotations = {names.L3_CONNECTIVITY: "true", names.MODE: "static" if static else "dhcp"}
    if static:
        full = {node_name(index): address(number, index) for index in range(nodes)}
        annotations[names.NODE_IP_MAP] = json.dumps(full | addresses)
    return {
        "apiVersion": NADS.api_version,
        "kind": NADS.kind,
        "metadata": {
            "name": f"network-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations,
            "labels": {
                names.CLUSTER_NETWORK_LABEL: cluster_network,
                names.TYPE_LABEL: "L2VlanNetwork",
                names.VLAN_ID_LABEL: str(vid),
            },
        },
        "spec": {"config": json.dumps(config)},
    }


def _objects(size: Size) -> dict[Resource[Any], list[Raw]]:
    titles = [f"net-{number}" for number in range(CLUSTER_NETWORKS_COUNT)]
    return {
        NODES: [_node(number) for number in range(size.nodes)],
        CLUSTER_NETWORKS: [{"metadata": {"name": title}} for title in titles],
        VLAN_CONFIGS: [
            _uplink(title, number, rack) for number, title in enumerate(titles) for rack in ("a", "b")
        ],
        NADS: [
            network(number, size.nodes, static=number % STATIC_EVERY == 0) for number in range(size.networks)
        ],
        CLUSTER_NETWORK_NODES: [
            _report(title, node_name(index)) for title in titles for index in range(size.nodes)
        ],
        VIRTUAL_MACHINE_INSTANCES: [_vm(number) for number in range(size.networks)],
        VIRTUAL_MACHINES: [],
    }


def _node(number: int) -> Raw:
    status = {"addresses": [{"type": "InternalIP", "address": f"172.16.{number >> 7}.{(number & 127) + 1}"}]}
    labels = {"kubernetes.io/hostname": node_name(number), "rack": "ab"[number % 2]}
    return {"metadata": {"name": node_name(number), "labels": labels}, "status": status}


def _uplink(title: str, number: int, rack: str) -> Raw:
    spec = {"clusterNetwork": title, "nodeSelector": {"rack": rack}, "uplink": {"nics": [f"eth{number}"]}}
    return {"metadata": {"name": f"{title}-{rack}"}, "spec": spec}


def _report(title: str, node: str) -> Raw:
    status = {"clusterNetwork": title, "node": node, "conditions": [{"type": "ready", "status": "True"}]}
    return {"metadata": {"name": report_name(title, node)}, "status": status}


def _vm(number: int) -> Raw:
    networks = [{"name": "nic", "multus": {"networkName": f"default/network-{number}"}}]
    status = {"phase": "Running", "nodeName": node_name(number)}
    return {
        "metadata": {"namespace": "default", "name": f"vm-{number}"},
        "spec": {"networks": networks},
        "status": status,
    }


class Still:
    """An API server on which nothing changes: lists and watches of informers, and the name of the one who asks."""

    def __init__(self, objects: dict[Resource[Any], list[Raw]]) -> None:
        self._objects = objects

    async def list(self, resource: Resource[Any], *_arguments: Any, **_selectors: Any) -> Listing[Any]:
        found = self._objects.get(resource, [])  # the cluster has none of kinds that are not named
        return Listing(tuple(msgspec.convert(raw, resource.type) for raw in found), "7")

    async def watch(self, *_arguments: Any, **_selectors: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        await asyncio.Event().wait()
        events: tuple[WatchEvent[Any], ...] = ()
        for event in events:
            yield event

    async def create(self, resource: Resource[Any], *_arguments: Any) -> Any:
        assert resource is SELF_REVIEWS
        return SelfReview(status=SelfReviewStatus(user_info=UserInfo(username="manager")))


async def serve(size: Size) -> None:
    """Serve until killed; print the port when ready."""
    client: Any = Still(_objects(size))
    rng = Random(0)
    shared = Informers(client, rng)
    informers, vms = vlan_informers(shared), vm_informer(shared)
    machines: Informer[VirtualMachine] = shared.get(VIRTUAL_MACHINES, optional=True)
    followed = (*informers.all(), vms, machines)
    async with asyncio.TaskGroup() as group:
        for informer in followed:
            group.create_task(informer.run())
        await all_synced(followed)
        freeze_memory()
        world = store_reader(informers, vms, machines)
        admission = VlanAdmission(client, world, lambda _pod: "", in_flight=follow(InFlight(), informers))
        app = webhook_app([admission], lambda: True)
        server = TlsServer(app, "127.0.0.1", 0, issue(("127.0.0.1",), time.time()))
        group.create_task(server.run())
        await server.started()
        print(server.port, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Size(*map(int, sys.argv[1:]))))

"""A large cluster: 500 nodes with 20 networks each, 1,000 pools with a NIC each; as bodies, or in a server's data."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NAMESPACES, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.report.cluster import matched_annotation
from lanloom_embedded.engine.sqlite import SqliteStorage
from lanloom_embedded.engine.storage import Change, stored
from lanloom_embedded.kinds import GroupPlural
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config

Raw = dict[str, Any]

COUNT, WIDTH, POOLS = 500, 20, 1000
PLACE = "net"
CREATED = "2026-01-01T10:00:00Z"


def bodies() -> Iterator[tuple[Resource[Any], Raw]]:
    """Every object with its kind, in an order in which they can be created."""
    hosts = [f"node-{number:03}" for number in range(COUNT)]
    networks = [f"cn-{number}" for number in range(WIDTH)]
    yield NAMESPACES, {"metadata": {"name": PLACE}}
    for host in hosts:
        yield NODES, node(host, ready=True)
    for number, name in enumerate(networks):
        ready = {"type": "ready", "status": "True", "reason": "Ready", "lastTransitionTime": CREATED}
        yield CLUSTER_NETWORKS, cluster_network(name) | {"status": {"conditions": [ready]}}
        config = vlan_config(f"{name}-all", name)
        config["metadata"]["annotations"] = {names.MATCHED_NODES: matched_annotation(hosts)}
        yield VLAN_CONFIGS, config
        yield NADS, nad(f"net-{number:02}", name, 100 + number, namespace=PLACE)
    for host in hosts:
        for name in networks:
            yield CLUSTER_NETWORK_NODES, report(host, name)
    for number in range(POOLS):
        yield NETWORKS, _pool(number)
        yield NICS, _nic(number)


def report(host: str, network: str, *, bad: bool = False) -> Raw:
    """The report of a node about a cluster network."""
    number = int(network.rpartition("-")[2])
    ready = {"type": "ready", "status": str(not bad), "reason": "NoCarrier" if bad else "Ready"}
    status = {
        "node": host,
        "clusterNetwork": network,
        "vlanConfig": f"{network}-all",
        "bridge": f"{network}-br",
        "uplink": f"{network}-bo",
        "mtu": 1500,
        "vlanIds": f"1,{100 + number}",
        "conditions": [
            ready | {"message": "eth1 has no carrier" if bad else "", "lastTransitionTime": CREATED}
        ],
    }
    return {"metadata": {"name": f"{network}-{host}"}, "status": status}


def _pool(number: int) -> Raw:
    cidr = f"10.{number // 250}.{number % 250}.0/24"
    first = cidr.replace("0/24", "10")
    spec = {"subnets": [{"cidr": cidr, "pools": [{"range": f"{first}-{cidr.replace('0/24', '200')}"}]}]}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": CREATED}
    return {
        "metadata": {"name": f"pool-{number:04}"},
        "spec": spec,
        "status": {"conditions": [ready]},
    }


def _nic(number: int) -> Raw:
    network, address = f"pool-{number:04}", f"10.{number // 250}.{number % 250}.10"
    name = f"vm-{number:04}"
    return {
        "metadata": {"name": name, "namespace": PLACE},
        "spec": {"owner": {"kind": "Instance", "name": name}, "network": network, "ips": ["pool"]},
        "status": {"network": network, "ips": [address], "address": address, "epoch": 1},
    }


async def plant(data: Path, found: Iterable[tuple[Resource[Any], Raw]]) -> None:
    """Write objects into the data of a server that does not run: to create as many by requests takes a minute."""
    storage = SqliteStorage(data)
    version = storage.load().version
    changes = [_creation(kind, body, version + number) for number, (kind, body) in enumerate(found, 1)]
    await storage.commit(changes, version)
    await storage.close()


def _creation(kind: Resource[Any], body: Raw, version: int) -> Change:
    meta = body["metadata"]
    key = Key(meta.get("namespace", "") if kind.namespaced else "", meta["name"])
    made = {"uid": f"00000000-0000-4000-8000-{version:012}", "creationTimestamp": CREATED, "generation": 1}
    state = stored(body | {"metadata": made | meta}, version)
    return Change(GroupPlural(kind.group, kind.plural), key, version, None, state)

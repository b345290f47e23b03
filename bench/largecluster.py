"""The contents of a cluster as large as clusters get, written into a server's data: that of Lanloom, or an etcd.

Objects are as they are long after their start: running machines with launcher pods and with what KubeVirt says of their
templates, NICs with addresses, nodes with as much in their status as kubelets report.
"""

import asyncio
import json
import sys
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from aiohttp import ClientSession

from lanloom.api.core import CRDS, NAMESPACES, NODES, PODS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import FINALIZER, NETWORKS, NICS, NODE_LABEL, label_value
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.rules.start import GENERATION
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.sqlite import SqliteStorage
from lanloom_embedded.kubevirt import definitions
from lanloom_embedded.local import LocalClient
from lanloom_embedded.serve import apply_foundation
from tests.features.liveupdate.objects import instance, launcher, machine, on
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config

PLACES = 50
"""Namespaces."""

MACHINES, PODS_OTHER = 4, 12
"""For each node. A machine has two NICs, a pod one."""

NODES_PER_NAD, NODES_PER_LAN, NODES_PER_NETWORK = 5, 25, 100
UPLINKS = 4
NOW = "2026-11-01T00:00:00Z"
"""When everything began."""

_WRITERS = 48

SHARES = 2
"""So many processes write to an etcd at once."""

_AT_ONCE = 64
"""Objects in one transaction of etcd."""

Raw = dict[str, Any]
Job = Callable[[Client], Awaitable[Any]]


def node_body(name: str) -> Raw:
    """Return a node with as much in its status as kubelets report: mostly images."""
    body = node(name)
    images = [
        {"names": [f"registry.example.org/team/{name}-image-{at}@sha256:{at:064x}"], "sizeBytes": 10**8 + at}
        for at in range(50)
    ]
    body["status"] = {
        "conditions": [
            {"type": kind, "status": "True" if kind == "Ready" else "False", "lastTransitionTime": NOW}
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "images": images,
    }
    return body


class Address(NamedTuple):
    """A network, and which of its addresses, by numbers."""

    network: int
    number: int


def _where(number: int) -> str:
    return f"team-{number % PLACES}"


def _condition(kind: str, reason: str) -> Raw:
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": NOW}


def _nic(name: str, owner: Raw, place: str, at: "Address", on_node: str = "") -> tuple[Raw, Raw]:
    """Return a NIC and its status."""
    network, address = f"net{at.network}", str(ip_address(f"10.{at.network}.0.10") + at.number)
    reference = {
        "apiVersion": "v1" if owner["kind"] == "Pod" else "kubevirt.io/v1",
        **{key: owner[key] for key in ("kind", "name", "uid")},
    }
    body = {
        "metadata": {
            "name": name,
            "namespace": place,
            "labels": {NODE_LABEL: label_value(on_node)} if on_node else {},
            "finalizers": [FINALIZER],
            "ownerReferences": [reference],
        },
        "spec": {"owner": owner, "network": network, "ips": ["pool"], "index": 1, "interface": "net1"},
    }
    status = {
        "observedGeneration": 1,
        "network": network,
        "ips": [address],
        "address": address,
        "epoch": 1,
        "conditions": [_condition("Allocated", "Allocated"), _condition("Ready", "Allocated")],
    }
    return body, status


async def _make(
    client: Client, kind: Resource[Any], body: Raw, place: str = "", status: Raw | None = None
) -> str:
    if place:
        body = body | {"metadata": body["metadata"] | {"namespace": place}}
    made = await client.create(kind, body, place)
    if status is not None:
        await client.patch(kind, made.metadata.name, {"status": status}, place, subresource="status")
    uid: str = made.metadata.uid
    return uid


def jobs(count: int) -> Iterator[Job]:
    """Yield what makes a cluster of so many nodes, in an order in which owners come before what they own."""
    names = [f"node{number}" for number in range(count)]
    for name in names:
        body = node_body(name)
        yield partial(_make, kind=NODES, body=body, status=body["status"])
    for number in range(UPLINKS):
        yield partial(_make, kind=CLUSTER_NETWORKS, body=cluster_network(f"cn{number}"))
        config = vlan_config(f"cn{number}", f"cn{number}", nics=(f"eth{number + 1}",))
        yield partial(_make, kind=VLAN_CONFIGS, body=config)
    nads = max(1, count // NODES_PER_NAD)
    for number in range(nads):
        body = nad(f"vlan{number}", f"cn{number % UPLINKS}", number // UPLINKS % 4000 + 2)
        yield partial(_make, kind=NADS, body=body, place=_where(number))
    lans = max(1, count // NODES_PER_LAN)
    for number in range(lans):
        yield partial(_make, kind=LANS, body=lan_body(number), place=_where(number))
    networks = max(1, count // NODES_PER_NETWORK)
    for number in range(networks):
        yield partial(_make, kind=NETWORKS, body=network_body(number))
    for number in range(count * MACHINES):
        yield partial(_machine, number=number, at=names[number % count], nads=nads, networks=networks)
    for number in range(count * PODS_OTHER):
        yield partial(_pod, number=number, at=names[number % count], networks=networks)
    for number, name in enumerate(names):
        yield partial(_carry, node=name, number=number % lans)


async def _carry(client: Client, node: str, number: int) -> None:
    """Let a node report that it carries a LAN."""
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
        "uid": (await client.get(NODES, node)).metadata.uid,
    }
    body = {"metadata": {"name": node, "ownerReferences": [owner]}}
    lan = await client.get(LANS, f"lan{number}", _where(number))
    await _make(client, LAN_NODES, body, status=carrying([(number, lan.metadata.uid)], node))


def carrying(lans: Sequence[tuple[int, str]], node: str) -> Raw:
    """Return the status of the LANNode of a node that carries these LANs (number and uid), with a pod in each."""
    entries = [
        {
            "namespace": _where(number),
            "name": f"lan{number}",
            "uid": uid,
            "generation": 1,
            "vni": 1000 + number,
            "port": 4789,
            "address": str(ip_address("192.0.2.1") + int(node.removeprefix("node"))),
            "device": "eth0",
            "mtu": 1450,
            "ready": True,
            "spokes": [{"name": f"lan{number}-0", "mode": "veth", "pod": f"{_where(number)}/on-{node}"}],
        }
        for number, uid in lans
    ]
    return {"summary": f"{len(entries)}/{len(entries)}", "lans": entries}


def lan_body(number: int) -> Raw:
    """Return a LAN."""
    name = f"lan{number}"
    spec = {
        "ns": name,
        "bridge": f"b{number}",
        "vxlan": f"v{number}",
        "vni": 1000 + number,
        "spokes": [f"{name}-0"],
        "defaultVxlanDev": "eth0",
    }
    return {"metadata": {"name": name}, "spec": spec}


def network_body(number: int) -> Raw:
    """Return a Network with a /16."""
    subnet = f"10.{number}.0.0/16"
    return {
        "metadata": {"name": f"net{number}"},
        "spec": {"subnets": [{"cidr": subnet, "pools": [{"range": subnet}]}]},
    }


async def _machine(client: Client, number: int, at: str, nads: int, networks: int) -> None:
    name, place = f"vm{number}", _where(number)
    attached = {"blue": f"{place}/vlan{number % nads}", "red": f"{place}/vlan{(number + 7) % nads}"}
    spec = on({key: value.partition("/")[2] for key, value in attached.items()})
    body = machine(spec, name)
    owner = await _make(client, VIRTUAL_MACHINES, body, place)
    revision = f"revision-start-vm-{owner}-1"
    running = instance(spec, name, owner=owner, place=place, nodeName=at, virtualMachineRevisionName=revision)
    running["metadata"]["annotations"] = {GENERATION: "1"}
    uid = await _make(client, VIRTUAL_MACHINE_INSTANCES, running, place)
    pod = launcher(uid, attached, name=name, node=at, place=place)
    await _make(client, PODS, pod, place, pod["status"])
    kept = {"kind": "VirtualMachine", "name": name, "uid": owner}
    for index in range(2):
        at_network = Address(number % networks, number // networks * 2 + index)
        nic, status = _nic(f"{name}-nic{index}", kept, place, at_network)
        await _make(client, NICS, nic, place, status)


async def _pod(client: Client, number: int, at: str, networks: int) -> None:
    name, place = f"pod{number}", _where(number)
    body: Raw = {
        "metadata": {"name": name, "namespace": place, "labels": {"app": f"app{number % 1000}"}},
        "spec": {"nodeName": at, "containers": [{"name": "main", "image": "registry.example.org/app:1"}]},
        "status": {"phase": "Running"},
    }
    uid = await _make(client, PODS, body, place, body["status"])
    owner, address = (
        {"kind": "Pod", "name": name, "uid": uid},
        Address(number % networks, 20_000 + number // networks),
    )
    nic, status = _nic(f"{name}-nic", owner, place, address, at)
    await _make(client, NICS, nic, place, status)


async def fill(directory: Path, count: int) -> None:
    """Write the cluster into a server's data, without a server."""
    engine = Engine(SqliteStorage(directory), now=time.time, rng=Random(1))
    await engine.start()
    await apply_foundation(engine, definitions())
    client = LocalClient(engine)
    await _make_places(client)
    await _do(client, jobs(count))
    await engine.close()


class Etcd:
    """A client with which `jobs` make objects in the data of a kube-apiserver, past the server.

    By requests it takes the better part of an hour. Objects are as the server would have stored them, with as much
    in `managedFields`; only that built-in ones are JSON, which it reads as well.
    """

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/v3/kv/txn"
        self._made: dict[str, Raw] = {}

    async def create(self, kind: Resource[Any], body: Raw, place: str = "") -> Object:
        """Make an object, which `write` will write."""
        key, meta = _key(kind, body["metadata"]["name"], place), body["metadata"]
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        own = {"uid": _uid(key), "creationTimestamp": NOW} | ({"generation": 1} if kind.group else {})
        managed = {
            "manager": "a-controller",
            "operation": "Update",
            "apiVersion": kind.api_version,
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": _fields(body),
        }
        self._made[key] = whole | {"metadata": meta | own | {"managedFields": [managed]}}
        return Object(metadata=ObjectMeta(name=meta["name"], namespace=place, uid=_uid(key)))

    async def patch(
        self, kind: Resource[Any], name: str, patch: Raw, place: str = "", *, subresource: str
    ) -> None:
        """Set the status of an object that is not written yet."""
        self._made[_key(kind, name, place)][subresource] = patch[subresource]

    async def get(self, kind: Resource[Any], name: str, place: str = "") -> Object:
        """Return the metadata of an object, which another process may make."""
        return Object(metadata=ObjectMeta(name=name, namespace=place, uid=_uid(_key(kind, name, place))))

    async def write(self, least: int = _AT_ONCE) -> None:
        """Write what was made, if that is enough for a transaction."""
        while len(self._made) >= max(1, least):
            keys = list(islice(self._made, _AT_ONCE))
            puts = [
                {"requestPut": {"key": _base64(key), "value": _base64(json.dumps(self._made.pop(key)))}}
                for key in keys
            ]
            async with self._session.post(self._url, json={"success": puts}) as answer:
                answer.raise_for_status()


def _key(kind: Resource[Any], name: str, place: str) -> str:
    plural = "minions" if kind is NODES else kind.plural
    return "/".join(("/registry", *filter(None, (kind.group, plural, place, name))))


def _uid(key: str) -> str:
    return str(uuid5(NAMESPACE_URL, key))


def _fields(value: Any) -> Raw:
    """Return the names of all fields, as a server writes down who set them."""
    return {f"f:{key}": _fields(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


async def fill_etcd(url: str, count: int, part: int) -> None:
    """Write one part of the cluster into the data of a kube-apiserver, of `SHARES`."""
    async with ClientSession() as session:
        client: Any = Etcd(session, url)
        for job in islice(jobs(count), part, None, SHARES):
            await job(client)
            await client.write()
        await client.write(1)


async def prepare(client: Client) -> None:
    """Bring a server the kinds and namespaces of the cluster."""
    for definition in (*definitions(), *manifests()):
        await client.create(CRDS, definition)
    for name in (LANLOOM_NAMESPACE, BRIDGES_NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    await _make_places(client)


async def _make_places(client: Client) -> None:
    for number in range(PLACES):
        await client.create(NAMESPACES, {"metadata": {"name": f"team-{number}"}})


async def _do(client: Client, left: Iterator[Job]) -> None:
    async def write() -> None:
        for job in left:
            await job(client)

    await asyncio.gather(*(write() for _ in range(_WRITERS)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["data", directory, count]:
            asyncio.run(fill(Path(directory), int(count)))
        case ["etcd", url, count, part]:
            asyncio.run(fill_etcd(url, int(count), int(part)))

"""Requests as the API server sends them, and a small cluster to judge them in."""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, TypeVar

import msgspec

from lanloom.api.admission import (
    AdmissionRequest,
    UserInfo,
    Verdict,
)
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import PODS
from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.names import NODE_USER_PREFIX
from lanloom.api.resource import Resource
from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.reader import AddressReader, ipam_informers
from lanloom.features.ipam.wirereader import WireReader, wire_informers
from lanloom.kube.informers import Informers
from lanloom.runtime.identity import MANAGERS
from lanloom_embedded.engine.storage import MemoryStorage
from tests.harness.cluster import Cluster, installed
from tests.harness.virtual import run

T = TypeVar("T")
Raw = dict[str, Any]
Present = tuple[Resource[Any], Raw]

KINDS: tuple[Resource[Any], ...] = (
    NETWORKS,
    NICS,
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_INSTANCES,
    NADS,
    CLUSTER_NETWORK_NODES,
    LANS,
)
ADMIN, MANAGER = "kubernetes-admin", MANAGERS[0]
AGENT = f"{NODE_USER_PREFIX}node1"
SUBNET: Raw = {
    "uuid": "6f1f2a1e-0000-4000-8000-000000000001",
    "cidr": "192.0.2.0/24",
    "gateway": "192.0.2.1",
    "pools": [{"range": "192.0.2.10-192.0.2.100", "name": "front"}],
    "external": ["192.0.2.200-192.0.2.210"],
}

CONNECTION = {"group": "rack1", "mode": "bridged", "link": "br0"}
"""A connection to a node group, as networks have them."""


def network(name: str = "net1", /, *subnets: Raw, **more: Any) -> Raw:
    """A network, with one subnet unless given otherwise."""
    return {"metadata": {"name": name}, "spec": {"subnets": list(subnets or (SUBNET,)), **more}}


def subnet(**more: Any) -> Raw:
    """The usual subnet with something else; None takes a field away."""
    return {key: value for key, value in {**SUBNET, **more}.items() if value is not None}


def nic(
    name: str = "web-0", *ips: str, owner: Raw | None = None, meta: Raw | None = None, **more: Any
) -> Raw:
    """A NIC of the instance web in net1."""
    spec = {"owner": owner or {"kind": "Instance", "name": "web"}, "network": "net1", "ips": list(ips)}
    return {
        "metadata": {"name": name, "namespace": "default", "finalizers": [FINALIZER], **(meta or {})},
        "spec": spec | more,
    }


def with_status(body: Raw, **status: Any) -> Raw:
    """An object with that in its status."""
    return {**body, "status": {**body.get("status", {}), **status}}


def holding(name: str, *ips: str, network: str = "net1") -> Raw:
    """A NIC that owns addresses."""
    return with_status(nic(name, *ips, network=network), network=network, ips=list(ips))


def deleted(body: Raw) -> Raw:
    """An object whose deletion was asked for."""
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def agent_of(user: UserInfo) -> str | None:
    """The agents of the embedded server; the app has those of Kubernetes too."""
    name = user.username
    return name.removeprefix(NODE_USER_PREFIX) if name.startswith(NODE_USER_PREFIX) else None


def uid_of(resource: Resource[Any], name: str) -> str:
    """Stands for the uid that the server gives to an object."""
    return f"uid of {resource.plural} {name}"


def granting(name: str, *ips: str, version: int = 0) -> Raw:
    """The usual network, which has just granted addresses to a NIC of that version; 0 stands for one not known."""
    grant = {"nic": f"default/{name}", "uid": uid_of(NICS, name), "ips": list(ips), "version": version}
    return with_status(network(), grants=[grant])


def verdict_of(
    asked: AdmissionRequest,
    *present: Present,
    seen: Iterable[Present] | None = None,
    before: Iterable[AdmissionRequest] = (),
) -> Verdict:
    """The verdict on a server that has these objects; a manager's watches have brought `seen` (None: the same).

    `before` was answered a moment ago, and is not stored yet.
    """

    async def ask(*storages: MemoryStorage) -> Verdict:
        async with Cluster(storages[0]) as real, Cluster(storages[1]) as other:
            uids = await _fill(real, present)
            watched = real if seen is None else other
            if seen is not None:
                await _fill(watched, seen)
            shared = Informers(watched.client, Random(1))
            reader, wires = AddressReader(ipam_informers(shared)), WireReader(wire_informers(shared))
            pods = shared.get(PODS)
            running = [asyncio.create_task(item.run()) for item in shared.all()]
            for item in shared.all():
                await item.synced()
            admission = IpamAdmission(real.client, reader.context, agent_of, wires=wires, pods=pods.store.get)
            for earlier in before:
                await admission.validate(_with(uids, earlier, AdmissionRequest))
            verdict = await admission.validate(_with(uids, asked, AdmissionRequest))
            for task in running:
                task.cancel()
            return verdict

    return run(ask(installed(*KINDS), installed(*KINDS)))


async def _fill(cluster: Cluster, present: Iterable[Present]) -> dict[str, str]:
    """Create these objects; return their uids by what stands for them."""
    uids: dict[str, str] = {}
    for resource, body in present:
        meta = body["metadata"]
        uids[uid_of(resource, meta["name"])] = await cluster.keep(resource, _with(uids, body, dict))
        if "deletionTimestamp" in meta:
            await cluster.client.delete(resource, meta["name"], meta.get("namespace", ""))
    return uids


def _with(uids: Mapping[str, str], value: Any, kind: type[T]) -> T:
    """A value with the real uids in it."""
    text = msgspec.json.encode(value).decode()
    for stand_in, uid in uids.items():
        text = text.replace(stand_in, uid)
    return msgspec.json.decode(text, type=kind)


def defaults(asked: AdmissionRequest) -> Verdict:
    """What is filled in, which needs no server."""
    return IpamAdmission(None, None, agent_of).mutate(asked)  # type: ignore[arg-type]

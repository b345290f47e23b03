"""Address management as a manager serves it, with its webhooks over HTTPS: on the embedded server and on a real one.

Of its own, because the webhooks would reach every other test's objects.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.admission import UserInfo
from lanloom.api.core import PODS
from lanloom.api.ipam import (
    FINALIZER,
    NETWORKS,
    NICS,
    Nic,
)
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.harness.installing import prepare
from tests.harness.managers import asking_engine, leading
from tests.harness.servers.eventually import PatientClient, eventually
from tests.harness.servers.real import RealServer

pytestmark = pytest.mark.slow

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver for this module alone."""
    with RealServer(real_binaries) as running:
        yield running


@asynccontextmanager
async def managed(client: Client) -> AsyncIterator[None]:
    """A manager leads there."""
    await prepare(client)
    served: tuple[Resource[Any], ...] = (NETWORKS, NICS)
    for resource in served:
        await eventually(partial(client.list, resource), lambda _: True)
    async with leading(client, "kubernetes-admin"):
        yield


def nic(name: str, *ips: str, network: str, owner: Raw | None = None, **meta: Any) -> Raw:
    """A NIC in the namespace default."""
    spec = {"owner": owner or {"kind": "Instance", "name": "web"}, "network": network, "ips": list(ips)}
    return {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec}


async def given(client: Client, name: str) -> Nic:
    """The NIC, once it has addresses."""
    return await eventually(lambda: client.get(NICS, name, "default"), lambda item: len(item.status.ips) > 0)


async def looked_at(client: Client, name: str) -> None:
    """Returns when the manager has seen a network: NICs of one that it does not know are let pass."""
    await eventually(lambda: client.get(NETWORKS, name), lambda item: item.status.allocator.epoch > 0)


async def gone(client: Client, resource: Resource[Any], name: str, namespace: str = "") -> None:
    """Returns when the object is no longer there."""

    async def names() -> list[str]:
        return [item.metadata.name for item in (await client.list(resource, namespace)).items]

    await eventually(names, lambda found: name not in found)


async def a_network_is_used(client: Client, name: str) -> None:
    """From a network's making to its end, with everything that is refused on the way."""
    subnets = [
        {"cidr": "192.0.2.77/24", "gateway": "192.0.2.1", "pools": [{"range": "192.0.2.10-192.0.2.20"}]}
    ]
    made = await client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": subnets}})
    assert (made.spec.subnets[0].cidr, made.spec.subnets[0].uuid) == ("192.0.2.77/24", "")
    with pytest.raises(Forbidden, match="is the name of Network"):
        await client.create(NETWORKS, {"metadata": {"name": f"{name}-2"}, "spec": {"name": name}})
    await looked_at(client, name)
    with pytest.raises(Forbidden, match=r"spec.ips\[0\]: network .* does not contain 10.0.0.1"):
        await client.create(NICS, nic("web-0", "10.0.0.1", network=name), "default")
    await client.create(NICS, nic("web-0", "pool", network=name), "default")
    has = await given(client, "web-0")
    assert has.status.ips == ("192.0.2.10",)
    assert FINALIZER in has.metadata.finalizers
    with pytest.raises(Forbidden, match=r"already used by an instance \(NIC default/web-0\)"):
        await refused_at_last(client, nic("web-1", "192.0.2.10", network=name))
    with pytest.raises(Forbidden, match="can't be removed while NICs own addresses"):
        await client.patch(NETWORKS, name, {"spec": {"subnets": [{"cidr": "10.0.0.0/24"}]}})
    with pytest.raises(Forbidden, match=r"spec\.owner is immutable"):
        await client.patch(NICS, "web-0", {"spec": {"owner": {"kind": "Pod"}}}, "default")
    await client.delete(NICS, "web-0", "default")
    await gone(client, NICS, "web-0", "default")
    await client.patch(NETWORKS, name, {"spec": {"subnets": [{"cidr": "10.0.0.0/24"}]}})
    await client.create(NICS, nic("web-2", "pool", network=name), "default")
    await client.delete(NETWORKS, name)
    await client.delete(NICS, "web-2", "default")
    await gone(client, NETWORKS, name)


async def refused_at_last(client: Client, body: Raw) -> None:
    """Tries until it is refused: the manager's watch must have brought the other NIC first."""
    async with asyncio.timeout(60):
        while True:
            await client.create(NICS, body, "default")
            await client.delete(NICS, body["metadata"]["name"], "default")
            await gone(client, NICS, body["metadata"]["name"], "default")


async def a_pod_keeps_its_address(client: Client, name: str) -> None:
    """A NIC that is deleted stays with its address as long as its pod, and no longer."""
    subnets = [{"cidr": "198.51.100.0/24", "pools": [{"range": "198.51.100.10-198.51.100.20"}]}]
    await client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": subnets}})
    spec = {"containers": [{"name": "main", "image": "image"}], "automountServiceAccountToken": False}
    pod = await client.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, "default")
    owner = {"kind": "Pod", "name": "web", "uid": pod.metadata.uid}
    await client.create(NICS, nic("web-eth0", "pool", network=name, owner=owner), "default")
    before = await given(client, "web-eth0")
    await client.delete(NICS, "web-eth0", "default")
    await client.create(NICS, nic("next", "pool", network=name), "default")
    assert (await given(client, "next")).status.ips != before.status.ips
    assert (await client.get(NICS, "web-eth0", "default")).status.ips == before.status.ips
    await client.delete(PODS, "web", "default")
    await gone(client, NICS, "web-eth0", "default")
    await client.delete(NICS, "next", "default")
    await gone(client, NICS, "next", "default")


async def test_a_network_on_the_embedded_server() -> None:
    """What is refused and what is filled in arrives at the user, and the manager's own writes pass."""
    async with asking_engine() as engine, managed(client := LocalClient(engine)):
        await a_network_is_used(client, "net1")


async def test_a_pod_on_the_embedded_server() -> None:
    """The address of a pod is given back when the pod is gone."""
    async with asking_engine() as engine, managed(client := LocalClient(engine)):
        await a_pod_keeps_its_address(client, "net2")


async def test_a_status_is_not_a_users() -> None:
    """An administrator can't write a status by mistake, though RBAC would allow it."""
    async with asking_engine() as engine, managed(client := LocalClient(engine)):
        await client.create(NETWORKS, {"metadata": {"name": "net3"}, "spec": {}})
        administrator = LocalClient(engine, UserInfo(username="somebody", groups=("system:masters",)))
        with pytest.raises(Forbidden, match="status is written by Lanloom's manager only"):
            await administrator.patch(NETWORKS, "net3", {"status": {"free": "7"}}, subresource="status")


@pytest.mark.realserver
async def test_a_network_on_a_real_kube_apiserver(server: RealServer) -> None:
    """The same on a real kube-apiserver, where the manager is known as the user of its kubeconfig."""
    async with PatientClient(load(str(server.kubeconfig))) as client, managed(client):
        await a_network_is_used(client, "net1")


@pytest.mark.realserver
async def test_a_pod_on_a_real_kube_apiserver(server: RealServer) -> None:
    """The address of a pod is given back there too."""
    async with PatientClient(load(str(server.kubeconfig))) as client, managed(client):
        await a_pod_keeps_its_address(client, "net2")

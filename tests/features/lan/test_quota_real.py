"""Quotas of LANs and of their spokes on a real kube-apiserver: what `docs/lan.md` tells administrators to use."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import NAMESPACES, PODS
from lanloom.api.lan import LANS
from lanloom.kube.errors import AlreadyExists, Forbidden
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

Raw = dict[str, Any]

TENANT, OTHER = "tenant-b", "tenant-c"
COUNT = "count/lans.lan.k8slan.io"
SPOKE = "macvtap.k8slan.io/k8slan-veth-web"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver with the controller of quotas, which knows the kind of LANs from its start on."""
    with RealServer(real_binaries, controllers=("resourcequota",)) as running:
        running.kill("kube-controller-manager")
        Installer(real_binaries, running).definitions()
        running.start("kube-controller-manager")
        yield running


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[HttpClient]:
    """An administrator, with the namespaces of two tenants."""
    async with HttpClient(load(str(server.kubeconfig))) as found:
        for name in (TENANT, OTHER):
            with suppress(AlreadyExists):
                await found.create(NAMESPACES, {"metadata": {"name": name}})
        yield found


async def limit(client: HttpClient, name: str, resource: str, hard: str) -> None:
    """Give the tenant a quota, and wait until it is in force."""
    path = f"/api/v1/namespaces/{TENANT}/resourcequotas"
    await client.request("POST", path, {"metadata": {"name": name}, "spec": {"hard": {resource: hard}}})

    async def status() -> Raw:
        found: Raw = (await client.request("GET", f"{path}/{name}")).get("status", {})
        return found

    await eventually(status, lambda found: resource in found.get("used", {}), PATIENCE)


async def make_lan(client: HttpClient, number: int, namespace: str = TENANT) -> None:
    """Create a LAN."""
    spec = {
        "ns": f"n{number}",
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": 700 + number,
        "spokes": [f"s{number}"],
    }
    spec |= {"defaultVxlanDev": "eth0"}
    await client.create(LANS, {"metadata": {"name": f"lan{number}"}, "spec": spec}, namespace)


def pod(name: str, resources: Raw) -> Raw:
    """A pod that requests these resources."""
    container = {"name": "main", "image": "x", "resources": {"requests": resources, "limits": resources}}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_quota_of_lans(client: HttpClient) -> None:
    """A namespace has as many LANs as its quota says, the refusal names the quota, and other namespaces have more."""
    await limit(client, "lans", COUNT, "2")

    async def has_first() -> bool:
        await make_lan(client, 0)
        return True

    await eventually(has_first, bool, PATIENCE)  # what admits it learns of the quota's status by a watch
    await make_lan(client, 1)
    with pytest.raises(Forbidden) as refused:
        await make_lan(client, 2)
    assert str(refused.value) == (
        'lans.lan.k8slan.io "lan2" is forbidden: exceeded quota: lans, '
        f"requested: {COUNT}=1, used: {COUNT}=2, limited: {COUNT}=2"
    )
    for number in range(2, 5):
        await make_lan(client, number, OTHER)
    await client.delete(LANS, "lan0", TENANT)

    async def has_room() -> bool:
        await make_lan(client, 5)
        return True

    await eventually(has_room, bool, PATIENCE)


async def test_a_quota_of_spokes(client: HttpClient) -> None:
    """A namespace with a quota of none of a spoke's resource has no pods that request it, and has all others."""
    await limit(client, "spokes", f"requests.{SPOKE}", "0")
    taker = pod("taker", {SPOKE: "1"})

    async def refusal() -> str:
        try:
            await client.request("POST", PODS.path(TENANT), taker, query={"dryRun": "All"})
        except Forbidden as refused:
            return str(refused)
        return ""

    await eventually(refusal, lambda text: "exceeded quota" in text, PATIENCE)  # as above
    with pytest.raises(Forbidden, match=f"exceeded quota: spokes, requested: requests.{SPOKE}=1"):
        await client.create(PODS, taker, TENANT)
    await client.create(PODS, pod("other", {}), TENANT)
    await client.create(PODS, pod("elsewhere", {"macvtap.k8slan.io/k8slan-veth-db": "1"}), TENANT)

"""Addresses of a StatefulSet's names, with Kubernetes' own controller of StatefulSets: how it ends and makes pods.

The tests are the kubelet: they call the agent for pods, and let pods go that are being deleted.
"""

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import HELD_UNTIL, NETWORKS, NICS, Nic
from lanloom.api.workloads import STATEFUL_SETS
from lanloom.features.ipam.agent.service import IpamService
from lanloom.kube.errors import NotFound
from lanloom.kube.events import Recorder
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.features.ipam.agent.objects import NODE, request
from tests.harness.servers.eventually import PatientClient, eventually
from tests.harness.servers.real import RealServer
from tests.processes.test_ipam_served import looked_at, managed

pytestmark = [pytest.mark.slow, pytest.mark.realserver]

Raw = dict[str, Any]

NETWORK: Raw = {
    "metadata": {"name": "net1"},
    "spec": {
        "subnets": [{"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.19"}]}],
        "stickyFor": {"StatefulSet": "1h"},
    },
}


@pytest.fixture
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver with the controller of StatefulSets."""
    with RealServer(real_binaries, controllers=("statefulset",)) as running:
        yield running


def stateful_set(replicas: int) -> Raw:
    """A StatefulSet `web` whose pods are on the node at once, and never ready: no kubelet runs them."""
    labels = {"app": "web"}
    containers = [{"name": "main", "image": "image"}]
    spec = {"nodeName": NODE, "containers": containers, "automountServiceAccountToken": False}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "serviceName": "web",
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class Node:
    """The node's agent and kubelet, as far as addresses go."""

    def __init__(self, client: HttpClient) -> None:
        rng = random.Random(1)
        recorder = Recorder(client, "lanloom-agent", NODE, now=time.time, rng=rng)
        self._service = IpamService(client, NODE, recorder, rng=rng)
        self._client = client

    async def begin(self, name: str, before: str = "") -> tuple[str, str]:
        """The next pod of a name after the one with this uid starts; its uid and its address."""

        async def find() -> Pod | None:
            try:
                return await self._client.get(PODS, name, "default")
            except NotFound:
                return None

        pod = await eventually(find, lambda pod: pod is not None and pod.metadata.uid != before)
        assert pod is not None
        result = await self._service.answer(request("ADD", name, pod.metadata.uid))
        [item] = result["ips"]
        return pod.metadata.uid, item["address"]

    async def end(self, name: str, uid: str) -> None:
        """A pod's sandbox is taken down, and its object goes."""
        await self._client.delete(PODS, name, "default", grace=0, uid=uid)
        await self._service.answer(request("DEL", name, uid))

    async def leave(self, name: str) -> Nic:
        """The NIC of a name after the end of its pod, if there is one: its controller may yet have made another."""
        with suppress(NotFound):
            await self.end(name, (await self._client.get(PODS, name, "default")).metadata.uid)
        return await self.nic(name)

    async def nic(self, name: str) -> Nic:
        """The NIC of a name."""
        items = (await self._client.list(NICS, "default")).items
        [found] = [item for item in items if item.spec.owner.name == name]
        return found


def is_held(nic: Nic) -> bool:
    """Whether no object has the name of a NIC, and none is going to."""
    return HELD_UNTIL in nic.metadata.annotations


async def test_pods_of_a_stateful_set(server: RealServer) -> None:
    """Pods that are made again have their addresses; the time of a name begins when the set wants it no more, and ends
    when the set wants it again."""
    async with PatientClient(load(str(server.kubeconfig))) as client, managed(client):
        await client.create(NETWORKS, NETWORK)
        await looked_at(client, "net1")
        await client.create(STATEFUL_SETS, stateful_set(2), "default")
        node = Node(client)
        first, second = [await node.begin(name) for name in ("web-0", "web-1")]
        assert first[1] != second[1]
        await node.end("web-0", first[0])
        await node.end("web-1", second[0])
        assert (await node.begin("web-1", second[0]))[1] == second[1]
        assert (await node.begin("web-0", first[0]))[1] == first[1]
        assert not is_held(await node.nic("web-0")) and not is_held(await node.nic("web-1"))

        uid = (await client.get(PODS, "web-1", "default")).metadata.uid
        await client.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}}, "default")
        await eventually(
            partial(client.get, PODS, "web-1", "default"), lambda pod: bool(pod.metadata.is_deleting)
        )
        await node.end("web-1", uid)
        await eventually(partial(node.nic, "web-1"), is_held)
        assert not is_held(await node.nic("web-0"))

        await client.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 2}}, "default")
        assert (await node.begin("web-1", uid))[1] == second[1]
        await eventually(partial(node.nic, "web-1"), lambda nic: not is_held(nic))

        await client.delete(STATEFUL_SETS, "web", "default")
        await eventually(partial(node.leave, "web-1"), is_held)

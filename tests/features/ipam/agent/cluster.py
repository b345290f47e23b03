"""A cluster with pods, machines and two networks, and the agents of its nodes, in virtual time."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, ClassVar, Self

import msgspec
import pytest

from lanloom.api.core import EVENTS, PODS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.resource import Resource
from lanloom.features.ipam.agent.service import IpamService
from lanloom.kube.ports import Client
from lanloom.runtime.cni.calls import CniError
from tests.features.ipam.agent.objects import (
    NODE,
    Raw,
    launcher_body,
    machine_body,
    pod_body,
    request,
)
from tests.features.ipam.cluster import IpamCluster
from tests.harness import cluster as harness

NET1: Raw = {
    "metadata": {"name": "net1"},
    "spec": {
        "subnets": [
            {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pools": [{"range": "192.0.2.10-192.0.2.12"}]},
            {"cidr": "2001:db8::/64", "pools": [{"range": "2001:db8::10-2001:db8::1f", "name": "six"}]},
        ]
    },
}
NET2: Raw = {
    "metadata": {"name": "net-2-0123456789"},
    "spec": {
        "name": "Net_2",
        "uuid": "11111111-2222-3333-4444-555555555555",
        "subnets": [{"cidr": "198.51.100.0/29", "pools": [{"range": "198.51.100.0/29"}]}],
    },
}


class AgentCluster(IpamCluster):
    """Pods and machines in the namespace `default`, and the agents of their nodes; a manager gives addresses."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (NETWORKS, NICS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for network in (NET1, NET2):
            await self.client.create(NETWORKS, network)
        self.lead()
        return self

    def agent(self, node: str = NODE, client: Client | None = None) -> IpamService:
        """The agent of a node; each call is one that has just been started."""
        rng, used = Random(1), client or self.client
        return IpamService(used, node, self.recorder("lanloom-agent", node, used, rng), rng=rng)

    async def add(self, *words: str, node: str = NODE, **settings: Any) -> list[str]:
        """The addresses that an ADD gives a pod."""
        result = await self.agent(node).answer(request("ADD", *words, **settings))
        return [item["address"] for item in result["ips"]]

    async def call(self, command: Any, *words: str, node: str = NODE, **settings: Any) -> Raw:
        """What any call gives, as it goes over the socket; after a DEL, once all that follows its answer is over."""
        result = await self.agent(node).answer(request(command, *words, **settings))
        if command == "DEL":
            await self.rest()
        plain: Raw = msgspec.json.decode(msgspec.json.encode(result))
        return plain

    async def pod(self, name: str = "web", body: Raw | None = None, **annotations: str) -> str:
        """A new pod; its uid."""
        made = await self.client.create(PODS, body or pod_body(name, **annotations), "default")
        return made.metadata.uid

    async def launcher(self, name: str, uid: str, **settings: str) -> str:
        """A new pod of KubeVirt's; its uid."""
        return await self.pod(name, launcher_body(name, uid, **settings))

    async def machine(self, name: str = "vm1", phase: str = "Scheduling", *, alone: bool = False) -> str:
        """A machine that starts, with its VirtualMachine unless it is alone; the uid of its instance."""
        vm = ""
        if not alone:
            body = {"metadata": {"name": name}}
            vm = (await self.client.create(VIRTUAL_MACHINES, body, "default")).metadata.uid
        instance = machine_body(name, vm=vm) | {"status": {"phase": phase}}
        made = await self.client.create(VIRTUAL_MACHINE_INSTANCES, instance, "default")
        return made.metadata.uid

    async def pod_events(self) -> list[tuple[str, str, str]]:
        """What the Events of agents say: about which pod, reason, message."""
        found = [
            item for item in (await self.client.list(EVENTS)).items if item.involved_object.kind == "Pod"
        ]
        return [(item.involved_object.name, item.reason, item.message) for item in found]


def refusal(code: int, *words: str) -> "pytest.RaisesExc[CniError]":
    """Expect a CniError with the code and these words in its message."""

    def fits(error: CniError) -> bool:
        return error.code == code and all(word in f"{error.msg} {error.details}" for word in words)

    return pytest.RaisesExc(CniError, check=fits)


def play(story: Callable[[AgentCluster], Awaitable[None]]) -> None:
    """Play a story in a cluster of its own, in virtual time."""
    harness.play(story, AgentCluster)

"""What becomes of addresses that were given: DEL, CHECK and GC on a real API; and STATUS."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from lanloom.api.core import PODS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.kube.errors import TransportError
from tests.features.ipam.agent.cluster import AgentCluster, play, refusal
from tests.features.ipam.agent.objects import (
    LAN,
    config,
    pod_body,
    request,
)
from tests.harness.interceptor import ScriptedClient


async def no_answer() -> None:
    """Fail as a request whose server does not answer."""
    raise TransportError("connection refused")


def test_a_del_of_a_pod_that_ends() -> None:
    """DEL deletes the NIC of a pod that ends or is gone; another DEL, and one for no pod, succeed."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod()
        await cluster.add("web", uid)
        await cluster.client.delete(PODS, "web", "default")
        for _ in range(2):
            assert await cluster.call("DEL", "web", uid) == {}
        (nic,) = await cluster.nics()
        assert nic.metadata.deletion_timestamp is not None
        assert await cluster.call("DEL", "nobody", "uid") == {}

    play(story)


def test_a_del_waits_for_no_server() -> None:
    """DEL is answered before the API server is asked; the NIC is deleted once that answers."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod()
        await cluster.add("web", uid)
        await cluster.client.delete(PODS, "web", "default")
        client, answers = ScriptedClient(cluster.client), asyncio.Event()
        client.before(answers.wait, "get")
        assert await cluster.agent(client=client).answer(request("DEL", "web", uid)) == {}
        (nic,) = await cluster.nics()
        assert nic.metadata.deletion_timestamp is None
        answers.set()
        await cluster.rest()
        (nic,) = await cluster.nics()
        assert nic.metadata.deletion_timestamp is not None

    play(story)


def test_a_del_that_comes_late() -> None:
    """A DEL whose requests come after the next ADD of the same pod leaves the pod what that ADD gave it."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod()
        await cluster.add("web", uid)
        client, answers = ScriptedClient(cluster.client), asyncio.Event()
        client.before(answers.wait, "get")
        await cluster.agent(client=client).answer(request("DEL", "web", uid))
        assert await cluster.add("web", uid, container="c2") == ["192.0.2.10/24"]
        answers.set()
        await cluster.rest()
        (nic,) = await cluster.nics()
        assert (nic.metadata.deletion_timestamp, nic.status.ips) == (None, ("192.0.2.10",))

    play(story)


def test_a_del_that_says_nothing() -> None:
    """A DEL that names no pod, and one whose configuration has no name, have nothing to do and succeed."""

    async def story(cluster: AgentCluster) -> None:
        silent = structs.replace(request("DEL"), args="")
        assert await cluster.agent().answer(silent) == {}
        await cluster.pod()
        assert await cluster.call("DEL", "gone", "uid", settings={"ipam": {}}) == {}

    play(story)


def test_a_del_of_a_pod_that_goes_on() -> None:
    """A pod whose sandbox is made again keeps its NIC and addresses; an interface that was taken away is given back."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod(networks="lan, lan")
        assert await cluster.add("web", uid) == ["192.0.2.10/24"]
        assert await cluster.add("web", uid, interface="net2") == ["192.0.2.11/24"]
        await cluster.call("DEL", "web", uid)
        assert await cluster.add("web", uid, container="c2") == ["192.0.2.10/24"]
        patch = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}}}
        await cluster.client.patch(PODS, "web", patch, "default")
        await cluster.call("DEL", "web", uid, interface="net2")
        leaving = {nic.spec.interface for nic in await cluster.nics() if nic.metadata.deletion_timestamp}
        assert leaving == {"net2"}

    play(story)


def test_the_api_server_is_away() -> None:
    """ADD and CHECK may be tried again, STATUS says that the node can't, and DEL succeeds."""

    async def story(cluster: AgentCluster) -> None:
        client = ScriptedClient(cluster.client)
        client.before(no_answer, "get", times=None)
        agent = cluster.agent(client=client)
        for command, code in (("ADD", 11), ("CHECK", 11), ("STATUS", 50)):
            with refusal(code, "API server"):
                await agent.answer(request(command))
        assert await agent.answer(request("DEL")) == {}
        await cluster.rest()
        assert client.count("get") == 5

    play(story)


def test_check() -> None:
    """CHECK is content with what ADD gave, and not once the NIC has other addresses or is gone."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        given = await cluster.call("ADD")
        settings = config() | {"prevResult": given}
        assert await cluster.call("CHECK", settings=settings) == {}
        with refusal(7, "prevResult"):
            await cluster.call("CHECK")
        (nic,) = await cluster.nics()
        status = {"status": {"ips": ["192.0.2.11"]}}
        await cluster.client.patch(NICS, nic.metadata.name, status, "default", subresource="status")
        with refusal(101, "192.0.2.10", "192.0.2.11"):
            await cluster.call("CHECK", settings=settings)
        gone: Mapping[str, Any] = {"metadata": {"finalizers": []}}
        await cluster.client.patch(NICS, nic.metadata.name, gone, "default")
        await cluster.client.delete(NICS, nic.metadata.name, "default")
        with refusal(101, "no longer has addresses"):
            await cluster.call("CHECK", settings=settings)

    play(story)


def test_status() -> None:
    """STATUS is good while the network is there."""

    async def story(cluster: AgentCluster) -> None:
        assert await cluster.call("STATUS") == {}
        await cluster.client.delete(NETWORKS, "net1")
        with refusal(50, "network net1 does not exist"):
            await cluster.call("STATUS")

    play(story)


def test_garbage() -> None:
    """GC deletes NICs of this node's pods that have ended and are not listed; never one of a pod that lives."""

    async def story(cluster: AgentCluster) -> None:
        settings = config(pools=["six"])
        uids = {name: await cluster.pod(name) for name in ("ended", "alive", "listed", "again")}
        for name, uid in uids.items():
            await cluster.add(name, uid, container=name, settings=settings)
        await cluster.add("alive", container="alive", settings=config(name="other", pools=["six"]))
        await cluster.pod("far", pod_body("far", node="node2"))
        await cluster.add("far", node="node2", settings=settings)
        vmi = await cluster.machine()
        await cluster.launcher("vm", vmi)
        await cluster.add("vm", interface=LAN, settings=settings)
        for name in ("ended", "listed", "far", "vm"):
            await end(cluster, name)
        await end(cluster, "again")
        await cluster.client.delete(PODS, "again", "default")
        await cluster.pod("again")
        listed = [{"containerID": "listed", "ifname": "net1"}]
        await cluster.call("GC", settings=settings | {"cni.dev/valid-attachments": listed})
        leaving = {nic.spec.owner.name for nic in await cluster.nics() if nic.metadata.deletion_timestamp}
        assert leaving == {"ended", "again"}

    play(story)


async def end(cluster: AgentCluster, pod: str) -> None:
    """A pod runs to its end."""
    await cluster.client.patch(PODS, pod, {"status": {"phase": "Succeeded"}}, "default", subresource="status")


def test_garbage_needs_a_list() -> None:
    """Without a list of what is in use nothing is garbage."""

    async def story(cluster: AgentCluster) -> None:
        with refusal(7, "valid-attachments"):
            await cluster.call("GC")

    play(story)

"""What becomes of addresses that were given: DEL, CHECK and GC on a real API; and STATUS."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from lanloom.api.core import PODS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.resource import Resource
from lanloom.kube.errors import TransportError
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.ipam.agent.objects import (
    LAN,
    config,
    pod_body,
    request,
)
from tests.features.ipam.agent.world import World, play, refusal


class Away(LocalClient):
    """A client whose server does not answer."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked = 0

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        self.asked += 1
        raise TransportError("connection refused")


def test_a_del_of_a_pod_that_ends() -> None:
    """DEL deletes the NIC of a pod that ends or is gone; another DEL, and one for nobody, succeed."""

    async def story(each: World) -> None:
        uid = await each.pod()
        await each.add("web", uid)
        await each.client.delete(PODS, "web", "default")
        for _ in range(2):
            assert await each.call("DEL", "web", uid) == {}
        (nic,) = await each.nics()
        assert nic.metadata.deletion_timestamp is not None
        assert await each.call("DEL", "nobody", "uid") == {}

    play(story)


def test_a_del_that_says_nothing() -> None:
    """A DEL that names no pod, and one whose configuration has no name, have nothing to do and succeed."""

    async def story(each: World) -> None:
        silent = structs.replace(request("DEL"), args="")
        assert await each.agent().answer(silent) == {}
        await each.pod()
        assert await each.call("DEL", "gone", "uid", settings={"ipam": {}}) == {}

    play(story)


def test_a_del_of_a_pod_that_goes_on() -> None:
    """A pod whose sandbox is made anew keeps its NIC and addresses; an interface that was taken away is given back."""

    async def story(each: World) -> None:
        uid = await each.pod(networks="lan, lan")
        assert await each.add("web", uid) == ["192.0.2.10/24"]
        assert await each.add("web", uid, interface="net2") == ["192.0.2.11/24"]
        await each.call("DEL", "web", uid)
        assert await each.add("web", uid, container="c2") == ["192.0.2.10/24"]
        patch = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}}}
        await each.client.patch(PODS, "web", patch, "default")
        await each.call("DEL", "web", uid, interface="net2")
        leaving = {nic.spec.interface for nic in await each.nics() if nic.metadata.deletion_timestamp}
        assert leaving == {"net2"}

    play(story)


def test_the_api_server_is_away() -> None:
    """ADD and CHECK may be tried again, STATUS says that the node can't, and DEL succeeds."""

    async def story(each: World) -> None:
        client = Away(each.engine)
        agent = each.agent(client=client)
        for command, code in (("ADD", 11), ("CHECK", 11), ("STATUS", 50)):
            with refusal(code, "API server"):
                await agent.answer(request(command))  # type: ignore[arg-type]
        assert await agent.answer(request("DEL")) == {}
        assert client.asked == 4

    play(story)


def test_check() -> None:
    """CHECK is content with what ADD gave, and not once the NIC has other addresses or is gone."""

    async def story(each: World) -> None:
        await each.pod()
        given = await each.call("ADD")
        settings = config() | {"prevResult": given}
        assert await each.call("CHECK", settings=settings) == {}
        with refusal(7, "prevResult"):
            await each.call("CHECK")
        (nic,) = await each.nics()
        status = {"status": {"ips": ["192.0.2.11"]}}
        await each.client.patch(NICS, nic.metadata.name, status, "default", subresource="status")
        with refusal(101, "192.0.2.10", "192.0.2.11"):
            await each.call("CHECK", settings=settings)
        gone: Mapping[str, Any] = {"metadata": {"finalizers": []}}
        await each.client.patch(NICS, nic.metadata.name, gone, "default")
        await each.client.delete(NICS, nic.metadata.name, "default")
        with refusal(101, "no addresses"):
            await each.call("CHECK", settings=settings)

    play(story)


def test_status() -> None:
    """STATUS is good while the network is there."""

    async def story(each: World) -> None:
        assert await each.call("STATUS") == {}
        await each.client.delete(NETWORKS, "net1")
        with refusal(50, "no network net1"):
            await each.call("STATUS")

    play(story)


def test_garbage() -> None:
    """GC deletes NICs of this node's pods that have ended and are not listed; never one of a pod that lives."""

    async def story(each: World) -> None:
        settings = config(pools=["six"])
        uids = {name: await each.pod(name) for name in ("ended", "alive", "listed", "again")}
        for name, uid in uids.items():
            await each.add(name, uid, container=name, settings=settings)
        await each.add("alive", container="alive", settings=config(name="other", pools=["six"]))
        await each.pod("far", pod_body("far", node="node2"))
        await each.add("far", node="node2", settings=settings)
        vmi = await each.machine()
        await each.launcher("vm", vmi)
        await each.add("vm", interface=LAN, settings=settings)
        for name in ("ended", "listed", "far", "vm"):
            await end(each, name)
        await end(each, "again")
        await each.client.delete(PODS, "again", "default")
        await each.pod("again")
        listed = [{"containerID": "listed", "ifname": "net1"}]
        await each.call("GC", settings=settings | {"cni.dev/valid-attachments": listed})
        leaving = {nic.spec.owner.name for nic in await each.nics() if nic.metadata.deletion_timestamp}
        assert leaving == {"ended", "again"}

    play(story)


async def end(each: World, pod: str) -> None:
    """A pod runs to its end."""
    await each.client.patch(PODS, pod, {"status": {"phase": "Succeeded"}}, "default", subresource="status")


def test_garbage_needs_a_list() -> None:
    """Without a list of what is in use nothing is garbage."""

    async def story(each: World) -> None:
        with refusal(7, "valid-attachments"):
            await each.call("GC")

    play(story)

"""Calls of ADD on a real API: which addresses a pod gets, and why it gets none."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from lanloom.api.ipam import FINALIZER, NICS
from lanloom.api.resource import Resource
from lanloom.features.ipam.agent.nics import IDLE_SECONDS
from lanloom.kube.errors import AlreadyExists, Forbidden, Gone, Invalid, KubeError, TransportError
from lanloom_embedded.local import LocalClient
from tests.features.ipam.agent.cluster import AgentCluster, play, refusal
from tests.features.ipam.agent.objects import config, request, wanted_addresses
from tests.harness.interceptor import ScriptedClient


def test_pods_get_different_addresses() -> None:
    """Each pod has its own addresses, with the prefix length and gateway of their subnet."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod("a")
        result = await cluster.call("ADD", "a", uid)
        assert result == {"ips": [{"address": "192.0.2.10/24", "gateway": "192.0.2.1"}]}
        await cluster.pod("b")
        assert await cluster.add("b") == ["192.0.2.11/24"]

    play(story)


def test_a_pods_nic() -> None:
    """A pod's NIC belongs to the pod, goes with it, is held by the finalizer, and says on which node it is used."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod()
        await cluster.add("web", uid)
        (nic,) = await cluster.nics()
        assert (nic.spec.owner.kind, nic.spec.owner.name, nic.spec.owner.uid) == ("Pod", "web", uid)
        assert [(item.kind, item.uid) for item in nic.metadata.owner_references] == [("Pod", uid)]
        assert nic.metadata.finalizers == (FINALIZER,)
        assert nic.metadata.labels == {"ipam.lanloom.io/node": "node1"}
        assert nic.spec.interface == "net1"

    play(story)


def test_the_same_call_again() -> None:
    """A repeated ADD, calls at once, and one after an agent's restart give the same addresses, and make one NIC."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        found = await asyncio.gather(*(cluster.add() for _ in range(5)))
        assert [*found, await cluster.add()] == [["192.0.2.10/24"]] * 6
        assert len(await cluster.nics()) == 1

    play(story)


def test_interfaces_of_a_pod() -> None:
    """Each interface of a pod has addresses of its own."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        assert await cluster.add(interface="net1") == ["192.0.2.10/24"]
        assert await cluster.add(interface="net2") == ["192.0.2.11/24"]
        assert await cluster.add(interface="net2", settings=config(name="other")) == ["192.0.2.12/24"]

    play(story)


@pytest.mark.parametrize("ident", ["net-2-0123456789", "Net_2", "11111111-2222-3333-4444-555555555555"])
def test_networks_by_any_name(ident: str) -> None:
    """A configuration names its network by UUID, name or object name."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        assert await cluster.add(settings=config(ident)) == ["198.51.100.1/29"]

    play(story)


def test_what_the_configuration_asks_for() -> None:
    """Pools, addresses, routes and DNS of the section are those of the pod; a default route only if it is asked for."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        settings = config(
            ips=["192.0.2.77", "six"],
            routes=[{"dst": "10.0.0.0/8", "gw": "192.0.2.9"}],
            defaultRoute=True,
            dns={"nameservers": ["192.0.2.53"], "search": ["example.org"]},
        )
        assert await cluster.call("ADD", settings=settings) == {
            "ips": [
                {"address": "192.0.2.77/24", "gateway": "192.0.2.1"},
                {"address": "2001:db8::10/64"},
            ],
            "routes": [{"dst": "0.0.0.0/0", "gw": "192.0.2.1"}, {"dst": "10.0.0.0/8", "gw": "192.0.2.9"}],
            "dns": {"nameservers": ["192.0.2.53"], "search": ["example.org"]},
        }

    play(story)


def test_fixed_addresses() -> None:
    """A pod's annotation asks for addresses by interface, before the configuration does."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod(addresses=wanted_addresses(net1=["192.0.2.40", "pool6"], lan=["192.0.2.41"]))
        assert await cluster.add() == ["192.0.2.40/24", "2001:db8::10/64"]
        assert await cluster.add(interface="net2") == ["192.0.2.41/24"]

    play(story)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"net1": "192.0.2.4"}', '{"net1": []}', '{"net1": ["1.2.3.400"]}']
)
def test_annotations_that_cannot_be_read(text: str) -> None:
    """A malformed annotation is an error and an Event that name it, and nothing is made."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod(addresses=text)
        with refusal(7, "ipam.lanloom.io/addresses"):
            await cluster.add()
        assert not await cluster.nics()
        ((who, reason, message),) = await cluster.pod_events()
        assert (who, reason) == ("web", "NoAddresses")
        assert "ipam.lanloom.io/addresses" in message

    play(story)


def test_an_annotation_for_nothing() -> None:
    """An entry of the annotation that is no interface and no NAD of the pod is ignored, and an Event says so."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod(
            addresses=wanted_addresses(lna=["192.0.2.40"], other=["192.0.2.41"]), networks="lan, other/other"
        )
        assert await cluster.add() == ["192.0.2.10/24"]
        ((_, reason, message),) = await cluster.pod_events()
        assert reason == "UnusedAddresses"
        assert ": lna, other is" in message

    play(story)


def test_refusals_say_why() -> None:
    """An address that another NIC has, a full network and one that is not there are errors in the allocator's words."""

    async def story(cluster: AgentCluster) -> None:
        for name in "abc":
            await cluster.pod(name)
            await cluster.add(name)
        await cluster.pod("d", addresses=wanted_addresses(net1=["192.0.2.10"]))
        with refusal(100, "192.0.2.10"):
            await cluster.add("d")
        await cluster.pod("e")
        with refusal(100, "net1"):
            await cluster.add("e", settings=config(ips=["pool4"]))
        for nowhere in ("nowhere", "../../networks/net1", "net1/status"):
            with refusal(100, f"network {nowhere} does not exist"):
                await cluster.add("e", settings=config(nowhere))
        assert {(who, reason) for who, reason, _ in await cluster.pod_events()} == {
            ("d", "NoAddresses"),
            ("e", "NoAddresses"),
        }

    play(story)


def test_no_allocator() -> None:
    """While no manager allocates, an ADD ends in time and may be tried again; what it began is taken up then."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        await cluster.kill("manager-1")
        began = asyncio.get_running_loop().time()
        with refusal(11, "manager"):
            await cluster.add()
        assert asyncio.get_running_loop().time() - began < 41
        cluster.lead()
        assert await cluster.add() == ["192.0.2.10/24"]
        assert not await cluster.pod_events()

    play(story)


def test_other_peoples_pods() -> None:
    """A pod that is not there, another one of that name, and one of another node get nothing."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        with refusal(3, "default/nobody"):
            await cluster.add("nobody")
        with refusal(3, "was replaced: its uid"):
            await cluster.add("web", "other-uid")
        with refusal(3, "node1"):
            await cluster.add(node="node2")
        assert not await cluster.nics()

    play(story)


def test_a_nic_that_is_being_deleted() -> None:
    """While a NIC that a user deleted is held for its pod, the pod's next sandbox gets the same addresses."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        await cluster.add()
        (nic,) = await cluster.nics()
        await cluster.client.delete(NICS, nic.metadata.name, "default")
        assert await cluster.add() == ["192.0.2.10/24"]

    play(story)


class Counting(LocalClient):
    """A client that keeps what it was asked for."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.asked: list[str] = []
        self.open = 0
        self.broken: KubeError | None = None

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As of every client."""
        self.asked.append(f"get {resource.plural} {name}")
        return await super().get(resource, name, namespace)

    async def create(self, resource: Resource[Any], *words: Any, **options: Any) -> Any:
        """As of every client."""
        self.asked.append(f"create {resource.plural}")
        return await super().create(resource, *words, **options)

    async def list(self, resource: Resource[Any], namespace: str = "", **selectors: str) -> Any:
        """As of every client."""
        self.asked.append(f"list {resource.plural} {selectors.get('fields', '')}")
        return await super().list(resource, namespace, **selectors)

    def watch(self, resource: Resource[Any], namespace: str = "", **options: Any) -> Any:
        """As of every client."""
        self.asked.append(f"watch {resource.plural} {options.get('fields') or options.get('labels', '')}")
        return self._watch(resource, namespace, **options)

    async def _watch(self, resource: Resource[Any], namespace: str, **options: Any) -> Any:
        if self.broken is not None and options.get("labels"):
            raise self.broken
        self.open += 1
        try:
            async with aclosing(super().watch(resource, namespace, **options)) as stream:
                async for event in stream:
                    yield event
        finally:
            self.open -= 1


WATCH = "watch nics ipam.lanloom.io/node=node1"
"""The watch of a node's NICs."""


def test_one_watch_is_enough() -> None:
    """Calls watch only NICs of their node, by one watch for all of them, and ask for nothing twice."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod()
        client = Counting(cluster.engine)
        agent = cluster.agent(client=client)
        await agent.answer(request())
        (nic,) = await cluster.nics()
        assert client.asked == ["get pods web", "get networks net1", "create nics", WATCH]
        client.asked.clear()
        await cluster.pod("b")
        await agent.answer(request("ADD", "b"))
        assert client.asked == ["get pods b", "get networks net1", "create nics"]
        client.asked.clear()
        await agent.answer(request())
        again = ["get pods web", "get networks net1", "create nics", f"get nics {nic.metadata.name}"]
        assert client.asked == again

    play(story)


def test_an_idle_node_watches_nothing() -> None:
    """The watch ends a while after the last call, and the next call begins another one."""

    async def story(cluster: AgentCluster) -> None:
        client = Counting(cluster.engine)
        agent = cluster.agent(client=client)
        for name, watches in (("a", 1), ("b", 1), ("c", 2)):
            await cluster.pod(name)
            await agent.answer(request("ADD", name))
            assert client.asked.count(WATCH) == watches
            assert client.open == 1
            await asyncio.sleep(IDLE_SECONDS * (1.1 if name == "b" else 0.9))
            assert client.open == (name != "b")

    play(story)


def test_calls_at_once_miss_nothing() -> None:
    """Calls that come at once, before there is a watch and while it goes on, all get their addresses."""

    async def story(cluster: AgentCluster) -> None:
        agent = cluster.agent(client=Counting(cluster.engine))
        for wave in ("abcde", "fgh"):
            for name in wave:
                await cluster.pod(name)
            async with asyncio.timeout(10):
                wanted = config(pools=["six"])
                await asyncio.gather(*(agent.answer(request("ADD", name, settings=wanted)) for name in wave))
        assert len({ip for nic in await cluster.nics() for ip in nic.status.ips}) == 8

    play(story)


@pytest.mark.parametrize("error", [TransportError("broken"), Gone(410, "Expired", "too old")])
def test_the_watch_breaks(error: KubeError) -> None:
    """A call whose watch breaks, or never begins, gets its addresses all the same, and so does the next one."""

    async def story(cluster: AgentCluster) -> None:
        client = Counting(cluster.engine)
        client.broken = error
        agent = cluster.agent(client=client)
        for name in ("a", "b"):
            await cluster.pod(name)
            async with asyncio.timeout(10):
                await agent.answer(request("ADD", name))
            assert client.asked.count(WATCH) == 1
            client.asked.clear()

    play(story)


def test_a_nic_that_can_only_be_found() -> None:
    """An ADD whose NIC is there gets it, although a new one of that name would be refused for what that one has."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.pod()
        assert await cluster.add("web", uid) == ["192.0.2.10/24"]
        for kind in (Forbidden, Invalid, AlreadyExists):
            client = ScriptedClient(cluster.client)
            client.fail(kind(403, "", "192.0.2.10 is in use"), "create", of=NICS)
            result = await cluster.agent(client=client).answer(request("ADD", "web", uid))
            assert [item["address"] for item in result["ips"]] == ["192.0.2.10/24"]
        client = ScriptedClient(cluster.client)
        client.fail(Forbidden(403, "", "192.0.2.10 is in use"), "create", of=NICS)
        with refusal(100, "in use"):
            await cluster.agent(client=client).answer(request("ADD", "web", uid, interface="net2"))

    play(story)

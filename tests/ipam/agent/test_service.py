"""CNI calls from the agent's side, on a real API: who gets which addresses, and until when."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from lanloom.api.core import PODS
from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.local import LocalClient
from lanloom.ipam.agent.protocol import CniError
from lanloom.kube.errors import TransportError
from tests.ipam.agent.objects import LAN, config, pod_body, request, wishes
from tests.ipam.agent.world import World, play


class Away(LocalClient):
    """A client whose server does not answer."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked = 0

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        self.asked += 1
        raise TransportError("connection refused")


def refusal(code: int, *words: str) -> "pytest.RaisesExc[CniError]":
    """Expects a CniError with the code and these words in its message."""

    def fits(error: CniError) -> bool:
        return error.code == code and all(word in f"{error.msg} {error.details}" for word in words)

    return pytest.RaisesExc(CniError, check=fits)


def test_pods_get_different_addresses() -> None:
    """Each pod has its own addresses, with the prefix length and gateway of their subnet."""

    async def story(each: World) -> None:
        uid = await each.pod("a")
        result = await each.call("ADD", "a", uid)
        assert result == {"ips": [{"address": "192.0.2.10/24", "gateway": "192.0.2.1"}]}
        await each.pod("b")
        assert await each.add("b") == ["192.0.2.11/24"]

    play(story)


def test_a_pods_nic() -> None:
    """A pod's NIC belongs to the pod, goes with it, is held by the finalizer, and says on which node it is used."""

    async def story(each: World) -> None:
        uid = await each.pod()
        await each.add("web", uid)
        (nic,) = await each.nics()
        assert (nic.spec.owner.kind, nic.spec.owner.name, nic.spec.owner.uid) == ("Pod", "web", uid)
        assert [(item.kind, item.uid) for item in nic.metadata.owner_references] == [("Pod", uid)]
        assert nic.metadata.finalizers == (FINALIZER,)
        assert nic.metadata.labels == {"ipam.lanloom.io/node": "node1"}
        assert nic.spec.interface == "net1"

    play(story)


def test_the_same_call_again() -> None:
    """A repeated ADD, calls at once, and one after an agent's restart give the same addresses, and make one NIC."""

    async def story(each: World) -> None:
        await each.pod()
        found = await asyncio.gather(*(each.add() for _ in range(5)))
        assert [*found, await each.add()] == [["192.0.2.10/24"]] * 6
        assert len(await each.nics()) == 1

    play(story)


def test_interfaces_of_a_pod() -> None:
    """Each interface of a pod has addresses of its own."""

    async def story(each: World) -> None:
        await each.pod()
        assert await each.add(interface="net1") == ["192.0.2.10/24"]
        assert await each.add(interface="net2") == ["192.0.2.11/24"]
        assert await each.add(interface="net2", settings=config(name="other")) == ["192.0.2.12/24"]

    play(story)


@pytest.mark.parametrize("ident", ["net-2-0123456789", "Net_2", "11111111-2222-3333-4444-555555555555"])
def test_networks_by_any_name(ident: str) -> None:
    """A configuration names its network by UUID, name or object name."""

    async def story(each: World) -> None:
        await each.pod()
        assert await each.add(settings=config(ident)) == ["198.51.100.1/29"]

    play(story)


def test_what_the_configuration_asks_for() -> None:
    """Pools, addresses, routes and DNS of the section are those of the pod; a default route only if it is asked for."""

    async def story(each: World) -> None:
        await each.pod()
        settings = config(
            ips=["192.0.2.77", "six"],
            routes=[{"dst": "10.0.0.0/8", "gw": "192.0.2.9"}],
            defaultRoute=True,
            dns={"nameservers": ["192.0.2.53"], "search": ["example.org"]},
        )
        assert await each.call("ADD", settings=settings) == {
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

    async def story(each: World) -> None:
        await each.pod(addresses=wishes(net1=["192.0.2.40", "pool6"], lan=["192.0.2.41"]))
        assert await each.add() == ["192.0.2.40/24", "2001:db8::10/64"]
        assert await each.add(interface="net2") == ["192.0.2.41/24"]

    play(story)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"net1": "192.0.2.4"}', '{"net1": []}', '{"net1": ["1.2.3.400"]}']
)
def test_annotations_that_cannot_be_read(text: str) -> None:
    """A malformed annotation is an error and an Event that name it, and nothing is made."""

    async def story(each: World) -> None:
        await each.pod(addresses=text)
        with refusal(7, "ipam.lanloom.io/addresses"):
            await each.add()
        assert not await each.nics()
        ((who, reason, message),) = await each.events()
        assert (who, reason) == ("web", "NoAddresses")
        assert "ipam.lanloom.io/addresses" in message

    play(story)


def test_an_annotation_for_nothing() -> None:
    """An entry of the annotation that is no interface and no NAD of the pod is ignored, and an Event says so."""

    async def story(each: World) -> None:
        await each.pod(
            addresses=wishes(lna=["192.0.2.40"], other=["192.0.2.41"]), networks="lan, other/other"
        )
        assert await each.add() == ["192.0.2.10/24"]
        ((_, reason, message),) = await each.events()
        assert reason == "UnusedAddresses"
        assert ": lna, other is" in message

    play(story)


def test_refusals_say_why() -> None:
    """An address that another NIC has, a full network and one that is not there are errors in the allocator's words."""

    async def story(each: World) -> None:
        for name in "abc":
            await each.pod(name)
            await each.add(name)
        await each.pod("d", addresses=wishes(net1=["192.0.2.10"]))
        with refusal(100, "192.0.2.10"):
            await each.add("d")
        await each.pod("e")
        with refusal(100, "net1"):
            await each.add("e", settings=config(ips=["pool4"]))
        with refusal(100, "no network nowhere"):
            await each.add("e", settings=config("nowhere"))
        assert {(who, reason) for who, reason, _ in await each.events()} == {
            ("d", "NoAddresses"),
            ("e", "NoAddresses"),
        }

    play(story)


def test_no_allocator() -> None:
    """While nobody allocates, an ADD ends in time and may be tried again; what it began is taken up then."""

    async def story(each: World) -> None:
        await each.pod()
        await each.stop_allocating()
        began = asyncio.get_running_loop().time()
        with refusal(11, "manager"):
            await each.add()
        assert asyncio.get_running_loop().time() - began < 41
        each.allocate()
        assert await each.add() == ["192.0.2.10/24"]
        assert not await each.events()

    play(story)


def test_other_peoples_pods() -> None:
    """A pod that is not there, another one of that name, and one of another node get nothing."""

    async def story(each: World) -> None:
        await each.pod()
        with refusal(3, "default/nobody"):
            await each.add("nobody")
        with refusal(3, "another"):
            await each.add("web", "other-uid")
        with refusal(3, "node1"):
            await each.add(node="node2")
        assert not await each.nics()

    play(story)


def test_a_machine_that_migrates() -> None:
    """The pod to which a machine migrates has the addresses of the one before, and both DELs leave them alone."""

    async def story(each: World) -> None:
        uid = await each.machine()
        await each.launcher("source", uid)
        assert await each.add("source", interface=LAN) == ["192.0.2.10/24"]
        await each.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm1", {"status": {"phase": "Running"}}, "default")
        await each.launcher("target", uid, node="node2")
        changed = config(pools=["six"])
        assert await each.add("target", interface=LAN, node="node2", settings=changed) == ["192.0.2.10/24"]
        await each.client.delete(PODS, "source", "default")
        await each.call("DEL", "source", interface=LAN)
        await each.call("DEL", "target", interface=LAN, node="node2")
        (nic,) = await each.nics()
        assert nic.metadata.deletion_timestamp is None
        assert (nic.spec.owner.kind, nic.spec.owner.name) == ("VirtualMachine", "vm1")
        assert [item.kind for item in nic.metadata.owner_references] == ["VirtualMachine"]

    play(story)


def test_a_machine_that_starts_again() -> None:
    """A machine that is stopped and started keeps its addresses; if it asks for others by then, it gets those."""

    async def story(each: World) -> None:
        uid = await each.machine()
        await each.launcher("first", uid)
        assert await each.add("first", interface=LAN) == ["192.0.2.10/24"]
        instance = await each.client.get(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        for name, text, wanted in (
            ("second", "{}", "192.0.2.10/24"),
            ("third", wishes(lan=["192.0.2.50"]), "192.0.2.50/24"),
        ):
            await each.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
            body = {
                "metadata": {"name": "vm1", "ownerReferences": list(instance.metadata.owner_references)},
                "spec": {"networks": [{"name": "lan", "multus": {"networkName": "lan"}}]},
            }
            made = await each.client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
            await each.launcher(name, made.metadata.uid, addresses=text)
            assert await each.add(name, interface="net1") == [wanted]
        assert len(await each.nics()) == 1

    play(story)


def test_a_machine_of_its_own() -> None:
    """An instance without a VirtualMachine owns its NIC itself."""

    async def story(each: World) -> None:
        uid = await each.machine(alone=True)
        await each.launcher("launcher", uid)
        await each.add("launcher", interface=LAN)
        (nic,) = await each.nics()
        assert (nic.spec.owner.kind, nic.spec.owner.uid) == ("VirtualMachine", uid)
        assert [item.kind for item in nic.metadata.owner_references] == ["VirtualMachineInstance"]

    play(story)


def test_a_pod_that_only_pretends() -> None:
    """A pod that carries no machine's mark, or that of one that is not there, does not get a machine's addresses."""

    async def story(each: World) -> None:
        uid = await each.machine()
        await each.launcher("false", "some-other-uid")
        with refusal(3, "another one"):
            await each.add("false", interface=LAN)
        body = pod_body("plain")
        body["metadata"]["labels"] = {"kubevirt.io/created-by": uid}
        await each.pod("plain", body)
        await each.add("plain", interface=LAN)
        assert [nic.spec.owner.kind for nic in await each.nics()] == ["Pod"]

    play(story)


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


def test_a_nic_that_is_being_deleted() -> None:
    """While a NIC that somebody deleted is held for its pod, the pod's next sandbox gets the same addresses."""

    async def story(each: World) -> None:
        await each.pod()
        await each.add()
        (nic,) = await each.nics()
        await each.client.delete(NICS, nic.metadata.name, "default")
        assert await each.add() == ["192.0.2.10/24"]

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


def test_one_nic_is_all_that_is_watched() -> None:
    """An ADD lists and watches only the NIC of its pod: an agent's memory does not grow with the cluster."""

    async def story(each: World) -> None:
        asked: list[str] = []

        class Counting(LocalClient):
            async def list(self, resource: Resource[Any], namespace: str = "", **selectors: str) -> Any:
                asked.append(f"{resource.plural} {selectors.get('fields', '')}")
                return await super().list(resource, namespace, **selectors)

        await each.pod()
        await each.agent(client=Counting(each.engine)).answer(request())
        (nic,) = await each.nics()
        assert asked == [f"nics metadata.name={nic.metadata.name}"]

    play(story)

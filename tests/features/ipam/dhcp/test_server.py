"""The DHCP server of a node with whatever it meets there: NICs and their ends, moves, networks, API servers, floods."""

from typing import Any

import pytest

from lanloom.api.core import EVENTS, PODS
from lanloom.api.ipam import NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, bridged_name
from lanloom.api.multus import NADS
from lanloom.features.ipam.dhcp.answers import SERVER
from lanloom.features.ipam.dhcp.listeners import PAUSE_SECONDS
from lanloom.features.ipam.dhcp.rights import RIGHTS
from lanloom.kube.errors import Forbidden, TransportError
from tests.features.ipam.agent.objects import LAN, NODE, config
from tests.features.ipam.dhcp.client import ACK, DECLINE, DISCOVER, MAC, NAK, OFFER, REQUEST, dotted
from tests.features.ipam.dhcp.node import SUBNET, Lans, a_node
from tests.harness.interceptor import Interceptor, Request

OURS = str(SERVER)
SECOND_MAC = "02:00:00:00:00:02"


async def test_a_pod_gets_its_address() -> None:
    """A pod gets by DHCP the address of its NIC, with the settings of its subnet, NAD and link."""
    async with a_node({**SUBNET, "leaseSeconds": 600}) as node:
        await node.client.delete(NADS, "lan", "default")
        await node.nad(ipam={"dns": {"nameservers": ["192.0.2.53"], "domain": "example.org"}})
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        offer = await node.ask(port, kind=DISCOVER)
        assert (offer.kind, offer.yours, offer.client, offer.source) == (OFFER, address, MAC, OURS)
        options = offer.options
        assert [dotted(options[code]) for code in (1, 3, 6, 54)] == [
            "255.255.255.0",
            "192.0.2.1",
            "192.0.2.53",
            OURS,
        ]
        assert (options[12], options[15], int.from_bytes(options[26])) == (b"web", b"example.org", 1450)
        assert [int.from_bytes(options[code]) for code in (51, 58, 59)] == [600, 300, 525]
        ack = await node.ask(port, kind=REQUEST, wants=address, server=OURS)
        assert (ack.kind, ack.yours) == (ACK, address)


async def test_a_machine_gets_its_address_on_each_node() -> None:
    """A machine that migrates gets the same address at its port on either node, by its own hardware address."""
    async with a_node() as node:
        machine = await node.machine("vm1", "Running")
        for at, place in enumerate((NODE, "node2"), 1):
            name = f"virt-launcher-{at}"
            await node.launcher(name, machine, node=place, networks="lan")
            [address] = await node.add(name, interface=LAN, settings=config(name="lan"), node=place)
            await node.report(name, interface=LAN)
        own = {"name": "lan", "bridge": {}, "macAddress": SECOND_MAC.upper()}
        domain = {"spec": {"domain": {"devices": {"interfaces": [own]}}}}
        await node.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm1", domain, "default")
        there = node.links.plug(2, bridged_name(LAN))
        node.links.seen[there].macs[LAN] = MAC  # KubeVirt's dummy
        node.serve("node2")
        offer = await node.ask(there, kind=DISCOVER, mac=SECOND_MAC)
        assert (offer.yours, offer.options[12]) == (address.partition("/")[0], b"vm1")
        assert node.links.opened == 1


class Granted(Interceptor):
    """An API server that refuses what no right for DHCP allows; Events have rights of their own."""

    async def send(self, request: Request) -> Any:
        kind = request.resource
        granted = [
            rule["verbs"]
            for rule in RIGHTS.agent.cluster
            if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]
        ]
        if kind is not EVENTS and not any(request.verb in verbs for verbs in granted):
            raise Forbidden(403, "Forbidden", f"can't {request.verb} {kind.plural}")
        return await super().send(request)


async def test_a_machine_that_came_from_another_nad() -> None:
    """A machine that came to another NAD of its network is answered with the address that it kept."""
    async with a_node() as node:
        await node.nad("blue")
        machine = await node.machine("vm1", "Scheduling")
        await node.launcher("source", machine, node="node2", networks="lan")
        [address] = await node.add("source", interface=LAN, settings=config(name="lan"), node="node2")
        spec = {"networks": [{"name": "lan", "multus": {"networkName": "blue"}}]}
        await node.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm1", {"spec": spec}, "default")
        await node.launcher("target", machine, networks="blue")
        assert await node.add("target", interface=LAN, settings=config(name="blue")) == [address]
        await node.report("target", interface=LAN, nad="blue")
        there = node.links.plug(2, bridged_name(LAN))
        node.links.seen[there].macs[LAN] = MAC  # KubeVirt's dummy
        node.serve(client=Granted(node.client))
        assert (await node.ask(there, kind=DISCOVER)).yours == address.partition("/")[0]


async def test_a_port_of_somebody_else() -> None:
    """The port of a pod on another bridge, or with another address in the pod, or of another name, is not served."""
    async with a_node() as node:
        node.links.plug(2, bridge="br7")
        node.links.plug(3, mac=SECOND_MAC)
        node.links.plug(4, "net2")
        node.links.plug(5, ns="/run/netns/lan")
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        assert (await node.ask(port, kind=DISCOVER)).yours == address
        assert set(node.links.guests) == {port}


async def test_a_port_that_comes_late() -> None:
    """A port is found that comes after its pod, without any change of the pod."""
    async with a_node() as node:
        address = await node.attach()
        node.serve()
        await node.until(lambda: node.links.opened == 0)
        port = node.links.plug()
        assert (await node.ask(port, kind=DISCOVER)).yours == address


async def test_a_link_that_is_made_anew() -> None:
    """A port whose link ended is served again when it is there again, also with the same index."""
    async with a_node() as node:
        port = node.links.plug()
        await node.attach()
        node.serve()
        await node.ask(port, kind=DISCOVER)
        node.links.guests.pop(port).close()
        assert (await node.ask(port, kind=DISCOVER)).kind == OFFER
        del node.links.seen[port]
        node.links.guests.pop(port).close()
        assert (await node.ask(node.links.plug(9), kind=DISCOVER)).kind == OFFER
        await node.until(lambda: node.served() == 1)


async def test_two_nics_with_one_address() -> None:
    """Two NICs with one hardware address in two networks each get their own at their ports."""
    async with a_node() as node:
        ports = node.links.plug(1), node.links.plug(2, bridge="br2")
        addresses = await node.attach("one"), await node.attach("two", nad="other", network="net2")
        node.serve()
        for port, address in zip(ports, addresses, strict=True):
            assert (await node.ask(port, kind=DISCOVER)).yours == address


async def test_another_agent() -> None:
    """An agent that starts again renews what another one gave, and keeps nothing in between."""
    async with a_node() as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.ask(port, kind=DISCOVER)
        await node.kill(f"dhcp-{NODE}")
        node.serve()
        renewed = await node.ask(port, kind=REQUEST, has=address, to=OURS)
        assert (renewed.kind, renewed.yours) == (ACK, address)


async def test_a_move_in_place() -> None:
    """After a move, a renewal of the old address is refused, and the guest gets that of the new network."""
    async with a_node() as node:
        port = node.links.plug()
        old = await node.attach()
        node.serve()
        await node.ask(port, kind=DISCOVER)
        [new] = await node.add("web", settings=config("net2", "other"))
        node.links.plug(bridge="br2")
        await node.report("web", nad="other")
        refused = await node.ask_until(port, NAK, kind=REQUEST, has=old)
        assert refused.yours == "0.0.0.0"
        assert f"{(await node.ask(port, kind=DISCOVER)).yours}/24" == new


async def test_the_flag_changes() -> None:
    """A subnet is served from the moment its flag is set, and no more when it is taken away, without refusals."""
    async with a_node({**SUBNET, "dhcp": False}) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.silence(port, "unserved", kind=DISCOVER)
        await node.configure(SUBNET, name="net1")
        assert (await node.ask(port, kind=DISCOVER)).yours == address
        await node.configure({**SUBNET, "dhcp": False}, name="net1")
        await node.silence(port, "unserved", kind=REQUEST, has=address)
        await node.silence(port, "unserved", kind=REQUEST, has="203.0.113.9")


async def test_a_nic_in_deletion() -> None:
    """A NIC in deletion is served while its pod has it, and nothing is when it is gone."""
    async with a_node() as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.ask(port, kind=DISCOVER)
        [nic] = await node.nics()
        await node.client.delete(NICS, nic.metadata.name, "default")
        assert (await node.get(nic.metadata.name)).metadata.is_deleting
        assert (await node.ask(port, kind=REQUEST, has=address)).kind == ACK
        await node.client.patch(NICS, nic.metadata.name, {"metadata": {"finalizers": None}}, "default")
        await node.silence(port, "unserved", kind=DISCOVER)


async def test_a_pod_that_ends() -> None:
    """The port of a pod that has ended is not heard any more."""
    async with a_node() as node:
        port = node.links.plug()
        await node.attach()
        node.serve()
        await node.ask(port, kind=DISCOVER)
        await node.client.patch(
            PODS, "web", {"status": {"phase": "Succeeded"}}, "default", subresource="status"
        )
        await node.until(lambda: node.served() == 0)


async def test_no_api_server() -> None:
    """While the API server is away, a guest that is known gets its address as before, and others get no answer."""
    async with a_node() as node:
        ports = node.links.plug(1), node.links.plug(2, mac=SECOND_MAC)
        address = await node.attach()
        await node.attach("second", mac=SECOND_MAC)
        away = Away(node.client)
        node.serve(client=away)
        await node.ask(ports[0], kind=DISCOVER)
        await node.until(lambda: ports[1] in node.links.guests)
        away.is_away = True
        assert (await node.ask(ports[0], kind=REQUEST, has=address)).kind == ACK
        await node.silence(ports[1], "unknown", mac=SECOND_MAC)


class Away(Interceptor):
    """A client whose server does not answer while it `is_away`."""

    is_away = False

    async def send(self, request: Request) -> Any:
        if self.is_away:
            raise TransportError("the server is away")
        return await super().send(request)


async def test_another_server() -> None:
    """A guest that takes another address of another DHCP server is an Event of its NIC; its own there is not."""
    async with a_node() as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.silence(port, "elsewhere", kind=REQUEST, wants=address, server="169.254.75.10")
        assert "OtherDhcpServer" not in await node.reasons()
        await node.silence(port, "elsewhere", kind=REQUEST, wants="192.0.2.99", server="192.0.2.254")
        assert "take that server off the network" in await node.until_reason("OtherDhcpServer")


async def test_kubevirts_server_after_a_move() -> None:
    """A guest that KubeVirt's server in the pod gives the address of the pod's start is an Event with that remedy."""
    async with a_node() as node:
        port = node.links.plug()
        await node.attach()
        node.serve()
        await node.silence(port, "elsewhere", kind=REQUEST, wants="198.51.100.10", server="169.254.75.11")
        assert "migrate or restart the machine" in await node.until_reason("OtherDhcpServer")


async def test_a_declined_address() -> None:
    """An address that the guest found in use is an Event of its NIC, and is offered again: it has no other."""
    async with a_node() as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.silence(port, "declined", kind=DECLINE, wants=address, server=OURS)
        await node.until_reason("AddressDeclined")
        assert (await node.ask(port, kind=DISCOVER)).yours == address


@pytest.mark.parametrize(
    "fields",
    [{"mac": SECOND_MAC}, {"client": SECOND_MAC}, {"relay": "192.0.2.1"}, {"mac": "00:00:00:00:00:00"}],
)
async def test_another_client_at_the_port(fields: dict[str, Any]) -> None:
    """A client behind a guest, a guest that speaks for another, and a relay agent get nothing."""
    async with a_node() as node:
        port = node.links.plug()
        await node.attach()
        node.serve()
        await node.silence(port, "foreign", kind=DISCOVER, **fields)


async def test_a_flood() -> None:
    """A guest that floods its port is read for a while, then in turns; another guest's port is not affected."""
    async with a_node() as node:
        ports = node.links.plug(1), node.links.plug(2, mac=SECOND_MAC)
        await node.attach()
        second = await node.attach("second", mac=SECOND_MAC)
        node.serve()
        await node.until(lambda: len(node.links.guests) == len(ports))
        guest, began = node.links.guests[ports[0]], node.now()
        await node.until(lambda: _flooded(guest) and node.counted("limited"))
        assert (await node.ask(ports[1], kind=DISCOVER, mac=SECOND_MAC)).yours == second
        assert node.counted("limited") <= 1 + (node.now() - began) / PAUSE_SECONDS


def _flooded(guest: "object") -> bool:
    try:
        while True:
            guest.send(b"no request")  # type: ignore[attr-defined]
    except BlockingIOError:
        return True


async def test_a_spoke_of_a_lan() -> None:
    """A pod at a spoke gets its address at the spoke's port in the LAN's namespace."""
    async with a_node() as node:
        await node.nad("spoke", type="k8slanveth", veth="blue", bridge=None)
        port = node.links.plug(1, ns="/run/netns/blue", name="blueV0")
        address = await node.attach(nad="spoke")
        node.serve(lans=Lans())
        assert (await node.ask(port, kind=DISCOVER)).yours == address


@pytest.mark.parametrize("device", ["blueV0", "blueM0"])
async def test_a_pod_that_reports_the_spoke_of_another(device: str) -> None:
    """A pod that reports the spoke that another one has, as the runtime said, does not keep that from its address."""
    settings = (
        {"type": "k8slanveth", "veth": "blue"}
        if device == "blueV0"
        else {"type": "macvtap", "deviceID": device}
    )
    async with a_node() as node:
        await node.nad("spoke", bridge=None, **settings)
        port = node.links.plug(1, "net1", ns="/run/netns/blue", name=device)
        address = await node.attach(nad="spoke")
        await node.attach("liar", nad="spoke")
        node.serve(lans=Lans(**{device: "default/web"}))
        assert (await node.ask(port, kind=DISCOVER)).yours == address


async def test_a_machine_with_a_macvtap() -> None:
    """A machine with a macvtap at a spoke gets its address at the port below it."""
    async with a_node() as node:
        await node.nad("tap", type="macvtap", deviceID="blueM0", bridge=None)
        port = node.links.plug(1, "m0", ns="/run/netns/blue", name="blueM0")
        address = await node.attach(nad="tap")
        node.serve(lans=Lans())
        assert (await node.ask(port, kind=DISCOVER)).yours == address

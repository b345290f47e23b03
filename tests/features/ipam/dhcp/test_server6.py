"""A node's server of IPv6 addresses with whatever it meets: routers, moves, other servers, other clients, IPv4."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from lanloom.api.multus import NADS
from lanloom.features.ipam.dhcp.clients import PortId
from lanloom.features.ipam.dhcp.packet6 import SERVER_DUID
from tests.features.ipam.agent.objects import NODE, config
from tests.features.ipam.dhcp.client import DISCOVER, OFFER, Heard, frame, heard
from tests.features.ipam.dhcp.client6 import (
    ADVERTISE,
    DECLINE,
    RENEW,
    REPLY,
    REQUEST,
    Advertised,
    Heard6,
    advertised,
    heard6,
    is_advertisement,
    is_message,
    message,
    octets,
    probe,
    solicitation,
)
from tests.features.ipam.dhcp.node import OTHER6, SUBNET, SUBNET6, Node, a_node

SECOND_MAC = "02:00:00:00:00:02"
OTHER_SERVER = b"\0\3\0\1\2\0\0\0\0\x99"
DAY = 86_400


def router(found: list[bytes]) -> Advertised | None:
    """The first router advertisement."""
    return next((advertised(data) for data in found if is_advertisement(data)), None)


def said(kind: int) -> Callable[[list[bytes]], Heard6 | None]:
    """How the first message of a kind is found."""
    return lambda found: next(
        (heard6(data) for data in found if is_message(data) and heard6(data).kind == kind), None
    )


def lease(found: list[bytes]) -> tuple[Advertised, Heard6] | None:
    """The first reply that follows an advertisement, and that."""
    pairs = ((one, two) for one, two in pairwise(found) if is_advertisement(one) and is_message(two))
    return next(((advertised(one), heard6(two)) for one, two in pairs if heard6(two).kind == REPLY), None)


async def leased(node: Node, port: PortId, data: bytes) -> tuple[Advertised, Heard6]:
    """The advertisement and the answer that a client gets together, in this order."""
    return await node.exchange(port, data, found=lease)


def named(*addresses: str, kind: int = REQUEST, server: bytes = SERVER_DUID) -> bytes:
    """A message about addresses to a server, by default that of Lanloom."""
    return message(kind, server=server, addresses=addresses)


async def test_a_pod_gets_its_address() -> None:
    """A pod learns of DHCPv6 and the prefix, and gets the address of its NIC, with the settings of NAD and link."""
    async with a_node({**SUBNET6, "leaseSeconds": 600}) as node:
        await node.client.delete(NADS, "lan", "default")
        await node.nad(ipam={"dns": {"nameservers": ["2001:db8::53"], "search": ["b.test"]}})
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        told = await node.exchange(port, solicitation(), found=router)
        assert (told.flags, told.lifetime) == (0xC0, 0)
        assert (told.options[3][:2], told.options[3][-16:]) == (b"\x40\x80", octets("2001:db8::"))
        assert told.options[5] == bytes(2) + (1450).to_bytes(4)
        offer = await node.exchange(port, message(), found=said(ADVERTISE))
        assert offer.addresses == {address: 600}
        again, reply = await leased(node, port, named(address))
        assert again.options == told.options
        assert (reply.kind, reply.addresses) == (REPLY, {address: 600})
        assert (reply.options[23], reply.options[24]) == (octets("2001:db8::53"), b"\1b\4test\0")


async def test_both_versions_at_once() -> None:
    """A guest that asks for its addresses of both versions at once gets an answer to each of its requests."""
    async with a_node(SUBNET, SUBNET6) as node:
        await node.client.delete(NADS, "lan", "default")
        await node.nad(ipam={"ips": ["pool4", "pool6"]})
        port = node.links.plug()
        four, six = await node.attach_all(ips=["pool4", "pool6"])
        node.serve()

        def all_found(found: list[bytes]) -> tuple[Heard, Advertised, Heard6] | None:
            offer = next((heard(data) for data in found if data[12:14] == b"\x08\x00"), None)
            told, six_offer = router(found), said(ADVERTISE)(found)
            return (offer, told, six_offer) if offer and told and six_offer else None

        offer, told, advertise = await node.exchange(
            port, frame(DISCOVER), solicitation(), message(), found=all_found
        )
        assert (offer.kind, offer.yours) == (OFFER, four)
        assert told.lifetime == 0
        assert advertise.addresses == {six: DAY}


async def test_another_agent() -> None:
    """An agent that starts again renews what another one gave, under the same identifier."""
    async with a_node(SUBNET6) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        _, reply = await leased(node, port, named(address))
        await node.kill(f"dhcp-{NODE}")
        node.serve()
        _, renewed = await leased(node, port, named(address, kind=RENEW, server=reply.options[2]))
        assert (renewed.source, renewed.addresses) == (reply.source, {address: DAY})


async def test_a_move_in_place() -> None:
    """After a move, a renewal takes the old address away, and gives that of the new network with its prefix.

    A guest that still uses the old one is none of those that have another address by themselves.
    """
    async with a_node(SUBNET6) as node:
        await node.network("net6", OTHER6)
        await node.nad("six", "net6", bridge="br2")
        port = node.links.plug()
        old = await node.attach()
        node.serve()
        await leased(node, port, named(old))
        [new] = await node.add("web", settings=config("net6", "six"))
        node.links.plug(bridge="br2")
        await node.report("web", nad="six")
        while (found := await leased(node, port, named(old, kind=RENEW)))[1].addresses == {old: DAY}:
            pass
        told, reply = found
        assert reply.addresses == {new.partition("/")[0]: DAY, old: 0}
        assert told.options[3][-16:] == octets("2001:db8:9::")
        await node.silence(port, "stray", probe(old))
        await node.silence(port, "stray", probe("2001:db8::ff:fe00:1"))
        assert "The guest takes 2001:db8::ff:fe00:1 as well as" in await node.until_reason("OtherAddress")


async def test_a_subnet_without_dhcp() -> None:
    """Without dhcp in its subnet a guest hears nothing, so that a router or server of the network can serve it."""
    async with a_node({**SUBNET6, "dhcp": False}) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        for data in (solicitation(), message(), named(address), probe("2001:db8::99")):
            await node.silence(port, "unserved", data)
        assert set(await node.reasons()) == {"Allocated"}


@pytest.mark.parametrize(
    "data",
    [message(mac=SECOND_MAC), solicitation(mac=SECOND_MAC, source="::")],
    ids=["message", "solicitation"],
)
async def test_another_client_at_the_port(data: bytes) -> None:
    """A client behind a guest gets nothing."""
    async with a_node(SUBNET6) as node:
        port = node.links.plug()
        await node.attach()
        node.serve()
        await node.silence(port, "foreign", data)


async def test_another_server() -> None:
    """A guest that takes another address of another DHCPv6 server is an Event of its NIC; its own there is not."""
    async with a_node(SUBNET6) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.silence(port, "elsewhere", named(address, server=OTHER_SERVER))
        assert "OtherDhcpServer" not in await node.reasons()
        await node.silence(port, "elsewhere", named("2001:db8::99", server=OTHER_SERVER))
        told = await node.until_reason("OtherDhcpServer")
        assert "the DHCP server with the DUID 00:03:00:01:02:00:00:00:00:99 than" in told
        assert "take that server off the network" in told


async def test_another_router() -> None:
    """A guest that makes itself an address, as a router's prefix lets it, is an Event of its NIC; its own is not."""
    async with a_node(SUBNET6) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        await node.silence(port, "probe", probe(address))
        assert "OtherAddress" not in await node.reasons()
        await node.silence(port, "stray", probe("2001:db8::ff:fe00:1"))
        told = await node.until_reason("OtherAddress")
        assert f"The guest takes 2001:db8::ff:fe00:1 as well as {address}, which Network net1" in told


async def test_a_declined_address() -> None:
    """An address that the guest found in use is an Event of its NIC, and is offered again: it has no other."""
    async with a_node(SUBNET6) as node:
        port = node.links.plug()
        address = await node.attach()
        node.serve()
        reply = await node.exchange(port, named(address, kind=DECLINE), found=said(REPLY))
        assert reply.options[13] == b"\0\0"
        assert f"The guest refuses {address}" in await node.until_reason("AddressDeclined")
        offer = await node.exchange(port, message(), found=said(ADVERTISE))
        assert offer.addresses == {address: DAY}

"""Ports of machines on bridges that filter VLANs."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from lanloom.api.kubevirt import bridged_name, guest_bridge
from lanloom.features.ipam.agent.links import NetlinkGuestPorts
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget
from lanloom.features.liveupdate.rules.port import is_bound
from lanloom.node.namespaces import open_namespace
from lanloom.node.vlanids import VlanEntry
from tests.features.lan.kernel.machines import run, until
from tests.features.liveupdate.kernel.ground import (
    INTERFACE,
    MAC,
    Ground,
    identity,
    is_silent,
    names_told,
    pings,
    told_links,
)
from tests.features.liveupdate.kernel.test_ports import goal
from tests.harness.others import has_carrier, others

KIND = 0x88B5
"""An EtherType for experiments (IEEE 802)."""


async def test_vlans_are_those_of_the_plugin(bare: Ground) -> None:
    """A port gets the VLAN ids that CNI's plugin would give it, and loses those of the place that it leaves."""
    ground = bare
    ground.bridge("one-br", "vlan_filtering 1")
    ten, twenty = (ground.peer(f"v{vid}", "one-br", f"10.7.0.{vid}", vlan=vid) for vid in (10, 20))
    ground.pod("db", "one-br")
    ground.vlan("port-db", 10)
    kernel = ground.kernel
    found = await kernel.find(identity())
    assert is_bound(await kernel.inspect(found), await goal(ground, BridgeTarget(bridge="one-br", pvid=10)))
    assert pings(ten) and is_silent(twenty)
    wanted = await goal(
        ground, BridgeTarget(bridge="one-br", pvid=20, vids=((100, 200), (1, 1)), default_vid=False)
    )
    await kernel.move(found, wanted)
    binding = await kernel.inspect(found)
    assert binding.entries == (
        VlanEntry(1, 1),
        VlanEntry(20, 20, pvid=True, untagged=True),
        VlanEntry(100, 200),
    )
    assert pings(twenty) and is_silent(ten)
    back = await goal(ground, BridgeTarget(bridge="one-br", pvid=10))
    await kernel.move(found, back)
    assert is_bound(await kernel.inspect(found), back)
    assert pings(ten) and is_silent(twenty)


async def test_the_vlan_of_a_port_of_dhcp(bare: Ground) -> None:
    """A port at which a guest asks for its address is known by its VLAN of untagged frames, and not by its others."""
    bare.bridge("one-br", "vlan_filtering 1")
    bare.pod("db", "one-br")
    bare.vlan("port-db", 20)
    run(bare.host, "bridge vlan add dev port-db vid 30-40")
    [port] = await NetlinkGuestPorts(host=bare.host).ports({"": frozenset({"one-br"})}, {})
    assert (port.name, port.vlan) == ("port-db", 20)


@pytest.mark.parametrize("there", ["one-br", "two-br"])
async def test_nothing_leaks_on_the_way(bare: Ground, there: str) -> None:
    """While a machine that sends all the time moves, none of its frames reaches a VLAN that is not one of its two."""
    ground = bare
    for name in ("one-br", "two-br"):
        ground.bridge(name, "vlan_filtering 1")
        ground.peer(f"default-{name[:3]}", name, "10.7.0.1")
    twenty = ground.peer("v20", there, "10.7.0.20", vlan=20)
    ground.pod("db", "one-br")
    ground.vlan("port-db", 10)
    run(ground.host, "bridge vlan del dev port-db vid 1")
    guest, others = (
        ground.directory / "guest-db",
        [ground.directory / f"default-{name}" for name in ("one", "two")],
    )
    with ExitStack() as stack:
        heard = [stack.enter_context(_packets(each, "eth0")) for each in others]
        stack.enter_context(_sending(stack.enter_context(_packets(guest, "guest0"))))
        found = await ground.kernel.find(identity())
        for _ in range(20):
            for place in (
                BridgeTarget(bridge=there, pvid=20, default_vid=False),
                BridgeTarget(bridge="one-br", pvid=10, default_vid=False),
            ):
                await ground.kernel.move(found, await goal(ground, place))
        for sock in heard:
            with pytest.raises(BlockingIOError):
                sock.recv(2048)
    await ground.kernel.move(
        found, await goal(ground, BridgeTarget(bridge=there, pvid=20, default_vid=False))
    )
    assert pings(twenty)


async def test_only_other_ids(bare: Ground) -> None:
    """A port that only gets other VLAN ids is not stopped: its end in the pod changes only when more than ids does."""
    end = bridged_name(INTERFACE)
    bare.bridge("one-br", "vlan_filtering 1")
    pod = bare.pod("db", "one-br")
    bare.vlan("port-db", 10)
    found = await bare.kernel.find(identity())
    # The kernel tells that the port has a carrier, too, a moment after it was set up.
    await until(lambda: has_carrier(others(pod, (end, guest_bridge(INTERFACE)))))
    with told_links(pod) as sock:
        for place in (
            BridgeTarget(bridge="one-br", pvid=20),
            BridgeTarget(bridge="one-br", pvid=10, vids=((100, 200),)),
        ):
            wanted = await goal(bare, place)
            await bare.kernel.move(found, wanted)
            assert is_bound(await bare.kernel.inspect(found), wanted)
        assert end not in names_told(sock)
        for place in (
            BridgeTarget(bridge="one-br", pvid=10, hairpin=True),
            BridgeTarget(bridge="one-br", pvid=20, vids=((10, 10),), hairpin=True),
        ):
            wanted = await goal(bare, place)
            await bare.kernel.move(found, wanted)
            assert is_bound(await bare.kernel.inspect(found), wanted)
            assert end in names_told(sock)


def _packets(where: Path, link: str) -> socket.socket:
    """A socket of frames of this test, on a link of a namespace; reading it waits for nothing."""

    def opened() -> socket.socket:
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.htons(KIND))
        found.bind((link, KIND))
        found.setblocking(False)
        return found

    with open_namespace(where) as namespace:
        return namespace.call(opened)


@contextmanager
def _sending(sock: socket.socket) -> Iterator[None]:
    """Send broadcasts all the time."""
    frame = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) + KIND.to_bytes(2, "big") + bytes(46)
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            with suppress(BlockingIOError):
                sock.send(frame)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

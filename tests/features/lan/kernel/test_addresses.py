"""Addresses of IPAM programs on pods' interfaces, on a real kernel."""

import asyncio
import json
from pathlib import Path
from typing import Any

from lanloom.features.lan.agent.ports import Attachment, Device, SpokeError
from lanloom.features.lan.rules.addressing import PodRoute
from tests.features.lan.kernel.machines import Lab, Machine, finds_well, played, reaches, run, until

ADDRESSES = ("172.16.0.1/24", "2001:db8::1/64")
ROUTES = (
    PodRoute(dst="198.51.100.0/24", gw="172.16.0.2", mtu=1300, priority=7),
    PodRoute(dst="203.0.113.0/24"),
    PodRoute(dst="::/0", gw="2001:db8::2"),
    PodRoute(dst="192.0.2.0/24", gw="172.16.0.2", table=1000),
)


async def _addressed(
    machine: Machine, spoke: str, pod: str, addresses: tuple[str, ...], routes: tuple[PodRoute, ...] = ()
) -> Attachment:
    path = await asyncio.to_thread(machine.pod, pod)
    attachment = Attachment(
        device=Device(spoke, "veth"),
        container=f"c-{pod}",
        netns=str(path),
        interface="net1",
        addresses=addresses,
        routes=routes,
    )
    await machine.spokes.attach(attachment)
    return attachment


def _shown(path: Path, command: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(path, f"ip -j {command}") or "[]")
    return found


def _addresses(path: Path) -> set[str]:
    return {
        f"{item['local']}/{item['prefixlen']}"
        for link in _shown(path, "address show dev net1")
        for item in link.get("addr_info", ())
        if item["scope"] == "global" and not item.get("tentative")
    }


def _routes(path: Path) -> set[tuple[str, str, int]]:
    found = set()
    for family in ("-4", "-6"):
        for item in _shown(path, f"{family} route show table all proto static"):
            found.add((item["dst"], item.get("gateway", ""), int(item.get("table", 254))))
    return found


EXPECTED = {
    ("198.51.100.0/24", "172.16.0.2", 254),
    ("203.0.113.0/24", "", 254),
    ("default", "2001:db8::2", 254),
    ("192.0.2.0/24", "172.16.0.2", 1000),
}


@played(2)
async def test_addresses(made: Lab) -> None:
    """A pod has its addresses and routes at once, reaches others by them, and has them again after every damage."""
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    attachment = await _addressed(made[0], "blue-a", "p", ADDRESSES, ROUTES)
    path = made[0].pods.path("p")
    assert await asyncio.to_thread(_addresses, path) == set(ADDRESSES)
    assert await asyncio.to_thread(_routes, path) == EXPECTED
    metric = (await asyncio.to_thread(_shown, path, "route show 198.51.100.0/24"))[0]
    assert (metric["metric"], metric["metrics"]) == (7, [{"mtu": 1300}])
    await _addressed(made[1], "blue-b", "q", ("172.16.0.2/24", "2001:db8::2/64"))
    await until(lambda: reaches(path, "172.16.0.2") and reaches(path, "2001:db8::2"))
    await finds_well(made[0], attachment)
    await made[0].spokes.attach(attachment)
    for where, command in (
        (made[0].lan(), "ip link delete blue-aV0"),
        (path, "ip link delete net1"),
        (made[0].lan(), "ip link delete br0"),
    ):
        await asyncio.to_thread(run, where, command)
        await until(lambda: _whole(path))
    await made[0].kill()
    await asyncio.to_thread(run, path, "ip link delete net1")
    made[0].start()
    await until(lambda: _whole(path))


def _whole(path: Path) -> bool:
    try:
        return _addresses(path) == set(ADDRESSES) and _routes(path) == EXPECTED
    except AssertionError:
        return False


@played(1)
async def test_lost_address(made: Lab) -> None:
    """CHECK tells of an address that is gone; the pod's business is left alone until it is attached again."""
    await made.cluster.lan()
    await made[0].offers()
    attachment = await _addressed(made[0], "blue-a", "p", ADDRESSES, ROUTES)
    path = made[0].pods.path("p")
    await asyncio.to_thread(run, path, "ip address delete 172.16.0.1/24 dev net1")
    try:
        await made[0].spokes.check(attachment)
    except SpokeError as error:
        assert "172.16.0.1/24" in str(error)
    else:
        raise AssertionError("nothing is missing")
    await made[0].spokes.attach(attachment)
    assert await asyncio.to_thread(_whole, path)
    await made[0].spokes.check(attachment)


@played(1)
async def test_route_that_cannot_be(made: Lab) -> None:
    """A gateway that is in no network of the pod is refused with the remedy, and a route that is there stays."""
    await made.cluster.lan()
    await made[0].offers()
    try:
        await _addressed(made[0], "blue-a", "p", ADDRESSES[:1], (PodRoute(dst="0.0.0.0/0", gw="10.1.2.3"),))
    except SpokeError as error:
        assert "correct the NAD's ipam" in str(error)
    else:
        raise AssertionError("the kernel took it")
    path = await asyncio.to_thread(made[0].pod, "q")
    for command in (
        "link add d0 up type veth peer name d1",
        "link set d1 up",
        "address add 10.9.9.2/24 dev d0",
    ):
        await asyncio.to_thread(run, path, f"ip {command}")
    await asyncio.to_thread(run, path, "ip route add default via 10.9.9.1")
    attachment = Attachment(
        device=Device("blue-b", "veth"),
        container="c-q",
        netns=str(path),
        interface="net1",
        addresses=ADDRESSES[:1],
        routes=(PodRoute(dst="0.0.0.0/0", gw="172.16.0.2"),),
    )
    await made[0].spokes.attach(attachment)
    (default,) = await asyncio.to_thread(_shown, path, "route show default")
    assert default["gateway"] == "10.9.9.1"
    await made[0].spokes.check(attachment)

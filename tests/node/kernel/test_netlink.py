"""What only a kernel can show of the netlink adapter: names, IPv6, dead agents, leaks."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Iterator
from itertools import count
from pathlib import Path

import pytest

from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge
from lanloom.node.errors import LinkError
from lanloom.node.netlink import NetlinkLinks
from lanloom.node.netlink.messages import (
    IFLA_IFNAME,
    RTM_NEWLINK,
    attribute,
    dump_socket,
    request,
)
from lanloom.node.ports import MAIN_TABLE, LinkStep, Route
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    RemoveVlans,
    RestoreRoutes,
    SetMaster,
    SetMtu,
)
from tests.harness.namespaces import Entering, call, namespace
from tests.node.contract.following import following
from tests.node.contract.node import PATIENCE, until, uplink
from tests.node.contract.real import batch, ip

EVERY_ID = ((2, 4094),)


@pytest.fixture
def links() -> Iterator[NetlinkLinks]:
    """The links of a namespace with the NICs eth1 and eth2."""
    with namespace("bare") as path:
        batch(
            "ip",
            "bare",
            "link add eth1 type veth peer name cable1\nlink add eth2 type veth peer name cable2\n",
        )
        yield NetlinkLinks(Entering(path))


def shown(command: str) -> str:
    """What `ip` or `bridge` prints in the namespace."""
    program, _, arguments = command.partition(" ")
    words = [program, "-n", "bare", *arguments.split()]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


async def test_no_addresses_of_their_own(links: NetlinkLinks) -> None:
    """Bridge and bond get no IPv6 link-local address, and the bridge no spanning tree."""
    await links.apply(uplink())
    assert "inet6" not in shown("ip address show dev c-br") + shown("ip address show dev c-bo")
    details = shown("ip -d link show dev c-br")
    assert "stp_state 0" in details and "vlan_default_pvid 1" in details and "addrgenmode none" in details


async def test_tagged(links: NetlinkLinks) -> None:
    """Ids are tagged on bridge and port, and id 1 stays as the kernel made it."""
    await links.apply(uplink(2012))
    for device in ("c-br", "c-bo"):
        lines = [line.split() for line in shown(f"bridge vlan show dev {device}").splitlines()[1:]]
        assert lines == [[device, "1", "PVID", "Egress", "Untagged"], ["2012"]]


async def test_dead_agent(links: NetlinkLinks) -> None:
    """A link that an agent made and could not mark before it died is found and made again."""
    ip("link add lanloom-new type bridge", where="bare")
    await links.apply(uplink())
    assert "lanloom-new" not in (await links.dump()).links


async def test_isolated_only(links: NetlinkLinks) -> None:
    """Who keeps an isolated bridge is shown bridges, the ports of isolated ones and of its own, and no other links."""
    steps = (EnsureIsolatedBridge(name="d-br", owner="u"), EnsureIsolatedBridge(name="e-br", owner="v"))
    await links.apply((*uplink(), *steps))
    ip("link set eth2 master d-br", where="bare")
    ip("link add f-br type bridge", where="bare")
    ip("link set cable2 master f-br", where="bare")
    ip("address add 10.0.0.1/24 dev f-br", where="bare")
    few = NetlinkLinks(Entering(Path("/run/netns/bare")), bridge="f-br")
    shown, every = (await few.dump()).links, (await links.dump()).links
    assert set(shown) == {"c-br", "d-br", "e-br", "f-br", "eth2", "cable2"}
    assert (shown["eth2"].master, shown["d-br"].owner_uid) == ("d-br", "u")
    assert (shown["cable2"].master, shown["f-br"].addresses) == ("f-br", ("10.0.0.1/24",))
    assert {"eth1", "cable1", "c-bo"} <= set(every)


async def test_default_route(links: NetlinkLinks) -> None:
    """The links of default routes are seen, with several next hops too."""
    batch("ip", "bare", "address add 10.0.0.1/24 dev eth1\nlink set eth1 up\n")
    batch("ip", "bare", "address add 10.0.1.1/24 dev eth2\nlink set eth2 up\n")
    assert (await links.dump()).default_route_links == frozenset()
    ip("route add default via 10.0.0.2 dev eth1", where="bare")
    assert (await links.dump()).default_route_links == {"eth1"}
    ip("route replace default nexthop via 10.0.0.2 dev eth1 nexthop via 10.0.1.2 dev eth2", where="bare")
    assert (await links.dump()).default_route_links == {"eth1", "eth2"}


async def test_default_route_of_ipv6(links: NetlinkLinks) -> None:
    """Where no default route is one of IPv4, the link of IPv6's is seen; one next to it says nothing of the node."""
    batch("ip", "bare", "address add fd00:1::1/64 dev eth1 nodad\nlink set eth1 up\n")
    batch("ip", "bare", "address add 10.0.1.1/24 dev eth2\nlink set eth2 up\n")
    assert (await links.dump()).default_route_links == frozenset()
    ip("-6 route add default via fd00:1::2 dev eth1", where="bare")
    assert (await links.dump()).default_route_links == {"eth1"}
    ip("route add default via 10.0.1.2 dev eth2", where="bare")
    assert (await links.dump()).default_route_links == {"eth2"}
    ip("route delete default", where="bare")
    ip("-6 route replace unreachable default metric 1", where="bare")
    assert (await links.dump()).default_route_links == frozenset()


async def test_lasting_ipv6_addresses(links: NetlinkLinks) -> None:
    """IPv6 addresses that a NIC was given for good are seen: not its own, nor one that ends some time."""
    ip("link set eth1 up", where="bare")
    ip("address add fd00:1::1/64 dev eth1 nodad", where="bare")
    ip("address add fd00:2::1/64 dev eth1 nodad valid_lft 3600 preferred_lft 1800", where="bare")
    assert (await links.dump()).links["eth1"].addresses6 == ("fd00:1::1/64",)


ENDING = "nodad valid_lft 3600 preferred_lft 1800"
ONLINK = f"""\
link set eth1 up
link set eth2 up
address add fd00:2::1/64 dev eth1 {ENDING}
address add fd00:3::9/128 dev eth1 {ENDING}
route add fd00:3::/64 dev eth1
route add fd00:4::/64 via fd00:3::1 dev eth1
address add 10.0.0.5/32 dev eth1
route add 10.0.0.0/24 dev eth1 scope link
route add 10.9.0.0/16 via 10.0.0.1 dev eth1
address add fd00:5::9/128 dev eth2 nodad
route add fd00:5::/64 dev eth2
address add 10.1.0.5/24 dev eth2
address add 10.2.0.5/32 dev eth2
"""


async def test_subnets_of_a_link(links: NetlinkLinks) -> None:
    """The subnets are seen of router advertisements, and of routes to neighbours of an address that is of none."""
    batch("ip", "bare", ONLINK)
    found = (await links.dump()).links
    assert found["eth1"].onlink == ("fd00:2::/64", "fd00:3::/64", "10.0.0.0/24")
    assert found["eth2"].onlink == ("fd00:5::/64",)
    assert not found["eth1"].routes


async def test_addresses(links: NetlinkLinks) -> None:
    """IPv4 addresses are seen as CIDRs, in order."""
    ip("address add 10.0.0.20/8 dev eth1", where="bare")
    ip("address add 10.0.0.3/24 dev eth1", where="bare")
    assert (await links.dump()).links["eth1"].addresses == ("10.0.0.3/24", "10.0.0.20/8")


async def test_refusal(links: NetlinkLinks) -> None:
    """What the kernel refuses is reported with the step and the kernel's reason."""
    with pytest.raises(LinkError, match=r"can't create the bridge c-br: .*an MTU of 100000"):
        await links.apply((EnsureBridge(name="c-br", mtu=100_000),))


def test_the_kernels_own_words() -> None:
    """The kernel's words about a malformed request reach the error, instead of the text for its number."""
    with dump_socket() as sock:
        too_long = bytes(16) + attribute(IFLA_IFNAME, b"x" * 99 + b"\0")
        with pytest.raises(OSError, match="Attribute failed policy validation"):
            request(sock, RTM_NEWLINK, too_long)


async def test_words_about_an_impossible_mtu(links: NetlinkLinks) -> None:
    """The kernel's own words about an MTU that no link can have are in the error of the step."""
    with pytest.raises(LinkError, match="mtu greater than device maximum"):
        await links.apply((*uplink(), SetMtu(link="c-br", mtu=70000)))


async def test_nothing_is_left_open(links: NetlinkLinks) -> None:
    """Dumps and changes, also failed ones, leave no descriptor and no thread behind."""
    await links.dump()
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await links.apply(uplink(2012))
        await links.dump()
        with pytest.raises(LinkError):
            await links.apply((DeleteLink(name="eth1"),))
    await until(only_few_threads)
    assert len(set(os.listdir("/proc/self/fd"))) <= len(before)


async def only_few_threads() -> bool:
    """Whether all threads but those of the test's own machinery are gone."""
    return len(os.listdir("/proc/self/task")) <= 4


async def test_every_id_at_once(links: NetlinkLinks) -> None:
    """Every id goes onto a port, and off it but for that of frames without a tag."""
    await links.apply((*uplink(), AddVlans(link="c-bo", ids=EVERY_ID)))
    assert (await links.dump()).links["c-bo"].vlans == ((1, 4094),)
    await links.apply((RemoveVlans(link="c-bo", ids=EVERY_ID),))
    assert (await links.dump()).links["c-bo"].vlans == ((1, 1),)


async def ready(links: NetlinkLinks) -> AsyncGenerator[None, None]:
    """Changes of the namespace's links, when they are being heard."""
    changes = links.changes()
    hearing = asyncio.ensure_future(anext(changes))
    for number in range(1, 200):
        ip(f"address add 10.9.0.{number}/32 dev eth1", where="bare")
        if (await asyncio.wait((hearing,), timeout=0.1))[0]:
            return changes
    raise AssertionError("nothing is heard")


def dropped_messages() -> int:
    """How many messages the kernel could not deliver to the netlink sockets of the namespace."""
    lines = call(
        Path("/run/netns/bare"), lambda: Path("/proc/thread-self/net/netlink").read_text()
    ).splitlines()
    column = lines[0].split().index("Drops")
    return sum(int(line.split()[column]) for line in lines[1:])


async def test_more_changes_than_the_kernel_tells(links: NetlinkLinks) -> None:
    """When changes come faster than they are read, a change is heard, and so is the next one after it."""
    await links.apply(uplink())
    changes = await ready(links)
    steps: tuple[LinkStep, ...] = tuple(AddVlans(link="c-bo", ids=((vid, vid),)) for vid in range(2, 2000))
    await asyncio.to_thread(lambda: asyncio.run(links.apply(steps)))
    assert dropped_messages() > 0
    await asyncio.wait_for(anext(changes), PATIENCE)
    hearing = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0.2)
    ip("address add 10.9.1.1/32 dev eth1", where="bare")
    await asyncio.wait_for(hearing, PATIENCE)
    await changes.aclose()


async def test_changes_elsewhere_are_not_heard(links: NetlinkLinks) -> None:
    """Who follows a namespace hears nothing of another one."""
    changes = await ready(links)
    hearing = asyncio.ensure_future(anext(changes))
    while (await asyncio.wait((hearing,), timeout=1))[0]:  # until what was done here before has been heard
        hearing = asyncio.ensure_future(anext(changes))
    with namespace("elsewhere"):
        batch("ip", "elsewhere", "link add x type bridge\nlink delete x\n")
        assert not (await asyncio.wait((hearing,), timeout=1))[0]
    hearing.cancel()
    await asyncio.wait((hearing,))
    await changes.aclose()


async def test_followers_leave_nothing(links: NetlinkLinks) -> None:
    """A follower's socket is closed when its generator is, when it is cancelled, and when it is while it opens."""
    await (await ready(links)).aclose()
    before = len(os.listdir("/proc/self/fd"))
    for pause in (None, 0.0, 0.001, 0.2):
        changes = links.changes()
        hearing = asyncio.ensure_future(anext(changes))
        if pause is not None:
            await asyncio.sleep(pause)
        hearing.cancel()
        await asyncio.wait((hearing,))
        await changes.aclose()

    async def closed() -> bool:
        return len(os.listdir("/proc/self/fd")) <= before

    await until(closed)


async def test_default_route_of_another_table(links: NetlinkLinks) -> None:
    """A default route of a table that rules lead to makes its link none of a default route."""
    batch("ip", "bare", "address add 10.0.0.1/24 dev eth1\nlink set eth1 up\n")
    ip("route add default via 10.0.0.2 dev eth1 table 12345", where="bare")
    assert (await links.dump()).default_route_links == frozenset()


VLANS = """\
link set eth1 up
link set eth2 up
link add link eth1 name eth1.5 up type vlan id 5
link add link eth2 name eth2.5 up type vlan id 5
address add fd00:1::1/64 dev eth1.5 nodad
address add fd00:2::1/64 dev eth2.5 nodad
"""
BEYOND = tuple(Route("fd00:20::/48", MAIN_TABLE, f"fd00:{number}::2") for number in (1, 2))


async def test_a_route_of_ipv6_of_two_links(links: NetlinkLinks) -> None:
    """A route to one place over two links is seen, and restored, on each; links below have none."""
    batch("ip", "bare", VLANS)
    steps = tuple(
        RestoreRoutes(link=f"eth{number}.5", source="", metric=400, routes=(route,))
        for number, route in enumerate(BEYOND, 1)
    )
    for lost in (None, *BEYOND):
        if lost is not None:
            ip(f"route del {lost.to} via {lost.via}", where="bare")
            found = (await links.dump()).links
            assert {route for each in BEYOND for route in found[device(each)].routes} & {*BEYOND} == {
                *BEYOND
            } - {lost}
        await links.apply((*steps, *steps))
        found = (await links.dump()).links
        assert all(found[device(route)].routes & {*BEYOND} == {route} for route in BEYOND)
    assert not found["eth1"].routes and not any("fe80" in route.to for route in found["eth1.5"].routes)


def device(route: Route) -> str:
    """The link on which the router of a route is."""
    return f"eth{BEYOND.index(route) + 1}.5"


@pytest.mark.parametrize("words", ["route add fd00:20::/48 dev eth1", "rule add from fd00:1::/64 table 7"])
async def test_changes_of_ipv6(links: NetlinkLinks, words: str) -> None:
    """Changes of routes and rules of IPv6 are heard."""
    ip("link set eth1 up", where="bare")
    numbers = count(1)

    def poke() -> None:
        ip(f"address add 10.8.0.{next(numbers)}/32 dev eth2", where="bare")

    async with following(links.changes(), poke) as heard:
        before = heard.times
        ip(f"-6 {words}", where="bare")
        await heard.more_than(before)


def sysctl(setting: str) -> None:
    """`sysctl -w` in the namespace."""
    subprocess.run(["ip", "netns", "exec", "bare", "sysctl", "-qw", setting], check=True)


async def test_links_without_ipv6(links: NetlinkLinks) -> None:
    """A VLAN link tells whether it may have IPv6, and the kernel whether it has routing rules of it."""
    ip("link add link eth1 name eth1.5 type vlan id 5", where="bare")
    for value, enabled in (("1", False), ("0", True)):
        sysctl(f"net/ipv6/conf/eth1.5/disable_ipv6={value}")
        state = await links.dump()
        assert (state.links["eth1.5"].ipv6, state.lack6) == (enabled, "")


async def test_every_second_id_of_a_bridge(links: NetlinkLinks) -> None:
    """Every second id of all goes on and off a bridge."""
    ids = tuple((vid, vid) for vid in range(2, 4095, 2))
    await links.apply(
        (EnsureBridge(name="c-br", mtu=1500), AddVlans(link="c-br", ids=ids, self_=True)),
    )
    assert (await links.dump()).links["c-br"].self_vlans == ((1, 2), *ids[1:])
    await links.apply((RemoveVlans(link="c-br", ids=ids, self_=True),))
    assert (await links.dump()).links["c-br"].self_vlans == ((1, 1),)


async def test_mode_of_a_running_bond(links: NetlinkLinks) -> None:
    """Both NICs of a bond are in it again after its mode changed."""
    steps: tuple[LinkStep, ...] = (
        EnsureBond(name="c-bo", mode="active-backup", mtu=1500),
        SetMaster(link="eth1", master="c-bo"),
        SetMaster(link="eth2", master="c-bo"),
        EnsureBond(name="c-bo", mode="balance-rr", mtu=1500),
    )
    await links.apply(steps)
    found = (await links.dump()).links
    assert (found["c-bo"].bond_mode, found["eth1"].master, found["eth2"].master) == (
        "balance-rr",
        "c-bo",
        "c-bo",
    )
    assert found["eth1"].up and found["eth2"].up


def test_namespaces_are_removed() -> None:
    """A named namespace is there for its context only, and its links end with it."""
    with namespace("gone") as path:
        batch("ip", "gone", "link add x type veth peer name y\n")
        assert path.exists()
    assert not Path("/run/netns/gone").exists()
    assert "gone" not in subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout

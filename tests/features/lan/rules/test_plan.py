"""Plans of a LAN's part of a kernel, on a kernel in memory: from any state, through any death, to what is desired."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.lan.rules.addressing import PodRoute
from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.hostbridge import PORT, DesiredHostBridge, JoinHostBridge, far_mac
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, alias_of
from lanloom.features.lan.rules.observed import FarPort, SeenHost, SeenLan, Underlay
from lanloom.features.lan.rules.options import UNFLAGGED, PacketFilter, PortFilter, PortFlags, StormFilter
from lanloom.features.lan.rules.plan import plan, wanted_static_entries
from lanloom.features.lan.rules.portsteps import MakeVeth, RepairPod
from lanloom.node.links import KernelLink, Vtep
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld, remove
from tests.harness.examples import examples

PEERS = ("10.0.0.2", "10.0.0.3", "10.0.0.4")
PODS = ("/run/netns/p1", "/run/netns/p2")


def _port(
    name: str,
    kind: str,
    pod: str,
    addresses: tuple[str, ...],
    fresh: bool,
    flags: PortFlags = UNFLAGGED,
    mtu: int = 0,
) -> DesiredPort:
    mode = "macvtap" if kind == "M" else "veth"
    return DesiredPort(
        name=f"{name}{kind}0",
        spoke=name,
        mode=mode,  # type: ignore[arg-type]
        index=500_000_000 + ord(name) if kind == "M" else 0,
        netns=pod,
        interface=f"net-{name}{kind}",
        mac=f"02:00:00:00:00:{ord(name) + (kind == 'M'):02x}",
        addresses=addresses,
        routes=(PodRoute(dst="0.0.0.0/0", gw="192.0.2.1"),) if addresses else (),
        fresh=fresh,
        flags=flags,
        mtu=mtu,
    )


ADDRESSES = st.sampled_from([(), ("192.0.2.7/24",), ("192.0.2.8/24", "2001:db8::8/64")])
PORTS = st.builds(
    _port,
    st.sampled_from("abc"),
    st.sampled_from("MV"),
    st.sampled_from(PODS),
    ADDRESSES,
    st.booleans(),
    st.builds(PortFlags, st.booleans(), st.booleans()),
    st.sampled_from([0, 1280, 9000]),
)
STATIC_ENTRIES = st.dictionaries(
    st.sampled_from(["02:00:00:00:00:fe", "02:00:00:00:00:fd"]), st.sampled_from(PEERS)
)
FILTERS = st.none() | st.builds(
    PacketFilter,
    isolates=st.booleans(),
    vxlan=st.just("vx0"),
    limits=st.dictionaries(st.sampled_from(["aV0", "bM0"]), st.integers(1, 3)),
)
PORT_FILTERS = st.none() | st.builds(
    PortFilter,
    sources=st.dictionaries(st.sampled_from(["aV0", "cV0"]), st.just("02:00:00:00:00:01")),
    isolated=st.sampled_from([(), ("bM0",)]),
    needed=st.booleans(),
)


@st.composite
def desires(draw: st.DrawFn) -> DesiredLan:
    """What a node may have to have of one LAN."""
    ports = {port.name: port for port in draw(st.lists(PORTS, max_size=5))}
    vtep = draw(
        st.none()
        | st.builds(
            Vtep, st.just(7), st.sampled_from([4789, 4790]), st.just(2), st.just("10.0.0.1"), st.just("")
        )
    )
    marks = draw(st.sampled_from(["sent", "not sent", ""]))
    return DesiredLan(
        uid="u-1",
        ns="blue",
        bridge="br0",
        vxlan="vx0",
        vtep=vtep,
        mtu=draw(st.sampled_from([1450, 1400])),
        ports=tuple(ports[name] for name in sorted(ports)),
        flood=draw(st.frozensets(st.sampled_from(PEERS))) if vtep else frozenset(),
        present=draw(st.integers(0, 5)) > 0,
        built=True,
        isolates=marks == "sent",
        plain=marks == "not sent",
        learned_limit=draw(st.sampled_from([0, 5])),
        entry_limit=draw(st.sampled_from([0, 5, 6])),
        unlimited=draw(st.booleans()),
        static_entries=draw(STATIC_ENTRIES),
        packet_filter=draw(FILTERS),
        port_filter=draw(PORT_FILTERS),
        storm_filter=draw(st.none() | st.builds(StormFilter, rate=st.integers(1, 2), vxlan=st.just("vx0"))),
    )


def _world() -> LanWorld:
    world = LanWorld({"u0": Underlay(name="u0", index=2, mtu=1500, addresses=("10.0.0.1",))})
    world.pods.update(PODS)
    return world


async def _bring(kernel: FakeLanKernel, wanted: DesiredLan, stop: int | None = None) -> SeenLan:
    """Applies a plan, or the beginning of one; what is there then."""
    steps = plan(wanted, await kernel.observe(wanted))
    await kernel.apply(wanted, steps[:stop])
    return await kernel.observe(wanted)


def _damage(world: LanWorld, choose: Callable[[int], int]) -> None:
    """An operator deletes or changes something, or an agent dies before a port is finished."""
    space = world.names.get("blue")
    if space is None:
        return
    names = sorted(space.links)
    settable = [name for name in names if space.links[name].kind == "bridge" or space.links[name].master]
    match choose(9):
        case 0:
            world.delete_name("blue")
        case 1 if space.flood:
            space.flood.pop()
        case 2:
            space.sealed = False
        case 3 if space.static_entries:
            space.static_entries.popitem()
        case 4:
            space.packet_filter = space.port_filter = space.storm_filter = ""
        case 5 if settable:
            name = settable[choose(len(settable))]
            space.links[name] = replace(space.links[name], drift=frozenset(["flood", "vlan_filtering"]))
        case 6 if settable:
            name = settable[choose(len(settable))]
            space.links[name] = replace(space.links[name], unfinished=name.endswith("V0"))
        case _ if names:
            remove(world, space, names[choose(len(names))])


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.tuples(desires(), st.integers(0, 20), st.randoms(use_true_random=False)), min_size=1, max_size=6
    )
)
def test_converges(story: list[tuple[DesiredLan, int, Random]]) -> None:
    """From whatever deaths, damage and earlier desires left, one plan leads to what is desired, and then to nothing."""

    async def main() -> None:
        world = _world()
        kernel = FakeLanKernel(world)
        for wanted, stop, random in story:
            await _bring(kernel, wanted, stop)  # a death in the middle
            if stop % 2:
                await kernel.close()
                kernel = FakeLanKernel(world)
            _damage(world, random.randrange)
        last = story[-1][0]
        seen = await _bring(kernel, last)
        if not last.present:
            assert world.names == {} and world.ends == [] and not seen.exists
            return
        assert plan(last, seen) == ()
        bridge = seen.links["br0"].index
        for port in last.ports:
            assert seen.links[port.name].master == bridge
            end = seen.ends[port.name]
            assert end is not None and end.mtu <= min(last.mtu, port.mtu or last.mtu)
            assert port.flags.are_set(seen.links[port.name])
            assert not seen.links[port.name].unfinished
            if port.fresh and port.mode == "veth":
                assert end.addresses.issuperset(port.addresses)
        assert not any(link.drift for link in seen.links.values())
        assert seen.flood == last.flood
        assert seen.static_entries == wanted_static_entries(last, seen)
        assert seen.packet_filter == (last.packet_filter.digest if last.packet_filter else "")
        assert seen.port_filter == (last.port_filter.digest if last.port_filter else "")
        assert seen.storm_filter == (last.storm_filter.digest if last.storm_filter else "")
        assert seen.links["br0"].learned_limit == last.learned_limit
        marks = {True} if last.isolates else {False} if last.plain else {True, False}
        assert last.vtep is None or seen.links["vx0"].policy in marks
        limits = {last.entry_limit, 0 if last.unlimited else last.entry_limit}
        assert last.vtep is None or seen.links["vx0"].entry_limit in limits
        assert len(world.ends) == len(last.ports)

    asyncio.run(main())


@settings(max_examples=examples(100), deadline=None)
@given(desires())
def test_idempotent(wanted: DesiredLan) -> None:
    """A plan that was applied leaves nothing to plan, so applying again writes nothing."""

    async def main() -> None:
        world = _world()
        kernel = FakeLanKernel(world)
        await _bring(kernel, wanted)
        writes = world.writes
        await _bring(kernel, wanted)
        assert world.writes == writes

    asyncio.run(main())


@settings(max_examples=examples(100), deadline=None)
@given(desires(), st.frozensets(st.sampled_from(PEERS)))
def test_peers_alone(wanted: DesiredLan, after: frozenset[str]) -> None:
    """A change of peers costs one step for each peer that differs, and touches nothing else."""

    async def main() -> None:
        if wanted.vtep is None or not wanted.present:
            return
        kernel = FakeLanKernel(_world())
        await _bring(kernel, wanted)
        changed = replace(wanted, flood=after)
        steps = plan(changed, await kernel.observe(changed))
        assert {type(step).__name__ for step in steps} <= {"AddFlood", "RemoveFlood"}
        assert len(steps) == len(wanted.flood ^ after)

    asyncio.run(main())


def test_foreign() -> None:
    """A namespace of another program is never touched, whatever is desired."""
    wanted = DesiredLan(uid="u-1", ns="blue", bridge="br0", vxlan="vx0")
    assert plan(wanted, SeenLan(bound=True, foreign="somebody's")) == ()


def test_unfinished_in_transit() -> None:
    """A port that another feature brings is left to that, unfinished or not."""

    async def main() -> None:
        world = _world()
        kernel = FakeLanKernel(world)
        port = _port("a", "V", PODS[0], (), True)
        wanted = DesiredLan(uid="u-1", ns="blue", bridge="br0", vxlan="vx0", ports=(port,), built=True)
        await _bring(kernel, wanted)
        links = world.names["blue"].links
        links[port.name] = replace(links[port.name], unfinished=True)
        brought = replace(wanted, ports=(replace(port, in_transit=True),))
        assert [type(step) for step in plan(wanted, await kernel.observe(wanted))] == [RepairPod]
        assert plan(brought, await kernel.observe(brought)) == ()

    asyncio.run(main())


def test_unfinished_last() -> None:
    """What an unfinished interface needs comes after all else: if it fails, other ports have what they need."""

    async def main() -> None:
        world = _world()
        kernel = FakeLanKernel(world)
        first, second = (_port(name, "V", pod, (), False) for name, pod in zip("ab", PODS, strict=True))
        wanted = DesiredLan(uid="u-1", ns="blue", bridge="br0", vxlan="vx0", ports=(first,), built=True)
        await _bring(kernel, wanted)
        links = world.names["blue"].links
        links[first.name] = replace(links[first.name], unfinished=True)
        wanted = replace(wanted, ports=(first, second))
        steps = plan(wanted, await kernel.observe(wanted))
        assert [type(step) for step in steps] == [MakeVeth, RepairPod]

    asyncio.run(main())


@pytest.mark.parametrize(
    "addresses", [(), ("192.0.2.7/24",), ("2001:db8::7/64",)], ids=["none", "IPv4", "IPv6"]
)
@pytest.mark.parametrize("unfinished", [True, False], ids=["died", "set down"])
def test_unfinished_interface(addresses: tuple[str, ...], unfinished: bool) -> None:
    """An interface whose maker died before it was up is finished; what a pod has done to its own stays."""

    async def main() -> None:
        world = _world()
        kernel = FakeLanKernel(world)
        port = _port("a", "V", PODS[0], addresses, False)
        wanted = DesiredLan(uid="u-1", ns="blue", bridge="br0", vxlan="vx0", ports=(port,), built=True)
        await _bring(kernel, wanted)
        (end,) = world.ends
        world.ends = [replace(end, link=replace(end.link, up=False, addresses=frozenset()))]
        links = world.names["blue"].links
        links[port.name] = replace(links[port.name], unfinished=unfinished)
        found = (await _bring(kernel, wanted)).ends[port.name]
        assert found is not None
        assert (found.up, found.addresses) == (unfinished, frozenset(addresses if unfinished else ()))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("vlan", "accepts", "joins"), [(0, True, True), (0, False, False), (7, True, False), (7, False, False)]
)
def test_routers_on_a_bridge_of_the_host(vlan: int, accepts: bool, joins: bool) -> None:
    """A host that takes routes from an isolated bridge has it joined again; a bridge with an uplink stays as it is."""
    wanted = DesiredLan(
        uid="u-1",
        ns="blue",
        bridge="br0",
        vxlan="vx0",
        vtep=None,
        mtu=1450,
        ports=(),
        host=DesiredHostBridge("h-br", "" if vlan else "lanloom-dummy u-2", vlan),
    )
    links = {
        "br0": KernelLink(name="br0", index=2, kind="bridge", up=True, alias=alias_of("u-1")),
        PORT: KernelLink(
            name=PORT, index=3, kind="veth", up=True, mtu=1450, master=2, group_forwarding=FORWARD_ALL
        ),
    }
    far = FarPort(5, 3, 9, 1450, far_mac("u-1"), True, vlan)
    seen = SeenLan(
        exists=True, bound=True, sealed=True, links=links, host=SeenHost(9, far, "", 1450, accepts)
    )
    assert [type(step) for step in plan(wanted, seen)] == [JoinHostBridge] * joins

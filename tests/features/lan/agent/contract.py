"""What options do to a kernel, as a suite for every `LanKernel`: what is asked for is there, and nothing more to do."""

import asyncio
import os
from collections.abc import Callable, Coroutine

from msgspec.structs import replace

from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.hostbridge import PORT, uplink_bridge
from lanloom.features.lan.rules.lansteps import DeleteLanLink
from lanloom.features.lan.rules.observed import SeenLan, StaticEntry
from lanloom.features.lan.rules.options import PacketFilter, PortFilter, PortFlags, StormFilter
from lanloom.features.lan.rules.plan import plan
from lanloom.node.errors import LinkError
from lanloom.node.links import Vtep

OWN, PEER = "02:00:00:00:00:01", "02:00:00:00:00:02"
MACVTAP = 800_000_000 + os.getpid() % 10_000 * 10
"""The machine's index. Other processes, mostly the next one, check on the same kernel at the same time; checks need the
indices that follow, too."""

VLAN = 2012
"""The VLAN of the host's bridge `cluster-1-br` that `check_uplink` needs."""
Check = Callable[[LanKernel, DesiredLan], Coroutine[None, None, None]]


def plain(netns: str, underlay: int, address: str) -> DesiredLan:
    """A LAN with a pod and a machine, whose interfaces are in one namespace, and no options."""
    pod = DesiredPort(name="aV0", spoke="a", mode="veth", netns=netns, interface="net1", mac=OWN)
    machine = DesiredPort(
        name="bM0",
        spoke="b",
        mode="macvtap",
        index=MACVTAP,
        netns=netns,
        interface="net2",
        mac="02:00:00:00:00:03",
    )
    vtep = Vtep(7, 4789, underlay, address, "")
    return DesiredLan(
        uid="0f0f0f0f-1111-2222-3333-444444444444",
        ns="blue",
        bridge="br0",
        vxlan="vx0",
        vtep=vtep,
        ports=(pod, machine),
        flood=frozenset(["10.99.0.9"]),
        built=True,
    )


def with_options(lan: DesiredLan) -> DesiredLan:
    """The same with every option."""
    pod, machine = lan.ports
    return replace(
        lan,
        ports=(
            replace(pod, flags=PortFlags(locked=True, isolated=True), mtu=1300),
            replace(machine, flags=PortFlags(isolated=True)),
        ),
        isolates=True,
        learned_limit=9,
        static_entries={PEER: "10.99.0.9"},
        packet_filter=PacketFilter(isolates=True, vxlan="vx0", limits={"bM0": 3}),
        port_filter=PortFilter(
            sources={"aV0": OWN}, isolated=("aV0", "bM0"), guarded={PEER: ""}, vxlan="vx0"
        ),
        storm_filter=StormFilter(rate=9, vxlan="vx0"),
    )


async def bring(kernel: LanKernel, wanted: DesiredLan) -> SeenLan:
    """What is there once the plan was applied; nothing is left of it then."""
    await kernel.apply(wanted, plan(wanted, await kernel.observe(wanted)))
    seen = await kernel.observe(wanted)
    assert plan(wanted, seen) == ()
    return seen


async def check_made_with_options(kernel: LanKernel, lan: DesiredLan) -> None:
    """A LAN made with options has flags, static entries, the filter, marks, and the limit where the kernel has one."""
    wanted = with_options(lan)
    seen = await bring(kernel, wanted)
    assert PortFlags(locked=True, isolated=True).are_set(seen.links["aV0"])
    assert PortFlags(isolated=True).are_set(seen.links["bM0"])
    assert seen.links["vx0"].policy
    assert seen.static_entries == {OWN: StaticEntry("aV0"), PEER: StaticEntry("vx0", "10.99.0.9")}
    assert wanted.packet_filter is not None and seen.packet_filter == wanted.packet_filter.digest
    assert wanted.port_filter is not None and seen.port_filter == wanted.port_filter.digest
    assert wanted.storm_filter is not None and seen.storm_filter == wanted.storm_filter.digest
    assert not seen.storm_fault and not seen.stormed
    assert seen.links["br0"].learned_limit in (None, 9)
    end = seen.ends["aV0"]
    assert end is not None and (end.mtu, seen.links["aV0"].mtu) == (1300, 1450)
    assert seen.flood == {"10.99.0.9"}


async def check_changed(kernel: LanKernel, lan: DesiredLan) -> None:
    """Options come and go while the LAN stays: no link but the VXLAN link is made again, nothing of them is left."""
    before = await bring(kernel, lan)
    during = await bring(kernel, with_options(lan))
    after = await bring(kernel, lan)
    for name in ("br0", "aV0", "bM0", "bM1"):
        assert before.links[name].index == during.links[name].index == after.links[name].index
    assert after.static_entries == {} and (after.packet_filter, after.port_filter, after.storm_filter) == (
        "",
        "",
        "",
    )
    assert not any(link.locked or link.isolated or link.group for link in after.links.values())
    assert after.links["br0"].learned_limit in (None, 0)


async def check_limited(kernel: LanKernel, lan: DesiredLan) -> None:
    """The VXLAN link has its limit, and is made again for another one; an earlier version's stays without one."""
    before = await bring(kernel, replace(with_options(lan), entry_limit=0))
    kept = await bring(kernel, replace(with_options(lan), entry_limit=7, unlimited=True))
    assert kept.links["vx0"] == before.links["vx0"] and not kept.links["vx0"].entry_limit
    for limit in (7, 8):
        seen = await bring(kernel, replace(with_options(lan), entry_limit=limit))
        assert seen.links["vx0"].entry_limit == limit
        assert seen.flood == before.flood and seen.static_entries == before.static_entries
    again = await bring(kernel, replace(with_options(lan), entry_limit=8, unlimited=True))
    assert again.links["vx0"] == seen.links["vx0"]


async def check_moved_pin(kernel: LanKernel, lan: DesiredLan) -> None:
    """An address that moves from a peer to a port of this node, or to another peer, is pinned there alone."""
    pinned = replace(with_options(lan), static_entries={PEER: "10.99.0.9"})
    await bring(kernel, pinned)
    seen = await bring(kernel, replace(pinned, static_entries={PEER: "10.99.0.8"}))
    assert seen.static_entries[PEER] == StaticEntry("vx0", "10.99.0.8")
    pod, machine = pinned.ports
    here = replace(pinned, ports=(replace(pod, mac=PEER), machine))
    assert (await bring(kernel, here)).static_entries == {PEER: StaticEntry("aV0")}


async def check_filter(kernel: LanKernel, lan: DesiredLan) -> None:
    """Each of the packet filters is replaced by another one, and comes and goes without the other."""
    limited, checked = PacketFilter(limits={"bM0": 3}), PortFilter(sources={"aV0": OWN})
    for packets, ports in (
        (limited, None),
        (PacketFilter(limits={"bM0": 4, "aV0": 1}), checked),
        (None, checked),
        (None, PortFilter(guarded={OWN: "aV0", PEER: ""}, vxlan="vx0", needed=True)),
        (PacketFilter(), PortFilter()),
        (None, None),
    ):
        seen = await bring(kernel, replace(lan, packet_filter=packets, port_filter=ports))
        found = [each.digest if each is not None else "" for each in (packets, ports)]
        assert [seen.packet_filter, seen.port_filter] == found


async def check_storm_control(kernel: LanKernel, lan: DesiredLan) -> None:
    """Storm control is replaced by another one, and comes and goes without the packet filters."""
    for rate in (1, 2, 0, 10_000_000):
        wanted = StormFilter(rate=rate, vxlan="vx0") if rate else None
        seen = await bring(kernel, replace(lan, storm_filter=wanted))
        assert seen.storm_filter == (wanted.digest if wanted is not None else "")


async def check_free_index(kernel: LanKernel, lan: DesiredLan) -> None:
    """An index is free until a macvtap of the node has it, and the path of its device follows from it."""
    pod, machine = lan.ports
    index = machine.index + 1  # those of the other checks go when the kernel comes to it
    assert await kernel.is_free(index)
    await bring(kernel, replace(lan, ports=(pod, replace(machine, index=index))))
    assert not await kernel.is_free(index) and await kernel.is_free(index + 1)
    assert kernel.tap_path(index).endswith(f"/tap{index}")


async def check_macvtap(kernel: LanKernel, lan: DesiredLan) -> None:
    """A machine's interface is made in the pod, up, as it asks for, and again if the pair that it stands on is gone."""
    pod, machine = lan.ports
    wanted = replace(lan, ports=(pod, replace(machine, mtu=1300)))
    for _ in range(2):
        seen = await bring(kernel, wanted)
        end, inner = seen.ends["bM0"], seen.links["bM1"]
        assert end is not None and end.lower == inner.index
        assert (end.name, end.kind, end.index) == ("net2", "macvtap", machine.index)
        assert (end.mac, end.mtu, end.up, inner.mtu) == (machine.mac, 1300, True, 1450)
        await kernel.mend_taps([machine.index])
        assert plan(lan, await kernel.observe(lan)) == ()
        await kernel.apply(lan, (DeleteLanLink(ns=lan.ns, name="bM0"),))
    bare = replace(lan, ports=(pod,))
    seen = await bring(kernel, bare)
    assert not seen.links.keys() & {"bM0", "bM1"}


async def check_uplink(kernel: LanKernel, lan: DesiredLan) -> None:
    """A LAN is joined to a VLAN only while that is allowed; when no agent says so any more, the link ends by itself."""
    wanted = replace(lan, host=uplink_bridge("cluster-1", VLAN))
    try:
        await bring(kernel, wanted)
    except LinkError as error:
        assert "not the elected one" in str(error)
    else:
        raise AssertionError("the LAN was joined although that was not allowed")
    kernel.keep_uplink(lan.uid, 600)
    seen = await bring(kernel, wanted)
    assert seen.host.port is not None and seen.host.port.vlan == VLAN and PORT in seen.links
    kernel.keep_uplink(lan.uid, 0.5)
    await _unjoined(kernel, wanted)
    kernel.keep_uplink(lan.uid, 600)
    await bring(kernel, wanted)
    kernel.cut_uplink(lan.uid)
    await _unjoined(kernel, wanted)


async def _unjoined(kernel: LanKernel, wanted: DesiredLan) -> None:
    """Returns once a LAN is joined to no VLAN: a real kernel takes its time to delete what is in a namespace."""
    while (seen := await kernel.observe(wanted)).host.port is not None or PORT in seen.links:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


CHECKS: tuple[Check, ...] = (
    check_made_with_options,
    check_changed,
    check_limited,
    check_moved_pin,
    check_filter,
    check_storm_control,
    check_free_index,
    check_macvtap,
)

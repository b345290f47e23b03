"""Bridges of others next to LANs, on a kernel in memory: through any death and change they are as without the LAN."""

import asyncio
from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import far_mac, uplink_bridge
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.plan import plan
from lanloom.node.guestports import fitting_mtu, highest_mac, yielding_mac
from tests.fakes.bridges import ForeignBridge
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.harness.examples import examples

HOST = uplink_bridge("mgmt", 300)
UIDS = ("5e1f4a0c-0000-4000-8000-00000000000a", "5e1f4a0c-0000-4000-8000-00000000000b")
MACS = st.binary(min_size=6, max_size=6).map(lambda raw: bytes([raw[0] & 0xFE, *raw[1:]]).hex(":"))

BRINGS = st.tuples(
    st.just("bring"), st.integers(0, 1), st.sampled_from([68, 100, 600, 1450, 9000]), st.integers(0, 4)
)
RESIZES = st.tuples(st.just("uplink"), st.sampled_from([1000, 1400, 1500, 9000]))
SETS = st.tuples(st.just("bridge"), st.sampled_from([1400, 1500, 9000]))
REMOVES = st.tuples(st.just("remove"), st.integers(0, 1))
DEATHS = st.tuples(st.just("kill"), st.integers(0, 1))
EVENTS = st.lists(BRINGS | RESIZES | SETS | REMOVES | DEATHS, max_size=12)


class Site:
    """A machine with `mgmt-br` as its installer left it, and two LANs that agents may join to it."""

    def __init__(self) -> None:
        self.world = LanWorld({"u0": Underlay(name="u0", index=2, mtu=1500)})
        self.world.bridges[HOST.name] = (40, "")
        self.world.trunks[HOST.name] = {HOST.vlan}
        self.bridge: ForeignBridge = self.world.around[HOST.name]
        self.alone = deepcopy(self.bridge)
        self.kernels = [FakeLanKernel(self.world) for _ in UIDS]
        self.wanted = [DesiredLan(uid=uid, ns=f"ns{uid[-1]}", bridge="br0", vxlan="vx0") for uid in UIDS]

    async def bring(self, which: int, mtu: int, steps: int | None = None) -> None:
        """An agent brings a LAN to what it should be, or dies after so many steps."""
        kernel, lan = self.kernels[which], replace(self.wanted[which], mtu=mtu, host=HOST, built=True)
        self.wanted[which] = lan
        kernel.keep_uplink(lan.uid, 600)
        todo = plan(lan, await kernel.observe(lan))
        await kernel.apply(lan, todo[:steps])
        if steps is not None and steps < len(todo):
            await self.kill(which)

    async def kill(self, which: int) -> None:
        """An agent dies, and with it what joins its LAN to the bridge; the next one takes its place."""
        await self.kernels[which].close()
        self.kernels[which] = FakeLanKernel(self.world)

    async def remove(self, which: int) -> None:
        """A LAN goes."""
        kernel, gone = self.kernels[which], replace(self.wanted[which], present=False, host=None)
        kernel.cut_uplink(gone.uid)
        await kernel.apply(gone, plan(gone, await kernel.observe(gone)))

    def change(self, what: str, mtu: int) -> None:
        """Others change the uplink or the bridge."""
        for bridge in (self.bridge, self.alone):
            if what == "uplink":
                bridge.resize("bo", mtu)
            else:
                bridge.mtu, bridge.mtu_set = mtu, True
        self.alone.settle(())
        self.world.changed("")

    async def follow(self) -> None:
        """Agents see what changed, until nothing is left to do."""
        for _ in range(4):
            for kernel, lan in zip(self.kernels, self.wanted, strict=True):
                if lan.uid in kernel.uplinks:
                    await kernel.apply(lan, plan(lan, await kernel.observe(lan)))
        for kernel, lan in zip(self.kernels, self.wanted, strict=True):
            if lan.uid in kernel.uplinks:
                assert plan(lan, await kernel.observe(lan)) == ()


@settings(max_examples=examples(300))
@given(EVENTS)
def test_any_sequence(events: list[tuple[object, ...]]) -> None:
    """Whatever becomes of LANs, agents and the bridge, the bridge and what stands on it are as without the LANs."""

    async def story() -> None:
        site = Site()
        for event in events:
            match event:
                case ("bring", int(which), int(mtu), int(steps)):
                    await site.bring(which, mtu, steps)
                case ("remove", int(which)):
                    await site.remove(which)
                case ("kill", int(which)):
                    await site.kill(which)
                case (str(what), int(mtu)):
                    site.change(what, mtu)
            assert site.bridge.uppers == site.alone.uppers
            await site.follow()
            assert site.bridge == site.alone
        for which in (0, 1):
            await site.bring(which, 600)
            await site.follow()
            assert site.bridge == site.alone
            await site.remove(which)
        assert site.bridge == site.alone

    asyncio.run(story())


@given(st.integers(68, 9000), st.lists(st.integers(68, 9000)))
def test_fitting_mtu(bridge: int, ports: list[int]) -> None:
    """A port never has less than the bridge and than each other port, so it never is what the bridge follows."""
    mtu = fitting_mtu(bridge, ports)
    assert mtu >= bridge and all(mtu >= each for each in ports)
    assert min([mtu, *ports], default=mtu) == min(ports, default=mtu)


@given(MACS, st.text())
def test_hardware_addresses(nic: str, uid: str) -> None:
    """No bridge prefers the address of a port of ours to one that it has from others."""
    bridge = min(nic, "fd:ff:ff:ff:ff:ff")
    assert far_mac(uid) > bridge and highest_mac(b"1234") > bridge
    for mac in (nic, "02:00:00:00:00:01"):
        assert yielding_mac(mac, bridge) > bridge
        assert yielding_mac(mac, "00:00:00:00:00:00") in (mac, "fe:ff:00:00:00:00")

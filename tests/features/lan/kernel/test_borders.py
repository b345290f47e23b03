"""Links that others made, next to a LAN on a real kernel: a bridge with an MTU and an address of its ports."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge
from lanloom.node.namespaces import NamespaceDirectory, make_namespace
from tests.fakes.bridges import BridgePort, ForeignBridge, Upper
from tests.features.lan.agent.borders import check_others_stay
from tests.features.lan.kernel.machines import run
from tests.features.lan.kernel.test_contract import checked
from tests.harness.others import NIC, installed, names, others

BRIDGE, UPLINK, ALIAS = "site-br", "site-bo", "somebody's"


async def test_host_bridge(tmp_path: Path) -> None:
    """A bridge of others, its uplink and what stands on it keep every attribute while a LAN is joined to the bridge."""
    host = tmp_path / "places" / "host"

    async def check(kernel: LanKernel, lan: DesiredLan) -> None:
        known = ("lo", "u0", *names(BRIDGE, UPLINK))
        run(host, f"ip link set {BRIDGE} alias {ALIAS}")
        look = partial(others, host, known)
        joined = DesiredHostBridge(BRIDGE, ALIAS)
        await check_others_stay(kernel, lan, joined, look, partial(run, host), UPLINK)

    await checked(tmp_path, check, *installed(BRIDGE, UPLINK, filtering=False))


def test_fake_bridge(tmp_path: Path) -> None:
    """The fake's bridge of others follows its ports as the kernel's does, and so does what stands on it."""
    fake = ForeignBridge(ports={UPLINK: BridgePort(1500, NIC)}, uppers={"upper": Upper()})
    guests: dict[str, BridgePort] = {}

    def join(mtu: int, mac: str) -> str:
        guests["guest"] = BridgePort(mtu, mac)
        return f"ip link add guest mtu {mtu} address {mac} master {BRIDGE} type veth peer name far"

    def leave() -> str:
        guests.clear()
        return "ip link delete guest"

    def resize(mtu: int) -> str:
        fake.resize(UPLINK, mtu)
        return f"ip link set {UPLINK} mtu {mtu}"

    def set_mtu(mtu: int) -> str:
        fake.mtu, fake.mtu_set = mtu, True
        return f"ip link set {BRIDGE} mtu {mtu}"

    def raised(mtu: int) -> str:
        fake.uppers["upper"].mtu = mtu
        return f"ip link set upper mtu {mtu}"

    events: tuple[Callable[[], str], ...] = (
        partial(join, 9000, "fe:ff:00:00:00:01"),
        partial(resize, 9000),
        partial(resize, 1400),
        leave,
        partial(join, 1300, "02:00:00:00:00:01"),
        leave,
        partial(raised, 1400),
        partial(join, 1200, "fe:ff:00:00:00:01"),
        leave,
        partial(set_mtu, 1350),
        partial(join, 600, "fe:ff:00:00:00:01"),
        partial(resize, 1500),
        leave,
    )
    places = NamespaceDirectory(tmp_path)
    with make_namespace("host") as made:
        places.bind("host", made)
    where = places.path("host")
    try:
        for command in installed(BRIDGE, UPLINK, filtering=False):
            run(where, command)
        for event in events:
            run(where, event())
            fake.settle(guests.values())
            shown = others(where, (BRIDGE, "upper"))
            upper = shown["upper"]
            bridge = (shown[BRIDGE]["mtu"], shown[BRIDGE]["address"], upper["mtu"])
            assert bridge == (fake.mtu, fake.mac, fake.uppers["upper"].mtu)
            kept = {f"{each['local']}/{each['prefixlen']}" for each in upper["addr_info"]}
            kept = {each for each in kept if not each.startswith("fe80")}
            assert kept == set(fake.uppers["upper"].addresses)
    finally:
        places.remove("host")

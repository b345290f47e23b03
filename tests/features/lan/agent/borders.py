"""What a LAN's life does to a bridge of others, as a check for a real kernel: nothing, whatever the LAN's MTU is."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge, far_mac
from tests.features.lan.agent.contract import bring
from tests.harness.others import has_carrier, steady

Look = Callable[[], Mapping[str, Any]]
Run = Callable[[str], object]


async def check_others_stay(
    kernel: LanKernel, lan: DesiredLan, host: DesiredHostBridge, look: Look, run: Run, uplink: str
) -> None:
    """Links of others are as they were, and follow their owners, while a LAN comes, shrinks, and goes."""
    while not has_carrier(look()):  # noqa: ASYNC110 - the kernel takes its time here too
        await asyncio.sleep(0.05)
    before = look()
    kernel.keep_uplink(lan.uid, 600)
    for mtu in (1450, 600, 100, 1450):
        wanted = replace(lan, host=host, mtu=mtu)
        seen = await bring(kernel, wanted)
        assert steady(look()) == steady(before)
        assert seen.host.port is not None and (seen.host.port.mtu, seen.links["hostB0"].mtu) == (1500, mtu)
        assert seen.host.port.mac == far_mac(lan.uid)
    for mtu in (9000, 1400, 1500):
        run(f"ip link set {uplink} mtu {mtu}")
        for _ in range(2):  # the bridge follows its uplink once the port has
            await bring(kernel, wanted)
        assert f" mtu {mtu} " in str(run(f"ip link show {host.name}"))
    run("ip link set upper mtu 1500")
    assert steady(look()) == steady(before)
    kernel.cut_uplink(lan.uid)
    await bring(kernel, replace(lan, present=False))
    while look() != before:  # noqa: ASYNC110 - a real kernel takes its time to delete what is in a namespace
        await asyncio.sleep(0.05)

"""A LAN whose underlay loses its carrier, on a real kernel."""

import asyncio
from functools import partial
from pathlib import Path

from tests.features.lan.kernel.machines import lab, reaches, run, until


async def test_no_frame_passes(tmp_path: Path) -> None:
    """A node whose underlay link is up without a carrier is not ready, attaches pods, and is ready with the carrier."""
    async with lab(tmp_path, 1) as made:
        await made.cluster.lan()
        machine = made[0]
        await machine.offers()
        await machine.attach("blue-a", "p", "172.16.0.1/24")
        await until(lambda: machine.entries()[0].ready)
        switch = made.hosts.path("switch")
        await asyncio.to_thread(run, switch, "ip link set p1 down")
        await until(lambda: "u0 has no carrier" in machine.entries()[0].message)
        await machine.attach("blue-b", "q", "172.16.0.2/24")
        await until(partial(reaches, machine.pods.path("p"), "172.16.0.2"))
        assert not machine.entries()[0].ready
        await asyncio.to_thread(run, switch, "ip link set p1 up")
        await until(lambda: machine.entries()[0].ready)

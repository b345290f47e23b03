"""Counters of spokes on a real kernel."""

import asyncio
from functools import partial

from tests.features.lan.kernel.machines import Lab, played, reaches, run, until


@played(1)
async def test_counters(made: Lab) -> None:
    """A port counts what its pod sends as in, and what the pod receives as out; a dead agent's count goes on."""
    await made.cluster.lan()
    (machine,) = made.machines
    await machine.offers()
    for number, spoke in enumerate("ab", 1):
        await machine.attach(f"blue-{spoke}", f"p{number}", f"172.16.0.{number}/24")
    await until(partial(reaches, machine.pods.path("p1"), "172.16.0.2"))
    before = machine.traffic()
    await asyncio.to_thread(run, machine.pods.path("p1"), "ping -c 3 -i 0.2 -s 1000 172.16.0.2")
    after = machine.traffic()
    for spoke in ("blue-a", "blue-b"):
        for direction in (0, 1):
            frames = after[spoke].frames[direction] - before[spoke].frames[direction]
            octets = after[spoke].bytes[direction] - before[spoke].bytes[direction]
            assert frames >= 3
            assert octets >= 3 * 1042
    await machine.kill()
    machine.start()
    await until(lambda: "blue-a" in machine.traffic())
    assert machine.traffic()["blue-a"].frames >= after["blue-a"].frames

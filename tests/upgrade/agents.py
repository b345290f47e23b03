"""Agents of two nodes with fake hosts: a program that runs with the modules of this version, or with those of 0.1.0.

`python agents.py KUBECONFIG NODE…`, with `src` and the root of a checkout in PYTHONPATH.
"""

import asyncio
import random
import sys
import time
from pathlib import Path

from lanloom.kube.http import HttpClient
from lanloom.processes.agent import run_agent
from tests.fakes import FakeHost, FakeSwitch

try:
    from lanloom.kube.loading import load
except ImportError:  # 0.1.0
    from lanloom.kube.config import load  # type: ignore[attr-defined,no-redef]

NICS = ("eth0", "eth1", "eth2")
WIRES = {2012: "192.168.1.0/24", 2013: "192.168.2.0/24"}


async def run(kubeconfig: Path, names: list[str]) -> None:
    """Run the agents until this process ends."""
    switch = FakeSwitch(WIRES)
    async with HttpClient(load(str(kubeconfig))) as client, asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            host = FakeHost(name, NICS, switch=switch, now=time.time)
            rng = random.Random(number)
            group.create_task(run_agent(client, host.host, cluster="upgrade", now=time.time, rng=rng))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2:]))

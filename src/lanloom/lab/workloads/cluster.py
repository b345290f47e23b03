"""The parts of a cluster that make, bind and run pods, put together for a lab."""

import asyncio
import time
from random import Random

from lanloom.kube.ports import Client
from lanloom.lab.inside import Inside
from lanloom.lab.layout import Layout
from lanloom.lab.plan import IMAGE
from lanloom.lab.workloads.daemonsets import DaemonSets
from lanloom.lab.workloads.hosts import InsideHosts
from lanloom.lab.workloads.kubelet import Kubelet
from lanloom.lab.workloads.machines import Machines
from lanloom.lab.workloads.scheduler import Scheduler


async def run_workloads(client: Client, inside: Inside, machines: Machines, layout: Layout) -> None:
    """Runs them until it is cancelled."""
    rng = Random()
    kubelet = Kubelet(
        client,
        InsideHosts(inside),
        machines,
        image=IMAGE,
        logs=lambda node: layout.disk(node) / "log",
        rng=rng,
        now=time.time,
    )
    async with asyncio.TaskGroup() as group:
        for part in (DaemonSets(client, rng), Scheduler(client, rng), kubelet):
            group.create_task(part.run())

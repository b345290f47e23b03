"""The controllers that run pods and machines on the nodes of a lab, and tell of the nodes."""

import asyncio
import time
from pathlib import Path
from random import Random

from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.kube.ports import Client
from lanloom_lab.harvester import Harvester
from lanloom_lab.kubevirt import KubeVirt
from lanloom_lab.kubevirt.virtapi import VirtApi
from lanloom_lab.layout import Layout
from lanloom_lab.nodes import Registry
from lanloom_lab.plan import IMAGE
from lanloom_lab.protocol import InnerClient
from lanloom_lab.workloads.agentpods import AgentPods
from lanloom_lab.workloads.daemonsets import DaemonSets
from lanloom_lab.workloads.hosts import InsideHosts, Machines
from lanloom_lab.workloads.kubelet import Kubelet
from lanloom_lab.workloads.multusfiles import MultusFiles
from lanloom_lab.workloads.scheduler import Scheduler


class Workloads:
    """All of them. Those of KubeVirt act as `kubevirt`, those of Harvester as `harvesters`."""

    def __init__(
        self,
        client: Client,
        harvesters: Client,
        kubevirt: Client,
        inside: InnerClient,
        machines: Machines,
        layout: Layout,
        isolation: NamespaceIsolation,
    ) -> None:
        rng, hosts = Random(), InsideHosts(inside)

        def logs(node: str) -> Path:
            return layout.disk(node) / "log"

        self.kubevirt = KubeVirt(kubevirt, hosts, logs=logs, rng=rng, now=time.time)
        kubelet = Kubelet(
            client,
            hosts,
            machines,
            image=IMAGE,
            logs=logs,
            rng=rng,
            now=time.time,
            special=self.kubevirt.launch,
            isolation=isolation,
        )
        multus = MultusFiles(hosts, machines, isolation, rng)
        self.registry = Registry(client, time.time)
        self._parts = (
            DaemonSets(client, rng),
            Scheduler(client, rng),
            kubelet,
            AgentPods(client, machines, rng),
            multus,
            self.kubevirt,
            VirtApi(client, rng, time.time),
            Harvester(harvesters, hosts, machines, rng),
            self.registry,
        )

    async def run(self) -> None:
        """Run them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())

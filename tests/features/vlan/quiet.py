"""A simulated cluster without faults: one manager and three agents on which a test does one thing at a time."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.core import (
    EVENTS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Event,
)
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import Condition
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.kube.errors import NotFound
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.virtual import run
from tests.sim.cluster import SimCluster
from tests.sim.vlan import (
    DHCP,
    NODE_NAMES,
    add_host,
    add_manager,
    first_storage,
)
from tests.sim.vlan_judge import complaints

FILE = "cluster-1-vlan2012.nmconnection"
DEVICE = "clust-4afb.2012"
STATIC = {name: f"192.168.1.{10 + index}/24" for index, name in enumerate(NODE_NAMES)}


class Quiet:
    """The cluster, with words for what tests do to it."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.sim = SimCluster(1, storage)
        self.sim.faults.on = False
        self.admin = self.sim.admin
        self.sim.switch.set_dhcp(2012, str(DHCP))

    async def start(self) -> None:
        """API server, hosts, manager and agents."""
        await self.sim.start()
        for name in NODE_NAMES:
            add_host(self.sim, name)
        add_manager(self.sim, "manager-1")
        for process in self.sim.processes.values():
            process.start()
        await self.sim.until(self._served)

    async def _served(self) -> bool:
        return self.sim.replicas.any

    async def uplink(self, **spec: Any) -> None:
        """The cluster network cluster-1 on every node, up and running."""
        await self.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
        await self.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1", **spec))
        await self.rest()

    async def leave_alone(self) -> None:
        """No webhook is asked any more and no manager looks: what tests write now reaches the agents as it is."""
        kinds: tuple[Resource[Any], ...] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for kind in kinds:
            for item in (await self.admin.list(kind)).items:
                await self.admin.delete(kind, item.metadata.name)
        await self.sim.processes["manager-1"].kill()

    async def network(self, mode: str = "dhcp", **more: Any) -> None:
        """VLAN 2012 of it."""
        await self.admin.create(NADS, nad("vlan2012", "cluster-1", 2012, mode=mode, **more), "default")

    async def rest(self) -> None:
        """Waits until the cluster is as its objects say."""

        async def at_rest() -> bool:
            return not await complaints(self.sim)

        await self.sim.until(at_rest)

    async def report(self, node: str = "node1") -> ClusterNetworkNodeStatus:
        """What a node reports of cluster-1."""
        return (await self.admin.get(CLUSTER_NETWORK_NODES, report_name("cluster-1", node))).status

    async def condition(self, type: str = "L3Ready") -> Condition:
        """A condition of cluster-1."""
        network = await self.admin.get(CLUSTER_NETWORKS, "cluster-1")
        return next(item for item in network.status.conditions if item.type == type)

    async def remap(self, addresses: dict[str, str]) -> None:
        """Gives the nodes of VLAN 2012 these addresses, by mode static."""
        annotations = {names.MODE: "static", names.NODE_IP_MAP: json.dumps(addresses)}
        await self.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")

    def addresses(self, node: str = "node1", device: str = DEVICE) -> tuple[str, ...]:
        """The addresses of a sub-interface on a node."""
        link = self.sim.hosts[node].kernel.links.get(device)
        return link.addresses if link is not None else ()

    def cut_off_by(self, address: str, node: str = "node1") -> None:
        """The node can't reach the API server while its sub-interface has this address."""
        self.sim.faults.cut[node] = lambda: address in self.addresses(node)

    async def restart(self, node: str = "node1") -> None:
        """Kills the node's agent and starts it again."""
        await self.sim.processes[node].kill()
        self.sim.processes[node].start()

    async def until(self, condition: Callable[[], bool], seconds: float = 300.0) -> None:
        """Waits until a condition of the hosts holds, in virtual time."""

        async def holds() -> bool:
            return condition()

        await self.sim.until(holds, seconds)

    async def events(self, reason: str) -> list[Event]:
        """The Events of this reason, oldest first."""
        found = (await self.admin.list(EVENTS)).items
        return sorted(
            (item for item in found if item.reason == reason), key=lambda item: item.first_timestamp or ""
        )

    async def conditions(self, reason: str, node: str = "node1") -> list[Condition]:
        """What a node reports of cluster-1 for this reason."""
        try:
            return [item for item in (await self.report(node)).conditions if item.reason == reason]
        except NotFound:
            return []

    async def told(self, reason: str, node: str = "node1", seconds: float = 300.0) -> Condition:
        """Waits until a condition of what the node reports of cluster-1 has this reason."""

        async def is_told() -> bool:
            return bool(await self.conditions(reason, node))

        await self.sim.until(is_told, seconds)
        return (await self.conditions(reason, node))[0]

    async def reported(self, reason: str, node: str = "node1") -> VlanInterface:
        """Waits until a node reports this reason of an interface."""
        found: list[VlanInterface] = []

        async def told() -> bool:
            found[:] = [item for item in (await self.report(node)).interfaces if item.reason == reason]
            return bool(found)

        await self.sim.until(told)
        return found[0]


def on_a_quiet_cluster(test: Callable[[Quiet], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets the cluster."""

    async def main(storage: MemoryStorage) -> None:
        quiet = Quiet(storage)
        await quiet.start()
        try:
            await test(quiet)
        finally:
            await quiet.sim.close()

    def run_it() -> None:
        run(main(first_storage()))

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it

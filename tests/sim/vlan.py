"""The VLAN feature in the simulated cluster: its processes, and what must hold when all is quiet."""

import asyncio
import copy
from contextlib import suppress
from functools import cache, partial
from ipaddress import IPv4Interface, IPv4Network
from random import Random

from msgspec.structs import replace

from lanloom.api.admission import UserInfo
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import (
    CRDS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    VALIDATING_WEBHOOKS,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.names import AGENTS_GROUP, LANLOOM_NAMESPACE, NODE_USER_PREFIX
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.nodes import NodePools
from lanloom.features.ipam.reader import ipam_informers
from lanloom.features.vlan.admission import WEBHOOKS, VlanAdmission
from lanloom.features.vlan.agent import VlanAgent
from lanloom.features.vlan.informers import agent_informers, vlan_informers
from lanloom.features.vlan.live import follow
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.reader import store_reader, vm_informer
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.node.keyfile import owner
from lanloom.node.ports import Link
from lanloom.node.vlanids import subtract
from lanloom.processes.definitions import manifests
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom_embedded.engine.storage import MemoryStorage
from tests.fakes import FakeHost
from tests.features.vlan.cluster import CLUSTER, node
from tests.harness.virtual import run
from tests.sim.cluster import SimCluster
from tests.sim.processes import Life

NODE_NAMES = ("node1", "node2", "node3")
NICS = ("eth0", "eth1", "eth2")
DHCP = IPv4Network("10.115.8.0/21")
STATIC = IPv4Network("192.168.1.0/24")
FOREIGN = ("mgmt0", "foreign-br", "foreign.7", "eth0")
_OFFICE = "office.nmconnection"


def first_storage() -> MemoryStorage:
    """A cluster's storage before its first use."""
    return copy.deepcopy(_first_storage())


@cache
def _first_storage() -> MemoryStorage:
    """Made once, because CRDs take their time."""
    storage = MemoryStorage()

    async def fill() -> None:
        sim = SimCluster(0, storage)
        await sim.start()
        await _first_objects(sim)
        await sim.close()

    run(fill())
    return storage


async def _first_objects(sim: SimCluster) -> None:
    """CRDs, Lanloom's namespace, its webhooks, the nodes."""
    for manifest in manifests():
        await sim.admin.create(CRDS, manifest)
    await sim.admin.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    mutating, validating = webhook_configurations(WEBHOOKS, lambda path: {"url": f"https://lanloom{path}"})
    await sim.admin.create(MUTATING_WEBHOOKS, mutating)
    await sim.admin.create(VALIDATING_WEBHOOKS, validating)
    for number, name in enumerate(NODE_NAMES):
        await sim.admin.create(NODES, node(name, zone="a" if number < 2 else "b"))


def add_host(sim: SimCluster, name: str) -> None:
    """A node's host and its agent, and on the host what is none of Lanloom's business."""
    host = sim.add_host(name, NICS)
    host.plant_link(
        Link(name="mgmt0", index=0, up=True, addresses=("10.115.252.135/23",)), default_route=True
    )
    host.plant_link(
        Link(name="foreign-br", index=0, kind="bridge", up=True, self_vlans=((1, 1), (2012, 2012)))
    )
    host.plant_link(Link(name="foreign.7", index=0, kind="vlan", parent="foreign-br", vlan_id=7, up=True))
    host.plant_file(_OFFICE, b"[connection]\nid=office\n")
    before = _foreign(host)
    host.kernel.watchers.append(lambda: _guard(sim, host, before))
    sim.add_process(name, partial(run_agent, sim, name))


def add_manager(sim: SimCluster, name: str) -> None:
    """A replica of the manager."""
    sim.add_process(name, partial(run_manager, sim, name))


class Meddlers:
    """People who do to VLAN networks what they should not."""

    def __init__(self, sim: SimCluster, rng: Random) -> None:
        self._sim = sim
        self._rng = rng
        sim.add_misfortune(self.meddle, 3)
        sim.add_misfortune(self._delete_report, 1)
        sim.add_misfortune(self._hide_api_server, 2)

    async def meddle(self) -> None:
        """Does something to a link of Lanloom's, or to one above or below it."""
        host = self._sim.hosts[self._rng.choice(sorted(self._sim.hosts))]
        links = [link for link in host.kernel.links.values() if link.ours or _is_at_ours(link, host)]
        if not links:
            return
        link = self._rng.choice(links)
        act = self._rng.choice(("flush", "delete", "set down", "take ids away", "take routes away"))
        self._sim.note(f"somebody does to {link.name} of {host.host.name}: {act}")
        match act:
            case "flush":
                host.flush(link.name)
            case "delete" if link.kind:  # no user deletes a NIC
                host.delete_link(link.name)
            case "take routes away":
                routes = sorted(host.kernel.state().links[link.name].routes)
                host.kernel.lose_routes(link.name, [route for route in routes if self._rng.random() < 0.5])
            case "take ids away":
                ids = {"vlans": link.vlans, "self_vlans": link.self_vlans}
                host.kernel.change(
                    link.name, **{key: subtract(has, ((2, 4094),)) for key, has in ids.items()}
                )
            case _:
                host.kernel.change(link.name, up=False)

    async def _hide_api_server(self) -> None:
        """For some minutes a node can't reach the API server while it has an address of some network."""
        name = self._rng.choice(sorted(self._sim.hosts))
        prefix = self._rng.choice((DHCP, STATIC))
        kernel = self._sim.hosts[name].kernel
        self._sim.note(f"addresses of {prefix} hide the API server from {name}")
        self._sim.faults.cut[name] = lambda: any(
            IPv4Interface(address) in prefix
            for link in kernel.links.values()
            for address in link.addresses
            if link.vlan_id
        )
        await asyncio.sleep(self._rng.expovariate(1 / 120.0))
        self._sim.faults.cut.pop(name, None)

    async def _delete_report(self) -> None:
        reports = (await self._sim.admin.list(CLUSTER_NETWORK_NODES)).items
        if reports:
            name = self._rng.choice(reports).metadata.name
            self._sim.note(f"somebody deletes the report {name}")
            with suppress(KubeError):
                await self._sim.admin.delete(CLUSTER_NETWORK_NODES, name)


async def try_again(sim: SimCluster) -> None:
    """Does as the reports say where a change was undone that may have been innocent."""
    for report in (await sim.admin.list(CLUSTER_NETWORK_NODES)).items:
        if any(item.reason == "RolledBack" for item in report.status.conditions):
            sim.note(f"users: try again what {report.metadata.name} undid")
            with suppress(KubeError):  # the webhooks may not be back yet
                await sim.admin.delete(CLUSTER_NETWORK_NODES, report.metadata.name)


def _is_at_ours(link: Link, host: FakeHost) -> bool:
    return any(
        name in host.kernel.links and host.kernel.links[name].ours for name in (link.parent, link.master)
    )


async def run_manager(sim: SimCluster, name: str, life: Life) -> None:
    """One replica of the manager."""
    client, rng = sim.client(life, name), sim.new_rng(name)
    shared = Informers(client, rng)
    informers = vlan_informers(shared)
    recorder = Recorder(client, "lanloom-manager", name, now=sim.now, rng=rng)
    ipam = ipam_informers(shared)
    pools = NodePools(client, ipam.nics, ipam.networks, rng=rng)
    vlan = VlanManager(client, informers, recorder, now=sim.now, rng=rng, pools=pools)
    allocator = IpamManager(client, ipam, recorder, identity=name, now=sim.now, rng=rng)
    vms = vm_informer(shared)
    elector = Elector(client, LANLOOM_NAMESPACE, "lanloom-manager", name, now=sim.now, rng=rng)
    machines = shared.get(VIRTUAL_MACHINES, optional=True)
    followed = (*informers.all(), vms, machines, *ipam.all())

    async def lead() -> None:
        async with asyncio.TaskGroup() as group:
            for part in (pools, vlan, allocator):
                group.create_task(part.run())

    try:
        async with asyncio.TaskGroup() as group:
            for informer in followed:
                group.create_task(informer.run())
            await all_synced(followed)
            world = store_reader(informers, vms, machines)
            coexisting, in_flight = vlan.detector.coexists, follow(InFlight(), informers)
            admission = VlanAdmission(client, world, lambda _pod: "", coexisting, in_flight)
            sim.replicas.serve(name, [admission])
            await elector.run(lead)
    finally:
        sim.replicas.leave(name)


async def run_agent(sim: SimCluster, name: str, life: Life) -> None:
    """The agent of one node."""
    user = UserInfo(username=NODE_USER_PREFIX + name, groups=(AGENTS_GROUP,))
    client, rng = sim.client(life, name, user), sim.new_rng(name)
    informers = agent_informers(Informers(client, rng), name)
    agent = VlanAgent(client, sim.host(life, name), informers, cluster=CLUSTER, now=sim.now, rng=rng)
    async with asyncio.TaskGroup() as group:
        for informer in informers.all():
            group.create_task(informer.run())
        group.create_task(agent.run())


def _foreign(host: FakeHost) -> dict[str, object]:
    """What only its owner may change."""
    links = {name: replace(host.kernel.links[name], index=0) for name in FOREIGN if name in host.kernel.links}
    return {**links, _OFFICE: host.directory.files.get(_OFFICE)}


def _guard(sim: SimCluster, host: FakeHost, before: dict[str, object]) -> None:
    """Looks after each change of a host whether something was touched that must not be. At a boot links are missing."""
    now = _foreign(host)
    sim.harm += [f"{name} was changed" for name, value in now.items() if value != before[name]]
    for name, file in host.directory.files.items():
        if not name.startswith(".") and name != _OFFICE and not owner(file.content):
            sim.harm.append(f"{name} is not a whole profile")

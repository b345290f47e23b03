"""The VLAN feature in the simulated cluster: its processes, and what must hold when all is quiet."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Interface, IPv4Network
from random import Random

from msgspec.structs import replace

from lanloom.api.admission import UserInfo
from lanloom.api.core import CRDS, MUTATING_WEBHOOKS, NAMESPACES, NODES, VALIDATING_WEBHOOKS, Node
from lanloom.api.crds import manifests
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanStatus,
)
from lanloom.api.multus import NADS
from lanloom.api.names import AGENTS_GROUP, LANLOOM_NAMESPACE, NODE_USER_PREFIX
from lanloom.app.agent import agent_informers
from lanloom.app.webhooks import webhook_configurations
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import Informer, all_synced
from lanloom.node.fakes import FakeHost, FakeSwitch
from lanloom.node.keyfile import owner
from lanloom.node.ports import Link
from lanloom.node.vlanids import subtract
from lanloom.vlan.admission import MUTATED, VALIDATED, VlanAdmission
from lanloom.vlan.agent import VlanAgent
from lanloom.vlan.manager import VlanManager, vlan_informers
from lanloom.vlan.rules.desired import Interface, NodeNetwork
from lanloom.vlan.rules.plan import plan
from lanloom.vlan.rules.status import L3_READY, READY
from lanloom.vlan.worlds import StoreWorld
from tests.sim.cluster import SimCluster
from tests.sim.processes import Life
from tests.vlan.cluster import CLUSTER, Cluster, node

NICS = ("eth0", "eth1", "eth2")
DHCP = IPv4Network("10.115.8.0/21")
_FOREIGN = ("mgmt0", "foreign-br", "foreign.7", "eth0")
_OFFICE = "office.nmconnection"


async def first_objects(sim: SimCluster, nodes: Iterable[str]) -> None:
    """What is there before anybody uses the cluster: CRDs, Lanloom's namespace, its webhooks, the nodes."""
    for manifest in manifests():
        await sim.admin.create(CRDS, manifest)
    await sim.admin.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    mutating, validating = webhook_configurations(
        MUTATED, VALIDATED, lambda path: {"url": f"https://lanloom{path}"}
    )
    await sim.admin.create(MUTATING_WEBHOOKS, mutating)
    await sim.admin.create(VALIDATING_WEBHOOKS, validating)
    for number, name in enumerate(nodes):
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


class Meddlers:
    """People who do to VLAN networks what they should not."""

    def __init__(self, sim: SimCluster, rng: Random) -> None:
        self._sim = sim
        self._rng = rng
        sim.add_misfortune(self._meddle, 3)
        sim.add_misfortune(self._delete_report, 1)

    async def _meddle(self) -> None:
        """Does something to a link of Lanloom's, or to one above or below it."""
        host = self._sim.hosts[self._rng.choice(sorted(self._sim.hosts))]
        links = [link for link in host.kernel.links.values() if link.ours or _is_at_ours(link, host)]
        if not links:
            return
        link = self._rng.choice(links)
        act = self._rng.choice(("flush", "delete", "set down", "take ids away"))
        self._sim.note(f"somebody does to {link.name} of {host.host.name}: {act}")
        match act:
            case "flush":
                host.flush(link.name)
            case "delete" if link.kind:  # nobody deletes a NIC
                host.delete_link(link.name)
            case "take ids away":
                ids = {"vlans": link.vlans, "self_vlans": link.self_vlans}
                host.kernel.change(
                    link.name, **{key: subtract(has, ((2, 4094),)) for key, has in ids.items()}
                )
            case _:
                host.kernel.change(link.name, up=False)

    async def _delete_report(self) -> None:
        reports = (await self._sim.admin.list(VLAN_STATUSES)).items
        if reports:
            name = self._rng.choice(reports).metadata.name
            self._sim.note(f"somebody deletes the report {name}")
            with suppress(KubeError):
                await self._sim.admin.delete(VLAN_STATUSES, name)


def _is_at_ours(link: Link, host: FakeHost) -> bool:
    return any(
        name in host.kernel.links and host.kernel.links[name].ours for name in (link.parent, link.master)
    )


async def run_manager(sim: SimCluster, name: str, life: Life) -> None:
    """One replica of the manager."""
    client, rng = sim.client(life, name), sim.rng(name)
    nodes: Informer[Node] = Informer(client, NODES, rng=rng)
    informers = vlan_informers(client, nodes, rng)
    recorder = Recorder(client, "lanloom-manager", name, now=sim.now, rng=rng)
    vlan = VlanManager(client, informers, recorder, now=sim.now, rng=rng)
    elector = Elector(client, LANLOOM_NAMESPACE, "lanloom-manager", name, now=sim.now, rng=rng)
    try:
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            sim.replicas.serve(name, [VlanAdmission(client, StoreWorld(informers), lambda _pod: "")])
            await elector.run(vlan.run)
    finally:
        sim.replicas.leave(name)


async def run_agent(sim: SimCluster, name: str, life: Life) -> None:
    """The agent of one node."""
    user = UserInfo(username=NODE_USER_PREFIX + name, groups=(AGENTS_GROUP,))
    client, rng = sim.client(life, name, user), sim.rng(name)
    informers = agent_informers(client, name, rng)
    agent = VlanAgent(client, sim.host(life, name), informers, cluster=CLUSTER, now=sim.now, rng=rng)
    async with asyncio.TaskGroup() as group:
        for informer in informers.all():
            group.create_task(informer.run())
        group.create_task(agent.run())


async def objects(sim: SimCluster) -> Cluster:
    """The objects as the API server has them."""
    return Cluster(
        nodes=(await sim.admin.list(NODES)).items,
        networks=(await sim.admin.list(CLUSTER_NETWORKS)).items,
        configs=(await sim.admin.list(VLAN_CONFIGS)).items,
        nads=(await sim.admin.list(NADS)).items,
        statuses=(await sim.admin.list(VLAN_STATUSES)).items,
    )


async def complaints(sim: SimCluster) -> list[str]:
    """Every difference between the cluster and what its users' objects say; none when all is as it should be."""
    found = await objects(sim)
    managed = found.managed()
    texts = [
        f"{new.metadata.name}: annotations are not what the manager derives"
        for old, new in zip(
            (*found.networks, *found.configs), (*managed.networks, *managed.configs), strict=True
        )
        if old != new
    ]
    expected: set[tuple[str, str]] = set()
    for name, host in sim.hosts.items():
        wanted = managed.on_node(name)
        expected |= {(network.cluster_network, name) for network in wanted}
        texts += [f"{name}: {text}" for text in _host_complaints(sim, host, wanted)]
        for network in wanted:
            texts += [f"{name}: {text}" for text in _report_complaints(network, found.statuses, name)]
    reported = {(item.status.cluster_network, item.status.node) for item in found.statuses}
    texts += [f"there is a report of {item} without a reason" for item in sorted(reported - expected)]
    covered = {name for name, _ in expected}
    texts += [
        text for item in found.networks for text in _network_complaints(item, item.metadata.name in covered)
    ]
    return texts


def _network_complaints(network: ClusterNetwork, covered: bool) -> Iterator[str]:
    name, conditions = network.metadata.name, network.status.conditions
    if {item.type for item in conditions} != {READY, L3_READY}:
        yield f"{name} has not both of its conditions"
    for item in conditions:
        if (item.status == "True") != covered:
            yield f"{name}: {item.type} is {item.status}: {item.reason}: {item.message}"


def _foreign(host: FakeHost) -> dict[str, object]:
    """What nobody but its owner may change."""
    links = {
        name: replace(host.kernel.links[name], index=0) for name in _FOREIGN if name in host.kernel.links
    }
    return {**links, _OFFICE: host.directory.files.get(_OFFICE)}


def _guard(sim: SimCluster, host: FakeHost, before: dict[str, object]) -> None:
    """Looks after each change of a host whether something was touched that must not be. At a boot links are missing."""
    now = _foreign(host)
    sim.harm += [f"{name} was changed" for name, value in now.items() if value != before[name]]
    for name, file in host.directory.files.items():
        if not name.startswith(".") and name != _OFFICE and not owner(file.content):
            sim.harm.append(f"{name} is not a whole profile")


def _host_complaints(sim: SimCluster, host: FakeHost, wanted: tuple[NodeNetwork, ...]) -> Iterator[str]:
    files = {name: file.content for name, file in host.directory.files.items() if owner(file.content)}
    visible = {name: content for name, content in files.items() if not name.startswith(".")}
    profiles = {item.file: item.content for network in wanted for item in network.interfaces}
    if visible != profiles:
        yield f"profiles are {sorted(visible)}, not {sorted(profiles)}, or their content differs"
    missing = [name for name in _FOREIGN if name not in host.kernel.links]
    if missing:
        yield f"the foreign links {missing} are gone"
    links = {
        name: _fields(link) for name, link in host.kernel.links.items() if link.ours or link.name in NICS
    }
    model = _model(wanted)
    for name in sorted(links.keys() | model.keys()):
        if links.get(name) != model.get(name):
            yield f"link {name} is {links.get(name)}, not {model.get(name)}"
    interfaces = {item.name: item for network in wanted for item in network.interfaces}
    subs = {
        name: link for name, link in host.kernel.links.items() if link.kind == "vlan" and name != "foreign.7"
    }
    if subs.keys() != interfaces.keys():
        yield f"VLAN interfaces are {sorted(subs)}, not {sorted(interfaces)}"
    for name in sorted(subs.keys() & interfaces.keys()):
        if not _addressed(subs[name].addresses, interfaces[name]):
            yield f"{name} has {subs[name].addresses}, not {interfaces[name].address or 'a lease'}"
        if subs[name].vlan_id != interfaces[name].vid or not host.kernel.carries(
            subs[name].parent, subs[name].vlan_id
        ):
            yield f"{name} does not reach VLAN {interfaces[name].vid}"


def _addressed(addresses: tuple[str, ...], interface: Interface) -> bool:
    if interface.mode == "static":
        return addresses == (interface.address,)
    return len(addresses) == 1 and IPv4Interface(addresses[0]).network == DHCP


def _model(wanted: tuple[NodeNetwork, ...]) -> dict[str, Link]:
    """The links that an empty host gets."""
    host = FakeHost("model", NICS, switch=FakeSwitch(), now=lambda: 0.0)
    for _, steps in plan(wanted, host.kernel.state(), {}).steps:
        for step in steps:
            host.kernel.apply(step)
    return {name: _fields(link) for name, link in host.kernel.links.items()}


def _fields(link: Link) -> Link:
    """What of a link must be as wanted. A NIC that left a bond is down: the kernel does that."""
    return replace(link, index=0, mac="", operstate="", up=link.up or not (link.ours or link.master))


def _report_complaints(network: NodeNetwork, statuses: tuple[VlanStatus, ...], name: str) -> Iterator[str]:
    title = network.cluster_network
    mine = [
        item.status for item in statuses if (item.status.cluster_network, item.status.node) == (title, name)
    ]
    if len(mine) != 1:
        yield f"there are {len(mine)} reports of {title}"
        return
    status = mine[0]
    if status.desired_hash != network.digest:
        yield f"the report of {title} speaks of another configuration"
    for item in status.conditions:
        if item.status != "True":
            yield f"{title}: {item.type} is {item.status}: {item.reason}: {item.message}"
    reported = {(item.vlan_id, item.name, item.mode, item.state) for item in status.interfaces}
    wanted = {(item.vid, item.name, item.mode, "Ready") for item in network.interfaces}
    if reported != wanted:
        yield f"the report of {title} has the interfaces {sorted(reported)}, not {sorted(wanted)}"

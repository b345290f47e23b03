"""What must hold of VLAN networks when all is quiet: hosts, reports and conditions against the rules."""

from collections.abc import Iterator
from ipaddress import IPv4Interface

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.madeaddress import modes_of
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.features.vlan.rules.desired.plan import plan
from lanloom.features.vlan.rules.report.status import L3_READY, READY
from lanloom.features.vlan.rules.rollout.stages import ROLLED_OUT
from lanloom.kube.conditions import READY as ALL_READY
from lanloom.node.keyfile import owner
from lanloom.node.ports import Link
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import Cluster
from tests.harness.conditions import stale
from tests.sim.cluster import SimCluster
from tests.sim.vlan import DHCP, FOREIGN, NICS


async def objects(sim: SimCluster) -> Cluster:
    """The objects as the API server has them."""
    return Cluster(
        nodes=(await sim.admin.list(NODES)).items,
        networks=(await sim.admin.list(CLUSTER_NETWORKS)).items,
        configs=(await sim.admin.list(VLAN_CONFIGS)).items,
        nads=(await sim.admin.list(NADS)).items,
        statuses=(await sim.admin.list(CLUSTER_NETWORK_NODES)).items,
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
    return texts + await stale(sim.admin, CLUSTER_NETWORKS, CLUSTER_NETWORK_NODES)


def _network_complaints(network: ClusterNetwork, covered: bool) -> Iterator[str]:
    name, conditions = network.metadata.name, network.status.conditions
    staged = {ROLLED_OUT} if names.ROLLOUT in network.metadata.annotations else set()
    if {item.type for item in conditions} != {READY, L3_READY, ALL_READY} | staged:
        yield f"{name} has not just its conditions"
    for item in conditions:
        if (item.status == "True") != (covered or item.type == ROLLED_OUT):
            yield f"{name}: {item.type} is {item.status}: {item.reason}: {item.message}"


def _host_complaints(sim: SimCluster, host: FakeHost, wanted: tuple[NodeNetwork, ...]) -> Iterator[str]:
    files = {name: file.content for name, file in host.directory.files.items() if owner(file.content)}
    visible = {name: content for name, content in files.items() if not name.startswith(".")}
    profiles = {item.file: item.content for network in wanted for item in network.interfaces}
    if visible != profiles:
        yield f"profiles are {sorted(visible)}, not {sorted(profiles)}, or their content differs"
    missing = [name for name in FOREIGN if name not in host.kernel.links]
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


def _report_complaints(
    network: NodeNetwork, statuses: tuple[ClusterNetworkNode, ...], name: str
) -> Iterator[str]:
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
    wanted = {(item.vid, item.name, modes_of(item), "Ready") for item in network.interfaces}
    if reported != wanted:
        yield f"the report of {title} has the interfaces {sorted(reported)}, not {sorted(wanted)}"

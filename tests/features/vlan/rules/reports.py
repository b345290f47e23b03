"""Reports of a node about one configuration."""

from lanloom.api.clusternetworknode import VlanInterface
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem
from lanloom.features.vlan.rules.report.status import (
    node_status,
    recheck_after,
)
from lanloom.node.ports import (
    Connection,
    Lease,
    LinkState,
)
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.rules.ground import Ground

NOW = 1_767_225_600.0
NODE = "node1"


def network(mode: str = "dhcp", addresses: dict[str, str] | None = None) -> NodeNetwork:
    """What the node should carry: VLAN 2012 on cluster-1."""
    objects = [
        node(NODE),
        cluster_network("cluster-1"),
        vlan_config("one", "cluster-1"),
        nad("vlan2012", "cluster-1", 2012, mode=mode, addresses=addresses),
    ]
    return cluster_of(objects).managed().on_node(NODE)[0]


DHCP, STATIC = network(), network("static", {NODE: "192.168.1.10/24"})
LEASED = ("10.115.8.2/21",)


def carrying(wanted: NodeNetwork = DHCP, *addresses: str) -> Ground:
    """A node that carries the network, with these addresses on each of its sub-interfaces."""
    ground = Ground()
    ground.reach((wanted,))
    for item in wanted.interfaces:
        ground.kernel.change(item.name, addresses=addresses)
    return ground


def built(*addresses: str, plugged: bool = True) -> LinkState:
    """The links of a node that carries the network."""
    ground = carrying(DHCP, *addresses)
    ground.kernel.plug("eth1", plugged)
    return ground.kernel.state()


def said(phase: str, *addresses: str, wanted: NodeNetwork = DHCP, **fields: object) -> dict[str, Connection]:
    """What NetworkManager says of the profile; the last address is the leased one, as others come first."""
    uuid = wanted.interfaces[0].uuid
    if wanted.interfaces[0].mode == "dhcp" and addresses:
        fields = {"lease": Lease(address=addresses[-1]), **fields}
    return {uuid: Connection(uuid=uuid, phase=phase, addresses=addresses, **fields)}  # type: ignore[arg-type]


def report_of(
    wanted: NodeNetwork,
    connections: dict[str, Connection] | None,
    *,
    links: LinkState | None = None,
    problems: tuple[Problem, ...] = (),
) -> tuple[VlanInterface, dict[str, Condition], float]:
    """The only interface of the report, its conditions by type, and when the next look is due."""
    known = (connections or {}).values()
    links = links or built(*(address for item in known for address in item.addresses))
    status = node_status(NODE, wanted, problems, links, connections, (), NOW)
    return status.interfaces[0], {item.type: item for item in status.conditions}, recheck_after(status)

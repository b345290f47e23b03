"""Gateway, routes and DNS of a VLAN on a lab: they work, and the node's own way out stays what it was."""

from functools import partial

import pytest

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import routing_table
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, looks, repaired, report
from tests.lab.objects import STATIC, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK = interface_name("cluster-1", 2012)
BEHIND = "192.168.2.1"
"""An address that only the router of VLAN 2012 has; the nodes' default route does not lead there."""

BEHIND6 = "fd00:20::1"
"""An address that only node3 has, which plays a router of IPv6."""


SIX = {node: f"fd00:1::1{number}/64" for number, node in enumerate(STATIC)}
BOTH = {node: [STATIC[node], SIX[node]] for node in STATIC}


def main_table(lab: Lab) -> str:
    """The node's own default route, and what its main table has in addition to the VLAN's subnet."""
    return lab.on("node1", f"ip route show table main | grep -v 'dev {LINK}' || true")


@pytest.mark.kernel
def test_a_gateway_has_a_table_of_its_own(cluster: Lab) -> None:
    """What is sent from the VLAN's subnet goes over the VLAN's gateway; everything else goes where it went before."""
    before = main_table(cluster)
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC, gateway="192.168.1.1"))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: "from 192.168.1.0/24" in cluster.on("node1", "ip rule"))
    eventually(lambda: cluster.reaches("node1", BEHIND, "192.168.1.10"))
    cluster.on("node1", f"ping -c 1 -W 1 {BEHIND}", status=1)
    assert main_table(cluster) == before
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    cluster.kubectl("annotate", "net-attach-def/vlan2012", "network.harvesterhci.io/gateway-")
    eventually(lambda: "192.168.1.0/24" not in cluster.on("node1", "ip rule"))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)


def test_routes_and_dns(cluster: Lab) -> None:
    """A network's routes lead over the VLAN by DHCP too, and its DNS servers are known on the VLAN's link alone."""
    before = main_table(cluster)
    routes = f'[{{"to": "{BEHIND}/32", "via": "192.168.1.1"}}]'
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, routes=routes, dns="192.168.1.53,192.168.1.54"))
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    eventually(lambda: cluster.reaches("node1", BEHIND))

    def servers() -> list[str]:
        return cluster.on("node1", f"nmcli -g IP4.DNS device show {LINK}").replace("|", " ").split()

    eventually(lambda: servers() == ["192.168.1.53", "192.168.1.54"])
    assert main_table(cluster) == before
    assert all(
        f"dev {LINK}" not in cluster.on(node, "ip route show default") for node in looks(cluster, ["node1"])
    )


@pytest.mark.kernel
def test_routes_and_dns_of_ipv6(cluster: Lab) -> None:
    """Nodes reach what is behind a router of IPv6, and know its DNS servers, until the network has neither."""
    router = f"ip address add fd00:1::99/64 dev {LINK} nodad; ip address add {BEHIND6}/128 dev lo"
    routes = f'[{{"to": "fd00:20::/48", "via": "fd00:1::99"}}, {{"to": "{BEHIND}/32", "via": "192.168.1.1"}}]'
    both = vm_network(
        "vlan2012", "cluster-1", 2012, "static", BOTH, routes=routes, dns="fd00:1::53,192.168.1.53"
    )
    cluster.apply(both)
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    cluster.on("node3", router)
    try:
        eventually(lambda: cluster.reaches("node1", BEHIND6))
        eventually(lambda: cluster.reaches("node1", BEHIND))
        servers = f"nmcli -g IP6.DNS device show {LINK}"
        eventually(lambda: cluster.on("node1", servers).replace("\\", "").strip() == "fd00:1::53")
        cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", BOTH))
        for key in ("routes", "dns"):
            cluster.kubectl("annotate", "net-attach-def/vlan2012", f"network.harvesterhci.io/{key}-")
        eventually(lambda: "fd00:20::" not in cluster.on("node1", "ip -6 route"))
        eventually(lambda: reasons(cluster) == ["Assigned"] and cluster.reaches("node1", "fd00:1::11"))
    finally:
        cluster.on("node3", f"ip address delete {BEHIND6}/128 dev lo")
        cluster.on("node3", f"ip address delete fd00:1::99/64 dev {LINK}", status=None)


def reasons(lab: Lab, node: str = "node1") -> list[str]:
    """Why a node is not ready, or is, by its interfaces."""
    return [item["reason"] for item in report(lab, "cluster-1", node).get("interfaces", ())]


TABLE = routing_table("cluster-1", 2012)
DELETIONS = (
    (
        (f"route del fd00:1::/64 dev {LINK}", f"the route to fd00:1::/64 of {LINK}"),
        (f"route del fd00:20::/48 dev {LINK}", "the route to fd00:20::/48 by fd00:1::99"),
        (f"route del default table {TABLE}", f"the IPv6 gateway of {LINK}"),
    ),
    (
        ("rule del priority 30100", f"the IPv6 gateway of {LINK}"),
        (f"route del local fd00:1::11 dev {LINK} table local", "the local route of fd00:1::11"),
        # A flush ends early where an agent or NetworkManager takes a rule away meanwhile.
        ("rule flush; ip -6 rule add priority 32766 table main || true", f"the IPv6 gateway of {LINK}"),
    ),
)
"""What of IPv6 is deleted on node1, node2 and node3 at once, twice, and its name in an Event."""


@pytest.mark.kernel
def test_routes_and_rules_of_ipv6_that_are_deleted(cluster: Lab) -> None:
    """What is deleted of IPv6 comes back, and an Event tells of it; without a deletion there is no Event."""
    routes = '[{"to": "fd00:20::/48", "via": "fd00:1::99"}]'
    before = {node: repaired(cluster, node) for node in NODES}
    both = vm_network(
        "vlan2012", "cluster-1", 2012, "static", BOTH, gateway="192.168.1.1,fd00:1::1", routes=routes
    )
    cluster.apply(both)
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: all(reasons(cluster, node) == ["Assigned"] for node in NODES))
    whole = {node: routing6(cluster, node) for node in NODES}
    assert {node: repaired(cluster, node) for node in NODES} == before
    for round_ in DELETIONS:
        for node, (command, _) in zip(NODES, round_, strict=True):
            cluster.on(node, f"ip -6 {command}")
        eventually(lambda: {node: routing6(cluster, node) for node in NODES} == whole)
        for node, (_, name) in zip(NODES, round_, strict=True):
            eventually(partial(is_told, cluster, node, name))
        eventually(lambda: all(reasons(cluster, node) == ["Assigned"] for node in NODES))
        eventually(lambda: cluster.reaches("node1", "fd00:1::11"))


def is_told(lab: Lab, node: str, name: str) -> bool:
    """Whether an Event on a Node names what was put right."""
    return name in repaired(lab, node)


def routing6(lab: Lab, node: str) -> list[str]:
    """The routes of IPv6 of the VLAN's link, and the rules for its subnet."""
    rules = "ip -6 rule | grep 'from fd00:1::/64' || true"
    routes = f"ip -6 route show table all dev {LINK} | grep fd00: | sed 's/proto [a-z]*//'"
    return sorted(lab.on(node, f"{rules}; {routes}").split("\n"))


@pytest.mark.kernel
def test_both_families(cluster: Lab) -> None:
    """Nodes reach each other by IPv6 too; a removed address comes back, and one that another host has is named."""
    gateways = "192.168.1.1,fd00:1::1"
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", BOTH, gateway=gateways))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: cluster.reaches("node1", "fd00:1::11"))
    eventually(lambda: "from fd00:1::/64" in cluster.on("node1", "ip -6 rule"))
    cluster.on("node1", f"ip address delete {SIX['node1']} dev {LINK}")
    eventually(lambda: cluster.reaches("node2", "fd00:1::10"))
    eventually(lambda: reasons(cluster) == ["Assigned"])
    cluster.on("node3", f"ip address add fd00:1::99/64 dev {LINK} nodad")
    taken = {**BOTH, "node1": [STATIC["node1"], "fd00:1::99/64"]}
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", taken, gateway=gateways))
    eventually(lambda: reasons(cluster) == ["DuplicateAddress"])
    cluster.on("node3", f"ip address delete fd00:1::99/64 dev {LINK}")
    eventually(lambda: reasons(cluster) == ["Assigned"])
    eventually(lambda: cluster.reaches("node2", "fd00:1::99"))
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC, gateway="192.168.1.1"))
    eventually(lambda: not cluster.reaches("node2", "fd00:1::99"))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)

"""The project's examples: the directory can be applied as a whole, as it is, and does what its comments say."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lanloom.api.linknames import interface_name
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, leased, look, looks, vlan_ids
from tests.lab.objects import EXAMPLES, STATIC, example

CHANGE = "changes/vlan2012-static.yaml"
TENANTS = ("tenant-a", "tenant-b")

PODS = {
    "default/addressed": "iso0",
    "default/anywhere": "net1",
    "default/lonely": "net1",
    "default/server": "net1",
    "default/web": "net1",
    "tenant-b/web": "net1",
}
"""The interface that each pod of the examples gets."""

Raw = dict[str, Any]


def bodies(*patterns: str) -> Iterator[Raw]:
    """The objects of the examples whose file names match."""
    for pattern in patterns or ("*.yaml",):
        for file in sorted(EXAMPLES.glob(pattern)):
            yield from yaml.safe_load_all(file.read_text())


def identity(body: Raw) -> tuple[str, str, str]:
    """What makes an object one and the same."""
    return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]


def test_each_object_is_there_once() -> None:
    """No two files hold the same object, so that each tool that applies a directory can apply this one."""
    found = Counter(identity(body) for body in bodies())
    assert max(found.values()) == 1


def test_changes_are_of_examples() -> None:
    """Each file of the changes is another form of an object in the directory."""
    assert {identity(body) for body in bodies("changes/*.yaml")} <= {identity(body) for body in bodies()}


def test_a_vlan_is_of_one_network() -> None:
    """No two NADs of the examples share a VLAN of a cluster network, and no two VlanConfigs a NIC of a node."""
    configs = [
        json.loads(body["spec"]["config"]) for body in bodies() if body["kind"].startswith("NetworkAtt")
    ]
    vlans = Counter((item["bridge"], item["vlan"]) for item in configs if "vlan" in item)
    assert max(vlans.values()) == 1
    uplinks = [body["spec"] for body in bodies() if body["kind"] == "VlanConfig"]
    places = [{(item["clusterNetwork"], nic) for nic in item["uplink"]["nics"]} for item in uplinks]
    nics = Counter(nic for _, nic in set().union(*places))
    assert max(nics.values()) == 1


@pytest.fixture(scope="class")
def applied(lab: Lab) -> Iterator[Lab]:
    """The lab after one `kubectl apply` of the directory; afterwards without anything of it."""
    wait(lab, "ready", "clusternetwork/mgmt")  # every agent runs by then
    try:
        lab.kubectl("apply", "-f", str(EXAMPLES))
        yield lab
    finally:
        lab.kubectl("delete", "virtualmachines", "--all", "--namespace=default", "--timeout=300s")
        for tenant in TENANTS:
            lab.kubectl("delete", "pods", "--all", f"--namespace={tenant}", "--timeout=300s")
        lab.kubectl("delete", "namespaces", *TENANTS, "--ignore-not-found", "--timeout=300s")
        lab.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        lab.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")
        remove_networks(lab)
        lab.kubectl("delete", "nics", "--all", "--namespace=default", "--timeout=300s")
        lab.kubectl(
            "patch", "networks.ipam.lanloom.io", "shop", "--type=merge", "-p", '{"spec":{"connections":[]}}'
        )
        lab.kubectl("delete", "networks.ipam.lanloom.io", "--all", "--timeout=300s")


def wait(lab: Lab, condition: str, *objects: str) -> None:
    """Waits until objects have a condition."""
    lab.kubectl("wait", f"--for=condition={condition}", *objects, "--timeout=180s")


@pytest.mark.lab
@pytest.mark.slow
class TestTheDirectory:
    """What one `kubectl apply -f examples/` makes, story by story, on the same lab."""

    def test_everything_is_ready(self, applied: Lab) -> None:
        """Every pod runs with its interface, and every object of the directory that can be ready is."""
        for name in PODS:
            namespace, _, pod = name.partition("/")
            wait(applied, "Ready", f"pod/{pod}", f"--namespace={namespace}")
        wait(applied, "Ready", "vm/vm1", "--namespace=default")
        wait(applied, "ready", "clusternetworks", "--all")
        wait(applied, "L3Ready", "clusternetworks", "--all")
        wait(applied, "Ready", "dcn", "--all")
        wait(applied, "Ready", "networks.ipam.lanloom.io", "--all")
        wait(applied, "Allocated", "nics", "--all", "--namespace=default")
        wait(applied, "Ready", "lans.lan.k8slan.io", "--all", "--all-namespaces")
        for name, interface in PODS.items():
            namespace, _, pod = name.partition("/")
            node = applied.kubectl(
                "get", "pod", pod, f"--namespace={namespace}", "-o", "jsonpath={.spec.nodeName}"
            )
            assert interface in applied.on(node, f"ip -n {namespace}.{pod} -br link")

    def test_node_addresses(self, applied: Lab) -> None:
        """Each network with node addresses gives them as its comment says, with gateway, routes and a trunk's VLANs."""
        assert leased(eventually(lambda: all_have(applied, "cluster-1", 2012)), "192.168.1.")
        assert leased(eventually(lambda: all_have(applied, "cluster-1", 2013)), "192.168.2.")
        assert leased(eventually(lambda: all_have(applied, "mgmt", 2014)), "192.168.14.")
        pair = {"node1": "192.168.13.10/24", "node2": "192.168.13.11/24"}
        eventually(lambda: all_have(applied, "cluster-2", 2013, NODES[:2]) == pair)
        pool = eventually(lambda: all_have(applied, "cluster-1", 2018))
        assert set(pool.values()) == {f"192.168.18.{last}/24" for last in (20, 21, 22)}
        static = {node: f"192.168.17.{last}/24" for node, last in zip(NODES, (10, 11, 12), strict=True)}
        eventually(lambda: all_have(applied, "cluster-1", 2017) == static)
        eventually(lambda: "from 192.168.17.0/24" in applied.on("node1", "ip rule"))
        routes = f"ip route show dev {interface_name('cluster-1', 2013)}"
        eventually(lambda: "10.50.8.0/24 via 192.168.2.2" in applied.on("node1", routes))
        eventually(lambda: {*range(100, 200), 300} <= vlan_ids(applied, "node1", "cluster-1-bo"))
        assert 100 not in look(applied, "node1").ids["cluster-1-br"]

    def test_uplinks(self, applied: Lab) -> None:
        """NICs, bond and bridge have jumbo frames; the roll-out and the isolated networks have reached all nodes."""
        links = look(applied, "node1").links
        assert {links[name]["mtu"] for name in ("eth4", "eth5", "storage-bo", "storage-br")} == {9000}
        seen = looks(applied, NODES)
        assert all(
            {"careful-br", "iso-br", "isosub-br", "span-br"} <= each.links.keys() for each in seen.values()
        )

    def test_again(self, applied: Lab) -> None:
        """A second apply is accepted as a whole, and a plan of the directory finds nothing to do on any node."""
        applied.kubectl("apply", "-f", str(EXAMPLES))
        plan = ("vlan", "plan", "-f", str(EXAMPLES))
        eventually(lambda: "No node would change." in applied.lanloom(*plan))  # by what nodes report

    def test_a_change(self, applied: Lab) -> None:
        """The change of an example gives the nodes static addresses in place of those of DHCP."""
        applied.kubectl("apply", "-f", example(CHANGE))
        eventually(lambda: all_have(applied, "cluster-1", 2012) == STATIC)

    def test_a_pool_gets_its_addresses_back(self, applied: Lab) -> None:
        """Node addresses of a pool are free again when the NAD is gone."""
        applied.kubectl("delete", "network-attachment-definitions", "vlan2018", "--namespace=default")
        eventually(lambda: "vlan2018" not in applied.kubectl("get", "nics", "-A", "-o", "name"))


@pytest.mark.lab
@pytest.mark.slow
def test_a_roll_out(clean: Lab) -> None:
    """A cluster network with a roll-out policy reaches all nodes, the canary first."""
    clean.kubectl("apply", "-f", example("rollout.yaml"))

    def reached() -> bool:
        # The canary last: whenever another one has it, the canary must have had it before.
        found = [node for node in reversed(NODES) if "careful-br" in look(clean, node).links]
        assert not found or found[-1] == "node1"
        return len(found) == len(NODES)

    eventually(reached, timeout=180)
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/careful", "--timeout=300s")

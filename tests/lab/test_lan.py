"""A virtual LAN on a lab's nodes: pods attach to it by kubelet's devices and Multus's way of calling plugins."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

UNDERLAY = "mgmt-br.2021"
"""The nodes' management VLAN."""

ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2", "c": "10.9.0.3"}
PODS = dict(zip(ADDRESSES, NODES, strict=True))


def lan(name: str, vni: int, *spokes: str) -> Raw:
    """A LAN over the management VLAN."""
    spec = {"ns": f"lan-{name}", "bridge": "br0", "vxlan": "vx0", "vni": vni, "spokes": spokes}
    return {
        "apiVersion": "lan.k8slan.io/v1beta1",
        "kind": "LAN",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec | {"defaultVxlanDev": UNDERLAY},
    }


def pod(name: str, node: str, mode: str = "veth") -> Raw:
    """A pod on the spoke of its own name; `mode` is `mac` for a macvtap device."""
    resource = f"macvtap.k8slan.io/k8slan-{mode}-{name}"
    main = {"name": "main", "image": "any", "resources": {"limits": {resource: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"k8s.v1.cni.cncf.io/networks": f"k8slan-{mode}-{name}"},
        },
        "spec": {"nodeName": node, "containers": [main]},
    }


@pytest.fixture
def blue(clean: Lab) -> Iterator[Lab]:
    """The lab with the LAN blue, which goes afterwards."""
    clean.apply(lan("blue", 4711, *PODS))
    try:
        yield clean
    finally:
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        clean.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")


def start(lab: Lab) -> None:
    """Starts a pod on each node, and gives each an address on the LAN."""
    lab.apply(*(pod(name, node) for name, node in PODS.items()))
    lab.kubectl("wait", "--for=condition=Ready", *(f"pod/{name}" for name in PODS), "--timeout=300s")
    for name, node in PODS.items():
        lab.on(node, f"ip -n default.{name} address add {ADDRESSES[name]}/24 dev net1")


def reaches(lab: Lab, name: str, other: str) -> bool:
    """Whether a pod gets an answer of another one."""
    command = f"ip netns exec default.{name} ping -c 1 -W 1 {ADDRESSES[other]} >/dev/null && echo yes"
    return "yes" in lab.on(PODS[name], command, status=None)


def all_reach_all(lab: Lab) -> bool:
    """Whether every pod reaches every other one."""
    return all(reaches(lab, one, other) for one in PODS for other in PODS if one != other)


@pytest.mark.kernel
def test_pods_of_three_nodes_reach_each_other(blue: Lab) -> None:
    """Pods on three nodes are on one LAN, whatever is deleted under them, and the host is not on it."""
    start(blue)
    eventually(lambda: all_reach_all(blue))
    for node in NODES:
        assert "net1" not in blue.on(node, "ip -br link")
    blue.on("node1", "ip -n lan-blue link delete vx0")
    eventually(lambda: all_reach_all(blue))
    blue.on("node2", "bridge -n lan-blue fdb del 00:00:00:00:00:00 dev vx0 dst 172.31.255.11", status=None)
    eventually(lambda: all_reach_all(blue))


def test_a_lan_that_pods_use_stays(blue: Lab) -> None:
    """A LAN that is deleted under its pods carries on, says which they are, and goes with the last of them."""
    start(blue)
    eventually(lambda: all_reach_all(blue))
    blue.kubectl("delete", "lans.lan.k8slan.io", "blue", "--wait=false")
    eventually(lambda: "Pod default/a" in json.dumps(status(blue)))
    assert all_reach_all(blue)
    blue.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
    eventually(lambda: not status(blue), timeout=300)
    eventually(lambda: not any("lan-blue" in blue.on(node, "ip netns") for node in NODES))


def status(lab: Lab) -> Raw:
    """The status of the LAN blue; empty when it is gone."""
    return status_of(lab, "blue")


def status_of(lab: Lab, name: str) -> Raw:
    """The status of a LAN; empty when it is gone."""
    text = lab.kubectl("get", "lans.lan.k8slan.io", name, "--ignore-not-found", "-o", "json")
    return dict(json.loads(text).get("status", {})) if text.strip() else {}


def test_two_lans_do_not_hear_each_other(blue: Lab) -> None:
    """The same addresses on two LANs are two networks."""
    blue.apply(lan("red", 4712, "d"))
    start(blue)
    blue.apply(pod("d", "node2"))
    blue.kubectl("wait", "--for=condition=Ready", "pod/d", "--timeout=300s")
    blue.on("node2", "ip -n default.d address add 10.9.0.4/24 dev net1")
    eventually(lambda: reaches(blue, "a", "b"))
    silent = "ip netns exec default.d ping -c 2 -W 1 10.9.0.1 >/dev/null || echo silent"
    assert "silent" in blue.on("node2", silent)


def change(lab: Lab, **spec: Any) -> str:
    """A change of the LAN blue; what a refusal says, empty without one."""
    text = json.dumps({"spec": spec})
    said = lab.kubectl("patch", "lans.lan.k8slan.io", "blue", "--type=merge", "-p", text, fails=None)
    return said if "denied the request" in said else ""


def test_options_change_under_pods(blue: Lab) -> None:
    """Isolated spokes reach others only, and a secured one loses its frames with its address; both end with the option.

    An MTU that a node can't carry is refused with that node's name.
    """
    start(blue)
    eventually(lambda: all_reach_all(blue))
    isolated = {"isolated": True}
    assert not change(blue, spokeOptions={"a": isolated, "b": isolated})
    eventually(lambda: not reaches(blue, "a", "b"))
    assert all(reaches(blue, one, "c") and reaches(blue, "c", one) for one in "ab")
    assert not change(blue, spokeOptions={"a": None, "b": None, "c": {"portSecurity": True}})
    eventually(lambda: all_reach_all(blue))
    command = "cat /sys/class/net/net1/address"
    own = blue.on(PODS["c"], f"ip netns exec default.c {command}").strip()
    forge = "ip -n default.c link set net1 address {}"
    blue.on(PODS["c"], forge.format("0e:00:00:00:00:77"))
    eventually(lambda: not reaches(blue, "c", "a"))
    blue.on(PODS["c"], forge.format(own))
    eventually(lambda: all_reach_all(blue))
    assert "and the LAN has MTU" in change(blue, mtu=9000)

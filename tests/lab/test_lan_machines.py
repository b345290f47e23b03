"""A machine with KubeVirt's bridge binding on a LAN of the lab: without a device, plugged in while it runs, migrating.

Its launcher pods are the lab's; what virt-handler does inside of them is done here.
"""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from lanloom_lab.kubevirt import LABEL
from tests.lab.driver import Lab, eventually
from tests.lab.test_lan import lan, pod

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.kernel]

Raw = dict[str, Any]

MACHINE, OTHER = "10.9.1.1", "10.9.1.2"
INTERFACE, NIC, BRIDGE = "pod16477688c0e", "16477688c0e-nic", "k6t-16477688c0e"


def nad() -> Raw:
    """A NAD for machines at the spoke `vm`: no resource, so KubeVirt asks for no device."""
    config = {"cniVersion": "0.3.1", "name": "vm", "type": "k8slanveth", "veth": "vm", "binding": "bridge"}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "vm", "namespace": "default"},
        "spec": {"config": json.dumps(config)},
    }


@pytest.fixture
def green(clean: Lab) -> Iterator[Lab]:
    """The lab with the LAN green, a machine's instance, and a pod of the LAN on node3."""
    clean.apply(lan("green", 4720, "vm", "p"), nad(), instance())
    try:
        clean.apply(pod("p", "node3"))
        clean.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=300s")
        clean.on("node3", f"ip -n default.p address add {OTHER}/24 dev net1")
        yield clean
    finally:
        clean.kubectl("delete", "vmi", "--all", "--namespace=default", "--timeout=300s")
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        clean.kubectl("delete", "net-attach-def", "vm", "--ignore-not-found")
        clean.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")


def instance() -> Raw:
    """The machine, as KubeVirt has it; the lab's stand-in leaves it alone."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm1", "namespace": "default", "labels": {LABEL: "none"}},
        "spec": {"networks": [{"name": "lan", "multus": {"networkName": "vm"}}]},
    }


def launch(lab: Lab, name: str, node: str, *, plugged: bool = True) -> None:
    """A launcher pod of the machine, with its interface in KubeVirt's bridge, unless it is plugged in later."""
    uid = json.loads(lab.kubectl("get", "vmi", "vm1", "-o", "json"))["metadata"]["uid"]
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm1", "uid": uid}
    networks = json.dumps([{"name": "vm", "namespace": "default", "interface": INTERFACE}])
    meta: Raw = {"name": name, "namespace": "default", "ownerReferences": [owner | {"controller": True}]}
    if plugged:
        meta["annotations"] = {"k8s.v1.cni.cncf.io/networks": networks}
    spec = {"nodeName": node, "containers": [{"name": "compute", "image": "any"}]}
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    if plugged:
        bind(lab, name, node)


def bind(lab: Lab, name: str, node: str) -> None:
    """What virt-handler makes of the pod's interface: a bridge with the machine's tap, here one end of a pair.

    Its port has another address in each pod, and the bridge does not answer for the machine, whose NIC is in the pod.
    """
    mac = json.loads(lab.on(node, f"ip -n default.{name} -j link show {INTERFACE}"))[0]["address"]
    lab.on(
        node,
        f"""
        ip netns exec default.{name} sh -euc '
        echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
        ip link set {INTERFACE} down
        ip link set {INTERFACE} name {NIC}
        ip link add {BRIDGE} up type bridge
        ip link set {NIC} address 02:{secrets.token_hex(1)}:00:00:00:02 master {BRIDGE} up
        ip link set {NIC} type bridge_slave learning off
        ip link add {INTERFACE} address {mac} type bridge
        ip link add tap0 type veth peer name guest0 address {mac}
        ip link set tap0 master {BRIDGE} up'
        """,
    )


def run(lab: Lab, name: str, node: str) -> None:
    """The machine runs in a pod: its NIC is up, and QEMU or the guest announces it."""
    lab.on(
        node,
        f"ip -n default.{name} link set guest0 up\n"
        f"ip -n default.{name} address add {MACHINE}/24 dev guest0\n"
        f"ip netns exec default.{name} ping -c 1 -W 1 {OTHER} >/dev/null || true",
    )


def is_reached(lab: Lab) -> bool:
    """Whether the machine answers the pod."""
    command = f"ip netns exec default.p ping -c 1 -W 1 {MACHINE} >/dev/null && echo yes"
    return "yes" in lab.on("node3", command, status=None)


def nodes_of(lab: Lab, spoke: str) -> set[str]:
    """The nodes that report a spoke as attached."""
    items = json.loads(lab.kubectl("get", "lannodes", "-o", "json"))["items"]
    return {
        item["metadata"]["name"]
        for item in items
        for entry in item.get("status", {}).get("lans", ())
        for each in entry.get("spokes", ())
        if each["name"] == spoke
    }


def test_a_machine_migrates(green: Lab) -> None:
    """A machine without a device migrates: two pods have its spoke, no other pod gets it, and frames follow."""
    launch(green, "launcher-1", "node1")
    run(green, "launcher-1", "node1")
    eventually(lambda: is_reached(green))
    launch(green, "launcher-2", "node2")
    eventually(lambda: nodes_of(green, "vm") == {"node1", "node2"})
    eventually(lambda: is_reached(green))
    green.apply(thief())
    eventually(lambda: "is used by default/launcher-" in green.kubectl("describe", "pod", "thief"))
    green.on("node1", "ip -n default.launcher-1 link delete guest0")
    run(green, "launcher-2", "node2")
    eventually(lambda: is_reached(green))
    green.kubectl("delete", "pod", "launcher-1", "--timeout=300s")
    eventually(lambda: nodes_of(green, "vm") == {"node2"})
    eventually(lambda: is_reached(green))
    eventually(lambda: "lan-green" not in green.on("node1", "ip netns"))  # after the report, perhaps
    green.kubectl("delete", "pod", "launcher-2", "--timeout=300s")
    green.kubectl("wait", "--for=condition=Ready", "pod/thief", "--timeout=300s")


def thief() -> Raw:
    """A pod that is no part of the machine, at its spoke."""
    meta = {"name": "thief", "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": "vm"}}
    spec = {"nodeName": "node3", "containers": [{"name": "main", "image": "any"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_a_machine_is_plugged_in(green: Lab) -> None:
    """An interface is added to a pod that runs, as Multus's thick plugin does, and is removed again."""
    launch(green, "launcher-1", "node1", plugged=False)
    config = json.loads(nad()["spec"]["config"])

    def call(command: str) -> str:
        return green.on(
            "node1",
            f"cd / && echo '{json.dumps(config)}' | env -i CNI_COMMAND={command} CNI_CONTAINERID=launcher1 "
            f"CNI_NETNS=/run/netns/default.launcher-1 CNI_IFNAME={INTERFACE} CNI_PATH=/opt/cni/bin "
            "CNI_ARGS='IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=launcher-1;MAC=02:00:00:00:0a:01' "
            "/opt/cni/bin/k8slanveth",
        )

    (link,) = json.loads(call("ADD"))["interfaces"]
    assert (link["name"], link["mac"]) == (INTERFACE, "02:00:00:00:0a:01")
    bind(green, "launcher-1", "node1")
    run(green, "launcher-1", "node1")
    eventually(lambda: is_reached(green))
    call("DEL")
    assert NIC not in green.on("node1", "ip -n default.launcher-1 -br link")
    eventually(lambda: not nodes_of(green, "vm"))

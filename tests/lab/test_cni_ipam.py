"""Addresses of pods and machines on a lab's nodes, from the call of a container runtime to the echo on the wire.

The plugin `bridge` is the real one, and asks ours; bridge, bond and switch are the lab's.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from lanloom.api.ipam import STICKY_FOR
from lanloom_lab.kubevirt import LABEL
from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.objects import EXAMPLES, example
from tests.lab.runtime import OURS, Runtime, Sandbox

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NETWORK = "vlan2015"
NODES = ("node1", "node2", "node3")
AT_ONCE = 30
MAC = "02:00:00:00:15:01"
NETWORK_AND_NAD = (EXAMPLES / "ipam-nad.yaml").read_text().rpartition("---\n")[0]
"""The example without its pod, which would be attached at once: pods here are attached when a test says so."""

Raw = dict[str, Any]


class Cluster:
    """The lab with the example's network and NAD, and a runtime on its nodes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.runtime = Runtime(lab, NODES)
        self.config: Raw = json.loads(self.get("net-attach-def", NETWORK)["spec"]["config"])

    def get(self, kind: str, name: str) -> Raw:
        """An object, empty where there is none."""
        text = self.lab.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else {}

    def nics(self) -> dict[str, tuple[str, ...]]:
        """Who has which addresses."""
        items = json.loads(self.lab.kubectl("get", "nics", "-n", "default", "-o", "json"))["items"]
        return {item["spec"]["owner"]["name"]: tuple(item.get("status", {}).get("ips", ())) for item in items}

    def begin(self, node: str, name: str, *, number: int = 1) -> tuple[Sandbox, list[str]]:
        """A sandbox for a pod, attached to the NAD; with the addresses that it got."""
        (sandbox,) = self.runtime.make(node, name, number=number)
        return sandbox, addresses(self.runtime.call(sandbox, "ADD", self.config))

    def end(self, *pods: str) -> None:
        """The kubelet has ended these pods, if who collects garbage has not yet."""
        self.lab.kubectl("delete", "pods", *pods, "--grace-period=0", "--force", "--ignore-not-found")

    def owner(self, kind: str, name: str) -> Raw:
        """A reference to a machine, as controllers of KubeVirt's write it."""
        uid = self.get(kind.lower(), name)["metadata"]["uid"]
        return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": name, "uid": uid, "controller": True}

    def launcher(self, name: str, node: str) -> None:
        """A pod in which the machine `vm1` runs."""
        reference = self.owner("VirtualMachineInstance", "vm1")
        labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": reference["uid"], LABEL: "none"}
        self.lab.apply(pod(name, node, labels=labels, ownerReferences=[reference]))


@pytest.fixture
def cluster(clean: Lab) -> Iterator[Cluster]:
    """The lab with networks and NAD; afterwards without them, and without any sandbox."""
    clean.kubectl("apply", "-f", example("cluster-1.yaml"))
    clean.kubectl("apply", "-f", "-", given=NETWORK_AND_NAD)
    try:
        for node in NODES:
            eventually(partial(clean.on, node, "test -S /run/lanloom/cni.sock && echo there", status=None))
        clean.kubectl(
            "wait", "--for=condition=Ready", f"networks.ipam.lanloom.io/{NETWORK}", "--timeout=300s"
        )
        clean.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
        yield Cluster(clean)
    finally:
        Runtime(clean, NODES).sweep()
        for kind in ("virtualmachines", "virtualmachineinstances"):
            clean.kubectl("delete", kind, "--all", "--namespace=default", "--wait=false")
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--grace-period=0", "--force")
        clean.kubectl("delete", "nics", "--all", "--namespace=default", "--timeout=300s")
        eventually(lambda: without_networks(clean))


def without_networks(lab: Lab) -> bool:
    """Whether the networks are gone: the manager holds them until no NIC can have an address of them any more."""
    lab.kubectl("delete", "networks.ipam.lanloom.io", "--all", "--timeout=30s", fails=None)
    return not json.loads(lab.kubectl("get", "networks.ipam.lanloom.io", "-o", "json"))["items"]


def addresses(result: Raw) -> list[str]:
    """The addresses of a result, without their prefix lengths."""
    return [item["address"].split("/")[0] for item in result["ips"]]


def pod(name: str, node: str, **metadata: Any) -> Raw:
    """A pod that the scheduler has put on a node."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "main"}]}
    meta = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def kubevirt(kind: str, name: str, *owners: Raw) -> Raw:
    """A machine or an instance, on the example's NAD, which the lab's stand-in of KubeVirt leaves alone."""
    meta: Raw = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
    meta["labels"] = {LABEL: "none"}
    body = {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": meta}
    if kind == "VirtualMachineInstance":
        body["spec"] = {"networks": [{"name": "lan", "multus": {"networkName": NETWORK}}]}
    return body


def test_pods_reach_each_other(cluster: Cluster) -> None:
    """Pods on two nodes get addresses and routes, and talk over the VLAN; a DEL takes the interface, and the end of the
    pod its addresses."""
    runtime = cluster.runtime
    cluster.lab.apply(pod("a", "node1"), pod("b", "node2"))
    (first,) = runtime.make("node1", "a")
    result = runtime.call(first, "ADD", cluster.config)
    assert result["ips"] == [
        {"interface": 2, "address": "192.168.15.100/24", "gateway": "192.168.15.1"},
        {"interface": 2, "address": "fd00:15::1000/64"},
    ]
    second, given = cluster.begin("node2", "b")
    assert given == ["192.168.15.101", "fd00:15::1001"]
    # Once the uplinks carry the VLAN, which takes the agents a moment more than a cluster network.
    for address in given:
        eventually(partial(runtime.reaches, first, address))
    for address in addresses(result):
        eventually(partial(runtime.reaches, second, address))
    assert "10.15.0.0/16 via 192.168.15.1 dev net1" in runtime.inside(first, "ip route")
    assert runtime.call(second, "ADD", cluster.config, status=1, program=OURS, args=first.args)["code"] == 3
    cluster.end("a")
    runtime.call(first, "DEL", cluster.config)
    assert not runtime.inside(first, "ip -o link show dev net1", status=None)
    assert "master cluster-1-br" not in cluster.lab.on("node1", "ip -o link show type veth")
    eventually(lambda: "a" not in cluster.nics())
    cluster.lab.apply(pod("c", "node1"))
    assert cluster.begin("node1", "c")[1] == addresses(result)


def test_a_pod_is_tried_again(cluster: Cluster) -> None:
    """Without an agent, ADD fails for now and DEL works; then a pod has its addresses in a new sandbox too, also when
    an earlier one is cleared up late."""
    runtime = cluster.runtime
    cluster.lab.apply(pod("a", "node1"))
    first, given = cluster.begin("node1", "a")
    with without_agent(cluster.lab, "node1"):
        (failed,) = runtime.make("node1", "a", number=2)
        eventually(lambda: refused(cluster, failed) == 11)
        runtime.call(first, "DEL", cluster.config)
    (third,) = runtime.make("node1", "a", number=3)
    eventually(lambda: runtime.call(third, "STATUS", current(cluster), status=None, program=OURS) == {})
    assert addresses(runtime.call(third, "ADD", cluster.config)) == given
    runtime.call(first, "DEL", cluster.config)
    runtime.call(failed, "DEL", cluster.config)
    assert cluster.nics()["a"] == tuple(given)
    valid: Raw = {"cni.dev/valid-attachments": []}
    runtime.call(third, "GC", current(cluster) | valid, program=OURS)
    assert cluster.nics()["a"] == tuple(given), "nothing of a pod that is there is garbage"
    ended = json.dumps({"status": {"phase": "Succeeded"}})
    cluster.lab.kubectl("patch", "pod", "a", "--subresource=status", "--type=merge", "-p", ended)
    runtime.call(third, "GC", current(cluster) | valid, program=OURS)
    eventually(lambda: "a" not in cluster.nics())


def current(cluster: Cluster) -> Raw:
    """The configuration in the newest version of CNI, which Debian's `bridge` does not speak yet."""
    return cluster.config | {"cniVersion": "1.1.0"}


def refused(cluster: Cluster, sandbox: Sandbox) -> int:
    """The code of an ADD that fails; what `bridge` leaves behind is cleared up, as a runtime does."""
    answer = cluster.runtime.call(sandbox, "ADD", cluster.config, status=None)
    cluster.runtime.call(sandbox, "DEL", cluster.config)
    return int(answer.get("code", 0))


def test_a_check_finds_damage(cluster: Cluster) -> None:
    """A CHECK passes, and fails when the pod's interface has lost an address, or its NIC has another one."""
    runtime = cluster.runtime
    cluster.lab.apply(pod("a", "node1"))
    (sandbox,) = runtime.make("node1", "a")
    for version in ("0.4.0", "1.0.0"):
        runtime.call(sandbox, "DEL", cluster.config)
        config = cluster.config | {"cniVersion": version}
        checked = config | {"prevResult": runtime.call(sandbox, "ADD", config)}
        assert runtime.call(sandbox, "CHECK", checked) == {}
    runtime.inside(sandbox, "ip address delete 192.168.15.100/24 dev net1")
    assert "192.168.15.100" in runtime.call(sandbox, "CHECK", checked, status=1)["msg"]
    text = json.dumps(checked).replace("192.168.15.100", "192.168.15.199")
    assert runtime.call(sandbox, "CHECK", json.loads(text), status=1)["code"] == 101


def test_a_machine_migrates(cluster: Cluster) -> None:
    """A machine has its addresses in both pods of a migration, and is reached on the new node; they are given back when
    the machine is deleted."""
    lab, runtime = cluster.lab, cluster.runtime
    lab.apply(kubevirt("VirtualMachine", "vm1"), pod("other", "node3"))
    lab.apply(kubevirt("VirtualMachineInstance", "vm1", cluster.owner("VirtualMachine", "vm1")))
    third, _ = cluster.begin("node3", "other")
    cluster.config |= {"runtimeConfig": {"mac": MAC}, "capabilities": {"mac": True}}
    cluster.launcher("source", "node1")
    source, given = cluster.begin("node1", "source")
    for address in given:
        eventually(partial(runtime.reaches, third, address))
    lab.kubectl(
        "patch", "virtualmachineinstance", "vm1", "--type=merge", "-p", '{"status": {"phase": "Running"}}'
    )
    with without_agent(lab, "node2"):
        cluster.launcher("target", "node2")
    (target,) = runtime.make("node2", "target")
    eventually(lambda: runtime.call(target, "STATUS", current(cluster), status=None, program=OURS) == {})
    assert addresses(runtime.call(target, "ADD", cluster.config)) == given
    cluster.end("source")
    runtime.call(source, "DEL", cluster.config)
    runtime.remove(source)
    for address in given:
        eventually(partial(runtime.reaches, third, address))
    assert cluster.nics()["vm1"] == tuple(given)
    lab.kubectl("delete", "virtualmachine", "vm1")
    cluster.end("target")
    runtime.call(target, "DEL", cluster.config)
    lab.kubectl("delete", "virtualmachineinstance", "vm1", "--ignore-not-found")
    eventually(lambda: "vm1" not in cluster.nics(), timeout=90)


def test_many_at_once(cluster: Cluster) -> None:
    """Pods that start on one node at the same moment all get addresses, none of them twice."""
    names = [f"pod{number}" for number in range(AT_ONCE)]
    cluster.lab.apply(*(pod(name, "node1") for name in names))
    results = cluster.runtime.call_at_once("ADD", cluster.config, cluster.runtime.make("node1", *names))
    found = [address for result in results for address in addresses(result)]
    assert len(set(found)) == len(found) == 2 * AT_ONCE


IPAM: Raw = {"type": "lanloom-ipam", "network": NETWORK}

HOSTILE: dict[str, tuple[Raw, int]] = {
    "another network": ({"ipam": IPAM | {"network": "../../secrets"}}, 100),
    "no network": ({"ipam": {"type": "lanloom-ipam"}}, 7),
    "an address outside": ({"ipam": IPAM | {"ips": ["8.8.8.8"]}}, 100),
    "the gateway": ({"ipam": IPAM | {"ips": ["192.168.15.1"]}}, 100),
    "very many": ({"ipam": IPAM | {"ips": ["pool"] * 1000}}, 7),
    "control characters": ({"ipam": IPAM | {"ips": ["\u0000\n\u202e"]}}, 7),
    "not a list": ({"ipam": IPAM | {"ips": {"pool": 1}}}, 7),
    "no name": ({"name": "\u0000"}, 7),
}


def test_hostile_calls(cluster: Cluster) -> None:
    """Whatever is in a NAD or in CNI_ARGS, the pod gets nothing that it may not have, and the next call is answered."""
    lab, runtime = cluster.lab, cluster.runtime
    lab.apply(pod("a", "node1"), pod("b", "node2"))
    (sandbox,) = runtime.make("node1", "a")
    told = {
        "IgnoreUnknown=1": 4,
        sandbox.args.replace("=a;", "=../../nodes/node1;"): 4,
        sandbox.args.replace("=a;", "=b;"): 3,
        sandbox.args.replace(sandbox.uid, "0"): 3,
    }
    calls: list[tuple[str, Raw, dict[str, str], int]] = [
        *((name, cluster.config | more, {}, code) for name, (more, code) in HOSTILE.items()),
        *((args, cluster.config, {"args": args}, code) for args, code in told.items()),
        ("a path for an id", cluster.config, {"container": "../../x"}, 4),
    ]
    scripts = [sandbox.script("ADD", config, **more) for _, config, more, _ in calls]
    codes = [answer["code"] for answer in runtime.call_in_turn(sandbox, scripts)]
    assert dict(zip([call[0] for call in calls], codes, strict=True)) == {call[0]: call[3] for call in calls}
    asked = f"setpriv --reuid=65534 --regid=65534 --clear-groups {OURS}"
    assert runtime.call(sandbox, "STATUS", current(cluster), status=1, program=asked)["code"] == 50
    assert not cluster.nics().get("a")
    odd = ";".join(reversed(sandbox.args.split(";")))
    result = runtime.call(sandbox, "ADD", cluster.config, args=f"K8S_POD_TENANT=x;{odd}", container="A_b.c-1")
    assert addresses(result) == ["192.168.15.100", "fd00:15::1000"]


def test_the_example(cluster: Cluster) -> None:
    """The example's pod, which the lab runs, gets the address that its annotation names, and one of the pool for IPv6;
    both are given back when it is deleted."""
    cluster.lab.kubectl("apply", "-f", example("ipam-nad.yaml"))
    cluster.lab.kubectl("wait", "--for=condition=Ready", "pod/server", "--timeout=300s")
    server = cluster.get("pod", "server")
    (status,) = json.loads(server["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
    assert (status["name"], status["interface"]) == (f"default/{NETWORK}", "net1")
    assert status["ips"] == ["192.168.15.20", "fd00:15::1000"]
    shown = cluster.lab.on(server["spec"]["nodeName"], "ip -netns default.server -o address show dev net1")
    assert "192.168.15.20/24" in shown and "fd00:15::1000/64" in shown
    cluster.lab.kubectl("delete", "pod", "server", "--timeout=300s")
    eventually(lambda: "server" not in cluster.nics())


def test_a_name_keeps_its_addresses(cluster: Cluster) -> None:
    """A pod that is made again on another node has the addresses of its name, while others get others; they are shown
    while no pod has the name, and free when they are released."""
    mark = {"annotations": {STICKY_FOR: "1h"}}
    cluster.lab.apply(pod("web-0", "node1", **mark), pod("other", "node1"))
    first, given = cluster.begin("node1", "web-0")
    cluster.runtime.call(first, "DEL", cluster.config)
    cluster.end("web-0")
    eventually(lambda: "Pod default/web-0 until" in cluster.lab.lanloom("network", "usage", NETWORK))
    _, others = cluster.begin("node1", "other")
    assert not set(others) & set(given)
    cluster.lab.apply(pod("web-0", "node2", **mark))
    second, again = cluster.begin("node2", "web-0")
    assert again == given
    eventually(lambda: "held" not in cluster.lab.lanloom("network", "usage", NETWORK))
    cluster.runtime.call(second, "DEL", cluster.config)
    cluster.end("web-0")
    eventually(lambda: "held" in cluster.lab.lanloom("network", "usage", NETWORK))
    cluster.lab.lanloom("network", "release", NETWORK, given[0])
    eventually(lambda: "web-0" not in cluster.nics())

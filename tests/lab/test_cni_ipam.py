"""The CNI plugin on a lab's nodes, called as a container runtime calls it: addresses of pods and of machines."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.objects import EXAMPLES, example

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NETWORK = "vlan2015"
NODES = ("node1", "node2")
Raw = dict[str, Any]

CALL = """
cd / && env -i CNI_COMMAND={command} CNI_CONTAINERID=c-{pod} CNI_NETNS=/run/netns/{pod} CNI_IFNAME=net1 \
  CNI_ARGS='IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_UID={uid}' \
  /opt/cni/bin/lanloom-ipam <<'END'
{config}
END
"""


@pytest.fixture
def addressed(clean: Lab) -> Iterator[Lab]:
    """The lab with the example's network and NAD, and KubeVirt's kinds; afterwards without."""
    kinds = [manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)]
    clean.apply(*kinds)
    clean.kubectl(
        "wait", "--for=condition=Established", *(f"crd/{kind['metadata']['name']}" for kind in kinds)
    )
    clean.kubectl("apply", "-f", example("cluster-1.yaml"), "-f", example("ipam-nad.yaml"))
    for node in NODES:
        eventually(lambda at=node: clean.on(at, "test -S /run/lanloom/cni.sock && echo there", status=None))
    clean.kubectl("wait", "--for=condition=Ready", f"networks.ipam.lanloom.io/{NETWORK}", "--timeout=30s")
    try:
        yield clean
    finally:
        for kind in ("virtualmachines", "virtualmachineinstances"):
            clean.kubectl("delete", kind, "--all", "--namespace=default", "--wait=false")
        clean.kubectl("delete", "pods", "--all", "--namespace=default", "--grace-period=0", "--force")
        clean.kubectl("delete", "nics", "--all", "--namespace=default", "--timeout=60s")
        eventually(lambda: without_networks(clean))
        clean.kubectl("delete", "crd", *(kind["metadata"]["name"] for kind in kinds))


def without_networks(lab: Lab) -> bool:
    """Whether the networks are gone: the manager holds them until nobody can have an address of them any more."""
    lab.kubectl("delete", "networks.ipam.lanloom.io", "--all", "--timeout=30s", fails=None)
    return not json.loads(lab.kubectl("get", "networks.ipam.lanloom.io", "-o", "json"))["items"]


def config(lab: Lab) -> Raw:
    """The configuration in the example's NAD, as Multus hands it to the plugin."""
    nad = json.loads(lab.kubectl("get", "net-attach-def", NETWORK, "-o", "json"))
    found: Raw = json.loads(nad["spec"]["config"])
    return found


def call(lab: Lab, node: str, command: str, pod: str, *, status: int | None = 0) -> Raw:
    """A runtime's call on a node; what the plugin prints."""
    uid = get(lab, "pod", pod).get("metadata", {}).get("uid", "gone")
    settings = config(lab) | ({"cniVersion": "1.1.0"} if command == "STATUS" else {})
    script = CALL.format(command=command, pod=pod, uid=uid, config=json.dumps(settings))
    return json.loads(lab.on(node, script, status=status) or "{}")  # type: ignore[no-any-return]


def add(lab: Lab, node: str, pod: str) -> list[str]:
    """The addresses that a pod gets."""
    return [item["address"] for item in call(lab, node, "ADD", pod)["ips"]]


def get(lab: Lab, kind: str, name: str) -> Raw:
    """An object, empty where there is none."""
    text = lab.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
    return json.loads(text) if text.strip() else {}


def nics(lab: Lab) -> dict[str, tuple[str, ...]]:
    """Who has which addresses."""
    items = json.loads(lab.kubectl("get", "nics", "-n", "default", "-o", "json"))["items"]
    return {item["spec"]["owner"]["name"]: tuple(item.get("status", {}).get("ips", ())) for item in items}


def pod(name: str, node: str, **metadata: Any) -> Raw:
    """A pod that the scheduler has put on a node."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "main"}]}
    meta = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def end(lab: Lab, *pods: str) -> None:
    """The kubelet has ended these pods."""
    lab.kubectl("delete", "pods", *pods, "--grace-period=0", "--force")


def kubevirt(kind: str, name: str, *owners: Raw) -> Raw:
    """A machine or an instance, on the example's NAD."""
    meta = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
    body = {"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": meta}
    if kind == "VirtualMachineInstance":
        body["spec"] = {"networks": [{"name": "lan", "multus": {"networkName": NETWORK}}]}
    return body


def owner(lab: Lab, kind: str, name: str) -> Raw:
    """A reference to one of them, as controllers of KubeVirt's write it."""
    uid = get(lab, kind.lower(), name)["metadata"]["uid"]
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def launcher(lab: Lab, name: str, node: str) -> None:
    """A pod in which the machine `vm1` runs."""
    reference = owner(lab, "VirtualMachineInstance", "vm1")
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": reference["uid"]}
    lab.apply(pod(name, node, labels=labels, ownerReferences=[reference]))


def test_addresses_of_pods(addressed: Lab) -> None:
    """Pods on two nodes get different addresses, keep them when the agent starts anew, and give them back."""
    addressed.apply(pod("a", "node1"), pod("b", "node2"))
    assert call(addressed, "node1", "STATUS", "a") == {}
    first, second = add(addressed, "node1", "a"), add(addressed, "node2", "b")
    assert first == ["192.168.15.100/24", "fd00:15::1000/64"]
    assert second == ["192.168.15.101/24", "fd00:15::1001/64"]
    assert call(addressed, "node2", "ADD", "a", status=1)["code"] == 3
    with without_agent(addressed, "node1"):
        eventually(lambda: call(addressed, "node1", "ADD", "a", status=None).get("code") == 11)
        call(addressed, "node1", "DEL", "a")
    eventually(lambda: "ips" in call(addressed, "node1", "ADD", "a", status=None))
    assert add(addressed, "node1", "a") == first
    end(addressed, "a")
    call(addressed, "node1", "DEL", "a")
    eventually(lambda: "a" not in nics(addressed))
    addressed.apply(pod("c", "node1"))
    assert add(addressed, "node1", "c") == first


def test_addresses_of_a_machine(addressed: Lab) -> None:
    """Both pods of a machine that migrates have its addresses, which are given back when the machine is deleted."""
    addressed.apply(kubevirt("VirtualMachine", "vm1"))
    machine = owner(addressed, "VirtualMachine", "vm1")
    addressed.apply(kubevirt("VirtualMachineInstance", "vm1", machine))
    launcher(addressed, "source", "node1")
    given = add(addressed, "node1", "source")
    running = json.dumps({"status": {"phase": "Running"}})
    addressed.kubectl("patch", "virtualmachineinstance", "vm1", "--type=merge", "-p", running)
    launcher(addressed, "target", "node2")
    assert add(addressed, "node2", "target") == given
    end(addressed, "source")
    call(addressed, "node1", "DEL", "source")
    addressed.apply(pod("other", "node1"))
    assert not set(add(addressed, "node1", "other")) & set(given)
    assert list(nics(addressed)["vm1"]) == [item.split("/")[0] for item in given]
    addressed.kubectl("delete", "virtualmachine", "vm1")
    end(addressed, "target")
    call(addressed, "node2", "DEL", "target")
    addressed.kubectl("delete", "virtualmachineinstance", "vm1", "--ignore-not-found")
    eventually(lambda: "vm1" not in nics(addressed), timeout=90)


def test_the_example(addressed: Lab) -> None:
    """The example's pod gets the address that its annotation names, and one of the pool for IPv6, with the route."""
    addressed.kubectl("delete", "pod", "server", "--grace-period=0", "--force")
    text = (
        (EXAMPLES / "ipam-nad.yaml").read_text().replace("  containers:", "  nodeName: node1\n  containers:")
    )
    addressed.kubectl("apply", "-f", "-", given=text)
    result = call(addressed, "node1", "ADD", "server")
    assert [item["address"].split("/")[0] for item in result["ips"]] == ["192.168.15.20", "fd00:15::1000"]
    assert result["routes"] == [{"dst": "10.15.0.0/16", "gw": "192.168.15.1"}]

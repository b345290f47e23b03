"""A lab whose Multus isolates namespaces: no pod, and no machine by any way, comes to another namespace's network."""

import json
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.machines import Machine
from tests.lab.objects import example
from tests.lab.test_in_place import FIRST, SECOND, move, named, vlan

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]


def placed(body: Raw, namespace: str, name: str) -> Raw:
    """An object in a namespace, under a name."""
    return body | {"metadata": {"name": name, "namespace": namespace}}


def pod(namespace: str, name: str, network: str) -> Raw:
    """A pod with a network."""
    meta = {
        "name": name,
        "namespace": namespace,
        "annotations": {"k8s.v1.cni.cncf.io/networks": network},
    }
    spec = {"nodeName": "node1", "containers": [{"name": "main", "image": "any"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def swap_to(machine: Machine, target: str) -> Raw:
    """A NetworkSwap of a machine."""
    spec = {
        "machine": machine.name,
        "uid": machine.instance()["metadata"]["uid"],
        "network": "net0",
        "from": "default/vlan2012",
        "to": target,
        "record": True,
    }
    meta = {"name": "away", "namespace": "default"}
    return {
        "apiVersion": "liveupdate.lanloom.io/v1alpha1",
        "kind": "NetworkSwap",
        "metadata": meta,
        "spec": spec,
    }


def edit_to(machine: Machine, target: str) -> str:
    """The complaint about an edit of a machine's network."""
    path = "/spec/template/spec/networks/0/multus/networkName"
    steps = [{"op": "replace", "path": path, "value": target}]
    return machine.lab.kubectl(
        "patch", "vm", machine.name, "--type=json", "-p", json.dumps(steps), fails=True
    )


def agreement(lab: Lab) -> str:
    """What the manager says of node1."""
    found = json.loads(lab.kubectl("get", "lannodes", "-o", "json"))["items"]
    conditions = found[0].get("status", {}).get("conditions", ()) if found else ()
    return next((str(item["reason"]) for item in conditions if item["type"] == "NamespaceIsolation"), "")


def test_a_network_of_another_namespace(own_lab: Lab) -> None:
    """A tenant's pod, edit and NetworkSwap are refused alike; the own and the global namespace are open."""
    lab = own_lab
    lab.run("up", "--nodes", "1", "--multus-isolation")
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    for name in ("secret", "tenant"):
        lab.kubectl("create", "namespace", name)
    lab.apply(vlan(2012), vlan(2013), placed(vlan(2013), "secret", "hidden"))
    eventually(lambda: agreement(lab) == "Agrees")  # agents read Multus' file once a minute

    lab.apply(pod("tenant", "at-home", "default/vlan2012"), pod("tenant", "away", "secret/hidden"))
    lab.kubectl("wait", "--for=condition=Ready", "pod/at-home", "-n", "tenant", "--timeout=300s")
    eventually(lambda: "namespace isolation is on" in lab.kubectl("get", "events", "-n", "tenant"))

    machine = Machine(lab, "vm1")
    machine.create("vlan2012", address=f"{FIRST}.50/24", migratable=False)
    machine.run(f"ip address add {SECOND}.50/24 dev eth0")
    for target in ("secret/hidden", "secret/none"):
        for complaint in (edit_to(machine, target), lab.apply(swap_to(machine, target), fails=True)):
            assert f"{target} is in another namespace; with namespace isolation" in complaint
    assert named(machine) == "vlan2012"
    eventually(lambda: machine.reaches(f"{FIRST}.1"))
    assert lab.kubectl("get", "nswap", "-o", "name") == ""

    swap = move(machine, "vlan2012", "vlan2013", "there")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    eventually(lambda: machine.reaches(f"{SECOND}.1"))

"""NICs of real guests that move to other networks in place: by the agent of their node, without a migration.

What a guest must not notice is looked at in the guest: its boot, its MAC address, and how often its link went down.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.machines import Machine, remove_machines
from tests.lab.objects import example
from tests.lab.test_lan import lan as lan_body
from tests.lab.test_lan import pod as lan_pod

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]
FIRST, SECOND = "192.168.1", "192.168.2"
"""The networks of the DHCP servers on VLAN 2012 and 2013."""

LAN_HOST = "10.9.1.2"


def nad(name: str, **config: Any) -> Raw:
    """A NAD."""
    text = json.dumps({"cniVersion": "0.3.1", "name": name} | config)
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": meta,
        "spec": {"config": text},
    }


def vlan(vid: int) -> Raw:
    """A NAD of a VLAN on cluster-1."""
    return nad(f"vlan{vid}", type="bridge", bridge="cluster-1-br", vlan=vid)


def addresses(name: str, cidr: str, first: str, **fields: Any) -> Raw:
    """A network of address management with one pool."""
    subnet = {"cidr": cidr, "pools": [{"range": f"{first}-{first}"}], **fields}
    return {
        "apiVersion": "ipam.lanloom.io/v1alpha1",
        "kind": "Network",
        "metadata": {"name": name},
        "spec": {"subnets": [subnet]},
    }


@pytest.fixture(scope="module")
def networks(lab: Lab) -> Iterator[Lab]:
    """The lab with two VLANs, an isolated network with a subnet, and a LAN whose machine gets 10.9.1.50."""
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    isolated = {
        "apiVersion": "network.harvester.io/v1alpha1",
        "kind": "DummyClusterNetwork",
        "metadata": {"name": "iso"},
        "spec": {
            "bridgeName": "iso-br",
            "nadName": "iso",
            "nadNamespace": "default",
            "subnet": "10.116.0.0/24",
        },
    }
    ipam = {"type": "lanloom-ipam", "network": "lan-addresses"}
    lab.apply(
        vlan(2012),
        vlan(2013),
        isolated,
        addresses("lan-addresses", "10.9.1.0/24", "10.9.1.50"),
        lan_body("green", 4721, "vm", "p"),
        nad("green-vm", type="k8slanveth", veth="vm", binding="bridge", ipam=ipam),
    )
    lab.kubectl("wait", "--for=condition=Ready", "dcn/iso", "--timeout=300s")
    try:
        yield lab
    finally:
        lab.kubectl("delete", "pods", "neighbour", "p", "--ignore-not-found", "--timeout=300s")
        lab.kubectl("delete", "net-attach-def", "green-vm", "--ignore-not-found")
        lab.kubectl("delete", "nswap", "--all", "--namespace=default")
        lab.kubectl("delete", "lans.lan.k8slan.io", "--all", "--namespace=default", "--timeout=300s")
        remove_networks(lab)
        lab.kubectl("delete", "ipnet", "lan-addresses", "--timeout=300s")


@pytest.fixture
def machine(networks: Lab) -> Iterator[Machine]:
    """A machine on VLAN 2012 that can't migrate, with an address of each VLAN."""
    made = Machine(networks, "vm1")
    try:
        made.create("vlan2012", address=f"{FIRST}.50/24", migratable=False)
        made.run(f"ip address add {SECOND}.50/24 dev eth0")
        eventually(lambda: made.reaches(f"{FIRST}.1"))
        yield made
    finally:
        remove_machines(networks)


def move(machine: Machine, source: str, target: str, name: str) -> Raw:
    """Ask for a move and wait for its end; the swap."""
    spec = {
        "machine": machine.name,
        "uid": machine.instance()["metadata"]["uid"],
        "network": "net0",
        "from": f"default/{source}",
        "to": f"default/{target}",
        "record": True,
    }
    meta = {"name": name, "namespace": "default"}
    body = {
        "apiVersion": "liveupdate.lanloom.io/v1alpha1",
        "kind": "NetworkSwap",
        "metadata": meta,
        "spec": spec,
    }
    machine.lab.apply(body)

    def ended() -> Raw:
        found: Raw = json.loads(machine.lab.kubectl("get", "nswap", name, "-o", "json"))
        phase = found.get("status", {}).get("phase")
        return found if phase in ("Succeeded", "Reverted", "Failed") else {}

    found: Raw = eventually(ended, timeout=90)
    return found


def named(machine: Machine) -> str:
    """The NAD in the machine's template."""
    networks = machine.machine()["spec"]["template"]["spec"]["networks"]
    return str(networks[0]["multus"]["networkName"]).removeprefix("default/")


def test_between_vlans(machine: Machine) -> None:
    """A guest that can't migrate changes its VLAN: same boot, MAC and link, reachable there and silent here."""
    before, node = machine.identity(), machine.node
    swap = move(machine, "vlan2012", "vlan2013", "there")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    assert swap["status"]["port"]["gapMilliseconds"] > 0
    eventually(lambda: machine.reaches(f"{SECOND}.1"))
    assert not machine.reaches(f"{FIRST}.1")
    assert (machine.identity(), machine.node, named(machine)) == (before, node, "vlan2013")
    assert machine.migrations() == {}
    swap = move(machine, "vlan2013", "vlan2012", "back")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    eventually(lambda: machine.reaches(f"{FIRST}.1"))


def test_a_missing_nad(machine: Machine) -> None:
    """A move to a NAD that is not there says so, and the guest goes on where it is."""
    before = machine.identity()
    swap = move(machine, "vlan2012", "nowhere", "nowhere")
    assert swap["status"]["phase"] == "Reverted"
    assert "NetworkAttachmentDefinition default/nowhere does not exist" in swap["status"]["message"]
    eventually(lambda: machine.reaches(f"{FIRST}.1"))  # an echo may take longer than it waits
    assert (machine.identity(), named(machine)) == (before, "vlan2012")


@pytest.mark.kernel
def test_from_a_vlan_over_an_isolated_network_to_a_lan(machine: Machine) -> None:
    """A guest goes from a VLAN to an isolated network, to a LAN and back, and its addresses follow."""
    before, lab = machine.identity(), machine.lab
    swap = move(machine, "vlan2012", "iso", "to-isolated")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    [address] = swap["status"]["addresses"]
    lab.apply(neighbour(machine.node))
    lab.kubectl("wait", "--for=condition=Ready", "pod/neighbour", "--timeout=300s")
    machine.run(f"ip address add {address}/24 dev eth0")
    eventually(lambda: machine.reaches(address_of(lab, "neighbour")))
    assert not machine.reaches(f"{FIRST}.1")

    other = next(name for name in ("node1", "node2", "node3") if name != machine.node)
    lab.apply(lan_pod("p", other))
    lab.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=300s")
    lab.on(other, f"ip -n default.p address add {LAN_HOST}/24 dev net1")
    swap = move(machine, "iso", "green-vm", "to-lan")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    assert swap["status"]["addresses"] == ["10.9.1.50"]
    machine.run("ip address add 10.9.1.50/24 dev eth0")
    eventually(lambda: machine.reaches(LAN_HOST))
    assert not machine.reaches(address_of(lab, "neighbour"))

    swap = move(machine, "green-vm", "vlan2012", "home")
    assert swap["status"]["phase"] == "Succeeded", swap["status"]
    eventually(lambda: machine.reaches(f"{FIRST}.1"))
    assert not machine.reaches(LAN_HOST)
    assert (machine.identity(), named(machine)) == (before, "vlan2012")
    # Nothing uses the isolated network any more but the pod.
    lab.kubectl("delete", "pod", "neighbour", "p", "--timeout=300s")
    eventually(
        lambda: "iso" not in lab.kubectl("get", "ipnic", "-o", "jsonpath={..spec.network}"), timeout=180
    )


def neighbour(node: str) -> Raw:
    """A pod of the isolated network on a node."""
    meta = {
        "name": "neighbour",
        "namespace": "default",
        "annotations": {"k8s.v1.cni.cncf.io/networks": "default/iso@iso0"},
    }
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "any"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def address_of(lab: Lab, pod: str) -> str:
    """The address of a pod on its network."""
    text = lab.kubectl(
        "get", "pod", pod, "-o", r"jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}"
    )
    return str(next(item["ips"][0] for item in json.loads(text) if item.get("interface") == "iso0"))


SCRIPT = """case $1 in bound|renew) ip address flush dev $interface; ip address add $ip/$mask dev $interface;; \
deconfig) ip address flush dev $interface;; esac; echo $1 $ip $serverid $hostname >>/tmp/log"""
"""What BusyBox's client does with an answer, in one line."""


def leases(machine: Machine) -> list[list[str]]:
    """What the guest's DHCP client has got, the latest last: event, address, server, host name."""
    return [line.split() for line in (machine.attempt("cat /tmp/log") or "").splitlines()]


def renewed(machine: Machine, event: str) -> list[str]:
    """Let the guest renew, and wait for an event after that."""
    before = len(machine.run("cat /tmp/log").splitlines())
    machine.run("kill -USR1 $(cat /tmp/pid)")
    eventually(lambda: event in [words[0] for words in leases(machine)[before:]], timeout=150)
    return leases(machine)[-1]


def test_the_guest_gets_its_address(networks: Lab) -> None:
    """A guest has its NIC's address by DHCP, renews it on the node to which it migrates, and changes it with a move."""
    lab, machine = networks, Machine(networks, "vm1")
    names = ("dhcp-one", "dhcp-two")
    for at, name in enumerate(names):
        ipam = {"type": "lanloom-ipam", "network": name}
        lab.apply(
            addresses(
                name, f"10.9.{at + 2}.0/24", f"10.9.{at + 2}.60", dhcp=True, gateway=f"10.9.{at + 2}.1"
            ),
            lan_body(name, 4731 + at, name),
            nad(f"{name}-vm", type="k8slanveth", veth=name, binding="bridge", ipam=ipam),
        )
    try:
        machine.create("dhcp-one-vm")
        machine.run(
            f"mkdir -p /tmp; echo '#!/bin/sh' >/tmp/script; echo '{SCRIPT}' >>/tmp/script; chmod +x /tmp/script"
        )
        before, node = machine.identity(), machine.node
        machine.run("udhcpc -i eth0 -s /tmp/script -p /tmp/pid -t 100 -T 1 -n -O hostname")
        assert leases(machine)[-1] == ["bound", "10.9.2.60", "169.254.0.67", "vm1"]
        machine.migrate()
        assert machine.node != node
        assert renewed(machine, "renew")[:2] == ["renew", "10.9.2.60"]
        swap = move(machine, "dhcp-one-vm", "dhcp-two-vm", "dhcp")
        assert swap["status"]["phase"] == "Succeeded", swap["status"]
        assert renewed(machine, "bound")[:2] == ["bound", "10.9.3.60"]
        assert machine.identity() == before
    finally:
        remove_machines(lab)
        lab.kubectl("delete", "nswap", "--all", "--namespace=default")
        for name in names:
            lab.kubectl("delete", "net-attach-def", f"{name}-vm", "--ignore-not-found")
            lab.kubectl("delete", "lans.lan.k8slan.io", name, "--ignore-not-found", "--timeout=300s")
            lab.kubectl("delete", "ipnet", name, "--ignore-not-found", "--timeout=300s")

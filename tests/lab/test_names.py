"""Addresses that belong to names, on a lab's nodes: of StatefulSets' pods, by ordinal, of a machine, and of a group.

The lab has no StatefulSets, so the tests are their controller: pods of a template with their numbers in the names,
which belong to a StatefulSet that the server does not know.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from lanloom.api.ipam import ADDRESSES, STICKY_FOR
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from tests.lab.conftest import remove_networks
from tests.lab.driver import Lab, eventually
from tests.lab.machines import Machine, remove_machines
from tests.lab.objects import example
from tests.lab.test_cni_ipam import without_networks

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

NETWORK, SHOP = "named", "shop"
POOL = "10.22.0.50-10.22.0.60"
QUOTA = 3


class Names:
    """The lab with a network that keeps addresses for names, and a NAD of it in two namespaces."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def start(self, *pods: Raw) -> list[str]:
        """The addresses of these pods, which are made in this order and run on the wire."""
        for body in pods:
            self.lab.apply(body)
            name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
            self.lab.kubectl(
                "wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, "--timeout=300s"
            )
        return [self._address(body["metadata"]["name"], body["metadata"]["namespace"]) for body in pods]

    def _address(self, name: str, namespace: str) -> str:
        pod = json.loads(self.lab.kubectl("get", "pod", name, "-n", namespace, "-o", "json"))
        (status,) = json.loads(pod["metadata"]["annotations"][NETWORK_STATUS])
        (address,) = status["ips"]
        node = pod["spec"]["nodeName"]
        assert f" {address}/24 " in self.lab.on(node, f"ip -n {namespace}.{name} -o address show dev net1")
        return str(address)

    def end(self, *pods: str) -> None:
        """Pods are deleted, as by their controller, and are gone."""
        self.lab.kubectl("delete", "pods", *pods, "--timeout=300s")

    def usage(self) -> str:
        """What `network usage` prints of the network, in wide lines."""
        return self.lab.lanloom("network", "usage", NETWORK)

    def is_held(self, address: str, owner: str) -> bool:
        """Whether an address is shown as kept for a name that no pod has."""
        return f"{address}: held for {owner} until 2" in self.usage()

    def events(self, kind: str) -> str:
        """What the Events of these objects say."""
        items = json.loads(self.lab.kubectl("get", "events", "-A", "-o", "json"))["items"]
        return "\n".join(item["message"] for item in items if item["involvedObject"]["kind"] == kind)

    def reaches(self, node: str, pod: str, address: str, namespace: str = "default") -> bool:
        """Whether a pod gets an answer."""
        ping = f"ip netns exec {namespace}.{pod} ping -c 1 -W 1 {address} >/dev/null && echo yes"
        return "yes" in self.lab.on(node, ping, status=None)


def nad(namespace: str) -> Raw:
    """The network's NAD in a namespace."""
    config = {
        "cniVersion": "1.0.0",
        "name": NETWORK,
        "type": "bridge",
        "bridge": "cluster-1-br",
        "vlan": 2022,
        "ipam": {"type": "lanloom-ipam", "network": NETWORK, "ips": ["pool"]},
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": NETWORK, "namespace": namespace},
        "spec": {"config": json.dumps(config)},
    }


def network() -> Raw:
    """A network that keeps addresses of StatefulSets' pods and of machines; a namespace may have three at most."""
    return {
        "apiVersion": "ipam.lanloom.io/v1alpha1",
        "kind": "Network",
        "metadata": {"name": NETWORK},
        "spec": {
            "subnets": [{"cidr": "10.22.0.0/24", "pools": [{"range": POOL}]}],
            "quota": {"*": QUOTA},
            "stickyFor": {"StatefulSet": "1h", "VirtualMachine": "1h"},
        },
    }


@pytest.fixture(scope="module")
def names(lab: Lab) -> Iterator[Names]:
    """The lab with the network, for all tests here."""
    lab.kubectl("apply", "-f", example("cluster-1.yaml"))
    lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=300s")
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    lab.apply(network(), nad("default"), nad(SHOP))
    try:
        lab.kubectl("wait", "--for=condition=Ready", f"networks.ipam.lanloom.io/{NETWORK}", "--timeout=300s")
        yield Names(lab)
    finally:
        lab.kubectl("delete", "namespace", SHOP, "--timeout=300s")
        eventually(lambda: without_networks(lab))
        remove_networks(lab)


@pytest.fixture(autouse=True)
def leaving(names: Names) -> Iterator[None]:
    """After each test, no NIC has or keeps an address."""
    yield
    remove_machines(names.lab)
    names.lab.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
    names.lab.kubectl("delete", "pods", "--all", f"--namespace={SHOP}", "--timeout=300s")
    names.lab.kubectl("delete", "nics", "--all", "--all-namespaces", "--timeout=300s")


def pod(name: str, node: str, *, of: str = "", namespace: str = "default", **annotations: str) -> Raw:
    """A pod on the network; `of` is the StatefulSet that made it, and annotations are those of its template."""
    keys = {"sticky_for": STICKY_FOR, "addresses": ADDRESSES}
    meta: Raw = {"name": name, "namespace": namespace}
    meta["annotations"] = {MULTUS_NETWORKS: NETWORK} | {keys[key]: text for key, text in annotations.items()}
    if of:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": of, "uid": f"{namespace}-{of}"}
        meta["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_a_stateful_set(names: Names) -> None:
    """Pods that come again in another order, on other nodes, have their addresses, which no other pod gets, and
    which count for the quota until they are released."""
    lab = names.lab
    web = partial(pod, of="web")
    first, second = names.start(web("web-0", "node1"), web("web-1", "node2"))
    assert (first, second) == ("10.22.0.50", "10.22.0.51")
    names.end("web-0", "web-1")
    eventually(lambda: names.is_held(first, "Pod default/web-0"))
    eventually(lambda: names.is_held(second, "Pod default/web-1"))
    theirs = names.start(pod("other", "node1"), pod("web-0", "node2", of="web", namespace=SHOP))
    assert theirs == ["10.22.0.52", "10.22.0.53"], "another name, and the same one in another namespace"
    again = names.start(web("web-1", "node3"), web("web-0", "node2"))
    assert again == [second, first]
    eventually(lambda: "held" not in names.usage())
    eventually(lambda: names.reaches("node3", "web-1", first))

    # The set is scaled down to one pod: the other one's address still counts.
    names.end("web-1")
    eventually(lambda: names.is_held(second, "Pod default/web-1"))
    lab.apply(pod("late", "node1"))
    eventually(lambda: f"{NETWORK} is exceeded: requested 1, used 3, limit 3" in names.events("Pod"))
    lab.lanloom("network", "release", NETWORK, second)
    lab.kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=300s")
    assert names.start(pod("late", "node1")) == [second]
    assert not names.is_held(second, "Pod default/web-1")


def test_nobody_comes_again(names: Names) -> None:
    """Addresses of a name that does not come again are free after the time that the pod's annotation says."""
    [address] = names.start(pod("web-0", "node1", of="web", sticky_for="1s"))
    names.end("web-0")
    eventually(lambda: f"did not come back in time; gave back {address}" in names.events("Nic"))
    eventually(lambda: "web-0" not in names.lab.kubectl("get", "nics"))
    assert names.start(pod("other", "node2")) == [address]


def test_a_list_by_ordinal(names: Names) -> None:
    """Each pod of a StatefulSet has the address of its number, whichever comes first; one too many gets an Event."""
    listed = json.dumps({NETWORK: ["10.22.0.10-10.22.0.19"]})
    db = partial(pod, of="db", addresses=listed)
    assert names.start(db("db-9", "node2"), db("db-0", "node1")) == ["10.22.0.19", "10.22.0.10"]
    names.end("db-0", "db-9")
    assert names.start(db("db-0", "node2"), db("db-9", "node1")) == ["10.22.0.10", "10.22.0.19"]
    names.lab.apply(db("db-10", "node3"))
    eventually(lambda: "has no address for ordinal 10 of db; add more addresses" in names.events("Pod"))


def test_a_machine(names: Names) -> None:
    """A machine that is deleted and made again has its address, in a pod of another name."""
    machine = Machine(names.lab, "vm1")
    machine.create(NETWORK)
    before, [address] = eventually(lambda: machine.pod), owned(names.lab)
    remove_machines(names.lab)
    eventually(lambda: names.is_held(address, "VirtualMachine default/vm1"))
    [others] = names.start(pod("other", "node1"))
    assert others != address
    machine.create(NETWORK)
    assert eventually(lambda: machine.pod) != before
    assert owned(names.lab) == [address]
    eventually(lambda: "held" not in names.usage())


def owned(lab: Lab) -> list[str]:
    """The addresses of the machine, as its NICs have them."""
    items = json.loads(lab.kubectl("get", "nics", "-o", "json"))["items"]
    mine = [item for item in items if item["spec"]["owner"] == {"kind": "VirtualMachine", "name": "vm1"}]
    return [address for item in mine for address in item.get("status", {}).get("ips", ())]


class Member(NamedTuple):
    """A pod of a group, and its node."""

    name: str
    node: str

    def run(self, lab: Lab, command: str) -> str:
        """What a command prints in the pod's network."""
        return lab.on(self.node, f"ip netns exec default.{self.name} {command}")

    def mac(self, lab: Lab) -> str:
        """The MAC address of its interface."""
        return str(json.loads(self.run(lab, "ip -j link show net1"))[0]["address"])


def test_an_address_of_a_group(names: Names) -> None:
    """An address of a group is given to no pod, moves between its members by gratuitous ARP, as keepalived does, and is
    free when the group ends."""
    lab, shared = names.lab, "10.22.0.50"
    lab.lanloom("instance", "add", "--net", f"0:ip={shared},network={NETWORK}", "web-vip")
    first, second = Member("member-0", "node1"), Member("member-1", "node2")
    own = names.start(*(pod(*each) for each in (first, second)), pod("client", "node3", namespace=SHOP))
    assert shared not in own
    assert f"Instance default/web-vip, NIC 0: {shared}" in lab.lanloom("network", "info", NETWORK)

    first.run(lab, f"ip address add {shared}/32 dev net1")
    eventually(lambda: names.reaches("node3", "client", shared, SHOP))
    first.run(lab, f"ip address delete {shared}/32 dev net1")
    second.run(lab, f"ip address add {shared}/32 dev net1")
    macs = first.mac(lab), second.mac(lab)

    def moves() -> bool:
        second.run(lab, f"arping -q -U -c 1 -I net1 {shared}")
        seen = lab.on("node3", f"ip -n {SHOP}.client neighbour show {shared}")
        assert macs[0] in seen or macs[1] in seen
        return macs[1] in seen

    eventually(moves)
    eventually(lambda: names.reaches("node3", "client", shared, SHOP))
    lab.lanloom("instance", "remove", "web-vip")
    assert names.start(pod("next", "node1")) == [shared]

"""Two tenants and their LANs: what one of them takes of the other's, and of the nodes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.driver import Lab, eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

OWNER, THIEF = "tenant-a", "tenant-b"
ADDRESSES = {"web": "10.8.0.1", "thief": "10.8.0.2"}
NODES = {"web": "node1", "thief": "node2"}


def lan(name: str, namespace: str, **spec: Any) -> Raw:
    """A LAN over the management VLAN."""
    plain = {"ns": f"lan-{name}", "bridge": "br0", "vxlan": "vx0", "defaultVxlanDev": "mgmt-br.2021"}
    return {
        "apiVersion": "lan.k8slan.io/v1beta1",
        "kind": "LAN",
        "metadata": {"name": name, "namespace": namespace},
        "spec": plain | spec,
    }


BLUE = lan("blue", OWNER, vni=4811, spokes=["ta1", "ta2"])


def nad(name: str, spoke: str) -> Raw:
    """A NAD of the second tenant that names a spoke."""
    config = {"cniVersion": "0.3.1", "name": name, "type": "k8slanveth", "veth": spoke}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": THIEF},
        "spec": {"config": json.dumps(config)},
    }


def pod(name: str, namespace: str, network: str) -> Raw:
    """A pod on a network."""
    annotations = {"k8s.v1.cni.cncf.io/networks": f"{network}@net1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"nodeName": NODES[name], "containers": [{"name": "main", "image": "any"}]},
    }


def namespace_body(name: str) -> Raw:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@pytest.fixture
def tenants(clean: Lab) -> Iterator[Lab]:
    """The lab with the namespaces of two tenants, which go afterwards."""
    clean.apply(*map(namespace_body, (OWNER, THIEF)))
    try:
        yield clean
    finally:
        for namespace in (OWNER, THIEF):
            clean.kubectl("delete", "pods", "--all", f"--namespace={namespace}", "--timeout=300s")
        clean.kubectl("delete", "lans.lan.k8slan.io", "--all", "--all-namespaces", "--timeout=300s")
        clean.kubectl("delete", "namespace", OWNER, THIEF, "--timeout=300s")


def start(lab: Lab, name: str, namespace: str, network: str) -> None:
    """Starts a pod, and gives it an address."""
    lab.apply(pod(name, namespace, network))
    runs(lab, name, namespace)


def runs(lab: Lab, name: str, namespace: str) -> None:
    """Waits for a pod, and gives it an address."""
    lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--namespace={namespace}", "--timeout=300s")
    lab.on(NODES[name], f"ip -n {namespace}.{name} address add {ADDRESSES[name]}/24 dev net1")


def admit(lab: Lab, *namespaces: str) -> None:
    """The owner says who else may use the LAN."""
    patch = json.dumps({"spec": {"namespaces": namespaces}})
    lab.kubectl("patch", "lan", "blue", f"--namespace={OWNER}", "--type=merge", "-p", patch)


def is_reached(lab: Lab) -> bool:
    """Whether the second tenant's pod gets an answer of the first one's."""
    ping = f"ip netns exec {THIEF}.thief ping -c 1 -W 1 {ADDRESSES['web']} >/dev/null && echo yes"
    return "yes" in lab.on(NODES["thief"], ping, status=None)


def told(lab: Lab) -> str:
    """What the Events of the second tenant's pod say."""
    return lab.kubectl("get", "events", f"--namespace={THIEF}", "-o", "jsonpath={.items[*].message}")


def test_a_lan_belongs_to_its_namespace(tenants: Lab) -> None:
    """A tenant's pod is on another's LAN only if the owner admits the namespace, and the owner sees it there."""
    tenants.apply(nad("early", "ta2"))
    tenants.apply(BLUE)
    start(tenants, "web", OWNER, "k8slan-veth-ta1")
    said = tenants.apply(nad("steal", "ta2"), fails=True)
    assert f"the spoke ta2 is of a LAN of another namespace, which does not admit namespace {THIEF}" in said
    assert OWNER not in said and "blue" not in said
    for network in ("early", f"{OWNER}/k8slan-veth-ta2"):
        tenants.apply(pod("thief", THIEF, network))
        eventually(lambda: "does not admit namespace" in told(tenants))
        assert f"{THIEF}.thief" not in tenants.on("node2", "ip -br link")
        tenants.kubectl("delete", "pod", "thief", f"--namespace={THIEF}", "--timeout=300s")
        tenants.kubectl("delete", "events", "--all", f"--namespace={THIEF}")
    admit(tenants, THIEF)
    tenants.apply(nad("steal", "ta2"))
    start(tenants, "thief", THIEF, "steal")
    eventually(lambda: is_reached(tenants))
    eventually(lambda: f"{THIEF}/thief" in tenants.lanloom("lan", "show", f"{OWNER}/blue"))
    admit(tenants)
    assert is_reached(tenants)
    tenants.kubectl("delete", "lan", "blue", f"--namespace={OWNER}", "--wait=false")
    eventually(lambda: f"Pod {THIEF}/thief" in tenants.lanloom("why-not-deleted", f"lan/{OWNER}/blue"))


def test_what_a_lan_may_not_take(tenants: Lab) -> None:
    """LANs of a tenant get neither the nodes' VLAN, nor their ports and groups, unless an administrator says so."""
    uplink = {"clusterNetwork": "mgmt", "vlan": 2021}
    evil = lan("evil", THIEF, vni=4812, spokes=["tb1"], uplink=uplink)
    # Before an agent has reported which VLAN is that of the nodes, that is the reason of the refusal.
    eventually(lambda: "no agent has reported" not in tenants.apply(evil, fails=True))
    for refused, message in (
        ({"uplink": uplink}, "VLAN 2021 is that of the management network itself"),
        ({"vxlanPort": 68}, "spec.vxlanPort is 68; LANs may use"),
        ({"vxlanPort": 8472}, "the VXLAN of flannel"),
        ({"vxlanGrp": "224.0.0.1"}, "spec.vxlanGrp is 224.0.0.1"),
    ):
        said = tenants.apply(lan("evil", THIEF, vni=4812, spokes=["tb1"], **refused), fails=True)
        assert message in said
    tenants.apply(BLUE)
    said = tenants.apply(lan("evil", THIEF, vni=4811, spokes=["tb1"]), fails=True)
    assert "is the VNI of a LAN of another namespace already" in said and OWNER not in said
    field = "network.harvesterhci.io/management-vlan-namespaces"
    try:
        tenants.kubectl("annotate", "clusternetwork", "mgmt", f'{field}=["{THIEF}"]')
        good = json.dumps(lan("good", THIEF, vni=4812, spokes=["tb1"], uplink=uplink))
        tenants.kubectl("apply", "--dry-run=server", "-f", "-", given=good)
    finally:
        tenants.kubectl("annotate", "clusternetwork", "mgmt", f"{field}-")


def test_two_tenants_have_the_same_subnet(tenants: Lab) -> None:
    """LANs of two tenants give the same addresses to pods of each, and no pod reaches the other tenant's."""
    for name, namespace, vni in (("blue", OWNER, 4811), ("red", THIEF, 4812)):
        spokes = [f"{name}1", f"{name}2"]
        tenants.apply(lan(name, namespace, vni=vni, spokes=spokes, subnets=[{"cidr": "10.9.0.0/24"}]))
    for name, namespace, network in (
        ("web", OWNER, "blue1"),
        ("thief", OWNER, "blue2"),
        ("web", THIEF, "red1"),
    ):
        tenants.apply(pod(name, namespace, f"k8slan-veth-{network}"))
        wanted = f"--for=condition=Ready pod/{name} --namespace={namespace} --timeout=300s"
        tenants.kubectl("wait", *wanted.split())
    addresses = "jsonpath={range .items[*]}{.metadata.namespace}/{.spec.owner.name}={.status.ips[0]} {end}"
    found = tenants.kubectl("get", "nics.ipam.lanloom.io", "--all-namespaces", "-o", addresses)
    # Those of the tenants: pods of an earlier test have theirs for a moment longer.
    assert {item for item in found.split() if item.partition("/")[0] in (OWNER, THIEF)} == {
        f"{OWNER}/web=10.9.0.1",
        f"{OWNER}/thief=10.9.0.2",
        f"{THIEF}/web=10.9.0.1",
    }
    asking = f"ip netns exec {OWNER}.thief ping -c 1 -W 1 10.9.0.1 >/dev/null && echo yes"
    eventually(lambda: "yes" in tenants.on("node2", asking, status=None))
    tenants.kubectl("delete", "pod", "web", f"--namespace={OWNER}", "--timeout=300s")
    assert "yes" not in tenants.on("node2", asking, status=None)
    tenants.kubectl("delete", "pod", "thief", f"--namespace={OWNER}", "--timeout=300s")
    tenants.kubectl("delete", "lan", "blue", f"--namespace={OWNER}", "--timeout=300s")
    assert OWNER not in tenants.kubectl("get", "networks.ipam.lanloom.io", "-o", "name")


RIGHTS = ("create", "get", "list", "patch", "update", "delete")


def owned(namespace: str) -> tuple[Raw, Raw, Raw]:
    """A namespace, and the right of a user of the same name to write LANs there."""
    meta = {"name": "lans", "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    user = {"kind": "User", "name": namespace, "apiGroup": group}
    rules = [{"apiGroups": ["lan.k8slan.io"], "resources": ["lans"], "verbs": RIGHTS}]
    kind = {"apiVersion": f"{group}/v1", "metadata": meta}
    reference = {"kind": "Role", "name": "lans", "apiGroup": group}
    return (
        namespace_body(namespace),
        kind | {"kind": "Role", "rules": rules},
        kind | {"kind": "RoleBinding", "subjects": [user], "roleRef": reference},
    )


def test_a_tenant_makes_lans_within_a_quota(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant makes as many LANs as the manager allows a namespace, and one more for each that he deletes."""
    monkeypatch.setenv("LANLOOM_LAN_MAX_LANS", "2")
    own_lab.run("up", "--nodes", "1")
    own_lab.apply(*owned(OWNER), *owned(THIEF))

    def make(number: int, namespace: str = OWNER, *, fails: bool = False) -> str:
        body = lan(f"l{number}", namespace, vni=4820 + number, spokes=[f"s{number}"])
        given = json.dumps(body)
        return own_lab.kubectl("apply", f"--as={namespace}", "-f", "-", given=given, fails=fails)

    make(1)
    make(2)
    said = make(3, fails=True)
    assert f"LAN {OWNER}/l3: namespace {OWNER} would have 3 LANs" in said
    assert "one namespace may have 2; remove others, or ask an administrator to raise --lan-max-lans" in said
    make(4, THIEF)
    own_lab.kubectl("delete", "lan", "l1", f"--namespace={OWNER}", f"--as={OWNER}", "--timeout=300s")
    make(3)
    start(own_lab, "web", OWNER, "k8slan-veth-s3")
    assert "would have 3 LANs" in make(1, fails=True)

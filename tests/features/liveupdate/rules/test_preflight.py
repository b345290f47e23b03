"""What stands against a move, word for word: the object, the field, and what to do."""

from typing import Any

import msgspec
import pytest

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node, Pod
from lanloom.api.dummy import DRAINING
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.kubevirtconfig import KubeVirt
from lanloom.api.lan import LAN, LANNode
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, NetworkAttachmentDefinition
from lanloom.features.liveupdate.rules.mode import mode_of
from lanloom.features.liveupdate.rules.networks import MARK, Networks, eligible_nodes, marked_bridges
from lanloom.features.liveupdate.rules.preflight import Facts, check
from tests.features.liveupdate.swap.scene import MACHINE, NIC, PLACE, nad_body, spec_body, status_text

Raw = dict[str, Any]
TITLE = "VirtualMachineInstance default/db"


def nad(name: str, *, metadata: Raw | None = None, **config: Any) -> NetworkAttachmentDefinition:
    """A NAD of CNI's `bridge` plugin on cluster-1, unless given otherwise."""
    body = nad_body(name, **config)
    body["metadata"] |= metadata or {}
    return msgspec.convert(body, NetworkAttachmentDefinition)


def machine(spec: Raw | None = None, metadata: Raw | None = None, **status: Any) -> VirtualMachineInstance:
    """The machine, which runs on node1 and can migrate."""
    found = {
        "phase": "Running",
        "nodeName": "node1",
        "conditions": [{"type": "LiveMigratable", "status": "True"}],
    }
    body = {
        "metadata": {"name": MACHINE, "namespace": PLACE} | (metadata or {}),
        "spec": spec or spec_body("vlan10"),
        "status": found | status,
    }
    return msgspec.convert(body, VirtualMachineInstance)


def pod(nad: str = "default/vlan10", **told: Any) -> Pod:
    """The launcher pod, attached to a NAD, of which Multus reported this besides."""
    own, entry = msgspec.json.decode(status_text(nad))
    text = msgspec.json.encode([own, entry | told]).decode()
    meta = {"name": "p", "namespace": PLACE, "annotations": {NETWORK_STATUS: text}}
    return msgspec.convert({"metadata": meta}, Pod)


def report(node: str, ready: str = "True", mtu: int = 1500, ids: str = "") -> ClusterNetworkNode:
    """What a node says of cluster-1."""
    status = {
        "clusterNetwork": "cluster-1",
        "node": node,
        "mtu": mtu,
        "vlanIds": ids,
        "conditions": [{"type": "ready", "status": ready}],
    }
    return msgspec.convert({"metadata": {"name": node}, "status": status}, ClusterNetworkNode)


def lan(**metadata: Any) -> LAN:
    """A LAN with the spoke web."""
    body = {"metadata": {"name": "blue", "namespace": PLACE} | metadata, "spec": {"spokes": ["web"]}}
    return msgspec.convert(body, LAN)


def taken(pod: str) -> Networks:
    """That LAN, with a pod at its spoke on node2."""
    lans = [
        {
            "namespace": PLACE,
            "name": "blue",
            "uid": "u",
            "spokes": [{"name": "web", "mode": "veth", "pod": pod}],
        }
    ]
    body = {"metadata": {"name": "node2"}, "status": {"lans": lans}}
    return Networks(lans=(lan(),), lan_nodes=(msgspec.convert(body, LANNode),))


def two_nics(*nads: str) -> Raw:
    """A machine's spec with a NIC on each of the NADs."""
    spec = spec_body(nads[0])
    spec["networks"].append({"name": "lan1", "multus": {"networkName": nads[1]}})
    spec["domain"]["devices"]["interfaces"].append({"name": "lan1", "bridge": {}})
    return spec


LAN_TARGET = nad("vlan20", type="k8slanveth", veth="web")


def bound(**interface: Any) -> Raw:
    """A machine's spec with another kind of NIC."""
    spec = spec_body("vlan10")
    spec["domain"]["devices"]["interfaces"][1] = {"name": NIC} | interface
    return spec


def facts(**more: Any) -> Facts:
    """A move that can be made in either way, unless given otherwise."""
    known: Raw = {
        "title": TITLE,
        "network": NIC,
        "leaves": Key(PLACE, "vlan10"),
        "enters": Key(PLACE, "vlan20"),
        "machine": machine(),
        "pod": pod(),
        "source": nad("vlan10", vlan=10),
        "target": nad("vlan20", vlan=20),
        "eligible": frozenset({"node2"}),
        "networks": Networks(reports=(report("node1"), report("node2"))),
    }
    return Facts(**known | more)


DEFAULT = spec_body("vlan10")
DEFAULT["networks"][1]["multus"]["default"] = True

OLD_KUBEVIRT = msgspec.convert(
    {"metadata": {"name": "kv", "namespace": "kubevirt"}, "status": {"observedKubeVirtVersion": "v1.7.0"}},
    KubeVirt,
)

ELSEWHERE = lan(namespace="elsewhere")
NOT_ADMITTED = (
    "NetworkAttachmentDefinition default/vlan20: the spoke web is of a LAN of another namespace, which does not admit "
    "namespace default; add default to spec.namespaces of that LAN"
)

BOTH: dict[str, tuple[Raw, str]] = {
    "a LAN of another namespace": (
        {
            "target": nad("vlan20", type="k8slanveth", veth="web"),
            "networks": Networks(lans=(ELSEWHERE,)),
        },
        NOT_ADMITTED,
    ),
    "a macvtap at a LAN of another namespace": (
        {
            "target": nad("vlan20", type="macvtap", deviceID="webM0"),
            "networks": Networks(lans=(ELSEWHERE,)),
        },
        NOT_ADMITTED,
    ),
    "a spoke of no LAN": ({"target": LAN_TARGET}, "no LAN has the spoke web; add it to one"),
    "a LAN that goes": (
        {"target": LAN_TARGET, "networks": Networks(lans=(lan(deletionTimestamp="2026-01-01T00:00:00Z"),))},
        "LAN default/blue with the spoke web is being deleted",
    ),
    "a spoke that a pod has": (
        {"target": LAN_TARGET, "networks": taken("default/r1")},
        "vlan20: the spoke web is taken by Pod default/r1; name another one, or take that pod off the LAN",
    ),
    "a spoke that another pod has": (
        {"target": LAN_TARGET, "networks": taken("secret/r1")},
        "the spoke web is taken by a Pod of another namespace",
    ),
    "a spoke of another NIC of the machine": (
        {
            "target": LAN_TARGET,
            "networks": taken("default/p"),
            "machine": machine(two_nics("vlan10", "vlan20")),
        },
        "its NIC lan1 is on default/vlan20, a spoke of a LAN; name another spoke",
    ),
    "no machine": ({"machine": None}, f"{TITLE} does not run; start it"),
    "one that ended": ({"machine": machine(phase="Failed")}, f"{TITLE} does not run; start it"),
    "one that stops": (
        {"machine": machine(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})},
        f"{TITLE} is being stopped; start it again",
    ),
    "one that starts": (
        {"machine": machine(phase="Scheduled")},
        f"{TITLE} does not run yet (its phase is Scheduled); wait until it is Running",
    ),
    "one without a status": ({"machine": machine(phase="", nodeName="")}, "its phase is not known yet"),
    "no such network": ({"network": "lan9"}, f'{TITLE} has no network "lan9"; it has default, lan0'),
    "the pod network": (
        {"network": "default"},
        "the network default is the pod network, which can't be changed",
    ),
    "an unplugged NIC": ({"machine": machine(bound(bridge={}, state="absent"))}, "is being unplugged"),
    "another network": ({"leaves": Key(PLACE, "x")}, "the network lan0 is default/vlan10, and not default/x"),
    "no name": (
        {"enters": Key("a", "b/c"), "target": None},
        '"a/b/c" can\'t name a NetworkAttachmentDefinition; use',
    ),
    "an empty name": ({"enters": Key(PLACE, ""), "target": None}, '"default/" can\'t name'),
    "no target": ({"target": None}, "NetworkAttachmentDefinition default/vlan20 does not exist; create it"),
    "a target that goes": (
        {"target": nad("vlan20", metadata={"annotations": {DRAINING: "x"}})},
        "is being deleted and accepts no new users",
    ),
    "an older KubeVirt": (
        {"mode": mode_of([OLD_KUBEVIRT])},
        "mode restart: KubeVirt v1.7.0 does not change networks of running machines; edit the VirtualMachine and "
        "restart it, or update KubeVirt to 1.9",
    ),
    "a migration": ({"migrating": "away"}, f"{TITLE} is being migrated (away); wait"),
}

LISTED = nad(
    "vlan20", type=None, bridge=None, plugins=[{"type": "bridge", "bridge": "cluster-1-br", "vlan": 20}]
)
MIGRATION: dict[str, tuple[Raw, str]] = {
    "a machine that can't": ({"machine": machine(conditions=[])}, "its condition LiveMigratable is not True"),
    "another plugin": ({"target": nad("vlan20", type="ovs")}, "a migration keeps the binding of the NIC"),
    "a device for a NIC with the bridge binding": (
        {"target": nad("vlan20", type="macvtap", deviceID="webM0"), "networks": Networks(lans=(lan(),))},
        "a migration keeps the binding of the NIC",
    ),
    "an interface for a NIC without the bridge binding": (
        {"target": LAN_TARGET, "networks": Networks(lans=(lan(),)), "machine": machine(bound(sriov={}))},
        "a migration keeps the binding of the NIC",
    ),
    "no other node": ({"eligible": frozenset()}, "no other node is Ready and accepts machines"),
    "no node with the bridge": (
        {"eligible": frozenset({"node3"})},
        f"default/vlan20 can't be had on any node that {TITLE} can migrate to: the bridge of its cluster network "
        "cluster-1 is not ready on node3; add the node",
    ),
    "a bridge on no node at all": (
        {"networks": Networks(cluster_networks=frozenset({"cluster-1"}))},
        "the bridge of its cluster network cluster-1 is not ready on node2",
    ),
    "a bridge of others that bridge-marker finds on no such node": (
        {
            "target": nad("vlan20", bridge="br1"),
            "networks": Networks(marked={"node1": frozenset({"br1"}), "node2": frozenset({"br0"})}),
        },
        f"default/vlan20 can't be had on any node that {TITLE} can migrate to: there is no bridge br1 on node2",
    ),
    "no node with the VLAN id": (
        {"networks": Networks(reports=(report("node1", ids="1,20"), report("node2", ids="1,10-19")))},
        "its VLAN id 20 is not on the uplink of cluster network cluster-1 on node2; add the node",
    ),
    "no node with the VLAN id of a list of plugins": (
        {"target": LISTED, "networks": Networks(reports=(report("node1"), report("node2", ids="1,10-19")))},
        "its VLAN id 20 is not on the uplink of cluster network cluster-1 (create a NAD of the type bridge, without a "
        "list of plugins, that has the id) on node2; add the node",
    ),
    "no node with the bridge of a list of plugins": (
        {"target": LISTED, "networks": Networks(reports=(report("node2", "False"),))},
        "the bridge of its cluster network cluster-1 is not ready on node2",
    ),
    "each node lacks something": (
        {
            "networks": Networks(reports=(report("node2", ids="1"), report("node3", "False"))),
            "eligible": frozenset({"node2", "node3", "node4"}),
        },
        "cluster-1 on node2; the bridge of its cluster network cluster-1 is not ready on node3, node4;",
    ),
}

IN_PLACE: dict[str, tuple[Raw, str]] = {
    "the place of the pod network": ({"machine": machine(DEFAULT)}, "takes the place of the pod network"),
    "SR-IOV": ({"machine": machine(bound(sriov={}))}, "has no bridge binding; move it by migration"),
    "no way back": ({"source": None}, "so a failed move could not be taken back"),
    "a target that can't be moved to": (
        {"target": nad("vlan20", disableContainerInterface=True)},
        "spec.config.disableContainerInterface is set",
    ),
    "a source that can't be moved from": (
        {"source": nad("vlan10", disableContainerInterface=True)},
        "vlan10: spec.config.disableContainerInterface",
    ),
    "a NIC that comes": (
        {"machine": machine(interfaces=[{"name": NIC}])},
        "default is being plugged in or unplugged; wait",
    ),
    "no pod": ({"pod": None}, "its launcher pod on node1 is unknown"),
    "an unreadable status": ({"pod": Pod()}, "is missing; does Multus run on the node?"),
    "a pod elsewhere": ({"pod": pod("default/x")}, "is attached to default/x"),
    "a pod that is there already": ({"pod": pod("default/vlan20")}, "is attached to default/vlan20"),
    "no VLAN id on the node": (
        {"networks": Networks(reports=(report("node1", ids="1,10-19"), report("node2")))},
        "vlan20: its VLAN id 20 is not on the uplink of cluster network cluster-1 on node1, on which",
    ),
    "no VLAN id on the node, by the plugin's other name": (
        {
            "target": nad("vlan20", type="cnv-bridge", vlan=20),
            "networks": Networks(reports=(report("node1", ids="1,10-19"), report("node2"))),
        },
        "its VLAN id 20 is not on the uplink of cluster network cluster-1 (create a NAD of the type bridge",
    ),
    "no bridge of others on the node": (
        {
            "target": nad("vlan20", bridge="br1"),
            "networks": Networks(marked={"node1": frozenset({"br0"}), "node2": frozenset({"br1"})}),
        },
        "there is no bridge br1 on node1, on which",
    ),
    "no bridge on the node": (
        {"networks": Networks(reports=(report("node1", "False"), report("node2")))},
        "on node1, on which",
    ),
}

WARNINGS: dict[str, tuple[Raw, str]] = {
    "addresses of others": (
        {"target": nad("vlan20", ipam={"type": "whereabouts"})},
        "are given by whereabouts",
    ),
    "a smaller MTU": ({"target": nad("vlan20", mtu=1400)}, "set 1400 in the guest"),
}


@pytest.mark.parametrize("namespaces", [("default",), ("*",)])
def test_a_lan_that_admits_the_machine(namespaces: tuple[str, ...]) -> None:
    """A machine moves to a LAN of another namespace that admits its own."""
    admitting = msgspec.structs.replace(
        ELSEWHERE, spec=msgspec.structs.replace(ELSEWHERE.spec, namespaces=namespaces)
    )
    target = nad("vlan20", type="k8slanveth", veth="web")
    found = check(facts(target=target, networks=Networks(lans=(admitting,))))
    assert found.against_in_place == ()


@pytest.mark.parametrize("pod", ["default/p", "default/target"])
def test_a_spoke_of_the_machine_itself(pod: str) -> None:
    """What the machine's own pods have is no reason: the target of its migration has the spoke before it runs there."""
    target = msgspec.convert({"metadata": {"name": "target", "namespace": PLACE}}, Pod)
    found = check(facts(target=LAN_TARGET, networks=taken(pod), pods=(target,)))
    assert (found.against_migration, found.against_in_place) == ((), ())


def test_a_nic_that_is_not_in_the_pod_yet() -> None:
    """A NIC that is being plugged in is waited for: that its pod says nothing of it is no reason for a restart."""
    coming = machine(interfaces=[{"name": "default"}])
    found = check(facts(machine=coming, pod=pod("default/x")))
    assert found.against_in_place == (
        f"{TITLE}: lan0 is being plugged in or unplugged; wait until that is done",
    )


VLAN, SPOKE = nad("vlan10", vlan=10), nad("vlan10", type="k8slanveth", veth="db")


@pytest.mark.parametrize("source", [VLAN, SPOKE], ids=["VLAN", "LAN"])
@pytest.mark.parametrize("target", [nad("vlan20", vlan=20), LAN_TARGET], ids=["VLAN", "LAN"])
def test_other_kinds_of_networks(
    source: NetworkAttachmentDefinition, target: NetworkAttachmentDefinition
) -> None:
    """A NIC with the bridge binding moves between VLANs and LANs, in either way."""
    networks = Networks(reports=(report("node1"), report("node2")), lans=(lan(),))
    found = check(facts(source=source, target=target, networks=networks))
    assert (found.against_migration, found.against_in_place) == ((), ())


@pytest.mark.parametrize("source", [VLAN, SPOKE], ids=["VLAN", "LAN"])
def test_a_network_in_deletion_can_be_left(source: NetworkAttachmentDefinition) -> None:
    """That the network which a NIC leaves is being deleted stands against neither way."""
    meta = msgspec.structs.replace(
        source.metadata, annotations={DRAINING: "x"}, deletion_timestamp="2026-01-01T00:00:00Z"
    )
    going = lan(deletionTimestamp="2026-01-01T00:00:00Z")
    networks = Networks(reports=(report("node1"), report("node2")), lans=(going,))
    found = check(facts(source=msgspec.structs.replace(source, metadata=meta), networks=networks))
    assert (found.against_migration, found.against_in_place) == ((), ())


def node(name: str, *, ready: str = "True", cordoned: bool = False, labels: Raw | None = None) -> Node:
    """A node of the cluster."""
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(body, Node)


def test_nodes_for_a_migration() -> None:
    """A machine migrates to nodes that are Ready and not cordoned, of them to those with KubeVirt's label."""
    plain = (node("node1"), node("node2"), node("node3", ready="False"), node("node4", cordoned=True))
    assert eligible_nodes(machine(), plain) == frozenset({"node2"})
    labelled = node("node5", labels={"kubevirt.io/schedulable": "true"})
    assert eligible_nodes(machine(), (*plain, labelled)) == frozenset({"node5"})
    assert eligible_nodes(machine(), ()) is None


@pytest.mark.parametrize("ids", ["", "1,10-20"])
def test_nothing_stands_against_it(ids: str) -> None:
    """A move between two VLANs of a machine that runs can be made in either way, where ids are reported or not."""
    found = check(facts(networks=Networks(reports=(report("node1", ids=ids), report("node2", ids=ids)))))
    assert (found.against_migration, found.against_in_place, found.warnings) == ((), (), ())


def test_nobody_migrates_machines() -> None:
    """Where KubeVirt is not to migrate machines by itself, the remedy is known, and stands against nothing."""
    body = {
        "metadata": {"name": "kv", "namespace": "kubevirt"},
        "status": {"observedKubeVirtVersion": "v1.9.0"},
    }
    found = check(facts(mode=mode_of([msgspec.convert(body, KubeVirt)])))
    assert found.against_migration == ()
    assert "add LiveMigrate to spec.workloadUpdateStrategy.workloadUpdateMethods" in found.by_hand


@pytest.mark.parametrize(("more", "words"), BOTH.values(), ids=list(BOTH))
def test_against_either_way(more: Raw, words: str) -> None:
    """What stands against a move at all stands against both ways, alone."""
    found = check(facts(**more))
    assert found.against_migration == found.against_in_place
    [told] = found.against_in_place
    assert words in told
    assert found.passing == (words.endswith(("wait until it is Running", "not known yet", "(away); wait")))


@pytest.mark.parametrize(("more", "words"), MIGRATION.values(), ids=list(MIGRATION))
def test_against_a_migration(more: Raw, words: str) -> None:
    """What stands against a migration says so, and leaves the other way open where it can."""
    assert any(words in told for told in check(facts(**more)).migration)


@pytest.mark.parametrize(("more", "words"), IN_PLACE.values(), ids=list(IN_PLACE))
def test_against_a_move_in_place(more: Raw, words: str) -> None:
    """What stands against a move in place names the object and the remedy."""
    assert any(words in told for told in check(facts(**more)).in_place)


@pytest.mark.parametrize(("more", "words"), WARNINGS.values(), ids=list(WARNINGS))
def test_what_users_should_know(more: Raw, words: str) -> None:
    """What a user has to do about a move in the guest is reported, and stops nothing."""
    found = check(facts(**more))
    assert found.against_in_place == ()
    assert any(words in told for told in (*found.in_place_warnings, *found.warnings))


@pytest.mark.parametrize(
    "marked",
    [{}, {"node1": frozenset({"br1"}), "node2": frozenset({"br1"})}],
    ids=["no bridges reported", "it is on both"],
)
def test_bridges_of_others(marked: dict[str, frozenset[str]]) -> None:
    """A bridge that is none of Lanloom's stands against nothing where it is, or where no bridge-marker tells that."""
    found = check(facts(target=nad("vlan20", bridge="br1"), networks=Networks(marked=marked)))
    assert not (found.both or found.migration or found.in_place)


def test_marked_bridges() -> None:
    """What bridge-marker counts on a node are its bridges; a node on which it does not run tells none."""
    capacity = {"cpu": "4", f"{MARK}br1": "1k", f"{MARK}br0": "1k"}
    nodes = [
        msgspec.convert({"metadata": {"name": name}, "status": status}, Node)
        for name, status in (("n1", {"capacity": capacity}), ("n2", {"capacity": {"cpu": "4"}}), ("n3", {}))
    ]
    assert marked_bridges(nodes) == {"n1": {"br0", "br1"}}

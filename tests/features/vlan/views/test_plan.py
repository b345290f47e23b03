"""What `lanloom vlan plan` makes of a cluster and a manifest."""

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusterranges import Taken
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.features.vlan.views import VlanObjects
from lanloom.features.vlan.views.apply import LAST_APPLIED, Document, ManifestError, apply, read_files
from lanloom.features.vlan.views.plan import VlanPlan, plan
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.views.fixture import (
    NODES,
    STATIC,
    ground,
    objects,
    report,
    static_network,
)

T = TypeVar("T", bound=Object)
EXAMPLES = Path(__file__).parents[4] / "examples"
REPORTS = [report(name) for name in NODES]
BARE = objects(ground(), REPORTS)
"""cluster-1 without any network on it."""

CARRYING = objects(ground(static_network()), REPORTS)
"""And with static addresses on VLAN 2012."""


def documents(*bodies: dict[str, Any]) -> tuple[Document, ...]:
    """A manifest of these objects."""
    text = yaml.safe_dump_all(bodies)
    return read_files(["-"], iter([text]), "default")


def planned(cluster: VlanObjects, *bodies: dict[str, Any], deleting: bool = False) -> VlanPlan:
    """The plan of a manifest."""
    return plan(cluster, documents(*bodies), deleting=deleting)


def words(found: VlanPlan, on: str) -> list[str]:
    """What changes on a node: verb, kind, name, and what was and will be."""
    return [
        " ".join(filter(None, (item.verb, item.kind, item.name, item.before, item.after)))
        for node in found.nodes
        if node.node == on
        for item in node.changes
    ]


def outcomes(found: VlanPlan) -> list[str]:
    """What becomes of the objects."""
    return [item.outcome for item in found.objects]


def test_what_the_cluster_needs_is_refused() -> None:
    """A plan refuses a subnet of services as the webhook does."""
    taken = (Taken("192.168.1.0/24", "the services (ServiceCIDR more)"),)
    found = planned(replace(BARE, ranges=taken), static_network())
    assert outcomes(found) == ["refused"]
    assert "of the services (ServiceCIDR more); choose another subnet" in found.objects[0].message


def test_a_new_network() -> None:
    """A network with addresses brings VLAN ids, a sub-interface and a profile to each node of its cluster network."""
    found = planned(BARE, static_network())
    assert outcomes(found) == ["created"]
    assert words(found, "node2") == [
        "add VLAN ids cluster-1-bo 2012",
        "add VLAN ids cluster-1-br 2012",
        "add interface clust-4afb.2012 192.168.1.11/24 of default/vlan2012",
        "add profile cluster-1-vlan2012.nmconnection",
    ]
    assert {item.node for item in found.nodes} == set(NODES)


def test_a_new_uplink() -> None:
    """A VlanConfig brings bond, bridge and MTU to the nodes that it selects, and to no other."""
    documents = [node("node1"), node("node2", zone="b"), cluster_network("cluster-2")]
    selective = vlan_config("two", "cluster-2", nics=("eth2",), nodeSelector={"zone": "b"})
    found = planned(objects(documents), selective)
    assert words(found, "node2") == [
        "add bond cluster-2-bo active-backup, miimon 100",
        "add NICs cluster-2-bo eth2",
        "add bridge cluster-2-br with VLAN filtering",
        "add MTU cluster-2-bo and cluster-2-br 1500",
    ]
    assert words(found, "node1") == []


def test_what_is_there_already() -> None:
    """Applying what the cluster has changes neither an object nor a node."""
    found = planned(CARRYING, static_network())
    assert outcomes(found) == ["unchanged"]
    assert found.nodes == ()


def test_an_address_that_nodes_make() -> None:
    """The plan names its subnet next to the address of IPv4."""
    wanted = static_network()
    wanted["metadata"]["annotations"] |= {names.MODE: "static,slaac", names.IPV6_SUBNET: "fd00:1::/64"}
    assert words(planned(CARRYING, wanted), "node1") == [
        "change interface clust-4afb.2012 192.168.1.10/24 of default/vlan2012 192.168.1.10/24 and an address of "
        "fd00:1::/64 of default/vlan2012",
        "change profile cluster-1-vlan2012.nmconnection",
    ]


def test_an_address_changes() -> None:
    """One node's new address changes that node's interface and profile, and no other node."""
    changed = nad(
        "vlan2012", "cluster-1", 2012, mode="static", addresses=STATIC | {"node3": "192.168.1.99/24"}
    )
    found = planned(CARRYING, changed)
    assert words(found, "node3") == [
        "change interface clust-4afb.2012 192.168.1.12/24 of default/vlan2012 192.168.1.99/24 of default/vlan2012",
        "change profile cluster-1-vlan2012.nmconnection",
    ]
    assert {item.node for item in found.nodes} == {"node3"}


def test_the_vlan_id_changes() -> None:
    """Another VLAN id takes everything of the old one away and adds that of the new one."""
    changed = nad("vlan2012", "cluster-1", 7, mode="static", addresses=STATIC)
    del changed["metadata"]["labels"]
    assert words(planned(CARRYING, changed), "node1") == [
        "remove VLAN ids cluster-1-bo 2012",
        "add VLAN ids cluster-1-bo 7",
        "remove VLAN ids cluster-1-br 2012",
        "add VLAN ids cluster-1-br 7",
        "add interface cluster-1-br.7 192.168.1.10/24 of default/vlan2012",
        "remove interface clust-4afb.2012 192.168.1.10/24 of default/vlan2012",
        "add profile cluster-1-vlan7.nmconnection",
        "remove profile cluster-1-vlan2012.nmconnection",
    ]


def test_nics_and_mtu_change() -> None:
    """Another NIC and MTU are reported of the bond in place."""
    uplink = {"linkAttributes": {"mtu": 9000}}
    found = planned(BARE, vlan_config("one", "cluster-1", nics=("eth1", "eth2"), uplink=uplink))
    assert words(found, "node1") == [
        "change NICs cluster-1-bo eth1 eth1, eth2",
        "change MTU cluster-1-bo and cluster-1-br 1500 9000",
    ]


def test_a_deletion() -> None:
    """Deleting a NAD takes its addresses and VLAN ids away, and leaves the uplink."""
    found = planned(CARRYING, static_network(), deleting=True)
    assert outcomes(found) == ["deleted"]
    assert words(found, "node1") == [
        "remove VLAN ids cluster-1-bo 2012",
        "remove VLAN ids cluster-1-br 2012",
        "remove interface clust-4afb.2012 192.168.1.10/24 of default/vlan2012",
        "remove profile cluster-1-vlan2012.nmconnection",
    ]


def test_a_deletion_of_nothing() -> None:
    """What is not there can't be deleted, and so said."""
    found = planned(BARE, static_network(), deleting=True)
    assert outcomes(found) == ["absent"]
    assert found.nodes == ()


def test_a_refusal_has_the_webhooks_words() -> None:
    """What a webhook would refuse is reported in its words and changes no node; what it allows is planned."""
    twin = nad("twin", "cluster-1", 2012, mode="dhcp")
    found = planned(CARRYING, twin, nad("other", "cluster-1", 8))
    assert outcomes(found) == ["refused", "created"]
    assert found.refused
    assert "default/vlan2012 already has node addresses on that VLAN" in found.objects[0].message
    assert words(found, "node1") == ["add VLAN ids cluster-1-bo 8"]


def test_a_refused_deletion() -> None:
    """A ClusterNetwork that is used can't be deleted."""
    found = planned(CARRYING, cluster_network("cluster-1"), deleting=True)
    assert outcomes(found) == ["refused"]
    assert "can't delete ClusterNetwork cluster-1" in found.objects[0].message


def test_objects_see_those_before_them() -> None:
    """One manifest may hold uplinks and addresses on them, which wait; with Harvester only for what agents build."""
    known = report("node1", cluster_network="mgmt")
    alone = objects([*map(node, NODES)], [known])
    fresh = objects([*map(node, NODES)], [replace(known, status=replace(known.status, mode="beside"))])
    uplink = (cluster_network("cluster-1"), vlan_config("one", "cluster-1"))
    waiting = nad("vlan7", "cluster-1", 7, mode="dhcp")
    for there, warned in (
        (alone, "no node has a working uplink for it yet"),
        (fresh, "unless an uplink of cluster-1 works within 8 seconds"),
    ):
        found = planned(there, *uplink, waiting)
        assert outcomes(found) == ["created", "created", "created"]
        assert warned in found.objects[2].warnings[0]
        assert "add interface cluster-1-br.7 address by DHCP of default/vlan7" in words(found, "node1")
    assert outcomes(planned(alone, uplink[0], waiting)) == ["created", "created"]
    without = planned(fresh, uplink[0], waiting)
    assert outcomes(without)[-1] == "refused"
    assert "not ready" in without.objects[-1].message


def test_a_field_of_the_wrong_type_is_refused() -> None:
    """What the API server's schema refuses is refused here, with the object's name."""
    found = planned(BARE, vlan_config("one", "cluster-1", uplink={"linkAttributes": {"mtu": "big"}}))
    assert outcomes(found) == ["refused"]
    assert "VlanConfig one" in found.objects[0].message


def test_an_object_that_comes_twice() -> None:
    """The second of two manifests of a NAD is merged as kubectl does it: what only the first one had goes."""
    config = nad("vlan2012", "cluster-1", 2012)["spec"]["config"]
    meta = {"name": "vlan2012", "namespace": "default"}
    body = {"apiVersion": NADS.api_version, "kind": NADS.kind, "spec": {"config": config}}
    first = body | {"metadata": meta | {"annotations": {"example.org/first": "yes"}}}
    second = body | {"metadata": meta | {"annotations": {"example.org/second": "yes"}}}
    found = BARE
    for document in documents(first, second, second):
        found, outcome = apply(found, document)
        assert outcome.outcome in ("created", "changed", "unchanged")
    [made] = [item for item in found.nads if item.metadata.name == "vlan2012"]
    assert {
        key: text for key, text in made.metadata.annotations.items() if key.startswith("example.org")
    } == {"example.org/second": "yes"}


def test_titles_of_other_kinds() -> None:
    """An object of another kind is named as the manifest has it: its scope is not known."""
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    found = planned(BARE, shop, web)
    assert [item.object for item in found.objects] == ["Namespace shop", "Deployment shop/web"]


def test_other_kinds_are_ignored() -> None:
    """A ConfigMap in the manifest is named and ignored."""
    found = planned(BARE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    assert outcomes(found) == ["ignored"]


def test_the_examples() -> None:
    """The directory of the examples is accepted as a whole by nodes that have nothing yet."""
    fresh = objects([*map(node, NODES), cluster_network("mgmt")], [report("node1", cluster_network="mgmt")])
    found = plan(fresh, read_files([str(EXAMPLES)], iter([]), "default"))
    assert not [item for item in found.objects if item.outcome == "refused"]


def test_a_removed_annotation_switches_addresses_off() -> None:
    """A manifest without the annotations that kubectl applied last takes the node addresses away."""
    body = static_network()
    (live,) = CARRYING.nads
    annotations = live.metadata.annotations | {LAST_APPLIED: json.dumps(body)}
    applied = replace(live, metadata=replace(live.metadata, annotations=annotations))
    body["metadata"]["annotations"] = {}
    found = planned(replace(CARRYING, nads=(applied,)), body)
    assert words(found, "node1") == [
        "remove VLAN ids cluster-1-br 2012",
        "remove interface clust-4afb.2012 192.168.1.10/24 of default/vlan2012",
        "remove profile cluster-1-vlan2012.nmconnection",
    ]


def remembered(item: T, body: dict[str, Any]) -> T:
    """An object as `kubectl apply` of a manifest leaves it: with the manifest in an annotation."""
    metadata = {"annotations": {}, **body["metadata"]}
    annotations = item.metadata.annotations | {LAST_APPLIED: json.dumps(body | {"metadata": metadata})}
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


def test_what_kubectl_applied_last() -> None:
    """Applying the same file again changes nothing, although kubectl noted that it has no annotations."""
    bodies = list(yaml.safe_load_all((EXAMPLES / "cluster-1.yaml").read_text()))
    nodes = [node(name) for name in NODES]
    cluster = objects([*nodes, *bodies])
    applied = replace(
        cluster,
        networks=tuple(remembered(item, bodies[0]) for item in cluster.networks),
        configs=tuple(remembered(item, bodies[1]) for item in cluster.configs),
    )
    found = planned(applied, *bodies)
    assert outcomes(found) == ["unchanged", "unchanged"]
    assert found.nodes == ()


def test_annotations_that_another_tool_set() -> None:
    """Addresses that a user switched on by annotations stay when a file without annotations is applied again."""
    body = static_network()
    bare = {**body, "metadata": {**body["metadata"]}}
    del bare["metadata"]["annotations"]
    (live,) = CARRYING.nads
    found = planned(replace(CARRYING, nads=(remembered(live, bare),)), bare)
    assert outcomes(found) == ["unchanged"]
    assert found.nodes == ()


def test_nodes_that_are_down_and_a_roll_out_are_noted() -> None:
    """The plan says which nodes change later, and in which steps a roll-out goes."""
    manifests = ground()
    manifests[2] = node("node3", ready=False)
    manifests[3]["metadata"]["annotations"] = {
        names.ROLLOUT: '{"maxUnavailable": "25%", "canary": ["node1"]}'
    }
    found = planned(objects(manifests, REPORTS), nad("vlan7", "cluster-1", 7, mode="dhcp"))
    assert found.notes == (
        "Not Ready now, and changed when they return: node3.",
        "cluster-1 is rolled out node1 first, then with at most 25% of the nodes unavailable at a time; "
        "a failure stops it.",
    )


def test_mgmt() -> None:
    """On mgmt the installer's bridge and uplink are not reported: only VLAN ids, addresses and profiles change."""
    cluster = objects([*(node(name) for name in NODES), cluster_network("mgmt")], [])
    ready = [report(name, cluster_network="mgmt", vlan_ids="1,2021") for name in NODES]
    found = planned(replace(cluster, statuses=tuple(ready)), nad("vlan2014", "mgmt", 2014, mode="dhcp"))
    assert words(found, "node1") == [
        "add VLAN ids mgmt-bo 2014",
        "add VLAN ids mgmt-br 2014",
        "add interface mgmt-br.2014 address by DHCP of default/vlan2014",
        "add profile mgmt-vlan2014.nmconnection",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("hello", "not a Kubernetes object"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}", "document 1 of .* has no metadata.name"),
        ("---\n---\nkind: List", "document 2 of .* is not a Kubernetes object"),
        ("a: &a [*a]", "not a Kubernetes object"),
    ],
)
def test_an_unreadable_manifest(text: str, message: str, tmp_path: Path) -> None:
    """What is no manifest is named with its file and what is wrong with it."""
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError, match=message):
        read_files([str(file)], iter(()), "default")


def test_directories_lists_and_namespaces(tmp_path: Path) -> None:
    """Manifests are read from directories in order and out of Lists; a NAD without a namespace is in the given one."""
    (tmp_path / "b.yml").write_text(yaml.safe_dump(cluster_network("b")))
    items = [nad("x", "b", 7), cluster_network("a")]
    del items[0]["metadata"]["namespace"]
    (tmp_path / "a.json").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "notes.txt").write_text("not a manifest")
    found = read_files([str(tmp_path)], iter(()), "lab")
    assert [item.title for item in found] == [
        "NetworkAttachmentDefinition lab/x",
        "ClusterNetwork a",
        "ClusterNetwork b",
    ]


def test_an_empty_directory_is_named(tmp_path: Path) -> None:
    """A directory without manifests is named."""
    with pytest.raises(ManifestError, match="has no file"):
        read_files([str(tmp_path)], iter(()), "default")


def test_beside_harvester_only_addresses_change() -> None:
    """Where Harvester's controller makes the uplinks, a plan has what Lanloom would do, and says what it leaves out."""
    coexisting = replace(BARE, coexisting=True)
    found = planned(coexisting, static_network())
    assert words(found, "node2") == [
        "add VLAN ids cluster-1-br 2012",
        "add interface clust-4afb.2012 192.168.1.11/24 of default/vlan2012",
        "add profile cluster-1-vlan2012.nmconnection",
    ]
    assert found.notes[0].startswith("Harvester's controller manages the uplinks")
    assert planned(coexisting, nad("vms", "cluster-1", 2013)).nodes == ()
    assert planned(coexisting, vlan_config("one", "cluster-1", nics=["eth1", "eth2"])).nodes == ()

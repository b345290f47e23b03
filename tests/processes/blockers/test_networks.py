"""What is to be known before objects are deleted that have no finalizer of Lanloom's."""

from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.api.core import (
    Namespace,
    NamespaceStatus,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
)
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.ipam import FINALIZER
from lanloom.api.meta import (
    Condition,
    Object,
    ObjectMeta,
    OwnerReference,
)
from lanloom.features.dummy.rules.model import User
from lanloom.processes.blockers.namespaces import namespace_obstacles
from lanloom.processes.blockers.networks import (
    dependents,
    maker_notes,
    pod_obstacle,
    status_notes,
    user_notes,
)
from lanloom.processes.blockers.reading import refusal
from tests.features.dummy.clusterview import (
    MACHINE,
    POD,
    UID,
    network,
)

ASKED = "2026-01-01T00:00:00Z"


def owned(name: str, uid: str, **more: bool) -> Object:
    """An object that belongs to the one of that uid."""
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid=uid, **more)
    return Object(metadata=ObjectMeta(name=name, namespace="shop", owner_references=(reference,)))


def test_who_makes_it_anew() -> None:
    """What a controller or a DummyClusterNetwork makes anew is to be deleted there."""
    (note,) = maker_notes(owned("web-0", "u", controller=True), {})
    assert "made by ReplicaSet web" in note
    assert maker_notes(owned("web-0", "u"), {}) == ()
    made = Object(metadata=ObjectMeta(labels={UID_LABEL: UID}, annotations={NAME_ANNOTATION: "br"}))
    (note,) = maker_notes(made, {UID: network()})
    assert "belongs to DummyClusterNetwork br-dummy-cluster, for which the manager makes it anew" in note
    (note,) = maker_notes(made, {})
    assert note.startswith("It was made for DummyClusterNetwork br, which is gone")


def test_what_goes_with_its_network() -> None:
    """What was made for a network that is being deleted is not made anew: the network is to be asked about."""
    made = Object(metadata=ObjectMeta(labels={UID_LABEL: UID}))
    (note,) = maker_notes(made, {UID: network(leaving=True)})
    assert "anew" not in note
    assert "lanloom why-not-deleted dcn/br-dummy-cluster" in note


def test_who_names_a_nad() -> None:
    """Users are told of, whether they keep a NAD or not."""
    (note,) = user_notes((MACHINE, POD))
    assert "VirtualMachine default/a, Pod shop/web-0" in note
    assert user_notes(()) == ()


def test_many_who_name_a_nad() -> None:
    """Of many users a note names some, and tells how many more there are."""
    (note,) = user_notes(tuple(User("Pod", "shop", f"web-{number}") for number in range(500)))
    assert "web-9 and 490 more" in note


def test_reports_come_again() -> None:
    """A ClusterNetworkNode is written anew by its agent."""
    (note,) = status_notes(
        ClusterNetworkNode(status=ClusterNetworkNodeStatus(cluster_network="cn1", node="node1"))
    )
    assert "agent of node1" in note
    assert status_notes(ClusterNetworkNode()) == ()


def leaving(node: str = "node1") -> Pod:
    """A pod whose deletion was asked for."""
    metadata = ObjectMeta(name="web", namespace="shop", deletion_timestamp=ASKED)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def on(status: str) -> Node:
    """The pod's node."""
    return Node(status=NodeStatus(conditions=(Condition(type="Ready", status=status),)))


def test_pods_wait_for_their_node() -> None:
    """A pod waits for its containers; where its node can't tell of their end, that is said."""
    well, ill, gone = (pod_obstacle(leaving(), each) for each in (on("True"), on("Unknown"), None))
    assert well is not None and "containers have not ended" in well.why
    assert ill is not None and "node1 is not Ready" in ill.why and "--force" in ill.remedy
    assert gone is not None and "there is no node node1" in gone.why
    assert pod_obstacle(leaving(""), None) is None
    assert pod_obstacle(Pod(spec=PodSpec(node_name="node1")), on("True")) is None


def test_what_a_foreground_deletion_waits_for() -> None:
    """Those that belong to the object and block its deletion are named, and no others."""
    items = [
        ("Pod", owned("b", "u", block_owner_deletion=True)),
        ("Pod", owned("a", "u", block_owner_deletion=True)),
        ("Pod", owned("c", "u")),
        ("Pod", owned("d", "v", block_owner_deletion=True)),
    ]
    assert dependents(ObjectMeta(uid="u"), items) == ("Pod shop/a", "Pod shop/b")


def test_what_keeps_a_namespace() -> None:
    """The objects in it are named with who keeps them."""
    item = Object(metadata=ObjectMeta(name="n", namespace="shop", finalizers=(FINALIZER,)))
    plain = Object(metadata=ObjectMeta(name="a", namespace="shop"))
    (obstacle,) = namespace_obstacles(Namespace(), [("Nic", item), ("ConfigMap", plain)])
    assert obstacle.waits_for == (
        "ConfigMap shop/a",
        f"Nic shop/n ({FINALIZER}, Lanloom's manager)",
    )


def test_a_namespace_with_an_isolated_networks_nad() -> None:
    """Of a NAD that goes with its network alone, the network is told that keeps the namespace."""
    meta = ObjectMeta(
        name="iso", namespace="shop", labels={UID_LABEL: UID}, annotations={NAME_ANNOTATION: "br"}
    )
    (obstacle,) = namespace_obstacles(Namespace(), [("NetworkAttachmentDefinition", Object(metadata=meta))])
    assert obstacle.waits_for == (
        "NetworkAttachmentDefinition shop/iso (it goes with DummyClusterNetwork br: kubectl delete dcn br)",
    )


def test_what_the_namespace_itself_tells() -> None:
    """Of kinds that Lanloom does not know, and of API services that don't answer, the namespace's conditions tell."""
    conditions = (
        Condition(type="NamespaceContentRemaining", status="True", message="widgets has 2 instances"),
        Condition(type="NamespaceFinalizersRemaining", status="False", message="nothing"),
        Condition(type="NamespaceDeletionDiscoveryFailure", status="True", message="metrics is silent"),
        Condition(type="NamespaceDeletionContentFailure", status="True", message="the VMs web use it"),
    )
    found = namespace_obstacles(Namespace(status=NamespaceStatus(conditions=conditions)), ())
    assert found[0].waits_for == ("widgets has 2 instances",)
    assert found[1].why == "metrics is silent"
    assert "kubectl get apiservices" in found[1].remedy
    assert found[2].why == "the VMs web use it"
    assert found[2].remedy.startswith("See to what refuses the deletion")


def test_refusals_name_the_webhook() -> None:
    """A webhook's refusal is told in its own words, and whose it is; other refusals are the server's."""
    told = refusal('admission webhook "validate.lanloom.io" denied the request: not now')
    assert (told.whose, told.why) == ("the admission webhook validate.lanloom.io", "not now")
    assert refusal("pods is forbidden").whose == "the API server"

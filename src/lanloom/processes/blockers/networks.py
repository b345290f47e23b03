"""What is to be known before objects are deleted that have no finalizer of Lanloom's, such as who makes them anew."""

from collections.abc import Iterable, Mapping

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node, Pod
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL, DummyClusterNetwork
from lanloom.api.meta import Object, ObjectMeta
from lanloom.features.dummy.rules.model import User
from lanloom.features.vlan.rules.cluster import is_live
from lanloom.runtime.blockers.model import Obstacle
from lanloom.text import listed


def maker_notes(item: Object, networks: Mapping[str, DummyClusterNetwork]) -> tuple[str, ...]:
    """Who makes the object anew if it is deleted. `networks` are the DummyClusterNetworks by their uids."""
    meta = item.metadata
    notes = [
        f"It was made by {owner.kind} {owner.name}, which makes it anew; delete that instead."
        for owner in meta.owner_references
        if owner.controller
    ]
    uid = meta.labels.get(UID_LABEL, "")
    if uid:
        notes.append(_network_note(meta, networks.get(uid)))
    return tuple(notes)


def _network_note(meta: ObjectMeta, network: DummyClusterNetwork | None) -> str:
    """To which network an object belongs that was made for one."""
    if network is None:
        name = meta.annotations.get(NAME_ANNOTATION, "of another name")
        return f"It was made for DummyClusterNetwork {name}, which is gone: the manager clears it up once it is unused."
    name = network.metadata.name
    if network.metadata.is_deleting:
        return (
            f"It belongs to DummyClusterNetwork {name} and goes with that, which is being deleted: "
            f"lanloom why-not-deleted dcn/{name}."
        )
    return (
        f"It belongs to DummyClusterNetwork {name}, for which the manager makes it anew; delete that instead."
    )


def user_notes(users: tuple[User, ...]) -> tuple[str, ...]:
    """Who names a NAD, whether that keeps it or not."""
    if not users:
        return ()
    return (f"It is named by {listed(map(str, users))}: without it they can't start any more.",)


def status_notes(item: ClusterNetworkNode) -> tuple[str, ...]:
    """A report comes again."""
    node, network = item.status.node, item.status.cluster_network
    return (f"The agent of {node} writes it anew as long as the node carries {network}.",) if node else ()


def pod_obstacle(pod: Pod, node: Node | None) -> Obstacle | None:
    """What keeps a pod whose deletion was asked for: its containers, which only its node can end."""
    if not pod.metadata.is_deleting or not pod.spec.node_name:
        return None
    name = pod.spec.node_name
    if node is None:
        why, remedy = f"there is no node {name}", "Kubernetes clears such pods up after a while; wait."
    elif not is_live(node):
        why = f"the node {name} is not Ready, and can't tell that the containers have ended"
        remedy = (
            f"Bring {name} back. Only if it is switched off for sure: kubectl delete pod {pod.metadata.name} "
            f"-n {pod.metadata.namespace} --force --grace-period=0."
        )
    else:
        why = "its containers have not ended yet"
        remedy = f"Wait until {pod.metadata.deletion_timestamp}, when they are killed; then see to {name}'s kubelet."
    return Obstacle(what="its containers", whose=f"the kubelet of {name}", why=why, remedy=remedy)


def dependents(owner: ObjectMeta, items: Iterable[tuple[str, Object]]) -> tuple[str, ...]:
    """Which of the objects (with their kinds) belong to one and keep it in a foreground deletion."""
    found = (
        f"{kind} {item.metadata.key}"
        for kind, item in items
        if any(ref.uid == owner.uid and ref.block_owner_deletion for ref in item.metadata.owner_references)
    )
    return tuple(sorted(found))

"""What blocks the deletion of an isolated network, of the objects that belong to it, and of any NAD.

An isolated network waits for its users, for requests on the way, and for the nodes whose bridges are not gone yet.
"""

import time
from collections.abc import Iterable, Iterator

from lanloom.api.dummy import (
    DUMMY_CLUSTER_NETWORKS,
    FINALIZER,
    NAME_ANNOTATION,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.daemonset import DENIED
from lanloom.features.dummy.views import AWAY, KINDS, NO_POD, DummyView, dummy_view, read_dummies
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.nads.references import User
from lanloom.nads.users import USING, list_live_users
from lanloom.runtime.blockers import MANAGER, Answer, Blocker, DeletionQuestion, Usage

_WHAT = f"finalizer {FINALIZER}"

_TEMPLATE = "spec.template.metadata.annotations"
_MENDING = "Correct the unreadable field; until then, the object counts as a user of every network."
_REMEDIES = {
    "VirtualMachine": (
        "Delete the VirtualMachine; or remove the network from spec.template.spec.networks, and the interface of the "
        "same name from spec.template.spec.domain.devices.interfaces, and restart it. Without a restart: move its "
        "NIC to another network with lanloom vm move."
    ),
    "VirtualMachineInstance": "Stop or delete the machine; its VirtualMachineInstance is then deleted.",
    "Pod": "Delete the pod or its controller, or wait until the pod ends.",
    "CronJob": (
        "Delete the CronJob, or remove the network from k8s.v1.cni.cncf.io/networks in "
        "spec.jobTemplate.spec.template.metadata.annotations."
    ),
}


def remedies(users: Iterable[User]) -> str:
    """Say how to end the use of a network, in a sentence for each kind of user."""
    every = tuple(users)
    kinds = dict.fromkeys(user.kind for user in every)
    texts = [_REMEDIES.get(kind) or _of_workload(kind) for kind in kinds]
    return " ".join([_MENDING, *texts] if any(user.problem for user in every) else texts)


def _of_workload(kind: str) -> str:
    return f"Delete the {kind}, or remove the network from k8s.v1.cni.cncf.io/networks in its {_TEMPLATE}."


def blockers(view: DummyView, finalizers: Iterable[str]) -> tuple[Blocker, ...]:
    """Return what blocks a network that is being deleted, or would block its deletion."""
    if FINALIZER not in finalizers:
        return ()
    found = tuple(_found(view))
    if found or not view.deleting:
        return found
    why = "it has no users, and the manager has not removed the finalizer yet"
    if view.message:
        why += f"; the last message of the manager: {view.message}"
    remedy = "Wait a moment. If this persists, check that a manager runs and leads, and read its log."
    return (Blocker(what=_WHAT, whose=MANAGER, why=why, remedy=remedy),)


def podless_advice(view: DummyView) -> str:
    """Say what to do about nodes on which the network's DaemonSet has no pod; empty where there are none.

    The network's message has it where the API server refuses pods.
    """
    if DENIED in view.message:
        return ""
    sets = [item for item in view.resources if item.kind == DAEMON_SETS.kind]
    if not sets or not any(node.state == NO_POD for node in view.nodes):
        return ""
    return (
        "Check why the DaemonSet has no pod on some nodes: "
        f"kubectl -n {sets[0].namespace} describe daemonset {sets[0].name}."
    )


def _found(view: DummyView) -> Iterator[Blocker]:
    if view.users:
        yield Blocker(
            what=_WHAT,
            whose=MANAGER,
            why=f"{view.nad} is used",
            waits_for=tuple(map(str, view.users)),
            remedy=remedies(view.users),
        )
    if view.deleting:
        yield from _requests(view)
        yield from _bridges(view)


def _requests(view: DummyView) -> Iterator[Blocker]:
    """Yield the requests whose objects were not observed yet.

    None while there are users: a list does not show objects that came and went, which the manager's watch observes.
    """
    if view.unreadable:
        yield Blocker(
            what=_WHAT,
            whose=MANAGER,
            why=f"the NetworkAttachmentDefinition {view.nad} has an unreadable list of admitted requests: "
            f"{view.unreadable}",
            remedy="Remove its annotation network.harvester.io/admitted when no request is pending.",
        )
    if view.awaited and not view.users:
        yield Blocker(
            what=_WHAT,
            whose=MANAGER,
            why="requests that were allowed before the deletion may still be stored",
            waits_for=tuple(f"{item.title}, at the latest at {item.until}" for item in view.awaited),
            remedy="Wait; the deletion continues automatically.",
        )


def _bridges(view: DummyView) -> Iterator[Blocker]:
    """Yield the nodes that have not acknowledged the end of their bridge, once the network takes no new users."""
    missing = [node for node in view.nodes if not node.acknowledged and node.state != AWAY]
    if view.phase != "Terminating" or not missing:
        return
    denial = view.message.partition(DENIED)[2]
    yield Blocker(
        what=_WHAT,
        whose=MANAGER,
        why=f"the bridge {view.bridge} still exists on some nodes{denial and f': {DENIED}{denial}'}",
        waits_for=tuple(f"{node.node}: {node.state}: {node.message}" for node in missing),
        remedy=(
            f"{podless_advice(view)} Check these nodes. Nodes that are deleted, or not Ready for some minutes, do "
            "not block the deletion; their agents remove the bridge when they return."
        ).strip(),
    )


def owner_notes(item: Object, networks: Iterable[DummyClusterNetwork]) -> tuple[str, ...]:
    """Name the isolated network that an object was made for. `networks` are all of them."""
    meta = item.metadata
    uid = meta.labels.get(UID_LABEL, "")
    if not uid:
        return ()
    network = next((each for each in networks if each.metadata.uid == uid), None)
    if network is None:
        name = meta.annotations.get(NAME_ANNOTATION, "of another name")
        return (
            f"It was created for DummyClusterNetwork {name}, which no longer exists. "
            "The manager deletes it when it is unused.",
        )
    title = f"It belongs to DummyClusterNetwork {network.metadata.name}"
    if network.metadata.is_deleting:
        command = f"lanloom why-not-deleted dcn/{network.metadata.name}"
        return (f"{title} and is deleted with it; that network is being deleted: {command}.",)
    return (f"{title}, for which the manager recreates it; delete the network instead.",)


def usage(user: User) -> Usage:
    """Return a user as people are shown it."""
    return Usage(kind=user.kind, namespace=user.namespace, name=user.name, title=str(user), nodes=user.nodes)


async def _ask_network(client: Reader, network: DummyClusterNetwork) -> Answer:
    objects, users = await read_dummies(client)
    finalizers = network.metadata.finalizers
    if not network.metadata.is_deleting:
        finalizers = (*finalizers, FINALIZER)  # the manager puts it there before it makes anything
    return Answer(tuple(blockers(dummy_view(network, objects, users, time.time()), finalizers)))


async def _ask_nad(client: Reader, nad: NetworkAttachmentDefinition) -> Answer:
    users = (await list_live_users(client)).users_of(nad.metadata.key)
    owner = await _ask_made(client, nad)
    return Answer(notes=owner.notes, users=tuple(map(usage, users)))


async def _ask_made(client: Reader, item: Object) -> Answer:
    if UID_LABEL not in item.metadata.labels:
        return Answer()
    return Answer(notes=owner_notes(item, await list_or_empty(client, DUMMY_CLUSTER_NETWORKS)))


BLOCKERS = (
    DeletionQuestion(resource=DUMMY_CLUSTER_NETWORKS, finalizer=FINALIZER, ask=_ask_network, kinds=KINDS),
    DeletionQuestion(resource=NADS, ask=_ask_nad, kinds=(DUMMY_CLUSTER_NETWORKS, *USING)),
    DeletionQuestion(resource=CLUSTER_NETWORKS, ask=_ask_made, kinds=(DUMMY_CLUSTER_NETWORKS,)),
    DeletionQuestion(resource=NETWORKS, ask=_ask_made, kinds=(DUMMY_CLUSTER_NETWORKS,)),
    DeletionQuestion(resource=LANS, ask=_ask_made, kinds=(DUMMY_CLUSTER_NETWORKS,)),
)

"""What may happen in a cluster, as functions of states."""

import json
from functools import reduce
from typing import Any

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.core import NODES, Node
from lanloom.api.dummy import ADMITTED, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import VLAN_CONFIGS, ClusterNetwork, VlanConfig
from lanloom.api.meta import Key, rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.nads.guard import Reservation
from lanloom.nads.references import User
from lanloom_embedded.patches import merge_patch
from tests.features.dummy.scenarios.course import run
from tests.features.dummy.scenarios.state import (
    Event,
    Known,
    State,
    deleted,
    put,
)

NAD = Key("vms", "isolated")
SPEC = {"bridgeName": "dummy-br", "nadName": NAD.name, "nadNamespace": NAD.namespace}
VM = User("VirtualMachine", "vms", "a")
OTHER_VM = User("VirtualMachine", "vms", "b")


def both(*events: Event) -> Event:
    """One after the other, before a manager looks."""
    return lambda state: reduce(lambda before, event: event(before), events, state)


def nothing(state: State) -> State:
    """Nothing happens; a manager looks."""
    return state


def made(name: str = "net", **spec: Any) -> Event:
    """A user creates a network."""

    def event(state: State) -> State:
        body = {"metadata": {"name": name, "generation": 1}, "spec": SPEC | spec}
        return put(state, msgspec.convert(body, DUMMY_CLUSTER_NETWORKS.type))

    return event


def changed(resource: Resource[Any], key: Key, patch: dict[str, Any]) -> Event:
    """A user changes an object, past every webhook."""

    def event(state: State) -> State:
        item = state.objects[resource.kind, key]
        return put(state, msgspec.convert(merge_patch(to_builtins(item), patch), resource.type), resource)

    return event


def configured(patch: dict[str, Any], name: str = "net") -> Event:
    """A user changes a network."""
    return changed(DUMMY_CLUSTER_NETWORKS, Key("", name), patch)


def removed(name: str = "net") -> Event:
    """A user deletes a network."""
    return taken(DUMMY_CLUSTER_NETWORKS, Key("", name))


def taken(resource: Resource[Any], key: Key) -> Event:
    """A user deletes something."""
    return lambda state: deleted(state, resource, key)


def config_of(state: State) -> dict[str, Any]:
    """The CNI configuration of the network's NAD."""
    found: dict[str, Any] = json.loads(state.get(NADS, NAD.name, NAD.namespace).spec.config)
    return found


def drifted(state: State) -> State:
    """A user changes the NAD's configuration."""
    config = json.dumps(config_of(state) | {"bridge": "mgmt-br"})
    return changed(NADS, NAD, {"spec": {"config": config}})(state)


def used(*users: User, nad: Key = NAD) -> Event:
    """These use the NAD, and all watches show it."""
    known = Known({nad: users})
    return lambda state: replace(state, watched=known, live=known)


def used_unseen(*users: User) -> Event:
    """These use the NAD, and the watches have not brought them."""
    return lambda state: replace(state, live=Known({NAD: users}))


def unseen(*kinds: str) -> Event:
    """The watches are late: they have brought nothing of these kinds."""
    return lambda state: replace(state, unseen=frozenset(kinds))


def unreadable(state: State) -> State:
    """The API server does not say who uses what."""
    return replace(state, live=None)


def reserved(uid: str, seconds: float = 75.0) -> Event:
    """A webhook lets an object refer to the NAD."""

    def event(state: State) -> State:
        note = json.dumps(
            [to_builtins(Reservation(uid, 0, state.now + seconds, f"VirtualMachine vms/{uid}"))]
        )
        return changed(NADS, NAD, {"metadata": {"annotations": {ADMITTED: note}}})(state)

    return event


def later(seconds: float) -> Event:
    """Time passes."""
    return lambda state: replace(state, now=state.now + seconds)


def node(name: str, *, answers: bool = True, **fields: Any) -> Event:
    """A node joins, with a Ready kubelet."""

    def event(state: State) -> State:
        body = {"metadata": {"name": name}, **fields}
        state = put(state, msgspec.convert(body, Node))
        answering = state.answering | ({name} if answers else set())
        return reports(name, ready=True)(replace(state, answering=answering))

    return event


def reports(name: str, *, ready: bool) -> Event:
    """A node's kubelet is Ready from now on, or is not heard any more."""

    def event(state: State) -> State:
        condition = {
            "type": "Ready",
            "status": "True" if ready else "Unknown",
            "lastTransitionTime": rfc3339(state.now),
        }
        return changed(NODES, Key("", name), {"status": {"conditions": [condition]}})(state)

    return event


def taken_node(name: str) -> Event:
    """A node leaves for good."""

    def event(state: State) -> State:
        return replace(taken(NODES, Key("", name))(state), answering=state.answering - {name})

    return event


def cluster_network(name: str) -> ClusterNetwork:
    """A ClusterNetwork of a user's."""
    return msgspec.convert({"metadata": {"name": name}}, ClusterNetwork)


def answers(*names: str) -> Event:
    """The pods of exactly these nodes are Ready."""
    return lambda state: replace(state, answering=frozenset(names))


def nad(key: Key = NAD, uid: str = "") -> Event:
    """A user creates a NAD, perhaps one that says to be a network's."""

    def event(state: State) -> State:
        labels = {UID_LABEL: uid} if uid else {}
        meta = {"name": key.name, "namespace": key.namespace, "labels": labels}
        body = {"metadata": meta, "spec": {"config": "{}"}}
        return put(state, msgspec.convert(body, NetworkAttachmentDefinition))

    return event


def uplink(cluster_network: str = "dummy") -> Event:
    """A user gives a cluster network an uplink."""

    def event(state: State) -> State:
        body = {"metadata": {"name": "uplink"}, "spec": {"clusterNetwork": cluster_network}}
        return put(state, msgspec.convert(body, VlanConfig))

    return event


def uplink_gone(state: State) -> State:
    """And takes it away again."""
    return taken(VLAN_CONFIGS, Key("", "uplink"))(state)


def refused(plural: str, why: str) -> Event:
    """The API server refuses what is done to a resource from now on."""
    return lambda state: replace(state, refusals=state.refusals | {plural: why})


def allowed(plural: str) -> Event:
    """It does not any more."""
    return lambda state: replace(
        state, refusals={key: why for key, why in state.refusals.items() if key != plural}
    )


def ready(before: State | None = None, **spec: Any) -> State:
    """A cluster of two nodes with a network that works; `before` is the cluster without them."""
    state = run(both(node("n1"), node("n2"), made(**spec)), before or State())
    assert state.dcn.status.phase == "Ready", state.dcn.status
    return state

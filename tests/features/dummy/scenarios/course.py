"""What becomes of a cluster: `run(event, state) -> state`.

The state machine is asked for each DummyClusterNetwork again and again, and what it decides is done to the state as an
API server would do it, until nothing changes any more. Nodes that answer have a Ready pod of every DaemonSet.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from lanloom.api.core import (
    NODES,
    PODS,
    Node,
    Pod,
)
from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    DUMMY_CLUSTER_NETWORKS,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import FINALIZER, LANS, NodeResult
from lanloom.api.meta import Condition, Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.lifecycle import decide, on_read_error
from lanloom.features.dummy.rules.model import daemon_set_name, is_foreign, resource_name
from lanloom.features.dummy.rules.objects import implied_cluster_network, lan_key
from lanloom.features.dummy.rules.observed import (
    Action,
    Change,
    Create,
    Decision,
    Delete,
    Failure,
    Live,
    Made,
    Observed,
)
from lanloom.features.dummy.rules.subnet import ranges
from lanloom_embedded.patches import merge_patch
from tests.features.dummy.scenarios.state import (
    Event,
    State,
    check,
    deleted,
    put,
)

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]


def run(event: Event, state: State) -> State:
    """What becomes of a state after something happened. Raises Impossible, AssertionError if it never rests."""
    check(state)
    state = event(replace(state, events=(), trace=(), waits=()))
    check(state)
    for _ in range(60):
        after = _round(state)
        if after.objects == state.objects and after.failures == state.failures:
            return after
        state = replace(after, waits=())
    raise AssertionError(f"it never comes to rest: {state.trace[-12:]}")


def _round(state: State) -> State:
    """Each network once, then the nodes."""
    for dcn in state.of(DUMMY_CLUSTER_NETWORKS):
        if (DUMMY_CLUSTER_NETWORKS.kind, dcn.metadata.key) in state.objects:
            state = step(state, dcn.metadata.name)
    return nodes_act(state)


def step(state: State, name: str) -> State:
    """One look at one network."""
    dcn = state.get(DUMMY_CLUSTER_NETWORKS, name)
    decision, seen = decided(state, observe(state, dcn))
    state = _say(state, dcn, decision)
    for number, action in enumerate(decision.actions):
        if (refusal := state.refusals.get(action.resource.plural)) is not None:
            failure = Failure(action.resource.plural, refusal)
            state = replace(state, failures=state.failures | {dcn.metadata.uid: failure})
            current = state.get(DUMMY_CLUSTER_NETWORKS, name)
            return _say(state, current, decide(replace(seen, dcn=current, failure=failure)))
        state = apply(state, action)
        if action.event is not None:
            state = replace(state, events=(*state.events, action.event))
        state = replace(
            state, trace=(*state.trace, f"{number} {type(action).__name__} {action.resource.kind}")
        )
    wait = () if decision.wait is None else (state.now + decision.wait,)
    failures = {uid: item for uid, item in state.failures.items() if uid != dcn.metadata.uid}
    return replace(state, waits=state.waits + wait, failures=failures)


def decided(state: State, seen: Observed) -> tuple[Decision, Observed]:
    """The decision, and what it was made from."""
    decision = decide(seen)
    while decision.live_read:
        if decision.live_read == "users" and state.live is None:
            return on_read_error(seen, "VirtualMachines can't be listed"), seen
        users = state.live if decision.live_read == "users" else None
        seen = replace(seen, live=Live(made=_made(state, seen.dcn.metadata.uid), users=users))
        decision = decide(seen)
    return decision, seen


def observe(state: State, dcn: DummyClusterNetwork) -> Observed:
    """What the controller would see."""
    meta, spec = dcn.metadata, dcn.spec
    implied = implied_cluster_network(spec.bridge_name)
    nads = {spec.nad} | {
        Key(item.namespace, item.name) for item in dcn.status.resources if item.kind == NADS.kind
    }
    watched = {key: item for key, item in state.objects.items() if key[0] not in state.unseen}
    state = replace(state, objects=watched)
    made = _made(state, meta.uid)
    title = Key(state.settings.namespace, daemon_set_name(meta.name, meta.uid))
    return Observed(
        dcn=dcn,
        now=state.now,
        settings=state.settings,
        users=state.watched,
        others=tuple(item for item in state.of(DUMMY_CLUSTER_NETWORKS) if item.metadata.uid != meta.uid),
        nad=state.find(NADS, spec.nad_name, spec.nad_namespace),
        daemon_set=next((item for item in made.daemon_sets if item.metadata.key == title), None),
        network=state.find(NETWORKS, resource_name(meta.name, meta.uid)),
        cluster_network=state.find(CLUSTER_NETWORKS, implied) if implied else None,
        lan=state.find(LANS, *reversed(lan_key(meta.name, meta.uid, state.settings))),
        lans=state.of(LANS),
        configs=tuple(item for item in state.of(VLAN_CONFIGS) if item.spec.cluster_network == implied),
        foreign=frozenset(key for key in nads if _is_foreign(state, key, dcn)),
        made=made,
        nodes=state.of(NODES),
        ranges=ranges(state.of(NODES)),
        pods=_own(state, PODS, meta.uid),
        failure=state.failures.get(meta.uid),
    )


def _made(state: State, uid: str) -> Made:
    return Made(
        nads=_own(state, NADS, uid),
        daemon_sets=_own(state, DAEMON_SETS, uid),
        networks=_own(state, NETWORKS, uid),
        cluster_networks=_own(state, CLUSTER_NETWORKS, uid),
        lans=_own(state, LANS, uid),
    )


def _own(state: State, resource: Resource[T], uid: str) -> tuple[T, ...]:
    return tuple(item for item in state.of(resource) if item.metadata.labels.get(UID_LABEL) == uid)


def _is_foreign(state: State, key: Key, dcn: DummyClusterNetwork) -> bool:
    nad = state.find(NADS, key.name, key.namespace)
    return nad is not None and is_foreign(nad.metadata, dcn)


def _say(state: State, dcn: DummyClusterNetwork, decision: Decision) -> State:
    current = state.find(DUMMY_CLUSTER_NETWORKS, dcn.metadata.name)
    if current is None:
        return state
    if decision.status != current.status:
        state = put(state, replace(current, status=decision.status))
        text = f"status {current.status.phase} → {decision.status.phase}: {decision.status.message}"
        state = replace(state, trace=(*state.trace, text))
    return replace(state, events=state.events + decision.events)


def apply(state: State, action: Action) -> State:
    """What an API server makes of an action."""
    resource, key = action.resource, action.key
    current = state.objects.get((resource.kind, key))
    match action:
        case Create(body=body):
            return (
                state if current is not None else put(state, msgspec.convert(body, resource.type), resource)
            )
        case Change(patch=patch):
            if current is None:
                return state
            assert patch["metadata"]["resourceVersion"] == current.metadata.resource_version, "a conflict"
            return put(state, msgspec.convert(_patched(current, patch), resource.type), resource)
        case Delete(uid=uid, version=version):
            assert current is None or version in ("", current.metadata.resource_version), "a conflict"
            return state if current is None or current.metadata.uid != uid else deleted(state, resource, key)


def _patched(current: Object, patch: Raw) -> Raw:
    result: Raw = merge_patch(to_builtins(current), patch)
    return result


def nodes_act(state: State) -> State:
    """Every node that is there has the pods of every DaemonSet; they are Ready where it answers."""
    objects = {key: item for key, item in state.objects.items() if key[0] != PODS.kind}
    for daemon_set in state.of(DAEMON_SETS):
        count = len(state.of(NODES))
        meta = daemon_set.metadata
        status = replace(
            daemon_set.status,
            observed_generation=meta.generation,
            desired_number_scheduled=count,
            updated_number_scheduled=count,
        )
        objects[DAEMON_SETS.kind, meta.key] = replace(daemon_set, status=status)
        for node in state.of(NODES):
            ready = node.metadata.name in state.answering and not _has_ports(state, daemon_set)
            pod = _pod(daemon_set, node, ready=ready)
            objects[PODS.kind, pod.metadata.key] = pod
    return lans_act(replace(state, objects=objects))


def _has_ports(state: State, daemon_set: DaemonSet) -> bool:
    """Whether a bridge that is to go can't, because the network's LAN has a port at it."""
    labels = daemon_set.spec.template["metadata"]["labels"]
    return labels[BRIDGE_LABEL] == ABSENT and bool(_own(state, LANS, labels[UID_LABEL]))


def lans_act(state: State) -> State:
    """The nodes that answer and run the agent of LANs join each LAN, and leave one that is being deleted."""
    for lan in state.of(LANS):
        meta = lan.metadata
        if meta.is_deleting:
            state = put(state, replace(lan, metadata=replace(meta, finalizers=())), LANS)
            continue
        joined = sorted(state.answering - state.lanless)
        nodes = tuple(NodeResult(name=name, ready=True, mtu=1450) for name in joined)
        ready = Condition(type="Ready", status="True", reason="Ready", message=f"{len(nodes)} nodes carry it")
        mtu = state.lan_mtu if nodes else 0
        status = replace(lan.status, nodes=nodes, mtu=mtu, conditions=(ready,))
        fresh = replace(lan, metadata=replace(meta, finalizers=(FINALIZER,)), status=status)
        if fresh != lan:
            state = put(state, fresh, LANS)
    return state


def _pod(daemon_set: DaemonSet, node: Node, *, ready: bool) -> Pod:
    meta = daemon_set.metadata
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta.name, "uid": meta.uid}
    body = {
        "metadata": {
            "name": f"{meta.name}-{node.metadata.name}",
            "namespace": meta.namespace,
            "uid": f"{meta.uid}-{node.metadata.name}",
            "resourceVersion": "1",
            "labels": daemon_set.spec.template["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node.metadata.name},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }
    return msgspec.convert(body, Pod)

"""What a DummyClusterNetwork needs while it exists: its finalizer, the objects created for it, and its bridges.

Each part is checked by itself and reports what is missing. The first part with a problem decides the phase. Nothing is
created for an object that is invalid or must give way, and nothing that was created for it is removed.

Conflicts are an older network with the same NAD or bridge, an uplink, or addresses in use. Admission rejects all of
them. The checks here are for objects that were stored while no webhook answered, and for later changes.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.dummy import (
    BRIDGES_READY,
    DRAINING,
    DUMMY_CLUSTER_NETWORKS,
    FINALIZER,
    NAD_READY,
    DummyClusterNetwork,
    Phase,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.bridges import Bridges, keeping
from lanloom.features.dummy.rules.model import Isolated, is_ours
from lanloom.features.dummy.rules.objects import (
    cluster_network_body,
    implied_cluster_network,
    ipam_network,
    is_as_wanted,
    lan_body,
    nad_body,
    nad_patch,
    readiness,
    uplink_fault,
)
from lanloom.features.dummy.rules.observed import (
    REREAD_SECONDS,
    Action,
    Change,
    Create,
    Decision,
    Observed,
    deletion,
    on_version,
)
from lanloom.features.dummy.rules.spec import parse
from lanloom.features.dummy.rules.status import (
    Findings,
    condition_or,
    resources_of,
    status_events,
    status_of,
)
from lanloom.features.dummy.rules.subnet import overlaps
from lanloom.kube.conditions import Finding
from lanloom.refusals import Malformed
from lanloom.text import listed


def in_the_way(observed: Observed, net: Isolated) -> Finding | None:
    """Return why nothing can be created for the network, whatever it was before."""
    for other in _older(observed):
        if shared := _shared(other, net):
            return Finding(
                "True",
                "Taken",
                f"DummyClusterNetwork {net.name}: {shared} already belongs to DummyClusterNetwork "
                f"{other.metadata.name}, which is older; delete this network and create one with "
                "a NAD and a bridge of its own",
            )
    if fault := uplink_fault(net.bridge, observed.configs):
        return Finding("True", "HasUplink", f"DummyClusterNetwork {net.name}: {fault}")
    return None


def taken_addresses(observed: Observed, net: Isolated) -> Finding | None:
    """Return the owners of addresses that the subnet overlaps. An existing network continues, and reports it."""
    if not net.subnets:
        return None
    fault = overlaps(net, observed.ranges, _isolated(observed))
    return Finding("True", "SubnetTaken", f"DummyClusterNetwork {net.name}: {fault}") if fault else None


def _older(observed: Observed) -> Iterator[DummyClusterNetwork]:
    own = _age(observed.dcn)
    return (other for other in sorted(observed.others, key=_age) if _age(other) < own)


def _age(dcn: DummyClusterNetwork) -> tuple[str, str]:
    """Return the key that orders networks by age: RFC 3339 in UTC sorts as text, and uids within one second."""
    return dcn.metadata.creation_timestamp or "", dcn.metadata.uid


def _shared(other: DummyClusterNetwork, net: Isolated) -> str:
    if other.spec.nad == net.nad:
        return f"the NAD {net.nad} (spec.nadNamespace, spec.nadName)"
    return f"the bridge {net.bridge} (spec.bridgeName)" if other.bridge_name == net.bridge else ""


def _isolated(observed: Observed) -> Iterator[Isolated]:
    for other in _older(observed):
        if other.spec.gateway == "none":
            continue
        try:
            yield parse(other)
        except Malformed:
            continue


_KEPT = frozenset({NADS.kind, DAEMON_SETS.kind})
_AS_WANTED = Finding("True", "AsWanted")
_PENDING = "Pending"


class _Part(Struct, frozen=True, kw_only=True):
    """One part of a network: its problem, and the actions. With `stuck`, no other part may follow.

    It is `unsure` if the users of the network must be read live first; `wait` is after how many seconds to check again.
    """

    finding: Finding = _AS_WANTED
    actions: tuple[Action, ...] = ()
    stuck: bool = False
    unsure: bool = False
    wait: float | None = None
    drifted: Finding | None = None
    conflict: Finding | None = None


def ensure(observed: Observed) -> Decision:
    """Return the decision for a network whose deletion was not requested."""
    try:
        net = parse(observed.dcn)
    except Malformed as error:
        return _refusal(observed, Finding("True", "InvalidSpec", str(error)), conflict=False)
    if observed.dcn.bridge_name != net.bridge:
        return _refusal(observed, Finding("True", "InvalidSpec", _moved(observed.dcn)), conflict=False)
    overlap = taken_addresses(observed, net)
    conflict = in_the_way(observed, net) or (overlap if not observed.made.nads else None)
    if conflict is not None:
        return _refusal(observed, conflict, conflict=True)
    if FINALIZER not in observed.dcn.metadata.finalizers:
        patch = on_version(observed.dcn, finalizers=[*observed.dcn.metadata.finalizers, FINALIZER])
        change = Change(DUMMY_CLUSTER_NETWORKS, observed.dcn.metadata.key, patch)
        return Decision(status=observed.dcn.status, actions=(change,))
    lan = _lan(observed, net)
    parts = (_cluster_network(observed, net), _network(observed, net), lan, _nad(observed, net))
    if any(part.unsure for part in parts):
        return Decision(status=observed.dcn.status, live_read="users")
    return _composed(observed, parts, net, overlap)


def _moved(dcn: DummyClusterNetwork) -> str:
    """Return what to do where the bridge was changed while no webhook answered: another bridge has other owners."""
    built, asked = dcn.bridge_name, dcn.spec.bridge_name
    return (
        f"DummyClusterNetwork {dcn.metadata.name}: spec.bridgeName is {asked}, but its bridge was built as {built}, "
        "which stays on every node; set it back, or delete the network and create another one"
    )


def _refusal(observed: Observed, why: Finding, *, conflict: bool) -> Decision:
    """Return the decision that reports why the object has no effect. Objects created for it before stay."""
    unmade = Finding("False", why.reason, why.message)
    found = Findings(
        phase="InvalidSpec",
        reason=why.reason,
        message=why.message,
        nad=condition_or(observed.dcn.status, NAD_READY, unmade),
        bridges=condition_or(observed.dcn.status, BRIDGES_READY, unmade),
        conflict=why if conflict else None,
    )
    return _decision(observed, found)


def _composed(
    observed: Observed, parts: tuple[_Part, ...], net: Isolated, overlap: Finding | None
) -> Decision:
    bridges = keeping(observed, net)
    actions: list[Action] = []
    for part in parts:
        actions += part.actions
        if part.stuck:
            break
    else:
        actions += [*bridges.actions, *_orphaned(observed, net)]
    parts = tuple(_with_failure(observed, part) for part in parts)
    lan = _joined(parts[2], observed, net, bridges)
    unwell = [part.finding for part in (*parts[:2], *parts[3:]) if part.finding.status != "True"]
    broken = min(unwell, key=lambda finding: finding.reason == _PENDING, default=None)
    acknowledged = bridges.acknowledgement
    phase, reason, message = _phase(broken, lan, bridges)
    if phase == "Ready" and net.scope == "node" and len(acknowledged.live) > 1:
        message += "; users on different nodes do not reach each other (scope node)"
    found = Findings(
        phase=phase,
        reason=reason,
        message=message,
        nad=broken or _AS_WANTED,
        bridges=bridges.finding,
        bridge_name=net.bridge,
        lan=lan if net.scope == "cluster" else None,
        drifted=next((part.drifted for part in parts if part.drifted), None),
        conflict=next(filter(None, (*(part.conflict for part in parts), bridges.conflict)), overlap),
        nodes=acknowledged,
    )
    waits = [part.wait for part in parts if part.wait is not None]
    if acknowledged.until is not None:
        waits.append(max(0.0, acknowledged.until - observed.now))
    return _decision(observed, found, tuple(actions), min(waits, default=None))


def _joined(part: _Part, observed: Observed, net: Isolated, bridges: Bridges) -> Finding:
    """Return how the LAN of a network is; fine for one that needs none."""
    if part.finding.status != "True" or observed.lan is None or net.scope == "node":
        return part.finding
    return readiness(observed.lan, net, bridges.acknowledgement)


def _phase(broken: Finding | None, lan: Finding, bridges: Bridges) -> tuple[Phase, str, str]:
    """Return phase, and reason and message of the condition Ready."""
    if broken is not None and broken.reason != _PENDING:
        return "ErrorEnsuringNAD", broken.reason, broken.message
    if lan.status != "True" and lan.reason in _LAN_FAULTS:
        return "ErrorEnsuringLAN", lan.reason, lan.message
    if broken is not None:
        return "Pending", broken.reason, broken.message
    if bridges.failed:
        return "ErrorEnsuringDaemonSet", bridges.finding.reason, bridges.finding.message
    if bridges.finding.status != "True":
        return "Pending", bridges.finding.reason, bridges.finding.message
    if lan.status != "True":
        return "Pending", lan.reason, lan.message
    return "Ready", "Ready", bridges.finding.message


def _decision(
    observed: Observed, found: Findings, actions: tuple[Action, ...] = (), wait: float | None = None
) -> Decision:
    status = status_of(observed, found, resources_of(observed, observed.made, keep=_KEPT))
    return Decision(
        status=status, actions=actions, events=status_events(observed.dcn.status, status), wait=wait
    )


def _with_failure(observed: Observed, part: _Part) -> _Part:
    """Return the part, with the reason why its action was rejected, if it was."""
    failure = observed.failure
    if failure is None or failure.plural not in {item.resource.plural for item in part.actions}:
        return part
    conflict = Finding("True", "NotOurs", failure.message) if failure.conflict else part.conflict
    refused = Finding("False", "Refused", failure.message)
    return replace(part, finding=refused, conflict=conflict)


def _pending(what: str) -> Finding:
    return Finding("False", _PENDING, what)


def _cluster_network(observed: Observed, net: Isolated) -> _Part:
    """Return the part that creates the ClusterNetwork, without which Harvester rejects the NAD of a bridge.

    An existing one is used, whatever created it.
    """
    name = implied_cluster_network(net.bridge)
    if not name:
        return _Part()
    if observed.cluster_network is None:
        create = Create(CLUSTER_NETWORKS, cluster_network_body(net, name))
        return _Part(finding=_pending(f"the ClusterNetwork {name} is being created"), actions=(create,))
    return _Part()


def _ranges(net: Isolated) -> str:
    return ",".join(map(str, net.subnets))


def _network(observed: Observed, net: Isolated) -> _Part:
    if not net.subnets:
        return _Part()
    if observed.network is None:
        create = Create(NETWORKS, ipam_network(net).body())
        return _Part(finding=_pending(f"the Network of {_ranges(net)} is being created"), actions=(create,))
    if not is_ours(observed.network.metadata, net.uid):
        return _foreign(NETWORKS, observed.network)
    if observed.network.metadata.is_deleting:
        return _leaving(NETWORKS, observed.network)
    patch = ipam_network(net).repair(observed.network)
    if not patch:
        return _Part()
    change = Change(NETWORKS, observed.network.metadata.key, patch)
    return _Part(finding=_pending(f"the Network of {_ranges(net)} is being repaired"), actions=(change,))


_LAN_FAULTS = frozenset({"Refused", "Conflict", "InvalidSpec", "MTUTooLarge", "BeingDeleted"})
"""Reasons for which a LAN does not become ready by itself."""


def _lan(observed: Observed, net: Isolated) -> _Part:
    """Return the LAN of a network with the scope cluster.

    Its spec never changes, as it follows from fields that don't.
    """
    if net.scope == "node":
        return _Part()
    if observed.lan is None:
        body = lan_body(net, observed.settings, observed.lans)
        event = EventDraft("Normal", "LANCreated", f"created the LAN {body['metadata']['name']}")
        create = Create(LANS, body, event)
        return _Part(finding=_pending(f"the LAN {create.key} is being created"), actions=(create,))
    if not is_ours(observed.lan.metadata, net.uid):
        return _foreign(LANS, observed.lan)
    return _leaving(LANS, observed.lan) if observed.lan.metadata.is_deleting else _Part()


def _nad(observed: Observed, net: Isolated) -> _Part:
    nad = observed.nad
    if nad is None:
        event = EventDraft("Normal", "NADCreated", f"created the NAD {net.nad}")
        create = Create(NADS, nad_body(net), event)
        return _Part(finding=_pending(f"the NAD {net.nad} is being created"), actions=(create,))
    if not is_ours(nad.metadata, net.uid):
        return _foreign(NADS, nad)
    if nad.metadata.is_deleting:
        return _leaving(NADS, nad)
    if DRAINING in nad.metadata.annotations:  # a deleted user never comes back: another writer wrote it
        change = Change(NADS, net.nad, on_version(nad, annotations={DRAINING: None}))
        return _Part(finding=_pending(f"the NAD {net.nad} is being reopened to users"), actions=(change,))
    return _Part() if is_as_wanted(nad, net) else _drift(observed, net, nad)


def _drift(observed: Observed, net: Isolated, nad: NetworkAttachmentDefinition) -> _Part:
    """Return the part that corrects a changed NAD of the network, unless it has users.

    Watches may lag behind, so the API server is asked before the NAD counts as unused.
    """
    users, wait = observed.users.users_of(net.nad), None
    if not users:
        if observed.live is None:
            return _Part(unsure=True)
        if observed.live.users is None:
            return _drifted("its users can't be determined; the manager retries", net)
        users, wait = observed.live.users.users_of(net.nad), REREAD_SECONDS
    if users:
        kept = f"it is used by {listed(map(str, users))}; it is repaired when it is unused, or restore it manually"
        return _drifted(kept, net, wait)
    event = EventDraft("Normal", "NADRepaired", f"repaired the NAD {net.nad}, which had been changed")
    change = Change(NADS, net.nad, nad_patch(nad, net), event)
    return _Part(finding=_pending(f"the NAD {net.nad} is being repaired"), actions=(change,))


def _drifted(kept: str, net: Isolated, wait: float | None = None) -> _Part:
    message = f"the NAD {net.nad} was changed and does not match this network, but {kept}"
    drifted = Finding("True", "Changed", message)
    return _Part(finding=Finding("False", "Drifted", message), drifted=drifted, wait=wait)


def _foreign(resource: Resource[Any], item: Object) -> _Part:
    message = (
        f"{resource.kind} {item.metadata.key} exists and was not created for this network; "
        "delete it, or delete this network and create one with other names"
    )
    finding = Finding("False", "Conflict", message)
    return _Part(finding=finding, stuck=True, conflict=Finding("True", "NotOurs", message))


def _leaving(resource: Resource[Any], item: Object) -> _Part:
    meta = item.metadata
    why = f", which waits for its finalizers {', '.join(meta.finalizers)}" if meta.finalizers else ""
    message = f"the {resource.kind} {meta.key} is being deleted{why}; it is recreated afterwards"
    return _Part(finding=Finding("False", "BeingDeleted", message), stuck=True)


def _orphaned(observed: Observed, net: Isolated) -> list[Action]:
    """Return the part that deletes a Network whose subnet was removed from the spec, once the NAD lacks it."""
    if net.subnets or observed.nad is None or not is_as_wanted(observed.nad, net):
        return []
    return [deletion(NETWORKS, item) for item in observed.made.networks if not item.metadata.is_deleting]

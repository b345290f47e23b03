"""The DaemonSet of a DummyClusterNetwork and the reports of its nodes: while it maintains bridges, and removes them."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.daemonset import (
    Acknowledgement,
    State,
    UnknownImage,
    acknowledgement,
    awaited,
    daemon_set_body,
    daemon_set_patch,
    has_digest,
)
from lanloom.features.dummy.rules.model import (
    Isolated,
    Raw,
    Settings,
    is_ours,
)
from lanloom.features.dummy.rules.objects import bridge_addresses
from lanloom.features.dummy.rules.observed import (
    Action,
    Change,
    Create,
    Observed,
    deletion,
)
from lanloom.features.dummy.rules.spec import parse
from lanloom.kube.conditions import Finding
from lanloom.refusals import Malformed


class Bridges(Struct, frozen=True, kw_only=True):
    """State of the bridges, and the actions. `failed` is true if no DaemonSet can maintain them."""

    finding: Finding
    acknowledgement: Acknowledgement
    actions: tuple[Action, ...] = ()
    failed: bool = False
    conflict: Finding | None = None


def acknowledgement_of(observed: Observed, state: State) -> Acknowledgement:
    """Return the acknowledgements of the nodes."""
    return acknowledgement(
        observed.nodes,
        observed.pods,
        state,
        now=observed.now,
        patience=observed.settings.node_timeout,
        denial=observed.denial,
    )


def keeping(observed: Observed, net: Isolated) -> Bridges:
    """Return the state of bridges that should exist on every node."""
    known = acknowledgement_of(observed, "present")
    current = observed.daemon_set
    running = current or next(iter(observed.made.daemon_sets), None)
    try:
        wanted = daemon_set_body(
            net.name,
            net.uid,
            net.bridge,
            _with_image(observed.settings, running, net.uid),
            "present",
            bridge_addresses(net),
        )
    except UnknownImage as error:
        return _failed(known, "NoImage", str(error))
    if current is None:
        event = EventDraft("Normal", "DaemonSetCreated", f"created the DaemonSet {_title(wanted)}")
        return _updating(observed, known, Create(DAEMON_SETS, wanted, event), "is being created")
    if current.metadata.is_deleting:
        message = f"the DaemonSet {_title(wanted)} is being deleted; it is recreated afterwards"
        return _failed(known, "BeingDeleted", message)
    if patch := daemon_set_patch(current, wanted):
        event = EventDraft("Normal", "DaemonSetRepaired", f"repaired the DaemonSet {_title(wanted)}")
        change = Change(DAEMON_SETS, current.metadata.key, patch, event)
        return _updating(observed, known, change, "is being repaired")
    return Bridges(
        finding=_progress(current, known), acknowledgement=known, actions=_strays(observed, current)
    )


def _strays(observed: Observed, current: DaemonSet) -> tuple[Action, ...]:
    """Return the actions that delete DaemonSets of the network elsewhere, as older versions had in Lanloom's namespace.

    They wait until the pods of the present DaemonSet maintain the bridge on every node. Otherwise a node would be
    without a reconciler.
    """
    strays = [item for item in observed.made.daemon_sets if item.metadata.key != current.metadata.key]
    own = tuple(pod for pod in observed.pods if pod.metadata.namespace == current.metadata.namespace)
    if (
        not strays
        or _progress(current, acknowledgement_of(replace(observed, pods=own), "present")).status != "True"
    ):
        return ()
    return tuple(deletion(DAEMON_SETS, item) for item in strays if not item.metadata.is_deleting)


def removing(observed: Observed, sets: Iterable[DaemonSet]) -> tuple[Action, ...]:
    """Return the actions by which these DaemonSets remove the bridges; none once all of them do. Raises UnknownImage.

    A DaemonSet outside of the present namespace may not be changed, only deleted, and another one does its work. That
    one is created first, so that the bridge to remove is known, whatever happens in between.
    """
    staying = [item for item in sets if not item.metadata.is_deleting]
    here = [item for item in staying if item.metadata.namespace == observed.settings.namespace]
    strays = [item for item in staying if item not in here]
    patches = [(item.metadata.key, _removal(observed, item)) for item in here]
    changes = tuple(Change(DAEMON_SETS, key, patch) for key, patch in patches if patch)
    successor = tuple(_successor(observed, item) for item in strays[:1] if not here)
    return (*changes, *successor, *(deletion(DAEMON_SETS, item) for item in strays))


def remover(observed: Observed, bridge: str) -> Create | None:
    """Return a DaemonSet that removes bridges whose own DaemonSet does not exist; None if no image for it is known."""
    meta = observed.dcn.metadata
    try:
        body = daemon_set_body(meta.name, meta.uid, bridge, observed.settings, "absent", _addresses(observed))
    except UnknownImage:
        return None
    return Create(DAEMON_SETS, body)


def _successor(observed: Observed, item: DaemonSet) -> Create:
    """Return the DaemonSet that removes the bridges of one in another namespace. Raises UnknownImage."""
    meta = observed.dcn.metadata
    settings = _with_image(observed.settings, item, meta.uid)
    bridge = bridge_of(item) or observed.dcn.bridge_name
    return Create(
        DAEMON_SETS,
        daemon_set_body(meta.name, meta.uid, bridge, settings, "absent", _argument(item, "--gateway")),
    )


def bridge_of(item: DaemonSet) -> str:
    """Return the bridge that a DaemonSet maintains; empty if it can't be read because another client changed it."""
    return _argument(item, "--name")


def _argument(item: DaemonSet, flag: str) -> str:
    try:
        args = item.spec.template["spec"]["containers"][0]["args"]
        return str(args[args.index(flag) + 1])
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return ""


def _addresses(observed: Observed) -> str:
    """Return the addresses of the network's bridges; empty if the spec is invalid."""
    try:
        return bridge_addresses(parse(observed.dcn))
    except Malformed:
        return ""


def _removal(observed: Observed, item: DaemonSet) -> Raw:
    """Return the patch. The bridge is that of the DaemonSet: the spec may have been changed by force.

    Raises UnknownImage.
    """
    meta = observed.dcn.metadata
    bridge = bridge_of(item) or observed.dcn.bridge_name
    settings = _with_image(observed.settings, item, meta.uid)
    wanted = daemon_set_body(meta.name, meta.uid, bridge, settings, "absent", _argument(item, "--gateway"))
    return daemon_set_patch(item, wanted)


def _with_image(settings: Settings, current: DaemonSet | None, uid: str) -> Settings:
    """Return the settings; without an image, with that of the running DaemonSet, if it is named by its digest."""
    if settings.image or current is None or not is_ours(current.metadata, uid):
        return settings
    try:
        image = current.spec.template["spec"]["containers"][0]["image"]
    except (KeyError, IndexError, TypeError):
        return settings
    return replace(settings, image=str(image)) if has_digest(str(image)) else settings


def _failed(known: Acknowledgement, reason: str, message: str) -> Bridges:
    return Bridges(finding=Finding("False", reason, message), acknowledgement=known, failed=True)


def _updating(observed: Observed, known: Acknowledgement, action: Create | Change, verb: str) -> Bridges:
    failure = observed.failure
    if failure is not None and failure.plural == DAEMON_SETS.plural:
        refused = Finding("False", "Refused", failure.message)
        conflict = Finding("True", "NotOurs", failure.message) if failure.conflict else None
        return Bridges(
            finding=refused, acknowledgement=known, actions=(action,), failed=True, conflict=conflict
        )
    message = f"the DaemonSet {action.key} {verb}"
    return Bridges(finding=Finding("False", "Pending", message), acknowledgement=known, actions=(action,))


def _progress(current: DaemonSet, known: Acknowledgement) -> Finding:
    """Return the progress of the nodes.

    A DaemonSet is rolled out when its controller observed it and all pods are new.
    """
    count = f"{len(known.acknowledged)} of {len(known.live)} nodes"
    if known.missing:
        return Finding("False", "NodesPending", f"{count} have the bridge; {awaited(known)}")
    status = current.status
    observed = status.observed_generation >= current.metadata.generation
    if not observed or status.updated_number_scheduled < status.desired_number_scheduled:
        return Finding("False", "RollingOut", f"{count} have the bridge; the DaemonSet is being rolled out")
    return Finding("True", "Acknowledged", f"{count} have the bridge")


def _title(wanted: Raw) -> str:
    return f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"

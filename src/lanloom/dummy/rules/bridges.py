"""The DaemonSet of a DummyClusterNetwork and what its nodes say: while bridges are kept, and while they are removed."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.dummy.rules.acknowledged import Acknowledgement, acknowledgement, titles
from lanloom.dummy.rules.addresses import bridge_address
from lanloom.dummy.rules.daemonset import State, daemon_set_body, daemon_set_patch
from lanloom.dummy.rules.errors import InvalidSpec, UnknownImage
from lanloom.dummy.rules.listing import listed
from lanloom.dummy.rules.marks import Raw, is_ours
from lanloom.dummy.rules.model import Isolated, Settings
from lanloom.dummy.rules.observed import Action, Change, Create, News, Observed, deletion
from lanloom.dummy.rules.spec import parse
from lanloom.dummy.rules.status import Finding


class Bridges(Struct, frozen=True, kw_only=True):
    """How the bridges are, and what to do. `failed` is true where no DaemonSet can keep them."""

    finding: Finding
    acknowledgement: Acknowledgement
    actions: tuple[Action, ...] = ()
    failed: bool = False
    conflict: Finding | None = None


def acknowledgement_of(seen: Observed, state: State) -> Acknowledgement:
    """What the nodes say."""
    return acknowledgement(seen.nodes, seen.pods, state, now=seen.now, patience=seen.settings.node_timeout)


def keeping(seen: Observed, net: Isolated) -> Bridges:
    """Bridges that are to be there on every node."""
    known = acknowledgement_of(seen, "present")
    current = seen.daemon_set
    try:
        wanted = daemon_set_body(
            net.name,
            net.uid,
            net.bridge,
            _with_image(seen.settings, current, net.uid),
            "present",
            bridge_address(net),
        )
    except UnknownImage as error:
        return _failed(known, "NoImage", str(error))
    if current is None:
        news = News("Normal", "DaemonSetCreated", f"made the DaemonSet {_title(wanted)}")
        return _changing(seen, known, Create(DAEMON_SETS, wanted, news), "is being made")
    if current.metadata.is_leaving:
        message = f"somebody deletes the DaemonSet {_title(wanted)}; it is made anew when it is gone"
        return _failed(known, "BeingDeleted", message)
    if patch := daemon_set_patch(current, wanted):
        news = News("Normal", "DaemonSetRepaired", f"put the DaemonSet {_title(wanted)} right")
        change = Change(DAEMON_SETS, current.metadata.key, patch, news)
        return _changing(seen, known, change, "is being put right")
    strays = tuple(
        deletion(DAEMON_SETS, item)
        for item in seen.made.daemon_sets
        if item.metadata.key != current.metadata.key and not item.metadata.is_leaving
    )
    return Bridges(finding=_progress(current, known), acknowledgement=known, actions=strays)


def removing(seen: Observed, sets: Iterable[DaemonSet]) -> tuple[Action, ...]:
    """What makes these DaemonSets take the bridges away; nothing once all of them are told to. Raises UnknownImage."""
    staying = [item for item in sets if not item.metadata.is_leaving]
    patches = [(item.metadata.key, _removal(seen, item)) for item in staying]
    return tuple(Change(DAEMON_SETS, key, patch) for key, patch in patches if patch)


def remover(seen: Observed, bridge: str) -> Create | None:
    """A DaemonSet that takes bridges away whose own one is gone; None where no image for it is known."""
    meta = seen.dcn.metadata
    try:
        body = daemon_set_body(meta.name, meta.uid, bridge, seen.settings, "absent", _address(seen))
    except UnknownImage:
        return None
    return Create(DAEMON_SETS, body)


def bridge_of(item: DaemonSet) -> str:
    """The bridge that a DaemonSet keeps; empty if it can't be read, because somebody changed it."""
    return _argument(item, "--name")


def _argument(item: DaemonSet, flag: str) -> str:
    try:
        args = item.spec.template["spec"]["containers"][0]["args"]
        return str(args[args.index(flag) + 1])
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return ""


def _address(seen: Observed) -> str:
    """The address that the network's bridges have; empty where the spec is not valid."""
    try:
        return bridge_address(parse(seen.dcn))
    except InvalidSpec:
        return ""


def _removal(seen: Observed, item: DaemonSet) -> Raw:
    """The patch; it leaves a DaemonSet where it is, even if the settings would have it elsewhere by now.

    The bridge is the one that the DaemonSet keeps: the spec may have been changed by force. Raises UnknownImage.
    """
    meta = seen.dcn.metadata
    bridge = bridge_of(item) or seen.dcn.spec.bridge_name
    settings = replace(_with_image(seen.settings, item, meta.uid), namespace=item.metadata.namespace)
    wanted = daemon_set_body(meta.name, meta.uid, bridge, settings, "absent", _argument(item, "--gateway"))
    return daemon_set_patch(item, wanted)


def _with_image(settings: Settings, current: DaemonSet | None, uid: str) -> Settings:
    """The settings; where they know no image, the one that runs goes on."""
    if settings.image or current is None or not is_ours(current.metadata, uid):
        return settings
    try:
        image = current.spec.template["spec"]["containers"][0]["image"]
    except (KeyError, IndexError, TypeError):
        return settings
    return replace(settings, image=str(image))


def _failed(known: Acknowledgement, reason: str, message: str) -> Bridges:
    return Bridges(finding=Finding("False", reason, message), acknowledgement=known, failed=True)


def _changing(seen: Observed, known: Acknowledgement, action: Create | Change, verb: str) -> Bridges:
    failure = seen.failure
    if failure is not None and failure.plural == DAEMON_SETS.plural:
        refused = Finding("False", "Refused", failure.message)
        conflict = Finding("True", "NotOurs", failure.message) if failure.conflict else None
        return Bridges(
            finding=refused, acknowledgement=known, actions=(action,), failed=True, conflict=conflict
        )
    message = f"the DaemonSet {action.key} {verb}"
    return Bridges(finding=Finding("False", "Pending", message), acknowledgement=known, actions=(action,))


def _progress(current: DaemonSet, known: Acknowledgement) -> Finding:
    """How far the nodes are. A DaemonSet is rolled out when its controller has seen it and every pod is a new one."""
    count = f"{len(known.acknowledged)} of {len(known.live)} nodes"
    if known.missing:
        return Finding(
            "False", "NodesPending", f"{count} have the bridge; waits for {listed(titles(known.missing))}"
        )
    status = current.status
    seen = status.observed_generation >= current.metadata.generation
    if not seen or status.updated_number_scheduled < status.desired_number_scheduled:
        return Finding("False", "RollingOut", f"{count} have the bridge; the DaemonSet is being rolled out")
    return Finding("True", "Acknowledged", f"{count} have the bridge")


def _title(wanted: Raw) -> str:
    return f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"

"""What blocks the deletion of a LAN: users of its NADs, and nodes that still carry it, by status and reports."""

from collections.abc import Iterable

from lanloom.api.lan import (
    FINALIZER,
    FORCE_DELETE,
    LAN,
    LAN_NODES,
    LANS,
    READY,
    UID_LABEL,
    LANNode,
)
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.lan.rules.removal import attached, title_at
from lanloom.kube.conditions import find
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.runtime.blockers import MANAGER, Answer, Blocker, DeletionQuestion

_WHAT = f"finalizer {FINALIZER}"
_USERS = (
    "Delete the users, or take the LAN's NADs out of them. The annotation "
    f'{FORCE_DELETE}: "true" of the LAN deletes it at once; users keep their interfaces until they end, and can\'t '
    "restart."
)
_NODES = (
    "See to these nodes. One that is gone, or not Ready for five minutes, is not waited for; its agent cleans up when "
    "it is back."
)
_MANAGER = "Wait a moment. If it stays so, see whether a manager runs and leads, and what its log says."


def lan_blocker(lan: LAN, reports: Iterable[LANNode]) -> Blocker | None:
    """Return what blocks a LAN that is being deleted, or would block its deletion."""
    if not lan.metadata.is_deleting:
        there = tuple(title_at(*item) for item in attached(lan.metadata.uid, reports))
        return _blocker("its spokes are attached", there, _USERS) if there else None
    if FINALIZER not in lan.metadata.finalizers:
        return None
    if lan.status.users:
        return _blocker("its NADs are used", lan.status.users, _USERS)
    ready = find(lan.status.conditions, READY)
    message = ready.message if ready is not None and ready.status != "True" else ""
    nodes = tuple(f"node {node.name}" for node in lan.status.nodes)
    if nodes:
        return _blocker(message or "nodes carry it", nodes, _NODES)
    return _blocker(message or "the manager has not let go yet", (), _MANAGER)


def _blocker(why: str, waits_for: tuple[str, ...], remedy: str) -> Blocker:
    return Blocker(what=_WHAT, whose=MANAGER, why=why, waits_for=waits_for, remedy=remedy)


def report_notes(report: LANNode) -> tuple[str, ...]:
    """Say that the agent recreates a deleted report."""
    return (f"The agent of {report.metadata.name} writes it again as long as the node carries a LAN.",)


def nad_notes(nad: NetworkAttachmentDefinition, lans: Iterable[LAN]) -> tuple[str, ...]:
    """Name the LAN that a NAD was made for."""
    uid = nad.metadata.labels.get(UID_LABEL, "")
    owner = next((lan for lan in lans if lan.metadata.uid == uid), None)
    if owner is None:
        return ()
    key = owner.metadata.key
    if owner.metadata.is_deleting:
        return (
            f"It belongs to LAN {key} and goes with that, which is being deleted: lanloom why-not-deleted lan/{key}.",
        )
    return (
        f"It belongs to LAN {key}, for which the manager creates it again; remove the spoke there instead.",
    )


async def _ask_lan(client: Reader, lan: LAN) -> Answer:
    reports = () if lan.metadata.is_deleting else await list_or_empty(client, LAN_NODES)
    blocker = lan_blocker(lan, reports)
    return Answer((blocker,) if blocker is not None else ())


async def _ask_report(_client: Reader, report: LANNode) -> Answer:
    return Answer(notes=report_notes(report))


async def _ask_nad(client: Reader, nad: NetworkAttachmentDefinition) -> Answer:
    if UID_LABEL not in nad.metadata.labels:
        return Answer()
    return Answer(notes=nad_notes(nad, await list_or_empty(client, LANS, nad.metadata.namespace)))


BLOCKERS = (
    DeletionQuestion(resource=LANS, finalizer=FINALIZER, ask=_ask_lan, kinds=(LANS, LAN_NODES)),
    DeletionQuestion(resource=LAN_NODES, ask=_ask_report),
    DeletionQuestion(resource=NADS, ask=_ask_nad, kinds=(LANS,)),
)

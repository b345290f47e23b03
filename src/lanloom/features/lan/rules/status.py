"""What the status of a LAN says: whether it can be used, and how it is on each node that carries it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.lan import IN_USE, LAN, UNDERLAY_READY, LANNode, LANStatus, NodeResult, VlanUplink
from lanloom.features.lan.rules.flood import MtuBudget
from lanloom.features.lan.rules.removal import given_up
from lanloom.features.lan.rules.subnets import network_name
from lanloom.features.lan.rules.underlays import MESSAGE_MAX, NOT_REPORTED, Underlays, not_reported
from lanloom.kube.conditions import Finding, set_ready, with_finding
from lanloom.text import LISTED, listed

USERS_MAX = 50

STALLED_REASONS = frozenset({"InvalidSpec", "Conflict", "NADConflict"})
"""Reasons for which a LAN does not become ready by itself."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What keeps a LAN from being used, or from being deleted; an empty reason if nothing does.

    `users` are those that keep it from being deleted.
    """

    reason: str = ""
    message: str = ""
    users: tuple[str, ...] = ()


APPLYING = "Applying"
"""Reason of a LAN that was edited a moment ago: its nodes have yet to look at it."""

SETTLING_REASONS = frozenset({APPLYING, NOT_REPORTED})
"""Reasons of a LAN that was created or edited a moment ago, which are no news."""

_LATE = "its agent has not applied the present spec yet"


def node_results(lan: LAN, reports: Iterable[LANNode], nodes: Mapping[str, Node]) -> tuple[NodeResult, ...]:
    """Return how a LAN is on each node that reports it, by name.

    It is not ready on a node that is not Ready, nor on one that has not looked at the present spec.
    """
    found = []
    for report in reports:
        name = report.metadata.name
        node = nodes.get(name)
        away = node is None or given_up(node) is not None
        for entry in report.status.lans:
            if entry.uid == lan.metadata.uid:
                late = 0 < entry.generation < lan.metadata.generation
                why = _LATE if late else entry.message
                why = f"the node {'is gone' if node is None else 'is not Ready'}" if away else why
                found.append(
                    NodeResult(
                        name=name,
                        ready=entry.ready and not away and not late,
                        address=entry.address,
                        mtu=entry.mtu,
                        message=why,
                        warning="" if away else entry.warning,
                        uplink=entry.uplink and not away,
                    )
                )
    return tuple(sorted(found, key=lambda item: item.name))


def usable_mtu(results: Iterable[NodeResult]) -> int:
    """Return the largest packet in bytes that fits on every node of a LAN; 0 while no node says."""
    found = narrowest(results)
    return found.mtu if found is not None else 0


def narrowest(results: Iterable[NodeResult]) -> MtuBudget | None:
    """Return the same, and the node that allows no more; None while no node says."""
    return min((MtuBudget(item.mtu, item.name) for item in results if item.mtu > 0), default=None)


def lan_status(
    lan: LAN, results: tuple[NodeResult, ...], verdict: Verdict, underlays: Underlays, *, now: float
) -> LANStatus:
    """Return the whole status; equal to the LAN's if there is nothing new."""
    ready = sum(item.ready for item in results)
    is_ready, reason, message = _ready(lan, results, verdict, underlays)
    generation = lan.metadata.generation
    conditions = set_ready(
        lan.status.conditions,
        ready=is_ready,
        reason=reason,
        message=message[:MESSAGE_MAX],
        stalled=reason in STALLED_REASONS,
        generation=generation,
        now=now,
    )
    # Nothing needs the underlay of a LAN that is being deleted.
    underlay = None if lan.metadata.is_deleting else underlays.finding(lan.spec.default_vxlan_dev)
    conditions = with_finding(conditions, UNDERLAY_READY, underlay, generation=generation, now=now)
    used = f"used by {listed(verdict.users)}"[:MESSAGE_MAX]
    in_use = Finding("True", "Used", used) if verdict.users else None
    conditions = with_finding(conditions, IN_USE, in_use, generation=generation, now=now)
    return LANStatus(
        observed_generation=generation,
        mtu=usable_mtu(results),
        summary=f"{ready}/{len(results)}",
        network=network_name(lan),
        nodes=results,
        users=verdict.users[:USERS_MAX],
        conditions=conditions,
    )


def _ready(
    lan: LAN, results: tuple[NodeResult, ...], verdict: Verdict, underlays: Underlays
) -> tuple[bool, str, str]:
    if verdict.reason:
        return False, verdict.reason, verdict.message
    failing = [item for item in results if not item.ready]
    if failing:
        texts = (f"{item.name}: {item.message or 'it is not ready yet'}" for item in failing)
        late = all(item.message == _LATE for item in failing)
        return False, APPLYING if late else "NodesNotReady", listed(texts, LISTED)
    if not results and underlays.faults and (underlays.is_mapped or not underlays.usable):
        return False, "NoUnderlay", underlays.message
    uplink = lan.spec.uplink
    if uplink is not None and not any(item.uplink for item in results):
        return (
            False,
            "UplinkDown",
            f"no node joins it to {title_of_uplink(uplink)}: a node needs the bridge of that cluster network, with the "
            "VLAN on its uplink; the log of each node's agent of LANs says what is missing there",
        )
    if not results and not underlays.is_known:
        return False, NOT_REPORTED, not_reported(lan.spec.default_vxlan_dev)
    if not results:
        return True, "Ready", "no node carries it yet; it is built with the first pod or machine on a node"
    return True, "Ready", f"{len(results)} nodes carry it" if len(results) > 1 else "1 node carries it"


def title_of_uplink(uplink: VlanUplink) -> str:
    """Return a physical VLAN, for messages."""
    return f"VLAN {uplink.vlan} of cluster network {uplink.cluster_network}"

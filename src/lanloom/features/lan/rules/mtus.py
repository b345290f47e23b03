"""MTUs that a LAN or a NAD asks for, judged before anything is built, by what the nodes that carry the LAN report.

And, once it is built, what a node can't do of what options ask for.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lanloom.api.lan import LAN, LANNode, Mode, resource_name
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.flood import MtuBudget
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.options import UNENFORCED
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord
from lanloom.features.lan.rules.spec import title_beside, title_of
from lanloom.refusals import Denied
from lanloom.text import quote

_MODES: dict[str, Mode] = {"macvtap": "macvtap", "k8slanveth": "veth"}
"""By the type of a CNI configuration."""


class AskedMtu(NamedTuple):
    """An MTU that a NAD asks for, and the resource of the spoke that it is for."""

    mtu: int
    resource: str


def reported_budget(lan: LAN, reports: Iterable[LANNode]) -> MtuBudget | None:
    """Return the largest packet that fits on every node that reports the LAN, None while none does."""
    found = (
        MtuBudget(entry.mtu, report.metadata.name)
        for report in reports
        for entry in report.status.lans
        if entry.uid == lan.metadata.uid and entry.mtu
    )
    return min(found, default=None)


def asks_more(old: LAN, new: LAN) -> bool:
    """Return whether an update asks for another MTU, which is then to be judged."""
    return any(True for _ in _changed(old, new))


def check_mtus(old: LAN, new: LAN, reports: Iterable[LANNode]) -> None:
    """Raise Denied for an MTU that an update asks for and that does not fit on the nodes that carry the LAN."""
    budget = reported_budget(new, reports)
    for field, asked in _changed(old, new) if budget is not None else ():
        if budget is not None and (fault := budget.fault(asked)):
            raise Denied(f"{title_of(new)}: {field} is {asked}, and {fault}")


def _changed(old: LAN, new: LAN) -> Iterator[tuple[str, int]]:
    if new.spec.mtu and new.spec.mtu != old.spec.mtu:
        yield "spec.mtu", new.spec.mtu
    for name, own in sorted(new.spec.spoke_options.items()):
        before = old.spec.spoke_options.get(name)
        if own.mtu and (before is None or own.mtu != before.mtu):
            yield f"spec.spokeOptions[{quote(name)}].mtu", own.mtu


def asked_mtu(nad: NetworkAttachmentDefinition) -> AskedMtu | None:
    """Return the MTU that the NAD of a spoke asks for; None for any other NAD, and for one that asks for none."""
    try:
        config: object = json.loads(nad.spec.config)
    except (ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    plugins = config.get("plugins")
    first = plugins[0] if isinstance(plugins, list) and plugins else config
    return _asked(first, nad) if isinstance(first, dict) else None


def _asked(config: dict[str, Any], nad: NetworkAttachmentDefinition) -> AskedMtu | None:
    kind, mtu, spoke = config.get("type"), config.get("mtu"), config.get("veth")
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    if mode is None or not isinstance(mtu, int) or isinstance(mtu, bool) or mtu <= 0:
        return None
    resource = nad.metadata.annotations.get(RESOURCE_NAME, "")
    if mode == "veth":
        resource = resource_name(spoke, mode) if isinstance(spoke, str) else ""
    return AskedMtu(mtu, resource)


def check_nad_mtu(
    nad: NetworkAttachmentDefinition, asked: AskedMtu, lans: Iterable[LAN], reports: Iterable[LANNode]
) -> None:
    """Raise Denied for a NAD that asks for a larger MTU than its LAN has."""
    found = (lan for lan in lans for spoke in lan.spec.spokes if asked.resource in _resources(spoke))
    lan = next(found, None)
    if lan is None:
        return
    budget = reported_budget(lan, reports) or MtuBudget(asked.mtu)
    if fault := budget.fault(asked.mtu, lan.spec.mtu):
        raise Denied(
            f"NetworkAttachmentDefinition {nad.metadata.key}: spec.config.mtu is {asked.mtu}, but of "
            f"{title_beside(lan, nad.metadata.namespace)}: {fault}"
        )


def _resources(spoke: str) -> tuple[str, str]:
    return resource_name(spoke, "macvtap"), resource_name(spoke, "veth")


def too_large(record: LanRecord, budget: MtuBudget) -> str:
    """Return which MTUs are larger than what fits, of the LAN and of spokes that are attached; empty without one."""
    found = {fault: asked for asked, fault in reversed(tuple(_too_large(record, budget)))}
    return "; ".join(f"{UNENFORCED} {asked}, and {fault}" for fault, asked in found.items())


def _too_large(record: LanRecord, budget: MtuBudget) -> Iterator[tuple[str, str]]:
    if fault := budget.fault(record.options.mtu):
        yield f"spec.mtu is {record.options.mtu}", fault
    for place in record.places:
        asked = own_mtu(record, place) if place.attached else 0
        if fault := budget.fault(asked, record.options.mtu):
            yield f"the spoke {place.spoke} asks for MTU {asked}", fault


def own_mtu(record: LanRecord, place: SpokeRecord) -> int:
    """Return the MTU that a place asks for itself, by CNI or by its options; 0 for none."""
    own = record.options.spokes.get(place.spoke)
    return max(place.mtu, own.mtu if own is not None else 0)


def unenforced(record: LanRecord, wanted: DesiredLan, seen: SeenLan) -> str:
    """Return why the limit of learned addresses is none; empty where it is, or where none is asked for."""
    bridge = seen.links.get(wanted.bridge)
    limit = record.options.max_learned_macs
    if not limit or bridge is None or bridge.learned_limit is not None:
        return ""
    return (
        f"{UNENFORCED} spec.maxLearnedMacs is {limit}, and the bridges of this kernel have no such "
        "limit; use Linux 6.7 or newer, or limit each spoke in spec.spokeOptions"
    )

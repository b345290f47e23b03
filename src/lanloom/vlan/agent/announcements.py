"""What deserves an Event: what became better or worse between two reports of a cluster network, and repairs.

Only what changed is told, so a cluster where everything fails alike costs one Event for each thing that fails.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from lanloom.api.core import ObjectReference
from lanloom.api.harvester import VlanInterface, VlStatus
from lanloom.api.meta import Condition
from lanloom.kube.conditions import find
from lanloom.vlan.rules.drift import Drift
from lanloom.vlan.rules.status import PASSING, READY

_QUIET = PASSING | {""}
"""Reasons of a network that is not ready yet, or not to be."""


class Announcement(Struct, frozen=True):
    """An Event to be written."""

    about: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Networks = Callable[[str], ObjectReference | None]
"""The NAD of a `namespace/name`, if it is known."""


def node_reference(node: str) -> ObjectReference:
    """The Node as kubelet refers to it: an agent can't read Nodes, and its Events are found by this uid too."""
    return ObjectReference(api_version="v1", kind="Node", name=node, uid=node)


def announcements(
    node: str, before: VlStatus | None, after: VlStatus, networks: Networks
) -> tuple[Announcement, ...]:
    """What is new in a node's report."""
    return (*_uplink(node, before, after), *_addresses(node, before, after, networks))


def repaired(node: str, drift: Iterable[Drift]) -> Iterator[Announcement]:
    """One Event for each cluster network that somebody changed."""
    texts: dict[str, list[str]] = {}
    for item in drift:
        texts.setdefault(item.cluster_network, []).append(item.text)
    for name, found in texts.items():
        message = f"put right on {name}: {'; '.join(found)}"
        yield Announcement(node_reference(node), "Normal", "DriftRepaired", message)


def _uplink(node: str, before: VlStatus | None, after: VlStatus) -> Iterator[Announcement]:
    old, new = _ready(before), _ready(after)
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return
    name = after.cluster_network
    failed = old is not None and old.status == "False" and old.reason not in _QUIET
    was_up = old is not None and old.status == "True"
    if new.status == "True" and failed:
        yield Announcement(node_reference(node), "Normal", "UplinkReady", f"{name} works again")
    if new.status == "False" and new.reason not in _QUIET and (new.reason != "UplinkDown" or was_up):
        yield Announcement(node_reference(node), "Warning", new.reason, f"{name}: {new.message}")


def _ready(status: VlStatus | None) -> Condition | None:
    return find(status.conditions, READY) if status else None


def _addresses(
    node: str, before: VlStatus | None, after: VlStatus, networks: Networks
) -> Iterator[Announcement]:
    known = {(item.vlan_id, item.network): item for item in (before.interfaces if before else ())}
    uplink = _ready(after)
    worse: dict[str, list[VlanInterface]] = {}
    for item in after.interfaces:
        old = known.get((item.vlan_id, item.network))
        if item.state == "Failed" and (old is None or (old.state, old.reason) != (item.state, item.reason)):
            worse.setdefault(item.reason, []).append(item)
        elif item.state == "Ready" and old is not None and old.state == "Failed":
            message = f"VLAN {item.vlan_id} of {after.cluster_network} has the address {item.address}"
            yield Announcement(node_reference(node), "Normal", "AddressAssigned", message)
    for reason, items in worse.items():
        if uplink is None or uplink.reason != reason:  # else it is told already
            more = f" (and {len(items) - 1} more VLANs)" if len(items) > 1 else ""
            message = f"VLAN {items[0].vlan_id} of {after.cluster_network}: {items[0].message}{more}"
            yield Announcement(node_reference(node), "Warning", reason, message)
        for item in items:
            if (about := networks(item.network)) is not None:
                yield Announcement(about, "Warning", reason, f"node {node}: {item.message}")

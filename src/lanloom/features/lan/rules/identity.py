"""The identity of a LAN on a node: what it was built with, which stays until nothing of it is left there.

No webhook lets these fields change. They stay even if they were changed while no webhook answered: a LAN that is
rebuilt under its pods would put them on the LAN of others. The record has them, so an agent that starts again keeps
them, too. Where a LAN is built on no node, it is built as it says. Underlay, uplink and replication are no part of it:
they say how frames of this LAN come to its other nodes, and may change alive.
"""

from collections.abc import Iterable

from lanloom.api.lan import LAN, LANNode
from lanloom.features.lan.rules.record import LanRecord, record_of
from lanloom.text import listed, quote

_FIELDS = {
    "ns": "ns",
    "bridge": "bridge",
    "vxlan": "vxlan",
    "vni": "vni",
    "vxlanPort": "port",
    "vxlanGrp": "group",
    "hostBridge.name": "host_bridge",
    "hostBridge.alias": "host_alias",
}
"""The fields of a LAN's spec, each with that of the record."""


def divergence(record: LanRecord, lan: LAN | None, node: str) -> str:
    """Return how a LAN differs from what this node has built, with the remedy; empty if it doesn't, or is not known."""
    fresh = record_of(lan, node) if lan is not None else record
    wrong = [
        f"spec.{field} is {quote(getattr(fresh, name))}, but it is built here with {quote(getattr(record, name))}"
        for field, name in _FIELDS.items()
        if record.built and getattr(fresh, name) != getattr(record, name)
    ]
    if not wrong:
        return ""
    return f"{', '.join(wrong)}, which stays until nothing on this node uses the LAN; set it back"


def built_elsewhere(record: LanRecord, node: str, reports: Iterable[LANNode]) -> str:
    """Return why a LAN can't be built on `node`: another one has it under another identity. Empty if none has."""
    others = [
        f"{report.metadata.name} (VNI {entry.vni}, port {entry.port})"
        for report in reports
        for entry in report.status.lans
        if report.metadata.name != node
        and entry.uid == record.uid
        and entry.address
        and (entry.vni, entry.port) != (record.vni, record.port)
    ]
    if not others:
        return ""
    return (
        f"spec.vni is {record.vni} and spec.vxlanPort {record.port}, but it is built otherwise on {listed(others)}; "
        "set them back, or delete the LAN and create another one"
    )

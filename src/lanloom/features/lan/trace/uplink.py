"""Ends of a way outside of the LAN's own spokes: a physical VLAN, and the bridge of an isolated network.

One node joins the LAN to its VLAN (`spec.uplink`); every node that has the bridge of the isolated network joins the LAN
to that (`spec.hostBridge`). Options of spokes hold for neither.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from lanloom.api.core import Node
from lanloom.api.lan import LAN, READY, LANNode, VlanUplink
from lanloom.api.names import bond_name, bridge_name
from lanloom.features.lan.rules.hostbridge import PORT, DesiredHostBridge, uplink_bridge
from lanloom.features.lan.rules.status import title_of_uplink
from lanloom.features.lan.trace.facts import (
    End,
    Facts,
    HopFinding,
    NodeKernel,
    combined,
    entry_of,
    ok,
    stops,
    unknown,
)
from lanloom.refusals import Denied
from lanloom.text import listed

_HEAL = "the agent of LANs on this node makes it again within seconds; if not, see its log"


def uplink_end(lan: LAN, reports: Mapping[str, LANNode]) -> End:
    """Return the end on the VLAN, at the node that joins the LAN to it. Raises Denied for a LAN without an uplink."""
    if lan.spec.uplink is None:
        raise Denied(f"LAN {lan.metadata.key} is joined to no VLAN; name a spoke or pod, or set spec.uplink")
    nodes = sorted(
        name
        for name, report in reports.items()
        if (entry := entry_of(report, lan)) is not None and entry.uplink
    )
    return End(title=title_of_uplink(lan.spec.uplink), at="uplink", node=nodes[0] if nodes else "")


def host_bridge(lan: LAN, *, uplink: bool) -> DesiredHostBridge | None:
    """Return the bridge of the host that a node joins the LAN to.

    It is that of the VLAN only where it has the `uplink`.
    """
    spec = lan.spec
    if spec.host_bridge is not None:
        return DesiredHostBridge(spec.host_bridge.name, spec.host_bridge.alias)
    return uplink_bridge(spec.uplink.cluster_network, spec.uplink.vlan) if spec.uplink and uplink else None


def uplink(
    facts: Facts, end: End, spec: VlanUplink
) -> Iterator[tuple[Literal["uplink", "port"], str, HopFinding]]:
    """Yield kind, name and finding of each hop from the VLAN to the LAN's bridge."""
    title = f"VLAN {spec.vlan} of {spec.cluster_network}"
    if not end.node:
        yield "uplink", title, stops(f"no node joins the LAN to it: {_why_none(facts, spec)}")
        return
    trunk, bridge = bond_name(spec.cluster_network), bridge_name(spec.cluster_network)
    yield (
        "uplink",
        title,
        unknown(
            f"untagged at the port of the LAN, tagged on {trunk} of {bridge}; stations on the VLAN can't be seen from "
            f"here: on {end.node}, `bridge fdb show br {bridge} vlan {spec.vlan}` lists those that it has heard"
        ),
    )
    words = "joins the LAN to the VLAN, as the node reports; tagged frames, LACP and LLDP do not pass"
    yield "port", PORT, combined(_reported(facts, end.node, words), _live(facts, end.node))


def at_bridge(facts: Facts, end: End) -> tuple[HopFinding, HopFinding]:
    """Return the bridge of the isolated network on the node of an end, and what joins the LAN to it."""
    assert facts.lan.spec.host_bridge is not None
    name, entry = facts.lan.spec.host_bridge.name, facts.entry(end.node)
    if entry is None:
        fault = (
            f"{end.node} does not carry the LAN: it has no bridge {name} of the isolated network yet, or no agent of "
            "LANs (deploy/lan.yaml) runs there"
        )
        return unknown(f"whether {end.node} has it is not reported"), stops(fault)
    found = ok(f"there, as {end.node} carries the LAN")
    words = f"joins the LAN to {name}, as the node reports"
    return found, combined(_reported(facts, end.node, words), _live(facts, end.node))


def _why_none(facts: Facts, spec: VlanUplink) -> str:
    if facts.lan.metadata.is_deleting:
        return "the LAN is being deleted; create another one"
    return (
        f"none has {bridge_name(spec.cluster_network)} with VLAN {spec.vlan} on {bond_name(spec.cluster_network)}, or "
        "one is being elected, which takes up to 25 seconds. The VLAN is there while a NetworkAttachmentDefinition of "
        "it and of that cluster network is; the log of the agents of LANs says what is missing (lan-uplink-not-here)"
    )


def _reported(facts: Facts, node: str, words: str) -> HopFinding:
    found = facts.nodes.get(node)
    if found is None or not _is_ready(found):
        state = "is gone" if found is None else "is not Ready"
        return unknown(f"{words}; the node {state}, and another one may have taken over")
    return ok(words)


def _live(facts: Facts, node: str) -> HopFinding | None:
    kernel = facts.kernels.get(node)
    if kernel is None or kernel.wanted.host is None:
        return None
    faults = listed(_faults(kernel, kernel.wanted.host), 3)
    return stops(f"{faults}; {_HEAL}") if faults else ok(f"up, at {kernel.wanted.host.name} of the host")


def _faults(kernel: NodeKernel, host: DesiredHostBridge) -> Iterator[str]:
    near, far = kernel.seen.links.get(PORT), kernel.seen.host.port
    if kernel.seen.host.problem:
        yield kernel.seen.host.problem
    elif near is None or far is None:
        yield f"no port joins the LAN to {host.name}"
    elif not near.up or not far.up:
        yield f"the port at {host.name} is down"
    elif far.master != kernel.seen.host.bridge:
        yield f"the port is not in the bridge {host.name}"
    elif drift := near.drift | far.drift:
        yield f"another program changed {', '.join(sorted(drift))} of the port at {host.name}"
    elif far.vlan != host.vlan:
        yield f"the port is not in VLAN {host.vlan} alone"


def _is_ready(node: Node) -> bool:
    return all(item.status == "True" for item in node.status.conditions if item.type == READY)

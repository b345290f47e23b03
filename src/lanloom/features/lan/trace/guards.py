"""Options of spokes that stop a frame: port security and limits at the sender's port, isolation at the receiver's.

By the reports, and by a kernel where that was read: a port of which it says something else than it should is reported
with the rest of the port's faults.
"""

from lanloom.features.lan.rules.desired import DesiredPort
from lanloom.features.lan.rules.observed import StaticEntry
from lanloom.features.lan.rules.options import options_of
from lanloom.features.lan.trace.facts import End, Facts, HopFinding, NodeKernel, stops, unknown
from lanloom.text import quote


def guarded(facts: Facts, end: End, found: HopFinding, *, sends: bool) -> HopFinding:
    """Return what is found at a port, with what the options of its spoke do to the frame."""
    if found.state == "stops":
        return found
    fault = _port_security(facts, end) if sends else _isolation(facts)
    if fault:
        return stops(fault)
    doubts = "; ".join(filter(None, (_limit(facts, end), _storm(facts, end)))) if sends else ""
    return unknown(f"{found.reason}; {doubts}") if doubts else found


def _storm(facts: Facts, end: End) -> str:
    """Return what storm control does to a frame that is for many receivers, or for one that the LAN does not know."""
    entry = facts.entry(end.node)
    spokes = entry.spokes if entry is not None else ()
    if not any(each.storming for each in spokes if (each.name, each.mode) == (end.spoke, end.mode)):
        return ""
    return (
        f"storm control drops frames from the spoke {end.spoke} that are for many or unknown receivers: it sends more "
        f"than {options_of(facts.lan.spec).storm_rate} of them in a second; look for a loop there, or raise "
        "spec.stormControl.packetsPerSecond"
    )


def _limit(facts: Facts, end: End) -> str:
    """Return what a limit of MAC addresses does to a frame that is from another one than the interface's own."""
    limit = options_of(facts.lan.spec).port(end.spoke).limit
    if not limit or not facts.source or facts.source == end.mac:
        return ""
    return (
        f"the spoke {end.spoke} sends from at most {limit} MAC addresses in five minutes, and whether {facts.source} "
        "is among them is not seen here: if the metric lanloom_agent_lan_spoke_refused_frames_total with the option "
        f'"mac-limit" rises, set a higher spec.spokeOptions[{quote(end.spoke)}].maxLearnedMacs'
    )


def _port_security(facts: Facts, end: End) -> str:
    kernel = facts.kernels.get(end.node)
    return _reported(facts, end) or (_by_kernel(kernel, end) if kernel is not None else "")


def _reported(facts: Facts, end: End) -> str:
    entry = facts.entry(end.node)
    macs = (
        [each.mac for each in entry.spokes if (each.name, each.mode) == (end.spoke, end.mode)]
        if entry
        else []
    )
    allowed = next(filter(None, macs), "")
    source = facts.source or end.mac
    return _refusal(end, allowed, source) if allowed and source and source != allowed else ""


def _by_kernel(kernel: NodeKernel, end: End) -> str:
    port = next((each for each in kernel.wanted.ports if each.name == end.port), None)
    if port is None or not port.flags.locked:
        return ""
    if kernel.seen.static_entries.get(port.mac) != StaticEntry(port.name):
        return (
            f"port security: {end.port} has no forwarding entry for {port.mac}, without which it passes nothing; the "
            "agent of LANs on this node makes it again within seconds; if not, see its log"
        )
    found = _source(kernel, port)
    return _refusal(end, port.mac, found) if found and found != port.mac else ""


def _source(kernel: NodeKernel, port: DesiredPort) -> str:
    """Return the address of the interface; behind KubeVirt's bridge the machine's own is not seen."""
    end = kernel.seen.ends.get(port.name)
    return end.mac if end is not None and not port.bridged else ""


def _refusal(end: End, allowed: str, source: str) -> str:
    return (
        f"port security: the spoke {end.spoke} sends from {allowed} only, and the frame is from {source}; send from "
        f"that address, or set spec.spokeOptions[{quote(end.spoke)}].portSecurity to false"
    )


def _isolation(facts: Facts) -> str:
    options = options_of(facts.lan.spec)
    names = (facts.sender.spoke, facts.receiver.spoke)
    if not all(name and options.port(name).isolated for name in names):
        return ""
    return (
        f"the spokes {names[0]} and {names[1]} are both isolated, and such spokes do not reach each other; set "
        f"spec.spokeOptions[{quote(names[1])}].isolated to false for one that all may reach"
    )

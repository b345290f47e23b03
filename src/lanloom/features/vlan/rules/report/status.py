"""What a node's agent reports: one ClusterNetworkNode per cluster network, from what is wanted and what is observed.

VlanStatus, Harvester's report, follows from it. It is written only where Harvester's controller does not run.
"""

from collections.abc import Mapping
from ipaddress import IPv4Interface

from msgspec.structs import replace

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, Management, VlanInterface
from lanloom.api.harvester import LocalArea, VlanStatusFields
from lanloom.api.meta import Condition
from lanloom.api.names import MGMT
from lanloom.features.vlan.rules.desired.foreign import uplink_port
from lanloom.features.vlan.rules.desired.network import (
    AWAITING_ADDRESS,
    NOT_WRITTEN,
    Interface,
    NodeNetwork,
    Problem,
    blocked,
)
from lanloom.features.vlan.rules.report.interfaces import failed, interface_report, unbuilt
from lanloom.kube.conditions import Finding, find, is_true, with_finding
from lanloom.node.ports import Connection, Link, LinkState
from lanloom.node.vlanids import merge, render, subtract, vlan_ids

READY = "ready"
L3_READY = "L3Ready"

PASSING = frozenset({"Activating", AWAITING_ADDRESS, "Configuring", "NoReport", "Held"})
"""Reasons that usually go away by themselves: others are named first."""

RESYNC_SECONDS = 30.0
"""Seconds between two reconciles of a host without changes."""

_TRANSIENT = {"Activating", "Configuring", "InterfaceDown", "RouteMissing", "UplinkDown"}


REPORT_GENERATION = 1
"""The generation of every ClusterNetworkNode: it has no spec whose changes would count."""

_NOT_LANLOOMS = ("", "Error")
"""Reasons of Harvester's controller: it sets none, but for errors of its framework."""


def _report(
    conditions: tuple[Condition, ...], type: str, finding: Finding, now: float
) -> tuple[Condition, ...]:
    return with_finding(conditions, type, finding, generation=REPORT_GENERATION, now=now)


def node_status(
    node: str,
    network: NodeNetwork,
    problems: tuple[Problem, ...],
    observed: LinkState,
    connections: Mapping[str, Connection] | None,
    previous: tuple[Condition, ...],
    now: float,
    *,
    revision: str = "",
    uplink_hash: str = "",
    withheld: Problem | None = None,
    own: Management | None = None,
) -> ClusterNetworkNodeStatus:
    """Return the status of one cluster network on the node, in the form that it carries.

    `connections` is None where NetworkManager can't be reached. `previous` are the conditions reported last, whose
    transition times stay where nothing changed. `now` in seconds since the epoch. `revision` is that of the
    configuration which the form comes from; `withheld` says why it is not the present one (Held or RolledBack), and
    `uplink_hash` is that of the present one. `own` is the node's management network.
    """
    unsorted = [
        _reachable(_interface_report(item, problems, connections, observed, now), network, observed)
        for item in network.interfaces
    ]
    unsorted += [failed(item) for item in network.problems]
    interfaces = tuple(sorted(unsorted, key=lambda item: (item.vlan_id, item.network)))
    bridge, uplink = observed.links.get(network.bridge), _uplink(network, observed)
    ids = merge((*(bridge.self_vlans if bridge else ()), *(uplink.vlans if uplink else ())))
    finding = _uplink_finding(network, problems, observed)
    conditions = _report(previous, READY, _rolled_back(finding, withheld), now)
    conditions = _report(conditions, L3_READY, _held(_l3_finding(interfaces), withheld), now)
    return ClusterNetworkNodeStatus(
        cluster_network=network.cluster_network,
        vlan_config=network.vlan_config,
        node=node,
        mode="beside" if network.delegated else "alone",
        bridge=network.bridge if bridge else "",
        uplink=uplink.name if uplink else "",
        mtu=bridge.mtu if bridge else 0,
        vlan_ids=render(ids),
        addresses=",".join(
            address for item in interfaces for address in (item.address, item.address6) if address
        ),
        interfaces=interfaces,
        desired_hash=network.digest,
        revision=revision,
        uplink_hash=uplink_hash,
        management=own if network.cluster_network == MGMT else None,
        conditions=conditions,
    )


def _interface_report(
    item: Interface,
    problems: tuple[Problem, ...],
    connections: Mapping[str, Connection] | None,
    observed: LinkState,
    now: float,
) -> VlanInterface:
    found = (connections or {}).get(item.uuid)
    if blocked(problems):
        return unbuilt(item, problems[0], found)
    own = next((problem for problem in problems if problem.vid == item.vid), None)
    if own is not None and own.reason != NOT_WRITTEN:
        return unbuilt(item, own, found)
    report = interface_report(item, connections, observed, now)
    if own is None:
        return report
    return replace(
        report, state="Failed", reason=own.reason, message=own.message
    )  # it may have its former address


def _reachable(found: VlanInterface, network: NodeNetwork, observed: LinkState) -> VlanInterface:
    """Withdraw the state Ready where no frame can pass: pods keep a bridge up whose uplink is dead."""
    link, uplink = observed.links.get(found.name), _uplink(network, observed)
    if found.state != "Ready" or link is None:
        return found
    dead = "" if _has_carrier(link) else f"{found.name} has no carrier ({link.operstate})"
    dead = (_dead_uplink(network, uplink, observed) if uplink is not None else "") or dead
    return replace(found, state="Pending", reason="UplinkDown", message=dead) if dead else found


def _uplink(network: NodeNetwork, observed: LinkState) -> Link | None:
    return (
        uplink_port(observed, network.cluster_network)
        if network.foreign
        else observed.links.get(network.bond)
    )


def _rolled_back(finding: Finding, withheld: Problem | None) -> Finding:
    """Make a node not ready after a rollback; a failure of the revision that it returned to comes first."""
    if withheld is None or withheld.reason == "Held" or finding.status != "True":
        return finding
    return Finding("False", withheld.reason, withheld.message)


def _held(finding: Finding, withheld: Problem | None) -> Finding:
    """Return a finding that is not ready while addresses are withheld, although the uplink may work."""
    if withheld is None or finding.status != "True":
        return finding
    return Finding("False", withheld.reason, withheld.message)


def leftover_status(
    node: str,
    cluster_network: str,
    problems: tuple[Problem, ...],
    previous: tuple[Condition, ...],
    now: float,
) -> ClusterNetworkNodeStatus:
    """Return the status of a cluster network of which the node carries no form.

    It should no longer have it but can't let go of it yet, or it may not take it up yet.
    """
    problem = problems[0]
    uplink = tuple(item for item in previous if item.type == READY)  # no object asks for addresses any more
    conditions = _report(uplink, READY, Finding("False", problem.reason, problem.message), now)
    return ClusterNetworkNodeStatus(
        cluster_network=cluster_network, node=node, bridge=problem.network, conditions=conditions
    )


def recheck_after(status: ClusterNetworkNodeStatus) -> float:
    """Return the seconds until the next reconcile: few while a change is on its way, more after a failure."""
    unready = {condition.reason for condition in status.conditions if condition.status != "True"}
    if unready & _TRANSIENT:
        return 1.0
    return 5.0 if unready else RESYNC_SECONDS


def _uplink_finding(network: NodeNetwork, problems: tuple[Problem, ...], observed: LinkState) -> Finding:
    general = [item for item in problems if not item.vid]
    if general:
        return Finding("False", general[0].reason, "; ".join(item.message for item in general))
    bridge, uplink = observed.links.get(network.bridge), _uplink(network, observed)
    if bridge is None or uplink is None or uplink.master != bridge.name or not (bridge.up and uplink.up):
        return Finding("False", "Configuring", f"bridge {network.bridge} is being built")
    forbidden = vlan_ids(item.vid for item in problems)
    on_uplink = subtract(subtract(network.uplink_ids, uplink.vlans), forbidden)
    on_bridge = subtract(subtract(network.bridge_ids, bridge.self_vlans), forbidden)
    if network.delegated and on_uplink:
        message = f"Harvester's controller has not put the VLAN ids {render(on_uplink)} on {uplink.name} yet"
        return Finding("False", "Configuring", message)
    if missing := merge((*on_uplink, *on_bridge)):
        return Finding("False", "Configuring", f"VLAN ids {render(missing)} are not on {network.bridge} yet")
    return _link_finding(network, uplink, observed)


def _link_finding(network: NodeNetwork, uplink: Link, observed: LinkState) -> Finding:
    if dead := _dead_uplink(network, uplink, observed):
        return Finding("False", "UplinkDown", dead)
    if weak := () if network.foreign else _dead_nics(network, observed):
        message = f"no carrier on {', '.join(weak)}; check the cables and the switch"
        return Finding("True", "UplinkDegraded", message)
    return Finding("True", "UplinkReady")


def _dead_uplink(network: NodeNetwork, uplink: Link, observed: LinkState) -> str:
    """Say that no frame can leave by the uplink; empty if one can."""
    dead = "" if _has_carrier(uplink) else f"the uplink {uplink.name} has no carrier"
    if not network.foreign and len(_dead_nics(network, observed)) == len(network.nics):
        dead = f"none of the NICs {', '.join(network.nics)} has a carrier"
    return f"{dead}; check the cables and the switch" if dead else ""


def _dead_nics(network: NodeNetwork, observed: LinkState) -> list[str]:
    return [nic for nic in network.nics if not _carries(nic, network, observed)]


def _carries(nic: str, network: NodeNetwork, observed: LinkState) -> bool:
    link = observed.links.get(nic)
    return link is not None and link.master == network.bond and _has_carrier(link)


def _has_carrier(link: Link) -> bool:
    return link.up and link.operstate in ("UP", "UNKNOWN")


def _l3_finding(interfaces: tuple[VlanInterface, ...]) -> Finding:
    unready = [item for item in interfaces if item.state != "Ready"]
    if not unready:
        return Finding("True", "AddressesAssigned" if interfaces else "NothingToAssign")
    worst = next((item for item in unready if item.state == "Failed"), unready[0])
    message = "; ".join(f"VLAN {item.vlan_id or '?'}: {item.message}" for item in unready)
    return Finding("False", worst.reason, message)


def vlan_statuses(reports: Mapping[str, ClusterNetworkNodeStatus]) -> dict[str, VlanStatusFields]:
    """Return the statuses by cluster network, of those that come from a VlanConfig: `mgmt` and leftovers have none."""
    return {name: _vlan_status(report) for name, report in reports.items() if report.vlan_config}


def _vlan_status(report: ClusterNetworkNodeStatus) -> VlanStatusFields:
    return VlanStatusFields(
        cluster_network=report.cluster_network,
        vlan_config=report.vlan_config,
        link_monitor=report.cluster_network,
        node=report.node,
        local_areas=_local_areas(report.interfaces),
        conditions=tuple(
            replace(item, observed_generation=0) for item in report.conditions if item.type == READY
        ),
    )


def _local_areas(interfaces: tuple[VlanInterface, ...]) -> tuple[LocalArea, ...]:
    """Return the VLANs with node addresses, and the subnets of those that have one."""
    areas = {
        item.vlan_id: str(IPv4Interface(item.address).network) if item.address else ""
        for item in interfaces
        if item.name
    }
    return tuple(LocalArea(vlanID=vid, cidr=cidr) for vid, cidr in areas.items())


def written_alone(present: VlanStatusFields, now: VlanStatusFields) -> VlanStatusFields:
    """Return a VlanStatus that is ready again where Lanloom said that it is not, and it is `now`; else the present one.

    Lanloom said so while Harvester's controller was away, whose reports have no such reasons.
    """
    found = find(present.conditions, READY)
    mine = found is not None and found.status == "False" and found.reason not in _NOT_LANLOOMS
    return replace(present, conditions=now.conditions) if mine and is_true(now.conditions, READY) else present

"""What a node's agent reports: one VlanStatus per cluster network, from what is wanted and what is observed."""

from collections.abc import Mapping
from typing import NamedTuple

from lanloom.api.harvester import DhcpLease, LocalArea, VlanInterface, VlStatus
from lanloom.api.meta import Condition
from lanloom.api.times import rfc3339
from lanloom.kube.conditions import ConditionStatus, set_condition
from lanloom.node.ports import Connection, LinkState
from lanloom.node.vlanids import merge, render
from lanloom.vlan.rules.activation import has_address
from lanloom.vlan.rules.desired import Interface, NodeNetwork, Problem
from lanloom.vlan.rules.plan import blocked

READY = "ready"
L3_READY = "L3Ready"

RESYNC_SECONDS = 30.0
"""How often a host is looked at when nothing seems to happen."""

_TRANSIENT = {"Activating", "Configuring", "UplinkDown"}


class Finding(NamedTuple):
    """What a condition says, whatever its type."""

    status: ConditionStatus
    reason: str
    message: str = ""


def with_finding(
    conditions: tuple[Condition, ...], type: str, finding: Finding, now: float
) -> tuple[Condition, ...]:
    """The conditions with that one saying `finding`."""
    status, reason, message = finding
    return set_condition(conditions, type=type, status=status, reason=reason, message=message, now=now)


def node_status(
    node: str,
    network: NodeNetwork,
    obstacles: tuple[Problem, ...],
    observed: LinkState,
    connections: Mapping[str, Connection] | None,
    previous: tuple[Condition, ...],
    now: float,
) -> VlStatus:
    """The status of one cluster network on the node.

    `connections` is None where NetworkManager can't be reached. `previous` are the conditions reported last, whose
    transition times stay where nothing changed. `now` in seconds since the epoch.
    """
    judged = [
        _unbuilt(item, obstacles[0]) if blocked(obstacles) else _interface(item, connections)
        for item in network.interfaces
    ]
    judged += [_failed(item) for item in network.problems]
    interfaces = tuple(sorted(judged, key=lambda item: (item.vlan_id, item.network)))
    bridge, bond = observed.links.get(network.bridge), observed.links.get(network.bond)
    ids = merge((*(bridge.self_vlans if bridge else ()), *(bond.vlans if bond else ())))
    conditions = with_finding(previous, READY, _uplink_finding(network, obstacles, observed), now)
    conditions = with_finding(conditions, L3_READY, _l3_finding(interfaces), now)
    return VlStatus(
        cluster_network=network.cluster_network,
        vlan_config=network.vlan_config,
        link_monitor=network.cluster_network,
        node=node,
        local_areas=tuple(
            LocalArea(vlanID=item.vlan_id, cidr=item.address) for item in interfaces if item.address
        ),
        bridge=network.bridge if bridge else "",
        uplink=network.bond if bond else "",
        mtu=bridge.mtu if bridge else 0,
        vlan_ids=render(ids),
        interfaces=interfaces,
        desired_hash=network.digest,
        conditions=conditions,
    )


def leftover_status(
    node: str,
    cluster_network: str,
    obstacles: tuple[Problem, ...],
    previous: tuple[Condition, ...],
    now: float,
) -> VlStatus:
    """The status of a cluster network that the node should no longer carry but can't let go of yet."""
    problem = obstacles[0]
    uplink = tuple(item for item in previous if item.type == READY)  # nobody wants addresses any more
    conditions = with_finding(uplink, READY, Finding("False", problem.reason, problem.message), now)
    return VlStatus(cluster_network=cluster_network, node=node, bridge=problem.network, conditions=conditions)


def look_again(status: VlStatus) -> float:
    """Seconds until another look at the host is due: few while something is on its way, more after a failure."""
    unready = {condition.reason for condition in status.conditions if condition.status != "True"}
    if unready & _TRANSIENT:
        return 1.0
    return 5.0 if unready else RESYNC_SECONDS


def _uplink_finding(network: NodeNetwork, obstacles: tuple[Problem, ...], observed: LinkState) -> Finding:
    if obstacles:
        return Finding("False", obstacles[0].reason, "; ".join(item.message for item in obstacles))
    bridge, bond = observed.links.get(network.bridge), observed.links.get(network.bond)
    if bridge is None or bond is None or bond.master != bridge.name or not (bridge.up and bond.up):
        return Finding("False", "Configuring", f"bridge {network.bridge} is being built")
    if not any(_carrier(nic, network, observed) for nic in network.nics):
        message = f"none of the NICs {', '.join(network.nics)} has a carrier; check the cables and the switch"
        return Finding("False", "UplinkDown", message)
    return Finding("True", "UplinkReady")


def _carrier(nic: str, network: NodeNetwork, observed: LinkState) -> bool:
    link = observed.links.get(nic)
    return (
        link is not None and link.master == network.bond and link.up and link.operstate in ("UP", "UNKNOWN")
    )


def _l3_finding(interfaces: tuple[VlanInterface, ...]) -> Finding:
    unready = [item for item in interfaces if item.state != "Ready"]
    if not unready:
        return Finding("True", "AddressesAssigned" if interfaces else "NothingToAssign")
    worst = next((item for item in unready if item.state == "Failed"), unready[0])
    message = "; ".join(f"VLAN {item.vlan_id or '?'}: {item.message}" for item in unready)
    return Finding("False", worst.reason, message)


def _failed(problem: Problem) -> VlanInterface:
    return VlanInterface(
        vlan_id=problem.vid,
        name="",
        network=problem.network,
        mode=problem.mode,
        state="Failed",
        reason=problem.reason,
        message=problem.message,
    )


def _unbuilt(item: Interface, obstacle: Problem) -> VlanInterface:
    return VlanInterface(
        vlan_id=item.vid,
        name=item.name,
        network=item.network,
        mode=item.mode,
        state="Failed",
        reason=obstacle.reason,
        message=obstacle.message,
    )


def _interface(item: Interface, connections: Mapping[str, Connection] | None) -> VlanInterface:
    if connections is None:
        state, reason, message = (
            "Failed",
            "NetworkManagerMissing",
            "NetworkManager does not answer; see that it runs",
        )
        connection = Connection(uuid=item.uuid)
    else:
        connection = connections.get(item.uuid, Connection(uuid=item.uuid))
        state, reason, message = _judge(item, connection)
    lease = connection.lease
    return VlanInterface(
        vlan_id=item.vid,
        name=item.name,
        network=item.network,
        mode=item.mode,
        address=connection.addresses[0] if connection.addresses else "",
        state=state,
        reason=reason,
        message=message,
        lease=DhcpLease(server=lease.server, expiry=rfc3339(lease.expiry) if lease.expiry else "")
        if lease
        else None,
    )


def _judge(item: Interface, connection: Connection) -> tuple[str, str, str]:
    """(state, reason, message) of one interface."""
    match connection.phase:
        case "absent":
            message = f"NetworkManager does not accept the profile {item.file}; see its log on the node"
            return "Failed", "ProfileRejected", message
        case "failed":
            return "Failed", *_failure(item, connection.reason)
        case "active" if connection.applied and has_address(item, connection):
            return "Ready", "Assigned", ""
        case "inactive":
            return "Pending", "Activating", f"NetworkManager has not brought {item.name} up yet"
        case _:
            awaited = "an answer of a DHCP server" if item.mode == "dhcp" else f"the address {item.address}"
            return "Pending", "Activating", f"{item.name} is waiting for {awaited}"


def _failure(item: Interface, reason: str) -> tuple[str, str]:
    if reason == "ip-address-duplicate" or (reason == "ip-config-unavailable" and item.mode == "static"):
        return (
            "DuplicateAddress",
            f"another host on VLAN {item.vid} already has {item.address}; choose another address",
        )
    if reason == "ip-config-unavailable":
        return (
            "DHCPTimeout",
            f"no DHCP server answered on VLAN {item.vid}; check the switch port and the server",
        )
    return (
        "ActivationFailed",
        f"NetworkManager could not bring {item.name} up ({reason or 'no reason given'})",
    )

"""What a node's agent reports of one VLAN sub-interface: its state, why it is not Ready, and what helps."""

from collections.abc import Mapping
from typing import NamedTuple

from lanloom.api.clusternetworknode import DhcpLease, VlanInterface
from lanloom.api.meta import rfc3339
from lanloom.api.subnets import IPV6_MTU_MIN
from lanloom.features.vlan.rules.desired.activation import (
    master_of,
    missing_part,
    other_addresses,
    own_address,
)
from lanloom.features.vlan.rules.desired.holds import DUPLICATE_ADDRESS, asked_addresses, duplicate
from lanloom.features.vlan.rules.desired.kernel import KERNEL_UNSUPPORTED, lack_of_ipv6
from lanloom.features.vlan.rules.desired.madeaddress import made_address, modes_of, too_small
from lanloom.features.vlan.rules.desired.network import AWAITING_ADDRESS, Interface, Problem, is_down
from lanloom.features.vlan.rules.desired.profile import address6_of, mode6_of, subnet6_of
from lanloom.node.ports import Connection, LinkState

_AWAITED6 = {"slaac": "a router to advertise", "dhcp6": "a DHCPv6 server to give an address of"}


class Assessment(NamedTuple):
    """A state (Ready, Pending or Failed), and why."""

    state: str
    reason: str
    message: str = ""


def failed(problem: Problem) -> VlanInterface:
    """Return the report of a VLAN that can't be carried as asked, or not yet."""
    return VlanInterface(
        vlan_id=problem.vid,
        name="",
        network=problem.network,
        mode=problem.mode,
        state="Pending" if problem.reason == AWAITING_ADDRESS else "Failed",
        reason=problem.reason,
        message=problem.message,
    )


def unbuilt(item: Interface, problem: Problem, connection: Connection | None = None) -> VlanInterface:
    """Return the report of a sub-interface that something stands in the way of. It may have its address still."""
    return VlanInterface(
        vlan_id=item.vid,
        name=item.name,
        network=item.network,
        mode=modes_of(item),
        address=_address(item, connection) if connection is not None else "",
        state="Failed",
        reason=problem.reason,
        message=problem.message,
    )


def interface_report(
    item: Interface, connections: Mapping[str, Connection] | None, observed: LinkState, now: float
) -> VlanInterface:
    """Return the report of a sub-interface. `connections` is None where NetworkManager can't be reached."""
    if connections is None:
        verdict = Assessment(
            "Failed", "NetworkManagerMissing", "NetworkManager does not respond; check that it runs"
        )
        connection = Connection(uuid=item.uuid)
    else:
        connection = connections.get(item.uuid, Connection(uuid=item.uuid))
        verdict = _assess(item, connection, observed, now)
    lease = connection.lease
    return VlanInterface(
        vlan_id=item.vid,
        name=item.name,
        network=item.network,
        mode=modes_of(item),
        address=_address(item, connection),
        address6=_address6(item, connection, observed),
        other_addresses=other_addresses(item, connection, observed) if connection.phase == "active" else (),
        table=item.table,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message,
        lease=DhcpLease(server=lease.server, expiry=rfc3339(lease.expiry) if lease.expiry else "")
        if lease
        else None,
    )


def _address(item: Interface, connection: Connection) -> str:
    """Return the address that it has by its profile or lease: others may have been put next to it."""
    own = own_address(item, connection)
    return own if own in connection.addresses else ""


def _address6(item: Interface, connection: Connection, observed: LinkState) -> str:
    own, link = address6_of(item.content), observed.links.get(item.name)
    return own if link is not None and own in link.addresses6 else made_address(item, connection, link)


def _assess(item: Interface, connection: Connection, observed: LinkState, now: float) -> Assessment:
    if small := _small_mtu(item, observed):
        return small
    match connection.phase:
        case "absent":
            detail = f": {connection.reason}" if connection.reason else "; see its log on the node"
            return Assessment(
                "Failed",
                "ProfileRejected",
                f"NetworkManager does not accept the profile {item.file}{detail}",
            )
        case "failed":
            return _failure(item, connection.reason)
        case "active" if connection.applied:
            return _assess_active(item, connection, observed, now)
        case "inactive":
            return Assessment("Pending", "Activating", f"NetworkManager has not brought {item.name} up yet")
        case _:
            return _waiting(item)


def _small_mtu(item: Interface, observed: LinkState) -> Assessment | None:
    bridge = too_small(item, observed)
    if bridge is None:
        return None
    message = (
        f"the MTU of {bridge.name} is {bridge.mtu}, and IPv6 needs {IPV6_MTU_MIN}; set a larger MTU in the VlanConfig, "
        "or remove the IPv6 addresses"
    )
    return Assessment("Failed", "MTUTooSmall", message)


def _assess_active(item: Interface, connection: Connection, observed: LinkState, now: float) -> Assessment:
    link = observed.links.get(item.name)
    if link is None:
        return _waiting(item)
    if not link.up:
        why = "was set down" if is_down(item, observed) else "is down with its bridge"
        return Assessment("Pending", "InterfaceDown", f"{item.name} {why}; it is being brought up again")
    if master := master_of(item, observed):
        text = f"{item.name} was put into {master}, which takes its packets; it is being taken out again"
        return Assessment("Pending", "InterfaceDown", text)
    missing = missing_part(item, connection, observed)
    if (lack := lack_of_ipv6(item, link, observed)) and (missing is None or missing.once):
        return Assessment("Failed", KERNEL_UNSUPPORTED, lack)
    if missing:
        if missing.kind == "address":
            return _expired(connection, now) or _waiting(item)
        return Assessment("Pending", "RouteMissing", f"{missing.what} is gone; it is being restored")
    if (awaited := _AWAITED6.get(mode6_of(item.content))) and not made_address(item, connection, link):
        message = f"{item.name} is waiting for {awaited} {subnet6_of(item.content)}"
        return Assessment("Pending", "Activating", message)
    return Assessment("Ready", "Assigned")


def _expired(connection: Connection, now: float) -> Assessment | None:
    """Return that the lease has ended, of an address that is gone.

    As long as the address is there, the lease goes on: NetworkManager gives the kernel its seconds, and it removes the
    address after them. The time of the end does not follow a clock that is set, as at the first answer of NTP.
    """
    lease = connection.lease
    if lease is None or not 0 < lease.expiry < now:
        return None
    ended = rfc3339(lease.expiry)
    message = f"the lease of {lease.address} ended at {ended}; check the DHCP server {lease.server}"
    return Assessment("Pending", "LeaseExpired", message)


def _waiting(item: Interface) -> Assessment:
    awaited = "an answer of a DHCP server" if item.mode == "dhcp" else f"the address {asked_addresses(item)}"
    return Assessment("Pending", "Activating", f"{item.name} is waiting for {awaited}")


def _failure(item: Interface, reason: str) -> Assessment:
    if message := duplicate(item, reason):
        return Assessment("Failed", DUPLICATE_ADDRESS, message)
    if reason == "ip-config-unavailable":
        message = f"no DHCP server answered on VLAN {item.vid}; check the switch port and the server"
        return Assessment("Failed", "DHCPTimeout", message)
    message = f"NetworkManager could not bring {item.name} up ({reason or 'no reason given'})"
    if _VLAN_TAKEN in reason:
        message += (
            f"; VLAN {item.vid} of the bridge has a link in another network namespace, such as that of a pod with "
            "CNI's plugin vlan; end that pod, or choose another VLAN id"
        )
    return Assessment("Failed", "ActivationFailed", message)


_VLAN_TAKEN = "File exists"
"""What the kernel says where the bridge has a link for the VLAN already. One of this namespace is a `ForeignLink`."""

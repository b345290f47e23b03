"""Profiles that are kept down because of an address, and when each is tried again.

NetworkManager activates nothing by itself that was taken down on request, so a lease that was dropped stays away. While
another host has a static address, of either family, NetworkManager would make the sub-interface again several times a
second, endlessly: so that profile is taken down, too. Either is tried again at growing intervals, and at once where
what is wanted changes.
"""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import Management
from lanloom.api.meta import rfc3339
from lanloom.features.vlan.rules.desired.activation import ADDRESS_CONFLICT, conflict
from lanloom.features.vlan.rules.desired.kernel import KERNEL_UNSUPPORTED, is_disabled
from lanloom.features.vlan.rules.desired.madeaddress import modes_of, too_small
from lanloom.features.vlan.rules.desired.network import Interface, Problem
from lanloom.features.vlan.rules.desired.profile import address6_of, subnet6_of
from lanloom.node.ports import Connection, LinkState

DUPLICATE_ADDRESS = "DuplicateAddress"
"""The reason of a VLAN on which another host has the node's address."""


class Backoff(NamedTuple):
    """Seconds until a profile is tried again: after the first conflict, and at the most. Each is twice the last."""

    first: float
    longest: float


LEASE_BACKOFF = Backoff(30.0, 900.0)
"""Each try may bring the wrong address back for a moment."""

DUPLICATE_BACKOFF = Backoff(2.0, 120.0)
"""A try disturbs no host, and addresses change hands between nodes within seconds."""


class Conflict(NamedTuple):
    """Why a profile is taken down: the reason of a report, and its message without the time of the next try."""

    reason: str
    message: str
    backoff: Backoff


class Hold(Struct, frozen=True, kw_only=True):
    """A profile with this content that stays down `until` a time of the loop. `tried` since says that it was."""

    content: bytes
    conflict: Conflict
    pause: float
    until: float
    message: str
    tried: bool = False


def asked_addresses(item: Interface, between: str = " and ") -> str:
    """Return the addresses that the profile of a sub-interface gives, for a message; empty with DHCP."""
    return between.join(_asked(item))


def _asked(item: Interface) -> tuple[str, ...]:
    return tuple(filter(None, (item.address, address6_of(item.content))))


def asked_sources(item: Interface, dhcp: str) -> str:
    """Return where a sub-interface has its addresses from, for a message; `dhcp` stands for those of a DHCP server."""
    made = f" and an address of {subnet6}" if (subnet6 := subnet6_of(item.content)) else ""
    return (asked_addresses(item) or dhcp) + made


def duplicate(item: Interface, reason: str) -> str:
    """Return the problem of an interface that failed because another host has its address; empty for other reasons."""
    other, static = f"another host on VLAN {item.vid} already has", item.mode == "static"
    if static and reason in ("ip-address-duplicate", "ip-config-unavailable"):
        return f"{other} {asked_addresses(item, ' or ')}; {_remedy(item)}"
    if reason == "ip-address-duplicate":
        return f"{other} the address that the DHCP server gave; correct that host or the server's range"
    return ""


def _remedy(item: Interface) -> str:
    """Return what helps against another host: a pool gives the address again unless it is reserved in the network."""
    if not item.pooled:
        return "choose another address"
    taken = ",".join(cidr.partition("/")[0] for cidr in _asked(item))
    return (
        f"correct that host, or reserve its address in the network of {names.IP_POOL} (lanloom network modify "
        f"--add-reserved-ips {taken} NETWORK) and delete the NIC of this node (kubectl get ipnic)"
    )


def _disabled(item: Interface) -> str:
    return (
        f"IPv6 was disabled on {item.name} while it got its addresses; remove disable_ipv6 from the configuration of "
        "the node, such as files in /etc/sysctl.d, or remove IPv6 from the network"
    )


def address_conflict(
    item: Interface, connection: Connection, observed: LinkState | None, own: Management | None
) -> Conflict | None:
    """Return why a profile must be taken down, if so; `own` is the node's management network, where it is known."""
    if message := conflict(item, connection, observed, own):
        return Conflict(ADDRESS_CONFLICT, message, LEASE_BACKOFF)
    failed = connection.phase in ("activating", "failed") and not too_small(item, observed)
    if failed and connection.reason == "ip-config-unavailable" and is_disabled(item, observed):
        return Conflict(KERNEL_UNSUPPORTED, _disabled(item), DUPLICATE_BACKOFF)
    if failed and (message := duplicate(item, connection.reason)):
        return Conflict(DUPLICATE_ADDRESS, message, DUPLICATE_BACKOFF)
    return None


def is_settled(item: Interface, connection: Connection) -> bool:
    """Return whether an interface that has no conflict has its address."""
    return connection.phase == "active" and (item.mode == "static" or connection.lease is not None)


def hold(known: Hold | None, item: Interface, found: Conflict, clock: float, now: float) -> Hold:
    """Return the hold of a profile with this conflict, at this time of the loop and of the wall.

    A conflict of a profile that was not tried since its hold is the same one still.
    """
    if known is not None and not known.tried:
        return known
    pause = found.backoff.first
    if known is not None and known.conflict.reason == found.reason:
        pause = min(2 * known.pause, found.backoff.longest)
    return Hold(
        content=item.content,
        conflict=found,
        pause=pause,
        until=clock + pause,
        message=f"{found.message}; next attempt at {rfc3339(now + pause)}",
    )


def tried(known: Hold) -> Hold:
    """Return the hold of a profile that NetworkManager was asked to activate."""
    return replace(known, tried=True)


def problem(item: Interface, known: Hold) -> Problem:
    """Return the report of an interface that is kept down, or tried again."""
    reason, mode = known.conflict.reason, modes_of(item)
    return Problem(vid=item.vid, network=item.network, mode=mode, reason=reason, message=known.message)

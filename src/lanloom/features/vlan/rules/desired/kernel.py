"""What a host lacks for the IPv6 of a profile, which no request to NetworkManager brings.

IPv4 of the same profile works nevertheless, so this is reported and not repaired.
"""

from lanloom.features.vlan.rules.desired.network import Interface
from lanloom.features.vlan.rules.desired.profile import address6_of, read, subnet6_of
from lanloom.node.ports import Link, LinkState


def is_impossible(item: Interface, observed: LinkState | None) -> bool:
    """Return whether NetworkManager can't bring a profile up: the kernel has no IPv6, and an address of it is asked."""
    return observed is not None and observed.lack6 == "all" and bool(address6_of(item.content))


def lack_of_ipv6(item: Interface, link: Link | None, observed: LinkState) -> str:
    """Return what the host lacks for the IPv6 of a profile, with the remedy; empty if nothing."""
    if not (address6_of(item.content) or subnet6_of(item.content)):
        return ""
    if observed.lack6 == "all":
        return "the kernel has no IPv6; boot it without ipv6.disable=1, or remove IPv6 from the network"
    if link is not None and not link.ipv6:
        return (
            f"IPv6 is disabled on {item.name}; run `sysctl -w net/ipv6/conf/{item.name}/disable_ipv6=0` on the node, "
            "and remove disable_ipv6 from its configuration, or remove IPv6 from the network"
        )
    profile = read(item.content) if observed.lack6 else None
    if profile is not None and profile.routing.gateway6:
        return (
            "the kernel has no routing tables of IPv6, which the IPv6 gateway needs; boot one with "
            "CONFIG_IPV6_MULTIPLE_TABLES, or remove the IPv6 gateway"
        )
    return ""

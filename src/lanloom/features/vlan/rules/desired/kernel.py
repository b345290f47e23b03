"""What a host lacks for the IPv6 of a profile, which no request to NetworkManager brings.

IPv4 of the same network works nevertheless, so this is reported and not repaired. NetworkManager fails a profile whose
static IPv6 address the kernel can't have, and its IPv4 as well: where the kernel has no IPv6, the profile has none.
"""

from msgspec.structs import replace

from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.features.vlan.rules.desired.profile import address6_of, read, render, subnet6_of
from lanloom.node.ports import Lack6, Link, LinkState

KERNEL_UNSUPPORTED = "KernelUnsupported"
"""The reason of a VLAN whose IPv6 the host can't have."""


def fitted(networks: tuple[NodeNetwork, ...], lack6: Lack6) -> tuple[NodeNetwork, ...]:
    """Return the networks with profiles that NetworkManager can bring up on a kernel that lacks this of IPv6."""
    if lack6 != "all":
        return networks
    return tuple(replace(item, interfaces=tuple(map(_without_ipv6, item.interfaces))) for item in networks)


def _without_ipv6(item: Interface) -> Interface:
    profile = read(item.content)
    if profile is None or not profile.address6:
        return item
    routing = replace(profile.routing, gateway6="", routes6=(), dns6=())
    return replace(item, content=render(replace(profile, address6="", routing=routing)), lacks6=True)


def is_disabled(item: Interface, observed: LinkState | None) -> bool:
    """Return whether IPv6 is disabled on a sub-interface that is to have an address of it.

    NetworkManager enables it, also against the host's defaults. Another program can disable it again meanwhile.
    """
    link = observed.links.get(item.name) if observed is not None else None
    return bool(address6_of(item.content)) and link is not None and not link.ipv6


def lack_of_ipv6(item: Interface, link: Link | None, observed: LinkState) -> str:
    """Return what the host lacks for the IPv6 of a profile, with the remedy; empty if nothing."""
    if not (item.lacks6 or address6_of(item.content) or subnet6_of(item.content)):
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

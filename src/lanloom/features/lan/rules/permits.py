"""What one namespace may take of the nodes and of the cluster by its LANs: UDP ports, groups, VNIs and names.

A LAN binds its UDP port on every node that carries it, and its names are the cluster's. What is refused here was let in
by earlier versions, and by k8slan: a LAN that has it keeps it. So these rules are the webhooks' alone; they judge what
is new.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, ip_address

from msgspec import Struct

from lanloom.api.lan import LAN, RESERVED_VNIS
from lanloom.features.lan.rules.flood import stays_here
from lanloom.features.lan.rules.spec import PORT_MAX, default_group, title_of
from lanloom.refusals import Denied

Ports = tuple[tuple[int, int], ...]

PORTS: Ports = ((1024, 29_999), (32_768, PORT_MAX))
"""Ports of LANs unless the option names others: no system ports, and none that Kubernetes gives to Services."""

SERVICES = {
    2049: "NFS",
    3784: "BFD",
    3785: "BFD",
    4500: "IPsec",
    4784: "BFD",
    5353: "multicast DNS",
    5355: "LLMNR",
    6081: "Geneve, as Antrea and OVN use it",
    6783: "Weave Net",
    6784: "Weave Net",
    8472: "the VXLAN of flannel and Cilium",
    51820: "WireGuard",
    51821: "WireGuard",
}
"""Other ports at which nodes of Kubernetes have services, and whose they are."""

PORT_OPTION, LANS_OPTION, SPOKES_OPTION = "--lan-port", "--lan-max-lans", "--lan-max-spokes"
"""Options of the manager."""


class Permits(Struct, frozen=True, kw_only=True):
    """What the manager's options say. `ports` are the ranges that LANs may use, None for `PORTS` without `SERVICES`.

    `lans` and `spokes` are how many of them one namespace may have.
    """

    ports: Ports | None = None
    lans: int = 500
    spokes: int = 10_000


USUAL = Permits()
"""Without options."""


def check_permits(new: LAN, old: LAN | None, others: Iterable[LAN], permits: Permits) -> None:
    """Raise Denied for what a change takes and may not. `others` may contain the LAN itself."""
    title = title_of(new)
    if new.spec.host_bridge is not None:  # Lanloom's manager makes it
        return
    before = old.spec if old is not None else None
    claim = (new.spec.vni, new.spec.vxlan_port)
    if (before is None or (before.vni, before.vxlan_port) != claim) and (why := port_fault(*claim, permits)):
        raise Denied(
            f"{title}: {why}; choose another, or ask an administrator to allow the port with {PORT_OPTION}"
        )
    if (before is None or before.vxlan_grp != new.spec.vxlan_grp) and (
        why := group_fault(new.spec.vxlan_grp)
    ):
        raise Denied(
            f"{title}: spec.vxlanGrp is {new.spec.vxlan_grp}, {why}, e.g. {default_group(new.spec.vni)}"
        )
    _check_quota(new, old, others, permits)


def port_fault(vni: int, port: int, permits: Permits) -> str:
    """Return why no LAN may have a VNI at a port; empty if one may. Ports of the option follow no other rule."""
    if not any(first <= port <= last for first, last in (PORTS if permits.ports is None else permits.ports)):
        return f"spec.vxlanPort is {port}; LANs may use {ranges(permits)}"
    if permits.ports is not None:
        return ""
    if port in SERVICES:
        return f"spec.vxlanPort is {port}, at which nodes may have {SERVICES[port]}"
    if owner := RESERVED_VNIS.get((vni, port)):
        return f"spec.vni is {vni}, which is that of {owner} at spec.vxlanPort {port}"
    return ""


def ranges(permits: Permits) -> str:
    """Return the ports of LANs, as the option takes them."""
    found = PORTS if permits.ports is None else permits.ports
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


_LOCAL_CONTROL = IPv4Network("224.0.0.0/23")
"""Groups of protocols on a link and between routers (RFC 5771): all hosts, OSPF, VRRP, mDNS, NTP, PTP."""

_LINK_GROUPS = frozenset({*range(0x14), 0x16, 0x1A, *range(0x6A, 0x70), 0xFB, 0xFD})
"""Last 16 bits of groups of link-local scope that protocols have (IANA), such as all nodes. k8slan's 0x14 is free."""


_TAKEN = "which the protocols of nodes have; choose another"


def group_fault(text: str) -> str:
    """Return why no LAN may have a multicast group, with the remedy but for an example; empty if one may."""
    group = ip_address(text)
    if not isinstance(group, IPv6Address):
        return f"one of {_LOCAL_CONTROL}, {_TAKEN}" if group in _LOCAL_CONTROL else ""
    scope, rest = int(group) >> 112 & 0xF, int(group) & ((1 << 112) - 1)
    if stays_here(text):
        return "a group that never leaves a node; choose one of a larger scope"
    solicited = rest >> 24 in (0x1FF, 0x2FF)
    if scope == 0x2 and (rest in _LINK_GROUPS or rest >> 16 == 1 or solicited):
        return _TAKEN
    return ""


def _check_quota(new: LAN, old: LAN | None, others: Iterable[LAN], permits: Permits) -> None:
    namespace = new.metadata.namespace
    mine = {
        lan.metadata.key: len(lan.spec.spokes)
        for lan in others
        if lan.metadata.namespace == namespace and lan.spec.host_bridge is None
    }
    mine[new.metadata.key] = len(new.spec.spokes)
    counts = (
        (len(mine), permits.lans, "LANs", LANS_OPTION, old is None),
        (
            sum(mine.values()),
            permits.spokes,
            "spokes",
            SPOKES_OPTION,
            old is None or len(new.spec.spokes) > len(old.spec.spokes),
        ),
    )
    for count, most, what, option, grows in counts:
        if grows and count > most:
            raise Denied(
                f"{title_of(new)}: namespace {namespace} would have {count} {what}, whose names are unique in the "
                f"cluster, and one namespace may have {most}; remove others, or ask an administrator to raise {option}"
            )

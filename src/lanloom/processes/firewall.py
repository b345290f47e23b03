"""The checks of `lanloom doctor` about packet filters of the node: what they may keep from its networks."""

from collections.abc import Iterable

from lanloom.api.lan import DEFAULT_PORT
from lanloom.node.netlink.firewall import FilterChain, IpFilters
from lanloom.runtime.feature import Check
from lanloom.text import listed

_BRIDGED, _PORT = "frames between ports of bridges", "UDP port of LANs"


def check_bridged(filters: IpFilters) -> Check:
    """Check that packet filters of IP let frames between ports of a bridge pass.

    Where `net.bridge.bridge-nf-call-iptables` is 1, as clusters need it for Services, the filters for what a node
    forwards see such frames, too, and are often made to forward nothing.
    """
    if not filters.bridged:
        return Check(name=_BRIDGED, result="ok", found="no packet filter of IP sees them")
    chains = [
        each
        for each in filters.chains
        if each.hook == "forward" and not each.accepts_bridged and each.versions & filters.bridged
    ]
    if chains:
        versions = frozenset[int]().union(*(each.versions for each in chains)) & filters.bridged
        found = (
            f"{_dropping(chains)}, and sees frames between ports of bridges (bridge-nf-call-iptables): {_of(versions)} "
            "between pods of an isolated network, or machines of a VLAN, may be lost"
        )
        remedy = f"Accept such frames for good: {'; '.join(dict.fromkeys(map(_acceptance, chains)))}."
        return Check(name=_BRIDGED, result="warning", found=found, remedy=remedy)
    if unread := filters.unread & filters.bridged:
        names = listed(f"`{_program(version)}-legacy -S FORWARD`" for version in sorted(unread))
        return Check(
            name=_BRIDGED,
            result="unknown",
            found="packet filters of IP see them, by tables that can't be read here",
            remedy=f"Look at {names}: with the policy DROP, frames between pods of an isolated network may be lost.",
        )
    return Check(name=_BRIDGED, result="ok", found="packet filters of IP see them, and drop none by default")


def check_lan_port(filters: IpFilters) -> Check:
    """Check whether frames from other nodes come in. Which ports a filter accepts is not read."""
    chains = [each for each in filters.chains if each.hook == "input"]
    if not chains:
        return Check(name=_PORT, result="ok", found="no packet filter is known that closes it")
    return Check(
        name=_PORT,
        result="unknown",
        found=f"{_dropping(chains)}; whether it accepts the UDP port of LANs from other nodes can't be read here",
        remedy=(
            f"Accept UDP port {DEFAULT_PORT}, or spec.vxlanPort of the LANs, from the nodes: "
            f"`firewall-cmd --permanent --add-port={DEFAULT_PORT}/udp`, `ufw allow {DEFAULT_PORT}/udp`, or "
            f"`iptables -I INPUT -p udp --dport {DEFAULT_PORT} -j ACCEPT`."
        ),
    )


def _acceptance(chain: FilterChain) -> str:
    program, _, name = chain.title.partition(" ")
    for version, family in ((4, "ip"), (6, "ip6")):
        if chain.title == f"{family} filter FORWARD":
            program, name = _program(version), "FORWARD"
    if name == "FORWARD":
        return f"`{program} -I FORWARD -m physdev --physdev-is-bridged -j ACCEPT`"
    return (
        f"`nft insert rule {chain.title} iifname BRIDGE oifname BRIDGE accept` for each bridge, by the program that "
        "made the chain (of firewalld, add the bridge to the zone trusted)"
    )


def _dropping(chains: Iterable[FilterChain]) -> str:
    return f"{listed(f'the chain {each.title}' for each in chains)} drops what no rule accepts"


def _of(versions: frozenset[int]) -> str:
    return " and ".join(f"IPv{version}" for version in sorted(versions))


def _program(version: int) -> str:
    return "iptables" if version == 4 else "ip6tables"

"""What `lanloom doctor` says of packet filters."""

import pytest

from lanloom.node.netlink.firewall import FilterChain, IpFilters
from lanloom.processes.firewall import check_bridged, check_lan_port

BOTH, FOUR, SIX = frozenset({4, 6}), frozenset({4}), frozenset({6})
DOCKER = FilterChain("forward", FOUR, "ip filter FORWARD")
LEGACY = FilterChain("forward", SIX, "ip6tables-legacy FORWARD")
FIREWALLD = FilterChain("forward", BOTH, "inet firewalld filter_FORWARD")
INPUT = FilterChain("input", BOTH, "inet firewalld filter_INPUT")


@pytest.mark.parametrize(
    ("filters", "result", "found", "remedy"),
    [
        (IpFilters((DOCKER,)), "ok", "no packet filter", ""),
        (IpFilters((INPUT,), BOTH), "ok", "drop none by default", ""),
        (IpFilters((DOCKER,), SIX), "ok", "drop none by default", ""),
        (IpFilters((DOCKER._replace(accepts_bridged=True),), BOTH), "ok", "drop none by default", ""),
        (IpFilters((DOCKER,), BOTH), "warning", ": IPv4 between pods", "`iptables -I FORWARD -m physdev"),
        (
            IpFilters((FIREWALLD,), BOTH),
            "warning",
            ": IPv4 and IPv6 between",
            "nft insert rule inet firewalld",
        ),
        (IpFilters((LEGACY,), BOTH), "warning", ": IPv6 between", "`ip6tables-legacy -I FORWARD -m physdev"),
        (IpFilters((FIREWALLD,), FOUR), "warning", ": IPv4 between", "the zone trusted"),
        (IpFilters((), BOTH, FOUR), "unknown", "can't be read", "`iptables-legacy -S FORWARD`"),
        (IpFilters((), FOUR, SIX), "ok", "drop none by default", ""),
    ],
)
def test_frames_between_ports(filters: IpFilters, result: str, found: str, remedy: str) -> None:
    """Filters that see frames between ports of bridges, and forward nothing by default, are named with the remedy."""
    check = check_bridged(filters)
    assert check.result == result
    assert found in check.found and remedy in check.remedy and bool(check.remedy) == bool(remedy)


def test_the_port_of_lans() -> None:
    """A filter that lets nothing in by default may close the UDP port of LANs: that is not known, and said so."""
    assert check_lan_port(IpFilters((DOCKER,), BOTH)).result == "ok"
    check = check_lan_port(IpFilters((INPUT,)))
    assert check.result == "unknown"
    assert "inet firewalld filter_INPUT" in check.found and "ufw allow 4789/udp" in check.remedy

"""Subnets of networks that Lanloom makes for pods and machines: what one may be, and whether two of them overlap."""

from ipaddress import IPv4Network, IPv6Network, ip_network

from lanloom.text import quote

Subnet = IPv4Network | IPv6Network

LARGEST = {4: 8, 6: 64}
SMALLEST = {4: 30, 6: 126}
"""Prefix lengths, by IP version. A /30 and a /126 have an address for a host in addition to that of a gateway."""

EXAMPLES = {4: "10.115.0.0/24", 6: "fd00:115::/64"}

IPV6_MTU_MIN = 1280
"""Bytes that each link with IPv6 can carry (RFC 8200)."""

_UNUSABLE = tuple(
    (ip_network(cidr), what)
    for cidr, what in (
        ("0.0.0.0/8", "addresses of this host"),
        ("127.0.0.0/8", "loopback addresses"),
        ("169.254.0.0/16", "link-local addresses"),
        ("224.0.0.0/3", "multicast and reserved addresses"),
        ("::/127", "addresses of this host"),
        ("::/8", "reserved addresses"),
        ("fe80::/10", "link-local addresses"),
        ("ff00::/8", "multicast addresses"),
    )
)


def cidr_fault(text: str) -> str:
    """Return the problem of a subnet of either IP version; empty if it is valid."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        found = None
    length = text.partition("/")[2]
    if found is None or not length.isdecimal() or "%" in text:
        return f"is {quote(text)}, which is not a CIDR: use one such as {EXAMPLES[4]}"
    if str(found) != text:
        return f"is {quote(text)}, which is not the form of a subnet: did you mean {found}?"
    largest, smallest, example = (table[found.version] for table in (LARGEST, SMALLEST, EXAMPLES))
    if not int(largest) <= found.prefixlen <= int(smallest):
        return (
            f"is {quote(text)}: it must have a prefix length from /{largest} to /{smallest}, e.g. {example}"
        )
    if what := next((what for range_, what in _UNUSABLE if overlap(range_, found)), ""):
        return f"is {quote(text)}, but those are {what}: choose a private range, e.g. {example}"
    return ""


def overlap(one: Subnet, other: Subnet) -> bool:
    """Return whether two subnets have an address in common. Those of different versions never have."""
    return one.version == other.version and one.overlaps(other)

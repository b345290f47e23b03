"""Underlays of LANs before anything is attached: what nodes report of the links that LANs name, and what that means.

A report is about links and not about LANs, which mostly name the same one: so a new LAN costs no write, unless it names
a link that no other does. What a link lacks is judged as a node judges it that carries the LAN.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.lan import LAN, AddressKind, LANNode, UnderlayFamily, UnderlayLink
from lanloom.features.lan.rules.desired import Endpoint, endpoint
from lanloom.features.lan.rules.flood import family, is_link_local
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.record import record_of
from lanloom.kube.conditions import Finding
from lanloom.text import listed

_EXAMPLES: dict[AddressKind, str] = {
    "IPv4": "192.0.2.1",
    "IPv6": "2001:db8::1",
    "IPv4-link-local": "169.254.0.1",
    "IPv6-link-local": "fe80::1",
}
"""An address of each kind, in the order in which links list theirs."""


def reported(name: str, found: Underlay | None) -> UnderlayLink:
    """Return what a node reports of a link that LANs name; None for one that is not there."""
    if found is None:
        return UnderlayLink(name=name)
    kinds = {_kind(address) for address in found.addresses}
    addresses = tuple(kind for kind in _EXAMPLES if kind in kinds)
    return UnderlayLink(name=name, mtu=found.mtu, addresses=addresses, down=not found.running)


def _kind(address: str) -> AddressKind:
    if is_link_local(address):
        return "IPv4-link-local" if family(address) == 4 else "IPv6-link-local"
    return "IPv4" if ip_address(address).version == 4 else "IPv6"


def _endpoint(lan: LAN, node: str, link: UnderlayLink) -> Endpoint:
    """Return the endpoint that a node would have on a link, with the address of an example."""
    if not link.mtu:
        return endpoint(record_of(lan, node), None)
    addresses = tuple(_EXAMPLES[kind] for kind in link.addresses)
    found = Underlay(name=link.name, index=1, mtu=link.mtu, addresses=addresses, running=not link.down)
    return endpoint(record_of(lan, node), found)


MESSAGE_MAX = 2000
"""Characters of a condition's message."""

NOT_REPORTED = "NotReported"
"""Reason of a LAN of which no node has reported whether it can carry it."""


ADDRESSES_DIFFER = "AddressesDiffer"
"""Reason of the condition about the underlay where nodes would have endpoints that do not reach each other."""


class Underlays(Struct, frozen=True):
    """What nodes report of the underlay of a LAN: how many can carry it, and what the others lack, by their names.

    `is_mapped`: one of the others is a node that the LAN names itself. `apart` are those that can carry it, by the
    kind of their endpoints, if these are of several; `remedy` is the IP version that would be one kind for all of them.
    """

    usable: int = 0
    faults: tuple[tuple[str, str], ...] = ()
    is_mapped: bool = False
    apart: tuple[tuple[AddressKind, tuple[str, ...]], ...] = ()
    remedy: UnderlayFamily = ""

    @property
    def is_known(self) -> bool:
        """Whether any node has reported."""
        return bool(self.usable or self.faults)

    @property
    def message(self) -> str:
        """The nodes that can't carry the LAN, those with one fault together."""
        nodes: dict[str, list[str]] = {}
        for node, fault in self.faults:
            nodes.setdefault(fault, []).append(node)
        return "; ".join(f"{listed(names)}: {fault}" for fault, names in nodes.items())

    def finding(self, link: str) -> Finding:
        """Return the content of the condition about the underlay."""
        if self.faults:
            return Finding("False", "NoUnderlay", self.message[:MESSAGE_MAX])
        if not self.is_known:
            return Finding("Unknown", NOT_REPORTED, not_reported(link)[:MESSAGE_MAX])
        if self.apart:
            return Finding("False", ADDRESSES_DIFFER, self._difference()[:MESSAGE_MAX])
        return Finding("True", "Ready", "every node that reports has it")

    def _difference(self) -> str:
        nodes = "; ".join(f"{kind}: {listed(names)}" for kind, names in self.apart)
        remedy = (
            f"set spec.underlayFamily to {self.remedy}, which all of them have"
            if self.remedy
            else "give the links of all of them addresses of one IP version"
        )
        return f"nodes with addresses of different kinds do not reach each other ({nodes}); {remedy}"


def not_reported(link: str) -> str:
    """Return what is said of a LAN of which no node has reported whether it can carry it."""
    of = f"underlay link {link}" if link else "underlay"
    return f"no agent of LANs has reported its {of} yet; without agents, apply deploy/lan.yaml"


def underlays_of(lan: LAN, reports: Iterable[LANNode]) -> Underlays:
    """Return what nodes report of the links that a LAN names for them.

    Nodes for which it names none are not asked for it.
    """
    links = {
        report.metadata.name: link
        for report in sorted(reports, key=lambda item: item.metadata.name)
        for link in report.status.underlays
        if link.name == lan.spec.underlay(report.metadata.name)
    }
    judged = _judged(lan, links)
    faults = tuple((node, fault) for node, each in judged.items() if (fault := each.problem or each.dead))
    mapped = any(node in lan.spec.vxlan_dev_map for node, _ in faults)
    failing = dict(faults)
    usable = {node: link for node, link in links.items() if node not in failing}
    if lan.spec.replication == "multicast" or len(apart := _by_kind(lan, usable)) < 2:
        return Underlays(len(usable), faults, mapped)
    return Underlays(len(usable), faults, mapped, tuple(apart.items()), _remedy(lan, usable))


def _judged(lan: LAN, links: Mapping[str, UnderlayLink]) -> dict[str, Endpoint]:
    """Return the endpoints that nodes would have, by the node. Links that are alike are judged once."""
    known: dict[tuple[UnderlayLink, bool], Endpoint] = {}
    found: dict[str, Endpoint] = {}
    for node, link in links.items():
        key = (link, node in lan.spec.vxlan_dev_map)
        if key not in known:
            known[key] = _endpoint(lan, node, link)
        found[node] = known[key]
    return found


def _by_kind(lan: LAN, links: Mapping[str, UnderlayLink]) -> dict[AddressKind, tuple[str, ...]]:
    """Return nodes by the kinds of their endpoints; none if some node would have no endpoint."""
    found: dict[AddressKind, tuple[str, ...]] = {}
    for node, each in _judged(lan, links).items():
        if not each.address:
            return {}
        kind = _kind(each.address)
        found[kind] = (*found.get(kind, ()), node)
    return found


def _remedy(lan: LAN, links: Mapping[str, UnderlayLink]) -> UnderlayFamily:
    """Return the IP version with which all nodes would reach each other; empty if there is none."""
    families: tuple[UnderlayFamily, ...] = ("IPv4", "IPv6")
    for asked in families:
        if len(_by_kind(replace(lan, spec=replace(lan.spec, underlay_family=asked)), links)) == 1:
            return asked
    return ""

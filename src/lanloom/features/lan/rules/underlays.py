"""Underlays of LANs before anything is attached: what nodes report of the links that LANs name, and what that means.

A report is about links and not about LANs, which mostly name the same one: so a new LAN costs no write, unless it names
a link that no other does. What a link lacks is judged as a node judges it that carries the LAN.
"""

from collections.abc import Iterable
from ipaddress import ip_address

from msgspec import Struct

from lanloom.api.lan import LAN, AddressKind, LANNode, UnderlayLink
from lanloom.features.lan.rules.desired import endpoint
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


def fault_of(lan: LAN, node: str, link: UnderlayLink) -> str:
    """Return why a node can't carry a LAN over a link, with the remedy; empty if it can."""
    if not link.mtu:
        return endpoint(record_of(lan, node), None).problem
    addresses = tuple(_EXAMPLES[kind] for kind in link.addresses)
    found = Underlay(name=link.name, index=1, mtu=link.mtu, addresses=addresses, running=not link.down)
    judged = endpoint(record_of(lan, node), found)
    return judged.problem or judged.dead


MESSAGE_MAX = 2000
"""Characters of a condition's message."""

NOT_REPORTED = "NotReported"
"""Reason of a LAN of which no node has reported whether it can carry it."""


class Underlays(Struct, frozen=True):
    """What nodes report of the underlay of a LAN: how many can carry it, and what the others lack, by their names.

    `is_mapped`: one of the others is a node that the LAN names itself.
    """

    usable: int = 0
    faults: tuple[tuple[str, str], ...] = ()
    is_mapped: bool = False

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
        return Finding("True", "Ready", "every node that reports has it")


def not_reported(link: str) -> str:
    """Return what is said of a LAN of which no node has reported whether it can carry it."""
    of = f"underlay link {link}" if link else "underlay"
    return f"no agent of LANs has reported its {of} yet; without agents, apply deploy/lan.yaml"


def underlays_of(lan: LAN, reports: Iterable[LANNode]) -> Underlays:
    """Return what nodes report of the links that a LAN names for them.

    Nodes for which it names none are not asked for it.
    """
    usable, faults, judged = 0, [], dict[tuple[UnderlayLink, bool], str]()
    for report in sorted(reports, key=lambda item: item.metadata.name):
        node, spec = report.metadata.name, lan.spec
        name = spec.underlay(node)
        link = next((each for each in report.status.underlays if each.name == name), None)
        if link is None:
            continue
        key = (link, node in spec.vxlan_dev_map)
        if key not in judged:
            judged[key] = fault_of(lan, node, link)
        if fault := judged[key]:
            faults.append((node, fault))
        else:
            usable += 1
    mapped = any(node in lan.spec.vxlan_dev_map for node, _ in faults)
    return Underlays(usable, tuple(faults), mapped)

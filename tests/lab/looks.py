"""What tests look at on a node: its kernel's links and VLAN ids, its profiles, and what it reports."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import profile_file
from lanloom_lab.plan import MANAGEMENT_VLAN
from tests.lab.driver import Lab

NODES = ("node1", "node2", "node3")

_LOOK = """
whole() { until found=$("$@"); do :; done; echo "$found"; }  # a dump that a change of links interrupts ends half-way
whole ip -json -details address show
whole bridge -json vlan show
cd /etc/NetworkManager/system-connections && for file in *; do echo "$file"; done
"""


class Look(Struct, frozen=True):
    """A node at one moment: links by name, VLAN ids by bridge or port, names of profile files."""

    links: dict[str, dict[str, Any]]
    ids: dict[str, frozenset[int]]
    profiles: frozenset[str]

    def address(self, link: str) -> str:
        """The IPv4 address of a link as a CIDR, empty where it has none."""
        found = [item for item in self.links.get(link, {}).get("addr_info", ()) if item["family"] == "inet"]
        return f"{found[0]['local']}/{found[0]['prefixlen']}" if found else ""

    def has_vlan(self, network: str, vid: int) -> bool:
        """Whether bridge and uplink of a cluster network carry the VLAN, with its sub-interface and profile."""
        return (
            vid in self.ids.get(f"{network}-br", ())
            and vid in self.ids.get(f"{network}-bo", ())
            and interface_name(network, vid) in self.links
            and profile_file(network, vid) in self.profiles
        )

    def lacks_vlan(self, network: str, vid: int) -> bool:
        """Whether nothing of the VLAN is there: neither an id, nor the sub-interface, nor its profile."""
        return not (
            vid in self.ids.get(f"{network}-br", ())
            or vid in self.ids.get(f"{network}-bo", ())
            or interface_name(network, vid) in self.links
            or profile_file(network, vid) in self.profiles
        )

    def lacks_network(self, network: str) -> bool:
        """Whether nothing of a cluster network is there."""
        profiles = [name for name in self.profiles if name.startswith(f"{network}-vlan")]
        return not profiles and f"{network}-br" not in self.links and f"{network}-bo" not in self.links

    def is_bare(self, network: str) -> bool:
        """Whether a cluster network is without VLANs: neither an id but the kernel's own, nor a profile."""
        ids = self.ids.get(f"{network}-br", frozenset()) | self.ids.get(f"{network}-bo", frozenset())
        return ids <= {1} and not any(name.startswith(f"{network}-vlan") for name in self.profiles)

    def has_installers_vlans(self) -> bool:
        """Whether the installer's bridge and its uplink carry what they did when the node booted, and nothing else."""
        return self.ids["mgmt-br"] == self.ids["mgmt-bo"] == {1, MANAGEMENT_VLAN}


def look(lab: Lab, node: str) -> Look:
    """Looks at a node."""
    links, ids, *profiles = lab.on(node, _LOOK).splitlines()
    return Look(
        {link["ifname"]: link for link in json.loads(links) if link},
        {entry["ifname"]: frozenset(_ids(entry["vlans"])) for entry in json.loads(ids or "[]")},
        frozenset(profiles) - {"*"},
    )


def looks(lab: Lab, nodes: Iterable[str]) -> dict[str, Look]:
    """Looks at several nodes, one after the other."""
    return {node: look(lab, node) for node in nodes}


def vlan_ids(lab: Lab, node: str, link: str) -> frozenset[int]:
    """The VLAN ids that a bridge or a port of one carries on a node."""
    return look(lab, node).ids.get(link, frozenset())


def all_have(lab: Lab, network: str, vid: int, nodes: tuple[str, ...] = NODES) -> dict[str, str] | None:
    """The addresses of a VLAN if each node has one, with ids and profile; else None."""
    link = interface_name(network, vid)
    found: dict[str, str] = {}
    for node in nodes:
        seen = look(lab, node)
        if not (seen.has_vlan(network, vid) and seen.address(link)):
            return None
        found[node] = seen.address(link)
    return found


def all_lack(lab: Lab, network: str, vid: int, nodes: tuple[str, ...] = NODES) -> bool:
    """Whether no node has anything of a VLAN."""
    return all(look(lab, node).lacks_vlan(network, vid) for node in nodes)


def leased(found: dict[str, str], network: str) -> bool:
    """Whether these are distinct addresses from the range of a network's DHCP server."""
    numbers = [int(address.split("/")[0].split(".")[3]) for address in found.values()]
    return (
        len(set(found.values())) == len(found)
        and all(100 <= number <= 200 for number in numbers)
        and all(address.startswith(network) for address in found.values())
    )


def report(lab: Lab, network: str, node: str) -> dict[str, Any]:
    """The status of a node's ClusterNetworkNode of a cluster network, empty where there is none."""
    items = json.loads(lab.kubectl("get", "clusternetworknodes", "-o", "json"))["items"]
    statuses = (item.get("status", {}) for item in items)
    return next(
        (item for item in statuses if (item.get("clusterNetwork"), item.get("node")) == (network, node)), {}
    )


def reasons(lab: Lab, network: str, node: str) -> set[str]:
    """Every reason that a node gives for not being ready with a cluster network."""
    status = report(lab, network, node)
    interfaces = {
        item.get("reason", "") for item in status.get("interfaces", ()) if item.get("state") != "Ready"
    }
    conditions = {item["reason"] for item in status.get("conditions", ()) if item["status"] != "True"}
    return (interfaces | conditions) - {""}


def _ids(vlans: Iterable[dict[str, int]]) -> Iterable[int]:
    for vlan in vlans:
        yield from range(vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"]) + 1)


def repaired(lab: Lab, node: str) -> str:
    """What the Events on a Node say that its agent put right."""
    items = json.loads(lab.kubectl("get", "events", "-A", "-o", "json"))["items"]
    told = [item for item in items if item["reason"] == "DriftRepaired"]
    return " ".join(item["message"] for item in told if item["involvedObject"].get("name") == node)

"""What tests look at on a node: its kernel's links and VLAN ids, its profiles, and what it reports."""

import json
from typing import Any

from tests.lab.driver import Lab


def vlan_ids(lab: Lab, node: str, link: str) -> set[int]:
    """The VLAN ids that a bridge or a port of one carries on a node."""
    entries: list[dict[str, Any]] = json.loads(lab.on(node, "bridge -json vlan show"))
    return {
        vid
        for entry in entries
        if entry["ifname"] == link
        for vlan in entry["vlans"]
        for vid in range(vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"]) + 1)
    }

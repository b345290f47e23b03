"""What network-status tells of a network besides its name: addresses, DNS, MTU and gateway, as CNI plugins answered.

A port that moved has those of its new network. No plugin answers for it: the addresses are the ones that Lanloom has
given, and the rest is in the NAD. What the plugins answered for the former network is kept, for a move that is undone.
"""

import json
from collections.abc import Sequence
from typing import Any

from lanloom.api.l3 import AnnotationError
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.liveupdate.rules.nadtargets import UnmovableNad, ipam_section, main_config

Raw = dict[str, Any]

FIELDS = ("ips", "dns", "mtu", "gateway")
"""The fields of an entry of network-status that are of the network, and not of the interface."""


def result_in(entry: Raw) -> Raw:
    """Return what an entry of network-status tells of its network."""
    return {name: entry[name] for name in FIELDS if name in entry}


def result_on(
    nad: NetworkAttachmentDefinition | None, addresses: Sequence[str], mtu: int, former: Raw | None
) -> Raw:
    """Return what is reported of a NAD after a move to it, by a Multus that reported `former` of the network before.

    `addresses` may have prefix lengths; `mtu` is 0 for unknown. Not every Multus reports an MTU.
    """
    found: Raw = {"dns": _dns(nad) if nad is not None else {}}
    if addresses:
        found["ips"] = [text.partition("/")[0] for text in addresses]
    if mtu and former is not None and "mtu" in former:
        found["mtu"] = mtu
    return found


def with_result(entry: Raw, result: Raw) -> Raw:
    """Return an entry of network-status with what is reported of another network."""
    return {name: value for name, value in entry.items() if name not in FIELDS} | result


def as_text(result: Raw) -> str:
    """Return a result as `from_text` reads it."""
    return json.dumps(result, separators=(",", ":"))


def from_text(text: str) -> Raw | None:
    """Return a result; None where none was kept."""
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def _dns(nad: NetworkAttachmentDefinition) -> Raw:
    """Return the DNS settings of a NAD: the plugin's own, else those of its IPAM plugin."""
    try:
        own = main_config(nad).get("dns")
    except (AnnotationError, UnmovableNad):
        return {}
    found = own if isinstance(own, dict) and any(own.values()) else ipam_section(nad).get("dns")
    return found if isinstance(found, dict) else {}

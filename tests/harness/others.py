"""Links of others in a namespace, with all that the kernel tells of them: to compare before and after.

`installed` makes a bridge as installers leave it: its MTU and hardware address were not set, and a link with addresses
stands on it. Where a kernel has no VLAN links a macvlan stands in, which follows its lower link's MTU in the same way.
"""

import json
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lanloom.node.namespaces import open_namespace

NIC = "52:54:00:00:00:01"
"""The hardware address of the NIC below a bridge: most that are made at random for veth links are lower or higher."""

_CLOCKS = ("hello_timer", "tcn_timer", "topology_change_timer", "gc_timer", "fdb_n_learned")
_LEASES = ("valid_life_time", "preferred_life_time", "tentative", "dadfailed")


def _printed(where: Path, words: str) -> str:
    with open_namespace(where) as inside:
        done = inside.call(lambda: subprocess.run(words.split(), capture_output=True, text=True, check=False))
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


LINKS, VLANS = "ip -details -json address show", "bridge -json vlan show"
"""The commands that print what `read` reads."""


def others(where: Path, known: Collection[str]) -> Mapping[str, Any]:
    """The links of these names in a namespace, as `read` has them."""
    return read(_printed(where, LINKS), _printed(where, VLANS), known)


def read(links: str, vlans: str, known: Collection[str]) -> Mapping[str, Any]:
    """All attributes and addresses of these links, with the VLAN ids of bridge ports; only clocks are left out."""
    found = {link["ifname"]: link for link in json.loads(links) if link.get("ifname") in known}
    for link in found.values():
        data = link.get("linkinfo", {}).get("info_data", {})
        for clock in _CLOCKS:
            data.pop(clock, None)
        for port in [link.get("linkinfo", {}).get("info_slave_data", {})]:
            for clock in ("message_age_timer", "forward_delay_timer", "hold_timer"):
                port.pop(clock, None)
        for address in link["addr_info"]:
            for key in _LEASES:
                address.pop(key, None)
    for port in json.loads(vlans or "[]"):
        if port["ifname"] in found:
            found[port["ifname"]]["vlans"] = port["vlans"]
    return found


def differences(found: Any, known: Any, where: str = "") -> list[str]:
    """Where two readings differ, as `LINK/ATTRIBUTE: FOUND, was KNOWN`."""
    if isinstance(found, Mapping) and isinstance(known, Mapping):
        names = sorted({*found, *known})
        return [
            line
            for name in names
            for line in differences(found.get(name), known.get(name), f"{where}/{name}".lstrip("/"))
        ]
    return [] if found == known else [f"{where}: {found}, was {known}"]


def has_carrier(links: Mapping[str, Any]) -> bool:
    """Whether all links have a carrier: the kernel tells that, and their state, a moment after they were set up."""
    follow = {link.get("master") for link in links.values()}
    follow.update(name for name, link in links.items() if link.get("link") in links)
    return not any(
        "NO-CARRIER" in link["flags"] or (name in follow and link.get("operstate") == "UNKNOWN")
        for name, link in links.items()
    )


def steady(links: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same without what a further port of a bridge changes while it is there: a bridge listens to all frames then.

    The kernel takes that back with the port.
    """
    return {
        name: {key: value for key, value in link.items() if key not in ("promiscuity", "allmulti")}
        for name, link in links.items()
    }


def installed(bridge: str, uplink: str, *, filtering: bool) -> tuple[str, ...]:
    """Commands that make a bridge as installers leave it, with an uplink, and a link with addresses on the bridge."""
    kind = "vlan id 21" if filtering else "macvlan mode bridge"
    return (
        f"ip link add {bridge} type bridge{' vlan_filtering 1' if filtering else ''}",
        f"ip link set {bridge} up",
        f"ip link add {uplink} address {NIC} type veth peer name wire0",
        "ip link set wire0 up",
        f"ip link set {uplink} master {bridge} up",
        f"ip link add link {bridge} name upper type {kind}",
        "ip link set upper up",
        "ip address add 172.31.255.11/24 dev upper",
        "ip address add fd00::11/64 dev upper nodad",
    )


def names(bridge: str, uplink: str) -> tuple[str, ...]:
    """The links that `installed` makes."""
    return (bridge, uplink, "wire0", "upper")

"""A NetworkManager keyfile for one VLAN sub-interface. Equal input gives equal bytes: there is no timestamp in it."""

from ipaddress import IPv4Interface

from lanloom.api import names
from lanloom.api.l3 import L3
from lanloom.vlan.rules.names import interface_name, profile_id, profile_uuid

DHCP_TIMEOUT = 45
"""Seconds that NetworkManager waits for a lease before it calls the attempt failed."""

DAD_TIMEOUT = 2000
"""Milliseconds that NetworkManager listens whether another host already uses the address (RFC 5227)."""


def render(cluster: str, node: str, cluster_network: str, value: L3) -> bytes:
    """The profile of `value` on `node`. With mode static the node must be in `value.addresses` (KeyError otherwise).

    * `never-default` and `ignore-auto-dns`: a VLAN's default route would win over the management network's (metric 400
      before 425), and its DNS servers would be added.
    * `may-fail=false` and `dad-timeout`: an address that can't be had, or that another host has, is an error.
    * `autoconnect-retries=0`: try for ever; a DHCP server may come back after hours.
    """
    ipv4 = {
        "dad-timeout": str(DAD_TIMEOUT),
        "ignore-auto-dns": "true",
        "may-fail": "false",
        "never-default": "true",
    }
    if value.mode == "static":
        ipv4 |= {"method": "manual", "address1": str(IPv4Interface(value.addresses[node]))}
    else:
        ipv4 |= {"method": "auto", "dhcp-timeout": str(DHCP_TIMEOUT)}
    sections = {
        "connection": {
            "id": profile_id(cluster_network, value.vid),
            "uuid": profile_uuid(cluster, node, cluster_network, value.vid),
            "type": "vlan",
            "interface-name": interface_name(cluster_network, value.vid),
            "autoconnect-retries": "0",
        },
        "vlan": {"flags": "1", "id": str(value.vid), "parent": names.bridge_name(cluster_network)},
        "ipv4": dict(sorted(ipv4.items())),
        "ipv6": {"method": "disabled"},
        "user": {"lanloom.owner": f"{cluster_network}/{value.vid}"},
    }
    return _keyfile(sections)


def _keyfile(sections: dict[str, dict[str, str]]) -> bytes:
    lines = ["# Written by the Lanloom agent, which overwrites any change."]
    for section, entries in sections.items():
        lines += ["", f"[{section}]", *(f"{key}={value}" for key, value in entries.items())]
    return ("\n".join(lines) + "\n").encode("ascii")

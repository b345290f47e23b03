"""Subnets of a LAN's own: what is wrong with them, and the Network that gives their addresses.

The right to write a LAN in a namespace includes addresses for it, without a right to write Networks, which are the
whole cluster's. LANs never meet, so the subnets of two of them may overlap. A Network serves the namespaces that the
LAN admits.
"""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from lanloom.api.lan import (
    LAN,
    NAME_ANNOTATION,
    SUBNETS_MAX,
    UID_LABEL,
    LANSpec,
    LanSubnet,
)
from lanloom.api.madenetworks import MadeNetwork, MadeSubnet, unique_name
from lanloom.api.subnets import Subnet, cidr_fault, overlap
from lanloom.features.lan.rules.ipamconfig import OWN, Raw
from lanloom.text import quote


def network_name(lan: LAN) -> str:
    """Return the name of the LAN's Network; empty for a LAN without subnets."""
    meta = lan.metadata
    return unique_name(f"{meta.namespace}-{meta.name}", meta.uid) if lan.spec.subnets else ""


def nad_ipam(lan: LAN) -> Raw:
    """Return how the NADs give addresses, one of each IP version that the LAN has; empty for a LAN without subnets."""
    if not lan.spec.subnets:
        return {}
    versions = {6 if ":" in item.cidr else 4 for item in lan.spec.subnets}
    asked = {"ips": ["pool4", "pool6"]} if len(versions) == 2 else {}
    return {"type": OWN, "network": network_name(lan)} | asked


def network_of(lan: LAN) -> MadeNetwork:
    """Return the Network of a LAN with subnets."""
    return MadeNetwork(
        name=network_name(lan),
        labels={UID_LABEL: lan.metadata.uid},
        annotations={NAME_ANNOTATION: str(lan.metadata.key)},
        subnets=tuple(MadeSubnet(item.cidr, item.gateway, item.dhcp) for item in lan.spec.subnets),
        namespaces=tuple(dict.fromkeys((lan.metadata.namespace, *lan.spec.namespaces))),
    )


def subnet_faults(spec: LANSpec) -> Iterator[str]:
    """Yield what is wrong with the subnets, each with its field and the remedy."""
    if len(spec.subnets) > SUBNETS_MAX:
        yield f"spec.subnets has {len(spec.subnets)} entries; at most {SUBNETS_MAX} are allowed"
        return
    seen: list[Subnet] = []
    for index, item in enumerate(spec.subnets):
        field = f"spec.subnets[{index}]"
        if fault := cidr_fault(item.cidr):
            yield f"{field}.cidr {fault}"
            continue
        subnet = ip_network(item.cidr)
        if (other := next((each for each in seen if overlap(each, subnet)), None)) is not None:
            yield f"{field}.cidr is {item.cidr}, which overlaps {other}; choose a CIDR apart from it"
        seen.append(subnet)
        if fault := _gateway_fault(item, subnet):
            yield f"{field}.gateway {fault}"


def _gateway_fault(item: LanSubnet, subnet: Subnet) -> str:
    if not item.gateway:
        return ""
    try:
        gateway = ip_address(item.gateway)
    except ValueError:
        return (
            f"is {quote(item.gateway)}, which is no IP address: use one such as {subnet.network_address + 1}"
        )
    if gateway not in subnet or str(gateway) != item.gateway:
        return f"is {quote(item.gateway)}: use an address of {subnet}, e.g. {subnet.network_address + 1}"
    if gateway == subnet.network_address or (subnet.version == 4 and gateway == subnet.broadcast_address):
        return f"is {gateway}, which no host of {subnet} can have: use another one, e.g. {subnet.network_address + 1}"
    return ""

"""What a NIC's addresses are to a pod: the CNI result, and whether a result that was given still holds."""

import ipaddress
from typing import Any

from msgspec import to_builtins

from lanloom.api.ipam import Nic
from lanloom.features.ipam.agent.config import IpamConfig
from lanloom.features.ipam.agent.protocol import (
    BAD_CONFIG,
    DIFFERENT,
    REFUSED,
    CniError,
)
from lanloom.features.ipam.rules.addresses import Address, format_address, version_of
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.wire import owned

Raw = dict[str, Any]

_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def result_of(nic: Nic, network: Network, config: IpamConfig) -> Raw:
    """The result of an ADD, in the form of CNI 1.0.0. Raises CniError, Malformed."""
    homes = [(address, _subnet(nic, network, address)) for address in owned(nic)]
    result: Raw = {"ips": [_entry(address, subnet) for address, subnet in homes]}
    if routes := [*_defaults([subnet for _, subnet in homes], config), *map(to_builtins, config.routes)]:
        result["routes"] = routes
    if dns := to_builtins(config.dns):
        result["dns"] = dns
    return result


def _subnet(nic: Nic, network: Network, address: Address) -> Subnet:
    subnet = network.subnet_of(address)
    if subnet is None:
        raise CniError(
            REFUSED,
            f"Nic {nic.metadata.key} has {format_address(address)}, which is in no subnet of network {network.name}",
        )
    return subnet


def _entry(address: Address, subnet: Subnet) -> Raw:
    entry = {"address": f"{format_address(address)}/{subnet.cidr.length}"}
    if subnet.gateway is not None:
        entry["gateway"] = format_address(subnet.gateway)
    return entry


def _defaults(subnets: list[Subnet], config: IpamConfig) -> list[Raw]:
    """A default route for each IP version that has a gateway, by the first address of it that does."""
    if not config.default_route:
        return []
    gateways: dict[int, Address] = {}
    for subnet in subnets:
        if subnet.gateway is not None:
            gateways.setdefault(version_of(subnet.gateway), subnet.gateway)
    if not gateways:
        raise CniError(
            BAD_CONFIG,
            "ipam.defaultRoute: no subnet of the pod's addresses has a gateway; give one a gateway, or leave it out",
        )
    return [{"dst": _EVERYWHERE[version], "gw": format_address(gw)} for version, gw in gateways.items()]


def check_given(nic: Nic, previous: object) -> None:
    """Raises CniError unless the NIC still has every address of a result's `ips`, and nothing else."""
    have = set(map(format_address, owned(nic)))
    given = _given(previous)
    if have != given:
        raise CniError(
            DIFFERENT,
            f"Nic {nic.metadata.key} has {_listed(have)}, but the pod was given {_listed(given)}; delete the pod",
        )


def _given(previous: object) -> set[str]:
    try:
        return {str(ipaddress.ip_interface(item["address"]).ip) for item in previous["ips"]}  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise CniError(BAD_CONFIG, "prevResult: CHECK needs the result of ADD, with its ips") from None


def _listed(addresses: set[str]) -> str:
    return ", ".join(sorted(addresses)) or "no address"

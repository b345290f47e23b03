"""CNI's documents: the `ipam` section of a NAD, and the result.

Tenants who may write a NAD write its configuration, so every field is validated.
"""

import ipaddress
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, to_builtins

from lanloom.api.ipam import CONTAINER, LINK, Nic
from lanloom.features.ipam.rules.addresses import (
    Address,
    find_address,
    format_address,
    parse_address,
    parse_cidr,
    parse_range,
    version_of,
)
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.requests import format_request, parse_requests
from lanloom.features.ipam.rules.shares import is_list_of_ordinals
from lanloom.features.ipam.state import owned
from lanloom.poolrequests import ANY
from lanloom.refusals import Malformed
from lanloom.runtime.cni.calls import BAD_CONFIG, DIFFERENT, REFUSED, CniError

MOST = 64
"""Entries of a list."""

Text = Annotated[str, Meta(max_length=253)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=MOST)]


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A route of the pod: `dst` is a CIDR, `gw` empty for the address's own gateway."""

    dst: Text
    gw: Text = ""


class Dns(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of the pod's resolver, passed on unchanged."""

    nameservers: Texts = ()
    domain: Text = ""
    search: Texts = ()
    options: Texts = ()


class IpamConfig(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """The `ipam` section.

    `network` is a network's UUID, name or object name. `ips` are what the pod gets if it does not ask for others: as in
    a NIC's `spec.ips`; `pools` says the same with names of pools only. With `defaultRoute` the pod's default routes go
    through the gateways of its addresses' subnets.
    """

    type: str
    network: Annotated[str, Meta(min_length=1, max_length=253)]
    ips: Texts = ()
    pools: Texts = ()
    routes: Annotated[tuple[Route, ...], Meta(max_length=MOST)] = ()
    default_route: bool = False
    dns: Dns = Dns()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The requests for addresses."""
        return self.ips or self.pools or (ANY,)


def parse_ipam(config: dict[str, Any]) -> IpamConfig:
    """Return the section of a CNI configuration. Raises CniError, which names the field."""
    section = config.get("ipam")
    if not isinstance(section, dict):
        raise CniError(
            BAD_CONFIG, 'ipam: must be an object such as {"type": "lanloom-ipam", "network": "net1"}'
        )
    try:
        found = msgspec.convert(section, IpamConfig)
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"ipam: {_where(str(error))}") from None
    if found.ips and found.pools:
        raise CniError(BAD_CONFIG, "ipam: ips and pools can't both be given; ips may name pools too")
    for text in found.pools:
        if find_address(text) is not None:
            raise CniError(BAD_CONFIG, f"ipam.pools: {text} is an address; those belong into ipam.ips")
    parse_wanted("ipam.pools" if found.pools else "ipam.ips", found.wanted)
    for index, route in enumerate(found.routes):
        _check_route(f"ipam.routes[{index}]", route)
    for server in found.dns.nameservers:
        if find_address(server) is None:
            raise CniError(BAD_CONFIG, f"ipam.dns.nameservers: {server} is not an address")
    return found


def parse_wanted(field: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return requests for addresses in their usual form; lists by ordinal as they are.

    Raises CniError, which names the field.
    """
    lists = [text for text in wanted if is_list_of_ordinals(text)]
    try:
        for text in lists:
            parse_range(text)
        parsed = map(format_request, parse_requests([text for text in wanted if text not in lists]))
        return tuple(text if text in lists else next(parsed) for text in wanted)
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"{field}: {error}") from None


def _check_route(field: str, route: Route) -> None:
    try:
        cidr, _ = parse_cidr(route.dst)
        gateway = parse_address(route.gw) if route.gw else None
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"{field}: {error}") from None
    if gateway is not None and version_of(gateway) != cidr.version:
        raise CniError(
            BAD_CONFIG, f"{field}: {route.gw} can't be the gateway to {cidr}, of another IP version"
        )


def _where(message: str) -> str:
    """Return msgspec's message with the path as people write it."""
    return message.replace("`$.", "`ipam.").replace(" - at `$`", "")


def is_stale(nic: Nic, valid: frozenset[tuple[str, str]]) -> bool:
    """Return whether a pod's NIC was made for an attachment that is not among the valid ones."""
    marks = nic.metadata.annotations
    return (marks.get(CONTAINER, ""), marks.get(LINK, "")) not in valid


Raw = dict[str, Any]

_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def result_of(nic: Nic, network: Network, config: IpamConfig) -> Raw:
    """Return the result of an ADD, in the form of CNI 1.0.0. Raises CniError, Malformed."""
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
    """Return a default route for each IP version that has a gateway, by the first address of it that does."""
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
    """Raise CniError unless the NIC still has every address of a result's `ips`, and nothing else."""
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

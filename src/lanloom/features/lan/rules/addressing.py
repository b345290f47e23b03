"""The addresses and routes that an IPAM program gives to a pod's interface: validated, and in the form of a result.

A program of another project wrote the result, by a section of a NAD that a user wrote. So every field is validated
before it goes anywhere, and lists are bounded.
"""

from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

Raw = dict[str, Any]

MOST_ADDRESSES, MOST_ROUTES, MOST_TEXTS = 64, 256, 64

_MISSING = "Object missing required field "
_Text = Annotated[str, Meta(max_length=253)]
_Texts = Annotated[tuple[_Text, ...], Meta(max_length=MOST_TEXTS)]
_Word = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
_Mtu = Annotated[int, Meta(ge=0, le=0xFFFF)]


class PodRoute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A route of a pod as CNI has it: `dst` is a CIDR, `gw` an address, empty for the gateway of an address.

    0 is "not given" for the numbers, -1 for `scope`. They are of CNI 1.1.0.
    """

    dst: _Text
    gw: _Text = ""
    mtu: _Mtu = 0
    advmss: _Mtu = 0
    priority: _Word = 0
    table: _Word = 0
    scope: Annotated[int, Meta(ge=-1, le=255)] = -1


class GivenAddress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address as a CIDR with all its bits, such as 192.0.2.7/24; `gateway` may be empty."""

    address: _Text
    gateway: _Text = ""


class Dns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the pod's resolver, passed on."""

    nameservers: _Texts = ()
    domain: _Text = ""
    search: _Texts = ()
    options: _Texts = ()


class Given(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an IPAM program gave. Other fields of its result are of no use."""

    ips: Annotated[tuple[GivenAddress, ...], Meta(min_length=1, max_length=MOST_ADDRESSES)]
    routes: Annotated[tuple[PodRoute, ...], Meta(max_length=MOST_ROUTES)] = ()
    dns: Dns = Dns()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The CIDRs."""
        return tuple(each.address for each in self.ips)

    def resolved_routes(self) -> tuple[PodRoute, ...]:
        """Return the routes with the gateways that they go through; one that has none is on the link."""
        return tuple(each if each.gw else replace(each, gw=self._gateway(each.dst)) for each in self.routes)

    def _gateway(self, dst: str) -> str:
        six = ":" in dst
        return next((each.gateway for each in self.ips if each.gateway and (":" in each.gateway) == six), "")


def read_given(body: object) -> Given:
    """Return what a result gives. Raises ValueError, which names the field."""
    try:
        found = msgspec.convert(_without_nulls(body), Given)
    except msgspec.ValidationError as error:
        raise ValueError(_where(str(error))) from None
    ips = tuple(_address(f"ips[{index}]", each) for index, each in enumerate(found.ips))
    routes = tuple(_route(f"routes[{index}]", each) for index, each in enumerate(found.routes))
    for index, server in enumerate(found.dns.nameservers):
        _checked_ip(f"dns.nameservers[{index}]", server)
    for texts in (found.dns.search, found.dns.options, (found.dns.domain,)):
        if not all(map(str.isprintable, texts)):
            raise ValueError("dns: only printable characters can be in it")
    return Given(ips=ips, routes=routes, dns=found.dns)


def canonical(field: str, text: str) -> str:
    """Return an interface's address as a CIDR in its usual form. Raises ValueError, which names the field."""
    try:
        if "/" not in text or "%" in text:
            raise ValueError
        found = ip_interface(text)
    except ValueError:
        raise ValueError(
            f"{field}: {text[:60]!r} is not an address with a prefix length, such as 192.0.2.7/24"
        ) from None
    if not _is_usable(found):
        raise ValueError(f"{field}: {found} can't be the address of an interface")
    return str(found)


def shaped(given: Given, version: str) -> Raw:
    """Return the part of ADD's result about IP, for the interface of index 0, in the form of a version of CNI."""
    ips: list[Raw] = []
    for each in given.ips:
        item: Raw = {"interface": 0, "address": each.address}
        if each.gateway:
            item["gateway"] = each.gateway
        if version < "1.0.0":
            item["version"] = "6" if ":" in each.address else "4"
        ips.append(item)
    found: Raw = {
        "ips": ips,
        "dns": {key: _listed(value) for key, value in msgspec.to_builtins(given.dns).items()},
    }
    if given.routes:
        newest = version >= "1.1.0"
        found["routes"] = [
            {key: value for key, value in msgspec.to_builtins(each).items() if newest or key in ("dst", "gw")}
            for each in given.routes
        ]
    return found


def previous_addresses(previous: object, interface: str) -> tuple[str, ...]:
    """Return the addresses that a result has for an interface in a pod. Raises ValueError, which names the field."""
    links, ips = (_list(previous, name) for name in ("interfaces", "ips"))
    mine = {
        index
        for index, link in enumerate(links)
        if isinstance(link, dict) and link.get("name") == interface and link.get("sandbox")
    }
    found = []
    for index, each in enumerate(ips):
        if isinstance(each, dict) and each.get("interface") in mine:
            found.append(canonical(f"ips[{index}].address", str(each.get("address", ""))))
    return tuple(found)


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _list(body: object, name: str) -> list[object]:
    found = body.get(name) if isinstance(body, dict) else None
    return found if isinstance(found, list) else []


def _without_nulls(body: object) -> object:
    """Return the same without fields that are null, which programs in Go write for what is empty."""
    if not isinstance(body, dict):
        return body
    found = {key: value for key, value in body.items() if value is not None}
    for name in ("ips", "routes"):
        if isinstance(found.get(name), list):
            found[name] = [
                {key: value for key, value in item.items() if value is not None}
                if isinstance(item, dict)
                else item
                for item in found[name]
            ]
    if isinstance(found.get("dns"), dict):
        found["dns"] = {key: value for key, value in found["dns"].items() if value is not None}
    return found


def _address(field: str, each: GivenAddress) -> GivenAddress:
    address = canonical(f"{field}.address", each.address)
    gateway = _checked_ip(f"{field}.gateway", each.gateway) if each.gateway else ""
    _check_family(f"{field}.gateway", gateway, address)
    return GivenAddress(address=address, gateway=gateway)


def _route(field: str, each: PodRoute) -> PodRoute:
    try:
        if "%" in each.dst:
            raise ValueError
        dst = str(ip_network(each.dst, strict=False))
    except ValueError:
        raise ValueError(f"{field}.dst: {each.dst[:60]!r} is not a network, such as 192.0.2.0/24") from None
    gw = _checked_ip(f"{field}.gw", each.gw) if each.gw else ""
    _check_family(f"{field}.gw", gw, dst)
    return replace(each, dst=dst, gw=gw)


def _checked_ip(field: str, text: str) -> str:
    try:
        if "%" in text:
            raise ValueError
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"{field}: {text[:60]!r} is not an IP address") from None


def _check_family(field: str, gateway: str, other: str) -> None:
    if gateway and (":" in gateway) != (":" in other):
        raise ValueError(f"{field}: {gateway} is of another IP version than {other}")


def _is_usable(found: IPv4Interface | IPv6Interface) -> bool:
    ip = found.ip
    return found.network.prefixlen > 0 and not (ip.is_multicast or ip.is_loopback or ip.is_unspecified)


def _where(message: str) -> str:
    """Return msgspec's message with the path as people write it."""
    words, _, place = message.partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    if (missing := words.removeprefix(_MISSING)) != words:
        place, words = f"{place}.{missing.strip('`')}".removeprefix("."), "is missing"
    return f"{place or 'the result'}: {words}"

"""A VLAN profile as NetworkManager reads it from a keyfile, and what makes it ignore one.

No value of routes, rules and DNS servers makes it reject a profile: what it can't read it leaves out, with a warning
in its log and nothing else, and a prefix length that can't be becomes 24. So the writer of a profile must check them.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Literal

from msgspec import Struct

from lanloom.api.names import LINK_NAME_MAX
from lanloom.node.errors import ProfileError
from lanloom.node.keyfile import Keyfile, parse
from lanloom.node.ports import MAIN_TABLE, Route, Rule
from tests.fakes.attempts import TRIES
from tests.fakes.profiles import ProfileFile

Method6 = Literal["", "auto", "dhcp"]
"""How a profile gets an address of IPv6 that it does not give."""

Version = Literal[4, 6]
_INTERFACES: Mapping[Version, type[IPv4Interface] | type[IPv6Interface]] = {
    4: IPv4Interface,
    6: IPv6Interface,
}
MAIN = 254
_ROUTE_KEY = re.compile(r"route[0-9]+")
_RULE_KEY = re.compile(r"routing-rule[0-9]+")
_RULE_WORDS = frozenset({"priority", "from", "table", "lookup", "suppress_prefixlength"})
_NAMES = {"main": str(MAIN), "default": "253", "local": "255"}


def read_routes(section: Mapping[str, str], version: Version = 4) -> Iterator[tuple[int, str]]:
    """The table and the text of each route that it installs of an IP version."""
    for key, value in section.items():
        if _ROUTE_KEY.fullmatch(key) and (route := _route(value, version)):
            yield _table(section.get(f"{key}_options", "")), route


def _route(value: str, version: Version) -> str:
    prefix, _, rest = value.partition(",")
    gateway, _, metric = rest.partition(",")
    address, _, length = prefix.partition("/")
    try:
        if version == 6:
            network = str(IPv6Interface(prefix).network)
            via = str(IPv6Address(gateway)) if gateway else ""
        else:
            valid = length.isdigit() and int(length) <= 32
            network = str(IPv4Interface(f"{address}/{length if valid else 24}").network)
            via = str(IPv4Address(gateway)) if gateway else ""
    except ValueError:
        return ""
    return f"{network},{via},{metric}"


def _table(options: str) -> int:
    pairs = (item.partition("=") for item in options.split(","))
    tables = [read_number(value) for key, _, value in pairs if key == "table"]
    return next((table for table in tables if table), MAIN)


def read_rules(section: Mapping[str, str], version: Version = 4) -> Iterator[str]:
    """The routing rules that it installs of an IP version: those with a priority, whose every word it knows."""
    for key, value in section.items():
        if _RULE_KEY.fullmatch(key) and _is_rule(value, version):
            yield value


def kernel_rule(value: str) -> Rule:
    """What the kernel has of a rule that `read_rules` gave."""
    words = value.split()
    found = dict(zip(words[::2], words[1::2], strict=True))
    table = found.get("table", found.get("lookup", "main"))
    source = found.get("from", "all")
    return Rule(int(found["priority"]), "" if source == "all" else source, int(_NAMES.get(table, table)))


def _is_rule(value: str, version: Version) -> bool:
    words = value.split()
    found = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or not found.keys() <= _RULE_WORDS or "priority" not in found:
        return False
    table = found.get("table", found.get("lookup", "main"))
    numbers = (found["priority"], found.get("suppress_prefixlength", "0"), _NAMES.get(table, table))
    if not all(number.isdigit() and int(number) < 1 << 32 for number in numbers) or table == "0":
        return False
    source = found.get("from", "all")
    try:
        return source == "all" or bool(_INTERFACES[version](source))
    except ValueError:
        return False


def read_servers(value: str) -> Iterator[str]:
    """The DNS servers of a list with semicolons."""
    for item in value.split(";"):
        try:
            yield str(IPv4Address(item))
        except ValueError:
            continue


def read_number(value: str) -> int:
    """A number; 0, as if the key were not there, for what is none."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,10}", value) else 0


DEFAULT_PREFIX = 24
DEFAULT_ROUTE = "0.0.0.0/0"

DHCP_TIMEOUT = 45.0
"""Seconds that NetworkManager waits for a DHCP lease unless the profile says otherwise."""


class VlanProfile(Struct, frozen=True, kw_only=True):
    """The fields of a VLAN profile that change what NetworkManager does; times in seconds."""

    uuid: str
    id: str
    filename: str
    device: str
    parent: str
    vlan_id: int
    method: str
    autoconnect: bool = True
    address: str = ""
    address6: str = ""
    method6: Method6 = ""
    dad_timeout: float = 0
    dhcp_timeout: float = DHCP_TIMEOUT
    tries: int = TRIES
    mtu: int = 0
    never_default: bool = False
    gateway: str = ""
    routes: frozenset[tuple[int, str]] = frozenset()
    rules: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    dns_priority: int = 0

    @property
    def own_routes(self) -> frozenset[tuple[int, str]]:
        """The routes of tables other than the main one: changing them in place leaves the old ones behind."""
        return frozenset((table, route) for table, route in self.routes if table != MAIN_TABLE)

    @property
    def tables(self) -> tuple[int, ...]:
        """The tables other than the main one that get a default route."""
        return tuple(sorted({table for table, route in self.own_routes if DEFAULT_ROUTE in route}))

    @property
    def kernel_routes(self) -> frozenset[Route]:
        """The routes as the kernel shows them, also that to the subnet of an address of IPv6, which it gives itself."""
        words = ((table, route.split(",")) for table, route in self.routes)
        network = IPv6Interface(self.address6).network if self.address6 else None
        subnet = (
            {Route(str(network), MAIN_TABLE)} if network is not None and network.prefixlen < 128 else set()
        )
        return frozenset(Route(to, table, via) for table, (to, via, _) in words) | subnet

    @property
    def default_route(self) -> bool:
        """Whether the main table gets a default route: by an explicit one even where `never-default` says no."""
        explicit = any(table == MAIN_TABLE and DEFAULT_ROUTE in route for table, route in self.routes)
        return explicit or bool(self.gateway and not self.never_default)


def read_profile(name: str, file: ProfileFile) -> VlanProfile | None:
    """The profile in a file of the directory; None where NetworkManager ignores it, as it does without an error."""
    if name.startswith(".") or name.endswith("~") or file.mode & 0o077:
        return None
    try:
        return _profile(name, parse(file.content))
    except (ProfileError, KeyError, ValueError):
        return None


def _profile(name: str, sections: Keyfile) -> VlanProfile:
    connection, vlan, ipv4 = sections["connection"], sections["vlan"], sections["ipv4"]
    method6 = sections.get("ipv6", {}).get("method", "")
    ipv6 = sections["ipv6"] if method6 in ("auto", "dhcp", "manual") else {}
    vlan_id = int(vlan["id"])
    device = connection.get("interface-name") or cut_name(vlan["parent"], vlan_id)
    method = ipv4["method"]
    if (
        connection["type"] != "vlan"
        or not 0 <= vlan_id <= 4094
        or method not in ("auto", "manual")
        or len(device) > LINK_NAME_MAX
        or any(char.isspace() or char == "/" for char in device)
    ):
        raise ValueError(name)
    return VlanProfile(
        uuid=connection["uuid"],
        id=connection["id"],
        filename=name,
        device=device,
        parent=vlan["parent"],
        vlan_id=vlan_id,
        method=method,
        autoconnect=connection.get("autoconnect", "true") == "true",
        address=cidr(ipv4.get("address1", "")) if method == "manual" else "",
        address6=_address6(ipv6),
        method6=_method6(ipv6),
        dad_timeout=max(int(ipv4.get("dad-timeout", "0")), 0) / 1000,
        dhcp_timeout=float(ipv4.get("dhcp-timeout", "0")) or DHCP_TIMEOUT,
        tries=_tries(connection.get("autoconnect-retries", "-1")),
        mtu=read_number(sections.get("ethernet", {}).get("mtu", "")),
        never_default=ipv4.get("never-default") == "true",
        gateway=ipv4.get("address1", "").partition(",")[2],
        routes=frozenset((*read_routes(ipv4), *read_routes(ipv6, 6))),
        rules=(*read_rules(ipv4), *read_rules(ipv6, 6)),
        dns=tuple(read_servers(ipv4.get("dns", ""))),
        dns_priority=read_number(ipv4.get("dns-priority", "")),
    )


def _method6(ipv6: Mapping[str, str]) -> Method6:
    match ipv6.get("method"):
        case "auto":
            return "auto"
        case "dhcp":
            return "dhcp"
        case _:
            return ""


def _address6(ipv6: Mapping[str, str]) -> str:
    """The address of IPv6; without one the method manual is none, and the file is ignored."""
    return str(IPv6Interface(ipv6["address1"])) if ipv6.get("method") == "manual" else ""


def _tries(value: str) -> int:
    return TRIES if value == "-1" else int(value)


def cidr(value: str) -> str:
    """The address in a value of `address1`; without a valid prefix length, NetworkManager gives it 24.

    Raises ValueError for what is not an IPv4 address, optionally followed by a comma and a gateway.
    """
    address, _, gateway = value.partition(",")
    host, _, length = address.partition("/")
    if gateway:
        IPv4Address(gateway)
    valid = length.isdigit() and int(length) <= 32
    return f"{IPv4Address(host)}/{int(length) if valid else DEFAULT_PREFIX}"


def cut_name(parent: str, vlan_id: int) -> str:
    """The name that NetworkManager gives a VLAN device without `interface-name`: the parent's is cut until all
    fits."""
    suffix = f".{vlan_id}"
    return parent[: LINK_NAME_MAX - len(suffix)] + suffix

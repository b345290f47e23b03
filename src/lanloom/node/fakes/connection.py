"""A VLAN profile as NetworkManager reads it from a keyfile, and what makes it ignore one."""

from ipaddress import IPv4Address

from msgspec import Struct

from lanloom.api.names import LINK_NAME_MAX
from lanloom.node.errors import ProfileError
from lanloom.node.fakes.attempts import TRIES
from lanloom.node.fakes.profiles import ProfileFile
from lanloom.node.fakes.routing import read_number, read_routes, read_rules, read_servers
from lanloom.node.keyfile import Keyfile, parse
from lanloom.node.ports import MAIN_TABLE, Route

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
        """The routes as the kernel shows them."""
        words = ((table, route.split(",")) for table, route in self.routes)
        return frozenset(Route(to, table, via) for table, (to, via, _) in words)

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
        dad_timeout=max(int(ipv4.get("dad-timeout", "0")), 0) / 1000,
        dhcp_timeout=float(ipv4.get("dhcp-timeout", "0")) or DHCP_TIMEOUT,
        tries=_tries(connection.get("autoconnect-retries", "-1")),
        mtu=read_number(sections.get("ethernet", {}).get("mtu", "")),
        never_default=ipv4.get("never-default") == "true",
        gateway=ipv4.get("address1", "").partition(",")[2],
        routes=frozenset(read_routes(ipv4)),
        rules=tuple(read_rules(ipv4)),
        dns=tuple(read_servers(ipv4.get("dns", ""))),
        dns_priority=read_number(ipv4.get("dns-priority", "")),
    )


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

"""The kernel's dumps, decoded into `LinkState`. `Any` is a pyroute2 message, which has no types."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from socket import AF_BRIDGE, AF_INET
from typing import Any

from msgspec.structs import replace
from pyroute2 import IPRoute

from lanloom.node.guards import BOND_MODES
from lanloom.node.ports import Link, LinkState
from lanloom.node.vlanids import Range, VlanIds, merge

BRVLAN_COMPRESSED = 1 << 2
"""RTEXT_FILTER_BRVLAN_COMPRESSED: VLAN ids come as ranges."""

RANGE_BEGIN = 1 << 3
RANGE_END = 1 << 4
"""BRIDGE_VLAN_INFO_RANGE_BEGIN and _END."""

IFF_UP = 1


def read_state(socket: IPRoute) -> LinkState:
    """Everything that the port's dump shows."""
    links = read_links(socket)
    names = {link.index: name for name, link in links.items()}
    for index, ids in _bridge_vlans(socket).items():
        if (name := names.get(index)) is not None:
            field = "self_vlans" if links[name].kind == "bridge" else "vlans"
            links[name] = replace(links[name], **{field: ids})
    for index, addresses in _addresses(socket).items():
        if (name := names.get(index)) is not None:
            links[name] = replace(links[name], addresses=tuple(addresses))
    return LinkState(
        links, frozenset(names[index] for index in _default_route_links(socket) if index in names)
    )


def read_links(socket: IPRoute) -> dict[str, Link]:
    """The links by name, without VLAN ids and addresses."""
    messages = tuple(socket.link("dump"))
    names: dict[int, str] = {message["index"]: message.get("ifname") for message in messages}
    return {link.name: link for link in (_link(message, names) for message in messages)}


def _link(message: Any, names: Mapping[int, str]) -> Link:
    kind = message.get(("linkinfo", "kind")) or ""
    # A parent in another namespace (a veth's peer) has an index that means nothing here.
    parent = "" if message.get("link_netnsid") is not None else names.get(message.get("link") or 0, "")
    link = Link(
        name=message.get("ifname"),
        index=message["index"],
        kind=kind,
        mac=message.get("address") or "",
        mtu=message.get("mtu") or 0,
        up=bool(message["flags"] & IFF_UP),
        operstate=message.get("operstate") or "UNKNOWN",
        master=names.get(message.get("master") or 0, ""),
        parent=parent if kind != "veth" else "",
        alias=message.get("ifalias") or "",
    )
    return _with_data(link, message)


def _with_data(link: Link, message: Any) -> Link:
    def data(field: str) -> Any:
        return message.get(("linkinfo", "data", field))

    match link.kind:
        case "vlan":
            return replace(link, vlan_id=data("vlan_id") or 0)
        case "bridge":
            return replace(link, vlan_filtering=bool(data("br_vlan_filtering")))
        case "bond":
            return replace(
                link, bond_mode=BOND_MODES[data("bond_mode") or 0], bond_miimon=data("bond_miimon") or 0
            )
    return link


def _bridge_vlans(socket: IPRoute) -> dict[int, VlanIds]:
    messages = socket.link("dump", family=AF_BRIDGE, ext_mask=BRVLAN_COMPRESSED)
    return {message["index"]: _vlan_ids(message) for message in messages}


def _vlan_ids(message: Any) -> VlanIds:
    spec = message.get("af_spec")
    entries = spec.get_attrs("IFLA_BRIDGE_VLAN_INFO") if spec is not None else ()
    return merge(_ranges((entry["vid"], entry["flags"]) for entry in entries))


def _ranges(entries: Iterable[tuple[int, int]]) -> Iterable[Range]:
    first = 0
    for vid, flags in entries:
        if flags & RANGE_BEGIN:
            first = vid
        else:
            yield (first if flags & RANGE_END else vid, vid)


def _addresses(socket: IPRoute) -> dict[int, list[str]]:
    addresses: dict[int, list[str]] = {}
    for message in socket.addr("dump", family=AF_INET):
        address = message.get("local") or message.get("address")
        addresses.setdefault(message["index"], []).append(f"{address}/{message['prefixlen']}")
    for found in addresses.values():
        found.sort(key=lambda cidr: IPv4Address(cidr.partition("/")[0]))
    return addresses


def _default_route_links(socket: IPRoute) -> set[int]:
    indexes: set[int] = set()
    for message in socket.route("dump", family=AF_INET):
        if message["dst_len"] == 0:
            hops = message.get("multipath") or ()
            indexes |= {message.get("oif") or 0, *(hop["oif"] for hop in hops)}
    return indexes

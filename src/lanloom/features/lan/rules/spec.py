"""What a LAN asks for, judged by itself: defaults, the values of each field, and which of them may change later.

The webhook, the manager and the agents ask the same questions: an object that came in while no webhook was there has in
its status what the webhook would have replied, and no node builds anything for it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from msgspec.structs import asdict

from lanloom.api.lan import (
    DEFAULT_PORT,
    EVERY_NAMESPACE,
    LAN,
    LANS,
    NAME_MAX,
    NAMESPACES_MAX,
    SPOKES_MAX,
    VNI_MAX,
    HostBridge,
    LANSpec,
    VlanUplink,
)
from lanloom.api.names import CLUSTER_NETWORK_NAME_MAX, LINK_NAME_MAX
from lanloom.features.lan.rules.options import option_faults
from lanloom.features.lan.rules.subnets import subnet_faults
from lanloom.refusals import Denied, Malformed, title_for
from lanloom.text import listed, quote

NS_MAX = 63
"""Longest name of a network namespace: short enough for messages and command lines, long enough for users."""

PORT_MAX = 65_535

VLAN_LEAST, VLAN_LARGEST = 2, 4094
"""VLAN ids of an uplink: 1 is that of untagged frames on a bridge of a cluster network."""

_LINK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_SPOKE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_CNI_NAMESPACE = re.compile(r"cni-.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What container runtimes call the network namespaces of pods, in the same directory."""

_BRIDGE_ALIAS = re.compile(r"lanloom-[a-z]+ [A-Za-z0-9-]{1,63}", re.ASCII)

_SPOKE_LINK = re.compile(rf"[a-z0-9-]{{1,{NAME_MAX}}}(M[01]|V[01])")

_TAKEN = frozenset({"lo", "all", "default", "bonding_masters"})
"""Names that the kernel gives to no link but its own: a loopback, and directories of its settings."""

_GROUP = str(IPv6Address("ff15::6c00:0"))
"""An IPv6 group of site-local scope that is not registered (RFC 4291). Its last 24 bits are the VNI: they are in
the Ethernet address of the group as well, so that switches tell LANs apart."""


_FREE = frozenset(
    {
        "uplink",
        "spokes",
        "namespaces",
        "subnets",
        "replication",
        "underlay_family",
        "default_vxlan_dev",
        "vxlan_dev_map",
        "port_security",
        "max_learned_macs",
        "storm_control",
        "mtu",
        "spoke_options",
    }
)
"""Fields of a spec that may change: the spokes, who may use them, their addresses, options, and how frames come to
other nodes, which `rules.admit.check_reported` keeps where nodes have the LAN ready."""


def default_group(vni: int) -> str:
    """Return the multicast group of a LAN that names none: another one for each VNI, so that no LAN hears another."""
    return str(IPv6Address(int(IPv6Address(_GROUP)) | (vni & VNI_MAX)))


def defaults(spec: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return fields, as on the wire, that are to be filled in: as they were before, else the defaults.

    A user who replaces a LAN by a manifest that leaves them out wants no change of them.
    """
    before = old or {}
    found: dict[str, Any] = {}
    if spec.get("vxlanPort") is None:
        found["vxlanPort"] = before.get("vxlanPort") or DEFAULT_PORT
    if spec.get("vxlanGrp") is None:
        kept = before.get("vxlanGrp")
        found["vxlanGrp"] = kept if kept and kept != _GROUP else _group_of(spec.get("vni"))
    return found


def _group_of(vni: object) -> str:
    """Return the default group.

    For a VNI that is none it is a placeholder, so that the fault names the VNI and not this.
    """
    return default_group(vni) if isinstance(vni, int) and 0 < vni <= VNI_MAX else _GROUP


def check(lan: LAN) -> None:
    """Raise Malformed, which names every field that is wrong."""
    if found := faults(lan.spec):
        raise Malformed(f"{title_of(lan)}: {'. '.join(found)}")


def faults(spec: LANSpec) -> tuple[str, ...]:
    """Return what is wrong with a spec, each with its field and the remedy; none if nothing is."""
    return tuple(_faults(spec))


def check_changes(old: LAN, new: LAN) -> None:
    """Raise Denied where a field changes that may not: all but `_FREE`.

    A LAN that is invalid was built nowhere, so it may change in every field: it is to be mended.
    """
    if faults(old.spec):
        return
    before, after = asdict(old.spec), asdict(new.spec)
    wrong = [
        f"spec.{wire} is {quote(before[name])} and can't become {quote(after[name])}"
        for name, wire in zip(LANSpec.__struct_fields__, LANSpec.__struct_encode_fields__, strict=True)
        if name not in _FREE and before[name] != after[name]
    ]
    if wrong:
        raise Denied(f"{title_of(new)}: {', '.join(wrong)}; delete the LAN and create another one")


def is_rerouted(old: LANSpec, new: LANSpec) -> bool:
    """Return whether an update changes the way of frames to other nodes: an underlay or its IP version, or the
    replication.
    """
    before, after = (
        (each.replication, each.underlay_family, each.default_vxlan_dev, each.vxlan_dev_map)
        for each in (old, new)
    )
    return before != after


def title_of(lan: LAN) -> str:
    """Return a LAN for a message."""
    return f"LAN {lan.metadata.key}"


def title_beside(lan: LAN, reader: str) -> str:
    """Return a LAN for a message to users of the namespace `reader`."""
    return title_for(reader, LANS.kind, lan.metadata.namespace, lan.metadata.name)


def link_fault(name: str, example: str) -> str:
    """Return what is wrong with the name of a link in the LAN's namespace; empty if nothing is."""
    if not name:
        return f"is missing: name the link, at most {NAME_MAX} characters, e.g. {example}"
    if len(name) > NAME_MAX or not _LINK.fullmatch(name) or name in (".", ".."):
        return (
            f"is {quote(name)}, which can't be the name of a link: use at most {NAME_MAX} letters, digits, -, _ and "
            f"dots, beginning with a letter, a digit or _, e.g. {example}"
        )
    if name in _TAKEN:
        return (
            f"is {quote(name)}, a name that the kernel keeps for itself: choose another one, e.g. {example}"
        )
    return ""


def spoke_fault(name: str) -> str:
    """Return what is wrong with the name of a spoke; empty if nothing is.

    It ends the names of NADs, which need a label.
    """
    if not name:
        return "is empty: name the spoke, e.g. web"
    if len(name) > NAME_MAX or not _SPOKE.fullmatch(name):
        return (
            f"is {quote(name)}, which can't be the name of a spoke: use at most {NAME_MAX} lower-case letters, digits "
            "and -, beginning and ending with a letter or digit, e.g. web"
        )
    return ""


def ns_fault(name: str) -> str:
    """Return what is wrong with the name of the network namespace; empty if nothing is. It is a file in /run/netns."""
    if not name:
        return "is missing: name the network namespace of the LAN on the nodes, e.g. blue"
    if len(name) > NS_MAX or not _LINK.fullmatch(name):
        return (
            f"is {quote(name)}, which can't be the name of a network namespace: use at most {NS_MAX} letters, digits, "
            "-, _ and dots, beginning with a letter, a digit or _, e.g. blue"
        )
    if _CNI_NAMESPACE.fullmatch(name):
        return f"is {quote(name)}, as the container runtime calls the namespaces of pods: choose another one, e.g. blue"
    return ""


def group_fault(text: str) -> str:
    """Return what is wrong with a multicast group; empty if nothing is."""
    if not text:
        return f"is missing: name a multicast group, e.g. {default_group(1)}"
    try:
        group: IPv4Address | IPv6Address | None = ip_address(text)
    except ValueError:
        group = None
    if group is None or (isinstance(group, IPv6Address) and group.scope_id):
        return f"is {quote(text)}, which is no IP address: name a multicast group, e.g. {default_group(1)}"
    if not group.is_multicast:
        return (
            f"is {quote(text)}, which is no multicast group: those are in ff00::/8 and 224.0.0.0/4, "
            f"e.g. {default_group(1)}"
        )
    return ""


def _faults(spec: LANSpec) -> Iterator[str]:
    for field, fault in (
        ("ns", ns_fault(spec.ns)),
        ("bridge", link_fault(spec.bridge, "br0")),
        ("vxlan", link_fault(spec.vxlan, "vx0")),
        ("vni", _number_fault(spec.vni, VNI_MAX)),
        ("vxlanGrp", group_fault(spec.vxlan_grp)),
        ("vxlanPort", _number_fault(spec.vxlan_port, PORT_MAX)),
    ):
        if fault:
            yield f"spec.{field} {fault}"
    if spec.host_bridge is not None:
        yield from _host_faults(spec.host_bridge)
        yield from _bridged_option_faults(spec)
    if spec.uplink is not None:
        yield from _uplink_faults(spec, spec.uplink)
    yield from _underlay_faults(spec)
    yield from _spoke_faults(spec)
    yield from _namespace_faults(spec)
    yield from subnet_faults(spec)
    yield from option_faults(spec)
    yield from _collisions(spec)


def _host_faults(bridge: HostBridge) -> Iterator[str]:
    if len(bridge.name) > LINK_NAME_MAX or not _LINK.fullmatch(bridge.name) or bridge.name in _TAKEN:
        yield (
            f"spec.hostBridge.name is {quote(bridge.name)}, which can't be the name of a bridge: use at most "
            f"{LINK_NAME_MAX} letters, digits, -, _ and dots"
        )
    if not _BRIDGE_ALIAS.fullmatch(bridge.alias):
        yield (
            f"spec.hostBridge.alias is {quote(bridge.alias)}, which says of no bridge whose it is; remove "
            "spec.hostBridge: Lanloom's manager writes it for isolated networks"
        )


def _bridged_option_faults(spec: LANSpec) -> Iterator[str]:
    """Yield options that do not protect users of an isolated network, who are at its bridge and at no spoke."""
    for field, given in (
        ("portSecurity", spec.port_security),
        ("spokeOptions", spec.spoke_options),
        ("namespaces", spec.namespaces),
        ("subnets", spec.subnets),
    ):
        if given:
            yield (
                f"spec.{field} can't be on the LAN of an isolated network: users of that network are at the bridge "
                f"{quote(spec.host_bridge.name if spec.host_bridge else '')} and at no spoke; remove it"
            )


def _uplink_faults(spec: LANSpec, uplink: VlanUplink) -> Iterator[str]:
    name = uplink.cluster_network
    if len(name) > CLUSTER_NETWORK_NAME_MAX or not _SPOKE.fullmatch(name):
        yield (
            f"spec.uplink.clusterNetwork is {quote(name)}, which can't be the name of a ClusterNetwork: use at most "
            f"{CLUSTER_NETWORK_NAME_MAX} lower-case letters, digits and -, e.g. cluster-1"
        )
    if not VLAN_LEAST <= uplink.vlan <= VLAN_LARGEST:
        yield f"spec.uplink.vlan is {uplink.vlan}; it must be from {VLAN_LEAST} to {VLAN_LARGEST}"
    if spec.host_bridge is not None:
        yield "spec.uplink can't be on the LAN of an isolated network, which has no uplink; remove it"


def _number_fault(value: int, largest: int) -> str:
    return "" if 1 <= value <= largest else f"is {value}; it must be from 1 to {largest}"


def _underlay_faults(spec: LANSpec) -> Iterator[str]:
    if not spec.default_vxlan_dev and not spec.vxlan_dev_map:
        yield (
            "spec.defaultVxlanDev is missing: name the link of the nodes that carries the LAN between them, e.g. eth0, "
            "or name one for each node in spec.vxlanDevMap"
        )
    named = [("defaultVxlanDev", spec.default_vxlan_dev)] if spec.default_vxlan_dev else []
    named += [(f"vxlanDevMap[{quote(node)}]", link) for node, link in sorted(spec.vxlan_dev_map.items())]
    for field, link in named:
        if len(link) > LINK_NAME_MAX or not _LINK.fullmatch(link) or link in _TAKEN:
            yield (
                f"spec.{field} is {quote(link)}, which can't be the name of an underlay link: name a NIC, bond or VLAN "
                f"link of the node, at most {LINK_NAME_MAX} characters, e.g. eth0"
            )
    if spec.replication == "multicast" and spec.underlay_family and not group_fault(spec.vxlan_grp):
        yield from _family_faults(spec.underlay_family, spec.vxlan_grp)


def _family_faults(asked: str, group: str) -> Iterator[str]:
    version = f"IPv{ip_address(group).version}"
    if version != asked:
        yield (
            f"spec.underlayFamily is {quote(asked)}, and spec.vxlanGrp {group}, to which nodes send, is of {version}; "
            "remove spec.underlayFamily, or set spec.replication to head-end"
        )


def _spoke_faults(spec: LANSpec) -> Iterator[str]:
    least = 0 if spec.host_bridge is not None else 1
    if not least <= len(spec.spokes) <= SPOKES_MAX:
        yield f"spec.spokes has {len(spec.spokes)} entries; it must have from 1 to {SPOKES_MAX}"
    wrong = [
        f"spec.spokes[{index}] {fault}"
        for index, name in enumerate(spec.spokes)
        if (fault := spoke_fault(name))
    ]
    if wrong:
        yield listed(wrong, 3)
    twice = [name for name, count in Counter(spec.spokes).items() if count > 1]
    if twice:
        yield f"spec.spokes names {listed(map(quote, twice))} more than once; name each spoke once"


def _namespace_faults(spec: LANSpec) -> Iterator[str]:
    if len(spec.namespaces) > NAMESPACES_MAX:
        yield (
            f"spec.namespaces has {len(spec.namespaces)} entries; at most {NAMESPACES_MAX} are allowed, or "
            f"{quote(EVERY_NAMESPACE)} for every namespace"
        )
    wrong = [
        f"spec.namespaces[{index}] is {quote(name)}, which can't be the name of a namespace: use a name of Kubernetes, "
        f"or {quote(EVERY_NAMESPACE)} for every namespace"
        for index, name in enumerate(spec.namespaces)
        if name != EVERY_NAMESPACE and not _NAMESPACE.fullmatch(name)
    ]
    if wrong:
        yield listed(wrong, 3)
    twice = [name for name, count in Counter(spec.namespaces).items() if count > 1]
    if twice:
        yield f"spec.namespaces names {listed(map(quote, twice))} more than once; name each namespace once"


def _collisions(spec: LANSpec) -> Iterator[str]:
    """Yield names of links that would be two links in the LAN's namespace."""
    if spec.bridge and spec.bridge == spec.vxlan:
        yield f"spec.vxlan is {quote(spec.vxlan)}, which is the name of spec.bridge as well; choose another one"
    spokes = frozenset(spec.spokes)
    for field, name in (("bridge", spec.bridge), ("vxlan", spec.vxlan)):
        if _SPOKE_LINK.fullmatch(name) and name[:-2] in spokes:
            yield (
                f"spec.{field} is {quote(name)}, as a link of the spoke {quote(name[:-2])} is called; "
                "choose another one"
            )

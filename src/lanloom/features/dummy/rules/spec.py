"""The spec of a DummyClusterNetwork, parsed and validated by itself; and which fields may change later.

The webhook and the controller ask the same questions. The status of an object that was stored while no webhook answered
reports the message that its author would have received.
"""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from lanloom.api import names
from lanloom.api.dummy import DummyClusterNetwork, DummyClusterNetworkSpec
from lanloom.api.lan import EVERY_NAMESPACE, NAMESPACES_MAX
from lanloom.api.subnets import EXAMPLES, IPV6_MTU_MIN, Subnet, cidr_fault
from lanloom.features.dummy.rules.model import Isolated
from lanloom.nads.references import User
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_BRIDGE = re.compile(rf"[a-zA-Z][-_a-zA-Z0-9]{{0,{names.LINK_NAME_MAX - 1}}}", re.ASCII)

_TAKEN = frozenset(
    {
        "all",  # names of directories of net.ipv4.conf, which the kernel gives to no link
        "default",
        "bonding_masters",
        "lo",
        "br-ex",
        "br-int",
        "br-local",
        "br-tun",
        "kube-bridge",
        names.MGMT_BRIDGE,
        names.MGMT_BOND,
    }
)
_MANAGEMENT = frozenset({names.MGMT_BRIDGE, names.MGMT_BOND})
_TAKEN_FORM = re.compile(
    r"(eth|ib|wlan|bond|team|dummy|docker|cni|cbr|virbr|vnet|tap|tun|tunl|wg|kube-ipvs|ovn)[0-9]+"
    r"|(en|wl|ww)[opsxb][0-9a-fA-F].*"
    r"|(veth|cali|lxc|cilium|flannel|nodelocaldns).*"
    r"|lanloom-(new|[0-9a-f]{7})"
)
"""Names that the kernel, systemd, Harvester and common CNI plugins give to links of their own, and Lanloom to what it
has half made."""

CLUSTER_MTU = 1430
"""Bytes of a packet with the scope cluster where `mtu` is missing: what VXLAN leaves of 1500, also over IPv6."""

MTU_LEAST, MTU_LARGEST = 576, 9000

_COMMA = re.compile(", ?")

_UNDERLAY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


def parse(dcn: DummyClusterNetwork) -> Isolated:
    """Return the network of a spec. Raises Malformed, which names every invalid field."""
    if faults := tuple(_faults(dcn.spec)):
        raise Malformed(f"DummyClusterNetwork {dcn.metadata.name}: {'. '.join(faults)}")
    spec, metadata = dcn.spec, dcn.metadata
    return Isolated(
        name=metadata.name,
        uid=metadata.uid,
        created=metadata.creation_timestamp or "",
        bridge=spec.bridge_name,
        nad=spec.nad,
        scope=spec.scope,
        subnets=_subnets(spec.subnet),
        gateway=spec.gateway,
        underlay=spec.underlay,
        underlay_family=spec.underlay_family,
        mtu=(spec.mtu or CLUSTER_MTU) if spec.scope == "cluster" else 0,
        namespaces=_namespaces(spec),
    )


def _namespaces(spec: DummyClusterNetworkSpec) -> tuple[str, ...]:
    if not spec.namespaces or EVERY_NAMESPACE in spec.namespaces:
        return spec.namespaces and (EVERY_NAMESPACE,)
    return tuple(sorted({spec.nad_namespace, *spec.namespaces}))


def changes(old: DummyClusterNetwork, new: DummyClusterNetwork) -> None:
    """Raise Denied for a change of an immutable field: all fields except `subnet`, `gateway` and `namespaces`.

    All fields of an invalid object may change if nothing was created for it: so it can be corrected.
    """
    if not old.status.resources and any(_faults(old.spec)):
        return
    fields = (
        ("bridgeName", old.spec.bridge_name, new.spec.bridge_name),
        ("nadName", old.spec.nad_name, new.spec.nad_name),
        ("nadNamespace", old.spec.nad_namespace, new.spec.nad_namespace),
        ("scope", old.spec.scope, new.spec.scope),
        ("underlay", old.spec.underlay, new.spec.underlay),
        ("underlayFamily", old.spec.underlay_family, new.spec.underlay_family),
        ("mtu", str(old.spec.mtu), str(new.spec.mtu)),
    )
    if wrong := [
        f'spec.{name} is immutable: it is "{was}" and can\'t be changed to "{to}"'
        for name, was, to in fields
        if was != to
    ]:
        raise Denied(
            f"DummyClusterNetwork {new.metadata.name}: {', '.join(wrong)}; "
            "delete and recreate the object, or create one with another name"
        )


def changes_while_used(old: DummyClusterNetwork, new: DummyClusterNetwork, users: Iterable[User]) -> None:
    """Raise Denied for a change of addresses while users have some of them."""
    wrong = [
        f'spec.{name} can\'t be changed from "{was}" to "{to}"'
        for name, was, to in (
            ("subnet", old.spec.subnet, new.spec.subnet),
            ("gateway", old.spec.gateway, new.spec.gateway),
        )
        if was != to
    ]
    if wrong and (using := listed(map(str, users))):
        raise Denied(
            f"DummyClusterNetwork {new.metadata.name}: {' and '.join(wrong)} while the network is in use "
            f"by {using}; remove the network from them first"
        )


def bridge_fault(name: str) -> str:
    """Return the problem of a bridge name; empty if it is valid."""
    if not name:
        return f"is missing: name the bridge on the nodes, at most {names.LINK_NAME_MAX} characters, e.g. dummy-br"
    if not _BRIDGE.fullmatch(name):
        return (
            f'is "{name}", which can\'t be the name of a bridge: use at most {names.LINK_NAME_MAX} letters, digits, '
            "- and _, beginning with a letter"
        )
    if name in _TAKEN or _TAKEN_FORM.fullmatch(name):
        return f'is "{name}", a name that is reserved for other links of a node: choose another one, e.g. dummy-br'
    if name.endswith(names.BOND_SUFFIX):
        return f'is "{name}", but the suffix {names.BOND_SUFFIX} is reserved for bonds of uplinks: use e.g. dummy-br'
    prefix = name.removesuffix(names.BRIDGE_SUFFIX)
    if prefix != name and not _LABEL.fullmatch(prefix):  # no NAD of such a bridge is ever let in
        return (
            f'is "{name}", the bridge of a ClusterNetwork "{prefix}", which is no valid name of one: before '
            f"{names.BRIDGE_SUFFIX} use lower-case letters, digits and -, e.g. dummy-br"
        )
    return ""


def label_fault(value: str, what: str, example: str) -> str:
    """Return the problem of the name of a NAD or namespace; empty if it is valid.

    Multus does not accept dots in NAD names in annotations, so the syntax of labels holds for both.
    """
    if not value:
        return f"is missing: name {what}, e.g. {example}"
    if not _LABEL.fullmatch(value):
        return (
            f'is "{value}", which can\'t be the name of {what}: use at most 63 lower-case letters, digits and -, '
            f"beginning and ending with a letter or digit, e.g. {example}"
        )
    return ""


def subnet_fault(text: str) -> str:
    """Return the problem of a subnet, or of one of each IP version; empty if it is valid, or there is none."""
    items = _items(text)
    if "" not in items:
        if fault := next(filter(None, map(cidr_fault, items)), ""):
            return fault
        if len({ip_network(item).version for item in items}) == len(items):
            return ""
    example = ",".join(EXAMPLES.values())
    return f"is {quote(text)}: use at most one subnet of IPv4 and one of IPv6, such as {example}"


def _items(text: str) -> list[str]:
    return _COMMA.split(text, 2) if text else []


def _subnets(text: str) -> tuple[Subnet, ...]:
    """Return the subnets of a valid text, that of IPv4 first."""
    return tuple(sorted(map(ip_network, _items(text)), key=lambda item: item.version))


def _faults(spec: DummyClusterNetworkSpec) -> Iterator[str]:
    for field, fault in (
        ("bridgeName", bridge_fault(spec.bridge_name)),
        ("nadName", label_fault(spec.nad_name, "a NAD", "dummy-bridge-net")),
        ("nadNamespace", label_fault(spec.nad_namespace, "a namespace", "harvester-system")),
        ("subnet", subnet_fault(spec.subnet)),
    ):
        if fault:
            yield f"spec.{field} {fault}"
    if len(spec.namespaces) > NAMESPACES_MAX:
        yield f"spec.namespaces has {len(spec.namespaces)} entries; at most {NAMESPACES_MAX} are allowed, or * for all"
    for index, name in enumerate(spec.namespaces[:NAMESPACES_MAX]):
        if name != EVERY_NAMESPACE and (fault := label_fault(name, "a namespace", "default, or * for all")):
            yield f"spec.namespaces[{index}] {fault}"
    if spec.gateway == "node" and not spec.subnet:
        yield (
            'spec.gateway is "node", which requires spec.subnet for its address: '
            "set a subnet such as 10.115.0.0/24, or remove the gateway"
        )
    yield from _cluster_faults(spec) if spec.scope == "cluster" else _node_faults(spec)


def _cluster_faults(spec: DummyClusterNetworkSpec) -> Iterator[str]:
    """Yield what can't be on a network that spans the nodes."""
    if fault := _underlay_fault(spec.underlay):
        yield f"spec.underlay {fault}"
    if spec.mtu and not MTU_LEAST <= spec.mtu <= MTU_LARGEST:
        yield f"spec.mtu is {spec.mtu}: it must be from {MTU_LEAST} to {MTU_LARGEST}, or missing"
    elif 0 < spec.mtu < IPV6_MTU_MIN and ":" in spec.subnet:
        yield f"spec.mtu is {spec.mtu}, and IPv6 needs {IPV6_MTU_MIN}: raise it, or remove the subnet of IPv6"
    if spec.gateway == "node":
        yield (
            'spec.gateway is "node" and spec.scope is "cluster": all nodes would have the gateway\'s address on one '
            'network; remove the gateway, or use the scope "node"'
        )


def _node_faults(spec: DummyClusterNetworkSpec) -> Iterator[str]:
    fields = (("underlay", spec.underlay), ("underlayFamily", spec.underlay_family), ("mtu", spec.mtu))
    for name, given in fields:
        if given:
            yield f'spec.{name} is of the scope "cluster" only: remove it, or set spec.scope to "cluster"'


def _underlay_fault(name: str) -> str:
    if not name:
        return (
            'is missing, which the scope "cluster" requires: name the link of the nodes that carries the network '
            "between them, e.g. eth0"
        )
    if len(name) > names.LINK_NAME_MAX or not _UNDERLAY.fullmatch(name) or name in _TAKEN - _MANAGEMENT:
        return (
            f'is "{name}", which can\'t be the name of an underlay link: name a NIC, bond or VLAN link of the nodes, '
            f"at most {names.LINK_NAME_MAX} characters, e.g. eth0"
        )
    return ""

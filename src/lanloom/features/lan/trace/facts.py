"""What a trace is made from: the two ends, the reports of nodes, the kernels that could be read; and what a hop has."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom.api.core import Node, Pod
from lanloom.api.l3 import AnnotationError
from lanloom.api.lan import LAN, LANEntry, LANNode, Mode, Spoke, device_id, nad_name
from lanloom.api.meta import Key
from lanloom.api.multus import (
    MULTUS_NETWORKS,
    NETWORK_STATUS,
    NetworkAttachmentDefinition,
    Selection,
    selections,
)
from lanloom.api.nadconfig import BRIDGE_PLUGIN, read_config
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.flood import is_silent
from lanloom.features.lan.rules.observed import SeenLan, Underlay
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed, quote

_MODES: tuple[Mode, ...] = ("veth", "macvtap")

State = Literal["ok", "stops", "unknown"]


class End(Struct, frozen=True, kw_only=True):
    """One end of the way: a pod at a spoke, or a spoke that was named without its pod.

    Without a `spoke`, `elsewhere` says where the pod is instead. `node` is empty while nothing is on a node.
    `interface` and `mac` are those that Multus reports; empty if it reports none. It is `at` a spoke, at the bridge of
    an isolated network to which the LAN is joined on the node, or on the VLAN to which the node joins the LAN.
    """

    title: str
    spoke: str = ""
    at: Literal["spoke", "bridge", "uplink"] = "spoke"
    mode: Mode = "veth"
    node: str = ""
    pod: Pod | None = None
    interface: str = ""
    mac: str = ""
    elsewhere: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether it is at the LAN, on a node."""
        return bool(self.node) and (bool(self.spoke) or self.at != "spoke")

    @property
    def port(self) -> str:
        """The bridge port of the spoke."""
        return device_id(self.spoke, self.mode)


class NodeKernel(Struct, frozen=True, kw_only=True):
    """The kernel of a node: what it should have of the LAN, what it has, and its underlay link, None without one."""

    wanted: DesiredLan
    seen: SeenLan
    underlay: Underlay | None = None


class Facts(Struct, frozen=True, kw_only=True):
    """All that a trace is made from.

    `size` is that of the packet in bytes, 0 for one that fits everywhere; `source` is the MAC address that the frame is
    from, empty for that of the interface; `now`, seconds since the epoch. `kernels`, by node, are those that could be
    read.
    """

    lan: LAN
    sender: End
    receiver: End
    reports: Mapping[str, LANNode] = {}
    nodes: Mapping[str, Node] = {}
    now: float = 0.0
    size: int = 0
    source: str = ""
    kernels: Mapping[str, NodeKernel] = {}

    def entry(self, node: str) -> LANEntry | None:
        """Return what a node reports of the LAN."""
        return entry_of(self.reports.get(node), self.lan)

    @property
    def live_reports(self) -> tuple[LANNode, ...]:
        """The reports of nodes that are not given up, by which agents send frames for many receivers."""
        return tuple(report for report in self.reports.values() if not is_silent(report))


def entry_of(report: LANNode | None, lan: LAN) -> LANEntry | None:
    """Return the entry of a LAN in a report."""
    entries = report.status.lans if report is not None else ()
    return next((each for each in entries if each.uid == lan.metadata.uid), None)


def spoke_end(spoke: str, lan: LAN, reports: Iterable[LANNode]) -> End:
    """Return the end at a spoke. Raises Denied if several nodes have attached it, so that only pods tell them apart."""
    found = [
        (report.metadata.name, each.mode)
        for report in reports
        if (entry := entry_of(report, lan)) is not None
        for each in entry.spokes
        if each.name == spoke
    ]
    title = f"spoke {spoke}"
    if len(found) > 1:
        nodes = listed(f"{node} ({mode})" for node, mode in sorted(found))
        raise Denied(f"the {title} is attached more than once: {nodes}; name the pod instead of the spoke")
    if not found:
        return End(title=title, spoke=spoke)
    ((node, mode),) = found
    return End(title=title, spoke=spoke, mode=mode, node=node)


def pod_end(pod: Pod, lan: LAN, lans: Iterable[LAN], nads: Iterable[NetworkAttachmentDefinition] = ()) -> End:
    """Return the end in a pod. `nads` are those that the pod names, in addition to the LAN's own.

    Raises Denied for networks that can't be read, and for several spokes of the LAN.
    """
    meta = pod.metadata
    title = f"Pod {meta.key}"
    named = _named(pod, title)
    own = {nad.metadata.key: spoke for nad in nads if (spoke := _spoke_of(nad, lan)) is not None}
    found = list(_spokes(named, meta.namespace, lan, own))
    if len(found) > 1:
        names = listed(spoke.name or "its host bridge" for spoke, _ in found)
        raise Denied(f"{title} is at several spokes of LAN {lan.metadata.key}: {names}; name one of them")
    if not found:
        words = _elsewhere(named, title, meta.namespace, lan, lans)
        return End(title=title, node=pod.spec.node_name, pod=pod, elsewhere=words)
    ((spoke, selection),) = found
    status = _status(pod, f"{selection.namespace or meta.namespace}/{selection.name}")
    return End(
        title=title,
        spoke=spoke.name,
        at="spoke" if spoke.name else "bridge",
        mode=spoke.mode,
        node=pod.spec.node_name,
        pod=pod,
        interface=status.interface or selection.interface,
        mac=status.mac,
    )


def named_nads(pod: Pod) -> tuple[Key, ...]:
    """Return the NADs that a pod names; none if they can't be read."""
    try:
        named = selections(pod.metadata.annotations.get(MULTUS_NETWORKS, ""))
    except ValueError:
        return ()
    return tuple(Key(item.namespace or pod.metadata.namespace, item.name) for item in named)


def _spoke_of(nad: NetworkAttachmentDefinition, lan: LAN) -> Spoke | None:
    """Return the spoke that a user's own NAD names.

    It has no name for the bridge that the LAN is joined to.
    """
    try:
        config = read_config(nad.spec.config)
    except AnnotationError:
        return None
    host, spoke = lan.spec.host_bridge, config.get("veth")
    if config.get("type") == BRIDGE_PLUGIN and host is not None and config.get("bridge") == host.name:
        return Spoke(name="", mode="veth")
    if config.get("type") == "k8slanveth" and isinstance(spoke, str) and spoke in lan.spec.spokes:
        return Spoke(name=spoke, mode="veth")
    return None


def is_at(pod: Pod, lan: LAN) -> bool:
    """Return whether a pod names a NAD of the LAN."""
    try:
        named = selections(pod.metadata.annotations.get(MULTUS_NETWORKS, ""))
    except ValueError:
        return False
    return any(True for _ in _spokes(named, pod.metadata.namespace, lan))


def check_ends(sender: End, receiver: End) -> None:
    """Raise Malformed for a way from a spoke to itself."""
    same = (sender.spoke, sender.node) == (receiver.spoke, receiver.node)
    if sender.title == receiver.title or (sender.spoke and same):
        raise Malformed(f"--from and --to are the same spoke ({sender.title}); name two spokes, or two pods")


def _named(pod: Pod, title: str) -> tuple[Selection, ...]:
    text = pod.metadata.annotations.get(MULTUS_NETWORKS, "")
    try:
        return selections(text)
    except ValueError as error:
        raise Denied(
            f"{title}: the annotation {MULTUS_NETWORKS} can't be read: {error}; correct it"
        ) from None


def _spokes(
    named: Iterable[Selection], namespace: str, lan: LAN, own: Mapping[Key, Spoke] = {}
) -> Iterator[tuple[Spoke, Selection]]:
    """Yield the spokes of the LAN among the NADs that a pod in `namespace` names. `own` are NADs that others made."""
    made = {
        Key(lan.metadata.namespace, nad_name(name, mode)): Spoke(name=name, mode=mode)
        for name in lan.spec.spokes
        for mode in _MODES
    }
    for item in named:
        key = Key(item.namespace or namespace, item.name)
        if found := made.get(key) or own.get(key):
            yield found, item


def _elsewhere(
    named: tuple[Selection, ...], title: str, namespace: str, lan: LAN, lans: Iterable[LAN]
) -> str:
    others = [
        f"the spoke {spoke.name} of LAN {other.metadata.key}"
        for other in lans
        if other.metadata.uid != lan.metadata.uid
        for spoke, _ in _spokes(named, namespace, other)
    ]
    key = lan.metadata.key
    if others:
        return f"{title} is at {listed(others)}; no frame passes from one LAN to another: attach both to one"
    if lan.spec.host_bridge is not None:
        return (
            f"{title} names no NAD of the isolated network that stands on LAN {key}; add one with the bridge "
            f"{lan.spec.host_bridge.name} to its annotation {MULTUS_NETWORKS}"
        )
    return (
        f"{title} names no NAD of LAN {key}; add {quote(nad_name(lan.spec.spokes[0], 'veth'))} or another one of "
        f"`lanloom lan show {key}` to its annotation {MULTUS_NETWORKS}"
        if lan.spec.spokes
        else f"{title} names no NAD of LAN {key}, which has no spokes"
    )


class _Interface(Struct, frozen=True):
    """An element of what Multus reports."""

    name: str = ""
    interface: str = ""
    mac: str = ""


def _status(pod: Pod, nad: str) -> _Interface:
    """Return what Multus reports of a NAD; empty if it reports nothing that can be read."""
    text = pod.metadata.annotations.get(NETWORK_STATUS, "")
    try:
        found = msgspec.json.decode(text, type=tuple[_Interface, ...])
    except (msgspec.DecodeError, RecursionError):
        return _Interface()
    return next((item for item in found if item.name == nad), _Interface())


class HopFinding(Struct, frozen=True):
    """The state of a hop. The `reason` of one that stops the frame ends with the remedy."""

    state: State
    reason: str


def ok(reason: str) -> HopFinding:
    """Return a finding that the frame passes."""
    return HopFinding("ok", reason)


def stops(reason: str) -> HopFinding:
    """Return a finding that the frame stops here."""
    return HopFinding("stops", reason)


def unknown(reason: str) -> HopFinding:
    """Return whether the frame passes can't be seen."""
    return HopFinding("unknown", reason)


def combined(reported: HopFinding, live: HopFinding | None) -> HopFinding:
    """Combine a report with a kernel's finding: what stops the frame, else the kernel's finding if it has one."""
    if live is None or live.state == "unknown":
        return reported
    return live if live.state == "stops" or reported.state != "stops" else reported

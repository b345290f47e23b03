"""The VLANs of one node in the console: NICs, bonds, bridges, networks, and the pods and machines on them."""

import asyncio
from collections.abc import Iterable, Mapping

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNodeStatus
from lanloom.api.core import PODS, Pod
from lanloom.api.harvester import VLAN_CONFIGS, VlanConfig
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, instance_of
from lanloom.api.meta import Condition
from lanloom.api.multus import NADS, NETWORK_STATUS, NetworkAttachmentDefinition, attachments
from lanloom.api.nadconfig import cluster_network_of
from lanloom.cli.query import Field, Query
from lanloom.console.page import NOT_READY, READY, Box, NodePart, NodeView, NotReady, Table
from lanloom.features.vlan.rules.report.status import L3_READY
from lanloom.features.vlan.rules.report.status import READY as UPLINK_READY
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader

KINDS = (CLUSTER_NETWORK_NODES, VLAN_CONFIGS, NADS, PODS)

REPORT_FIELDS: Query[ClusterNetworkNodeStatus] = Query(
    (
        Field("network", "Cluster network", "text", "Name", lambda item: item.cluster_network),
        Field("bridge", "Bridge", "text", "Bridge", lambda item: item.bridge or None),
        Field("uplink", "Uplink", "text", "Bond", lambda item: item.uplink or None),
        Field("mtu", "MTU", "number", "MTU in bytes", lambda item: item.mtu or None),
        Field("vlans", "VLAN ids", "text", "VLAN ids", lambda item: item.vlan_ids or None),
        Field("addresses", "Addresses", "text", "Addresses", lambda item: item.addresses or None),
        Field(
            "others",
            "Of other programs",
            "list",
            "Addresses of other programs",
            lambda item: [text for link in item.interfaces for text in link.other_addresses],
        ),
    ),
    ("network", "bridge", "uplink", "mtu", "vlans", "addresses", "others"),
)
"""The fields of a node's reports."""


async def on_node(client: Reader, node: str) -> NodePart:
    """Return the VLAN networks of a node. Raises KubeError."""
    reports, configs, nads, pods = await asyncio.gather(
        client.list(CLUSTER_NETWORK_NODES),
        client.list(VLAN_CONFIGS),
        client.list(NADS),
        client.list(PODS, fields=f"spec.nodeName={node}"),
    )
    mine = sorted(
        (item.status for item in reports.items if item.status.node == node),
        key=lambda status: status.cluster_network,
    )
    return node_part(mine, configs.items, nads.items, pods.items)


def node_part(
    reports: Iterable[ClusterNetworkNodeStatus],
    configs: Iterable[VlanConfig],
    nads: Iterable[NetworkAttachmentDefinition],
    pods: Iterable[Pod],
) -> NodePart:
    """Return the boxes and lines of a node's reports. `pods` are those that run on the node."""
    reports = tuple(reports)
    nics = {item.metadata.name: item.spec.uplink.nics for item in configs}
    networks = {str(item.metadata.key): cluster_network_of(item) for item in nads}
    boxes: dict[str, list[Box]] = {title: [] for title in ("NICs", "Bonds and links", "Bridges", "Networks")}
    lines: list[tuple[str, str]] = []
    for status in reports:
        bridge = _bridge(status)
        boxes["Bridges"].append(bridge)
        if status.uplink:
            bond = Box(key=f"link {status.uplink}", label=status.uplink, note="uplink", state=bridge.state)
            boxes["Bonds and links"].append(bond)
            lines.append((bond.key, bridge.key))
            for nic in nics.get(status.vlan_config, ()):
                boxes["NICs"].append(Box(key=f"link {nic}", label=nic))
                lines.append((f"link {nic}", bond.key))
        for box in _interfaces(status):
            boxes["Networks"].append(box)
            lines.append((bridge.key, box.key))
    known = {box.key for box in boxes["Networks"]}
    bridges = {status.cluster_network: _bridge(status).key for status in reports}
    users, uses = users_of(pods, networks)
    for nad in dict.fromkeys(nad for nad, _ in uses):
        if (key := f"network {nad}") not in known and networks[nad] in bridges:
            boxes["Networks"].append(
                Box(key=key, label=nad, note="no address of the node", href=f"/networks/{nad}")
            )
            lines.append((bridges[networks[nad]], key))
    lines += [(f"network {nad}", user) for nad, user in uses]
    return NodePart(boxes={**boxes, "Pods and machines": users}, lines=lines, tables=(_table(reports),))


def users_of(pods: Iterable[Pod], networks: Mapping[str, str]) -> tuple[list[Box], list[tuple[str, str]]]:
    """Return a box for each pod or machine on some of these NADs, and the NADs that each is on."""
    users: list[Box] = []
    uses: list[tuple[str, str]] = []
    for pod in pods:
        found = [name for name in _nads(pod) if name in networks]
        if not found or pod.has_ended:
            continue
        user = user_box(pod)
        users.append(user)
        uses += [(name, user.key) for name in found]
    return users, uses


def user_box(pod: Pod) -> Box:
    """Return the box of a pod, or of the machine that it runs."""
    key, (machine, _) = pod.metadata.key, instance_of(pod)
    if not machine:
        return Box(key=f"pod {key}", label=str(key), note="pod")
    title = f"{key.namespace}/{machine}"
    kind = VIRTUAL_MACHINE_INSTANCES.kind
    return Box(
        key=f"pod {key}", label=title, note="machine", words=f"{kind} {title}", href=f"/machines/{title}"
    )


def _nads(pod: Pod) -> list[str]:
    try:
        found = attachments(pod.metadata.annotations.get(NETWORK_STATUS, ""))
    except ValueError:
        return []
    return [f"{item.namespace or pod.metadata.namespace}/{item.name}" for item in found]


def _bridge(status: ClusterNetworkNodeStatus) -> Box:
    bad = _failing(status, UPLINK_READY)
    name = status.bridge or status.cluster_network
    return Box(
        key=f"link {name}",
        label=name,
        note=f"VLANs {status.vlan_ids}" if status.vlan_ids else status.cluster_network,
        words=f"{status.cluster_network}: {bad.reason}: {bad.message}"
        if bad
        else f"{status.cluster_network}: MTU {status.mtu}, VLAN ids {status.vlan_ids}",
        state=NOT_READY if bad else READY,
        href=f"/cluster-networks/{status.cluster_network}",
    )


def _interfaces(status: ClusterNetworkNodeStatus) -> list[Box]:
    return [
        Box(
            key=f"network {item.network}",
            label=f"{item.address or item.name}",
            note=f"VLAN {item.vlan_id}, {item.network.partition('/')[2]}",
            words=f"{item.network} on {item.name}: {item.message or item.address}",
            state=READY if item.state == "Ready" else NOT_READY,
            href=f"/networks/{item.network}",
        )
        for item in status.interfaces
        if item.network
    ]


def _failing(status: ClusterNetworkNodeStatus, type: str) -> Condition | None:
    found = find(status.conditions, type)
    return found if found is not None and found.status != "True" else None


def _table(reports: tuple[ClusterNetworkNodeStatus, ...]) -> Table:
    return Table(
        title="Cluster networks",
        query=REPORT_FIELDS,
        rows=reports,
        name=lambda item: item.cluster_network,
        href=lambda item: f"/cluster-networks/{item.cluster_network}",
        not_ready=_not_ready,
    )


def _not_ready(status: ClusterNetworkNodeStatus) -> NotReady | None:
    bad = _failing(status, UPLINK_READY) or _failing(status, L3_READY)
    return NotReady(bad.reason, bad.message) if bad else None


NODE = NodeView(KINDS, on_node)

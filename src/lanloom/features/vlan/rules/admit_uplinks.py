"""What the webhooks allow of ClusterNetworks, HostNetworkConfigs and the agents' reports.

Every refusal names the object, the field and what is allowed there.
"""

from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.harvester import (
    VLAN_STATUSES,
    ClusterNetwork,
    HostNetworkConfig,
    VlanStatus,
    parse_uplink_mtu,
)
from lanloom.api.l3 import VID_MAX, AnnotationError
from lanloom.api.resource import Resource
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.admit_l3 import has_addresses_on
from lanloom.features.vlan.rules.admit_namespaces import LISTS, outsiders
from lanloom.features.vlan.rules.names import (
    interface_name,
    is_report_of,
    is_vlan_status_of,
    node_label,
    report_name,
    vlan_status_name,
)
from lanloom.features.vlan.rules.rollout import parse_rollout
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote


def check_cluster_network(
    new: ClusterNetwork, old: ClusterNetwork | None, reader: ClusterReader
) -> tuple[str, ...]:
    """Return whether a ClusterNetwork may be created or changed so; returns warnings.

    Only annotations that changed are judged: others, such as the manager's, must get through beside a broken one.
    """
    if old is None:
        _check_name(new.metadata.name, reader)
    before = old.metadata.annotations if old is not None else {}
    changed = {key: text for key, text in new.metadata.annotations.items() if before.get(key) != text}
    warnings: tuple[str, ...] = ()
    try:
        if names.UPLINK_MTU in changed:
            parse_uplink_mtu(names.UPLINK_MTU, changed[names.UPLINK_MTU])
        if names.ROLLOUT in changed:
            warnings += _unknown_canaries(changed[names.ROLLOUT], reader)
        if any(field in changed for field in LISTS):
            warnings += outsiders(new, reader)
    except AnnotationError as error:
        verb = "create" if old is None else "update"
        raise Malformed(f"can't {verb} ClusterNetwork {new.metadata.name} because {error}") from None
    return warnings


def _unknown_canaries(policy: str, reader: ClusterReader) -> tuple[str, ...]:
    unknown = sorted(set(parse_rollout(policy).canary) - set(reader.nodes()))
    return (f"{names.ROLLOUT} names canaries that are not nodes: {', '.join(unknown)}",) if unknown else ()


def _check_name(name: str, reader: ClusterReader) -> None:
    """The names of links are made from it."""
    title = f"can't create ClusterNetwork {quote(name)}"
    if len(name) > names.CLUSTER_NETWORK_NAME_MAX or "." in name:
        raise Denied(
            f"{title} because metadata.name must have at most {names.CLUSTER_NETWORK_NAME_MAX} characters and no dot: "
            f"the bridge {quote(names.bridge_name(name))} is named after it"
        )
    for other in reader.cluster_networks():
        taken = other.metadata.name
        same = taken != name and interface_name(taken, VID_MAX) == interface_name(name, VID_MAX)
        if same and reader.cluster_network(taken) is not None:
            raise Denied(
                f"{title} because its VLAN interfaces would have the same names as those of ClusterNetwork {taken} "
                f"({interface_name(name, VID_MAX)}); choose another metadata.name"
            )


def check_cluster_network_deletion(old: ClusterNetwork, reader: ClusterReader) -> None:
    """Whether a ClusterNetwork may be deleted: nothing may use it."""
    name = old.metadata.name
    title = f"can't delete ClusterNetwork {name}"
    if name == names.MGMT:
        raise Denied(f"{title} because it is the management network")
    configs = sorted({item.metadata.name for item in reader.configs_of(name)})
    if configs:
        raise Denied(f"{title} because the VlanConfigs {', '.join(configs)} belong to it; delete them first")
    nads = sorted({str(item.metadata.key) for item in reader.nads_of(name)})
    if nads:
        raise Denied(f"{title} because the networks {', '.join(nads)} use it; delete them first")


def check_host_network(new: HostNetworkConfig, old: HostNetworkConfig | None, reader: ClusterReader) -> None:
    """Whether Harvester may give addresses to nodes on that VLAN: not where a NAD of Lanloom's does."""
    if old is not None and new.spec == old.spec:
        return
    cluster_network, vid = new.spec.cluster_network, new.spec.vlanID
    for nad in reader.nads_on(cluster_network, vid):
        if has_addresses_on(nad, vid):
            verb = "create" if old is None else "update"
            raise Denied(
                f"can't {verb} HostNetworkConfig {new.metadata.name} because spec.vlanID is {vid} and "
                f"NetworkAttachmentDefinition {nad.metadata.key} already has node addresses on that VLAN of "
                f"{cluster_network}; choose another VLAN id, or remove the annotation {names.L3_CONNECTIVITY} there"
            )


Report = ClusterNetworkNode | VlanStatus

_NAMING = {
    CLUSTER_NETWORK_NODES.full_name: (report_name, is_report_of),
    VLAN_STATUSES.full_name: (vlan_status_name, is_vlan_status_of),
}


def check_report(report: Report, kind: Resource[Any], node: str) -> None:
    """Whether the agent of `node` may write a report: only one of its own node, under its own name.

    An agent whose node is not known is of the node "", which has none.
    """
    labels = report.metadata.labels
    name_of, _ = _NAMING[kind.full_name]
    name = name_of(labels.get(names.CLUSTER_NETWORK_LABEL, ""), node)
    own = labels.get(names.NODE_LABEL) == node_label(node) and report.metadata.name == name
    if not own or report.status.node not in ("", node):
        raise _foreign("write", report, kind, node)


def check_report_deletion(report: Report, kind: Resource[Any], node: str) -> None:
    """Whether the agent of `node` may delete a report: its own by its name, or by all that is in it.

    More than it may write, because it has to make reports anew that somebody spoilt, and to clear up after others.
    """
    _, is_named_after = _NAMING[kind.full_name]
    own = is_named_after(report.metadata.name, node)
    labelled = report.metadata.labels.get(names.NODE_LABEL) == node_label(node)
    if not (own or (labelled and report.status.node in ("", node))):
        raise _foreign("delete", report, kind, node)


def _foreign(verb: str, report: Report, kind: Resource[Any], node: str) -> Denied:
    title = f"can't {verb} {kind.kind} {report.metadata.name} because"
    if not node:
        return Denied(
            f"{title} an agent may only {verb} its own node's, and the token of this one names neither a node nor a "
            f"known pod in namespace {names.LANLOOM_NAMESPACE}; if the agent has just started, try again in a moment"
        )
    return Denied(f"{title} the agent of node {quote(node)} may only {verb} its own node's")

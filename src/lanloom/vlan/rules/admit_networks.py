"""What the webhooks allow of NetworkAttachmentDefinitions.

Every refusal names the object, the field and what is allowed there.
"""

from ipaddress import IPv4Interface, IPv4Network, ip_address

from lanloom.api import names
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    parse_connectivity,
    parse_mode,
    parse_node_ip_map,
    quote,
)
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.vlan.rules.cluster import l3_of, matching, usable_nodes
from lanloom.vlan.rules.refusal import Refused, World


def derived_labels(nad: NetworkAttachmentDefinition) -> dict[str, str]:
    """The labels that a NAD's configuration implies; none where the configuration can't be read."""
    try:
        network = parse_config(nad.spec.config)
    except AnnotationError:
        return {}
    if network is None:
        return {}
    labels: dict[str, str] = {names.TYPE_LABEL: network.type}
    if network.cluster_network:
        labels[names.CLUSTER_NETWORK_LABEL] = network.cluster_network
    if network.vid:
        labels[names.VLAN_ID_LABEL] = str(network.vid)
    return labels


def label_changes(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None
) -> dict[str, str | None]:
    """The labels to set (None: to remove) so that they say what the configuration says.

    A label that was derived from the old configuration follows the new one. What a user wrote otherwise is left for
    `check_nad` to judge.
    """
    implied = derived_labels(new)
    before = derived_labels(old) if old is not None else {}
    labels = new.metadata.labels
    changes: dict[str, str | None] = {}
    for key in sorted(implied.keys() | before.keys()):
        present, wanted = labels.get(key), implied.get(key)
        if present != wanted and (present is None or present == before.get(key)):
            changes[key] = wanted
    return changes


def check_nad(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, world: World
) -> tuple[str, ...]:
    """Whether a NAD may be created or changed so; returns warnings.

    Only what changed is checked against the cluster's present state, so that an unrelated edit never fails because a
    node joined or left.
    """
    verb = "create" if old is None else "update"
    title = f"can't {verb} NetworkAttachmentDefinition {new.metadata.key}"
    try:
        return _check_nad(new, old, world)
    except (AnnotationError, Refused) as reason:
        raise Refused(f"{title} because {reason}") from None


def _check_nad(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, world: World
) -> tuple[str, ...]:
    network = parse_config(new.spec.config)
    _check_annotations(new)
    value = l3_of(new)
    _check_labels(new, network)
    if old is not None:
        _check_immutable(new, old)
    if network is None or not network.cluster_network:
        return ()
    changed = value is not None and value != _previous(old)
    if old is None or changed:
        _check_cluster_network(network.cluster_network, world, needs_node=changed)
    return _check_l3(new, old, value, network.cluster_network, world) if value else ()


def _check_annotations(nad: NetworkAttachmentDefinition) -> None:
    """Values that are not in use now must be right too: they would come into force with another annotation."""
    annotations = nad.metadata.annotations
    parse_connectivity(annotations.get(names.L3_CONNECTIVITY))
    if names.MODE in annotations:
        parse_mode(names.MODE, annotations[names.MODE])
    if annotations.get(names.NODE_IP_MAP, "").strip() not in ("", "{}"):
        parse_node_ip_map(names.NODE_IP_MAP, annotations[names.NODE_IP_MAP])


def _check_labels(nad: NetworkAttachmentDefinition, network: VmNetwork | None) -> None:
    implied = derived_labels(nad) if network else {}
    for key, value in implied.items():
        label = nad.metadata.labels.get(key, value)
        if label != value:
            raise Refused(
                f"its label {key} is {quote(label)} but spec.config says {quote(value)}; make them equal"
            )
    named = nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL)
    overlay = network is not None and network.type == "OverlayNetwork"  # has the label of what it runs over
    if named is not None and names.CLUSTER_NETWORK_LABEL not in implied and not overlay:
        raise Refused(
            f"its label {names.CLUSTER_NETWORK_LABEL} is {quote(named)} but spec.config names no bridge of it; "
            f'remove the label, or set "bridge" to {quote(names.bridge_name(named))}'
        )


def _check_immutable(new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition) -> None:
    before, after = cluster_network_of(old), cluster_network_of(new)
    if before and after != before:
        raise Refused(
            f"the cluster network of a network can't change (it is {quote(before)}, not {quote(after)}); "
            "delete the network and create it anew"
        )


def _check_cluster_network(name: str, world: World, *, needs_node: bool) -> None:
    network = world.cluster_network(name)
    if network is None or network.metadata.deletion_timestamp is not None:
        raise Refused(f"its cluster network {quote(name)} does not exist; create the ClusterNetwork first")
    if needs_node and name == names.MGMT:
        raise Refused(
            f"node addresses on the management network {names.MGMT} are not supported yet; use another cluster network"
        )
    if needs_node and not usable_nodes(world.statuses_of(name)):
        raise Refused(
            f"its cluster network {quote(name)} is not ready: no node has a working uplink for it; "
            "create a VlanConfig for it, or see its conditions"
        )


def _check_l3(
    new: NetworkAttachmentDefinition,
    old: NetworkAttachmentDefinition | None,
    value: L3,
    cluster_network: str,
    world: World,
) -> tuple[str, ...]:
    before = _previous(old)
    if before is None or before.vid != value.vid:
        _check_vid_free(new, value.vid, cluster_network, world)
    if value.mode != "static":
        return ()
    if before is None or before.addresses != value.addresses:
        _check_map_nodes(value, cluster_network, world)
        _check_overlap(value, world)
        return ()
    gone = sorted(set(value.addresses) - set(world.nodes()))
    return (f"{names.NODE_IP_MAP} names nodes that have left: {', '.join(gone)}",) if gone else ()


def _previous(old: NetworkAttachmentDefinition | None) -> L3 | None:
    try:
        return l3_of(old) if old is not None else None
    except AnnotationError:
        return None


def _check_vid_free(new: NetworkAttachmentDefinition, vid: int, cluster_network: str, world: World) -> None:
    for other in world.nads_of(cluster_network):
        if other.metadata.key == new.metadata.key:
            continue
        taken = _previous(other)
        if taken is not None and taken.vid == vid:
            raise Refused(
                f"spec.config.vlan is {vid} and {other.metadata.key} already has node addresses on that VLAN of "
                f"{cluster_network}; only one network may"
            )


def _check_map_nodes(value: L3, cluster_network: str, world: World) -> None:
    nodes = world.nodes()
    expected = {
        name
        for config in world.configs_of(cluster_network)
        for name in matching(config.spec.node_selector, nodes.values())
    }
    unknown = sorted(set(value.addresses) - expected)
    if unknown:
        raise Refused(
            f"{names.NODE_IP_MAP} names {', '.join(unknown)}, which the cluster network {cluster_network} does not "
            f"cover; allowed are {', '.join(sorted(expected)) or 'no nodes'}"
        )
    missing = sorted(expected - set(value.addresses))
    if missing:
        raise Refused(
            f"{names.NODE_IP_MAP} has no address for {', '.join(missing)}; every node of {cluster_network} needs one"
        )


def _check_overlap(value: L3, world: World) -> None:
    subnet = IPv4Interface(next(iter(value.addresses.values()))).network
    for name, node in sorted(world.nodes().items()):
        for address in node.status.addresses:
            if address.type == "InternalIP" and _is_in(address.address, subnet):
                raise Refused(
                    f"{names.NODE_IP_MAP} uses the subnet {subnet}, which holds the management address "
                    f"{address.address} of node {name}; choose another subnet"
                )


def _is_in(text: str, subnet: IPv4Network) -> bool:
    try:
        return ip_address(text) in subnet
    except ValueError:  # not for this webhook to judge what a kubelet reports
        return False

"""What the webhooks allow of NetworkAttachmentDefinitions.

Every refusal names the object, the field and what is allowed there.
"""

from ipaddress import IPv4Address, IPv4Interface

from lanloom.api import names
from lanloom.api.l3 import L3, AnnotationError, parse_connectivity, parse_mode, quote
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.vlan.rules.cluster import is_witness, l3_of, matching, usable_nodes
from lanloom.vlan.rules.desired import matched_nodes
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
        network = parse_config(new.spec.config)
        wants_l3 = parse_connectivity(new.metadata.annotations.get(names.L3_CONNECTIVITY))
        if names.MODE in new.metadata.annotations:
            parse_mode(names.MODE, new.metadata.annotations[names.MODE])
        value = l3_of(new)
        _check_labels(new, network)
        if old is not None:
            _check_immutable(new, old)
        if network is None or not (network.cluster_network or wants_l3):
            return ()
        if old is None or wants_l3:
            _check_cluster_network(network.cluster_network, world, needs_node=wants_l3)
        return _check_l3(new, old, value, network.cluster_network, world) if value else ()
    except AnnotationError as error:
        raise Refused(f"{title} because {error}") from None
    except Refused as refusal:
        raise Refused(f"{title} because {refusal}") from None


def _check_labels(nad: NetworkAttachmentDefinition, network: VmNetwork | None) -> None:
    implied = derived_labels(nad) if network else {}
    for key, value in implied.items():
        label = nad.metadata.labels.get(key, value)
        if label != value:
            raise Refused(
                f"its label {key} is {quote(label)} but spec.config says {quote(value)}; make them equal"
            )
    named = nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL)
    if named is not None and names.CLUSTER_NETWORK_LABEL not in implied:
        raise Refused(
            f"its label {names.CLUSTER_NETWORK_LABEL} is {quote(named)} but spec.config names no bridge of it"
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
        for name in (matched_nodes(config) or matching(config.spec.node_selector, nodes.values()))
        if name in nodes and not is_witness(nodes[name])
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
            if (
                address.type == "InternalIP"
                and ":" not in address.address
                and IPv4Address(address.address) in subnet
            ):
                raise Refused(
                    f"{names.NODE_IP_MAP} uses the subnet {subnet}, which holds the management address "
                    f"{address.address} of node {name}; choose another subnet"
                )

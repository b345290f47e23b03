"""What the webhooks allow of NetworkAttachmentDefinitions.

Every refusal names the object, the field and what is allowed there.
"""

from collections.abc import Callable

from lanloom.api import names
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    parse_connectivity,
    parse_ip_pool,
    parse_mode,
    parse_node_ip_map,
    quote,
)
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, cluster_network_of, parse_config
from lanloom.api.routing import parse_address, parse_dns, parse_gateway, parse_routes
from lanloom.vlan.rules.admit_config import check_config
from lanloom.vlan.rules.admit_l3 import check_l3, nodes_that_left
from lanloom.vlan.rules.admit_storage import check_storage_vlan
from lanloom.vlan.rules.admit_vms import check_config_in_use, check_overlay
from lanloom.vlan.rules.cluster import l3_of
from lanloom.vlan.rules.refusal import Malformed, Refused, World

_DERIVED_LABELS = (names.TYPE_LABEL, names.CLUSTER_NETWORK_LABEL, names.VLAN_ID_LABEL)


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
    node joined or left. One of what is not judged here, such as others' annotations or the manager's label, passes
    also where the network was there before the webhooks and would be refused today.
    """
    if old is not None and _judged(new) == _judged(old):
        present = _previous(old)
        return nodes_that_left(present, world) if present else ()
    verb = "create" if old is None else "update"
    title = f"can't {verb} NetworkAttachmentDefinition {new.metadata.key}"
    try:
        return _check_nad(new, old, world)
    except AnnotationError as error:
        raise Malformed(f"{title} because {error}") from None
    except Refused as refusal:
        raise Refused(f"{title} because {refusal}") from None


def _judged(nad: NetworkAttachmentDefinition) -> tuple[object, ...]:
    """What of a NAD may be refused. Labels count only where they say something else than the configuration."""
    annotations, implied = nad.metadata.annotations, derived_labels(nad)
    keys = (names.L3_CONNECTIVITY, names.MODE, *_PARSERS)
    labels = {key: nad.metadata.labels.get(key) for key in _DERIVED_LABELS}
    odd = {key: value for key, value in labels.items() if value not in (None, implied.get(key))}
    return nad.spec, {key: annotations.get(key) for key in keys}, odd


def _check_nad(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, world: World
) -> tuple[str, ...]:
    network = parse_config(new.spec.config)
    reconfigured = old is None or old.spec.config != new.spec.config
    if reconfigured:
        check_config(new.metadata.key, new.spec.config)
    _check_annotations(new)
    value, before = l3_of(new), _previous(old)
    _check_labels(new, network)
    if old is not None:
        _check_immutable(new, old)
        check_config_in_use(new, old, world)
        check_overlay(before, value, cluster_network_of(old), world)
    if network is None or not network.cluster_network:
        return ()
    if old is None or (value is not None and value != before):
        _check_cluster_network(network.cluster_network, world)
    if reconfigured:
        check_storage_vlan(new, network, world)
    return check_l3(new, value, before, network.cluster_network, world) if value else _idle(new)


def _idle(nad: NetworkAttachmentDefinition) -> tuple[str, ...]:
    """A warning of annotations that do nothing because another is missing, perhaps misspelt."""
    annotations = nad.metadata.annotations
    idle = [key for key in (names.MODE, *_PARSERS) if key in annotations]
    if names.L3_CONNECTIVITY in annotations or not idle:
        return ()
    verb = "has" if len(idle) == 1 else "have"
    return (f'{", ".join(idle)} {verb} no effect without {names.L3_CONNECTIVITY}: "true"',)


def _check_annotations(nad: NetworkAttachmentDefinition) -> None:
    """Values that are not in use now must be right too: they would come into force with another annotation."""
    annotations = nad.metadata.annotations
    on = parse_connectivity(annotations.get(names.L3_CONNECTIVITY))
    if names.MODE in annotations:
        parse_mode(names.MODE, annotations[names.MODE])
    unused = tuple(
        field
        for field, mode in ((names.NODE_IP_MAP, "static"), (names.IP_POOL, "pool"))
        if not on or annotations.get(names.MODE) != mode
    )
    if not on:
        unused = (*unused, names.GATEWAY, names.ROUTES, names.DNS)
    for field in unused:
        if annotations.get(field, "").strip() not in ("", "{}"):
            _PARSERS[field](field, annotations[field])


def _parse_any_gateway(field: str, text: str) -> object:
    """A gateway whose mode is not known yet may have a prefix length or not."""
    return parse_gateway(field, text, "dhcp", {}) if "/" in text else parse_address(field, text)


_PARSERS: dict[str, Callable[[str, str], object]] = {
    names.NODE_IP_MAP: parse_node_ip_map,
    names.IP_POOL: parse_ip_pool,
    names.GATEWAY: _parse_any_gateway,
    names.ROUTES: lambda field, text: parse_routes(field, text, {}),
    names.DNS: parse_dns,
}


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


def _check_cluster_network(name: str, world: World) -> None:
    network = world.cluster_network(name)
    if network is None or network.metadata.is_leaving:
        raise Refused(f"its cluster network {quote(name)} does not exist; create the ClusterNetwork first")


def _previous(old: NetworkAttachmentDefinition | None) -> L3 | None:
    try:
        return l3_of(old) if old is not None else None
    except AnnotationError:
        return None

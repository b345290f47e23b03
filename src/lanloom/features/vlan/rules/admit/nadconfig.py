"""What the webhooks allow of a NAD's `spec.config`, beyond what can be read, and the labels that it implies.

A configuration from before these rules is still read. A new one must mean the same to each of its readers: CNI plugins,
Harvester, Kube-OVN and Lanloom.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lanloom.api import names
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Key, is_label_value
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import (
    BRIDGE_PLUGIN,
    CONFIG_KEYS,
    OVERLAY_PLUGIN,
    TRUNK_KEYS,
    VmNetwork,
    field_named,
    parse_config,
    read_config,
    typed_config,
)
from lanloom.features.vlan.rules.desired.names import is_link
from lanloom.refusals import Denied
from lanloom.text import quote

_CONFIG = "spec.config"
_TRUNK = f"{_CONFIG}.vlanTrunk"


def check_config(nad: Key, text: str) -> None:
    """Check a new `spec.config` of a NAD. Other plugins' configurations are not Lanloom's. Raises AnnotationError."""
    typed = typed_config(text)
    plugins = [value for key, value in typed.items() if field_named(key, ("type",))]
    if OVERLAY_PLUGIN in plugins or BRIDGE_PLUGIN in plugins:
        _check_spelling(typed)
    config = read_config(text)
    if config.get("type") == OVERLAY_PLUGIN:
        _check_provider(nad, config.get("provider"))
    if config.get("type") == BRIDGE_PLUGIN:
        _check_bridge(config.get("bridge", ""))
        _check_one_mode(config)
        _check_mtu(config.get("mtu", 0))


def _check_spelling(typed: Mapping[str, Any]) -> None:
    _check_keys(_CONFIG, typed, CONFIG_KEYS)
    trunk = typed.get("vlanTrunk")
    for index, item in enumerate(trunk if isinstance(trunk, list) else ()):
        if isinstance(item, dict):
            _check_keys(f"{_TRUNK}[{index}]", item, TRUNK_KEYS)


def _check_keys(place: str, keys: Iterable[str], fields: tuple[str, ...]) -> None:
    for key in keys:
        field = field_named(key, fields)
        if field not in ("", key):
            raise AnnotationError(
                place,
                f'has the key {quote(key)}, which CNI plugins read as "{field}" and other readers ignore; write '
                f'"{field}"',
            )


def _check_bridge(bridge: object) -> None:
    """Check the name of a bridge, which need not be Lanloom's; an empty one leaves it to the plugin."""
    if bridge == "":
        return
    if not isinstance(bridge, str) or not is_link(bridge):
        raise AnnotationError(
            f"{_CONFIG}.bridge",
            f"is {quote(bridge)}, which is not a valid bridge name; for a cluster network it must be the name of the "
            f"ClusterNetwork followed by {names.BRIDGE_SUFFIX}, such as {quote(names.MGMT_BRIDGE)}",
        )
    if bridge == names.BRIDGE_SUFFIX:
        raise AnnotationError(
            f"{_CONFIG}.bridge",
            f"is {quote(bridge)}, which names no cluster network; write the name of the ClusterNetwork before it, such "
            f"as {quote(names.MGMT_BRIDGE)}",
        )


def _check_mtu(mtu: object) -> None:
    if type(mtu) is not int or mtu < 0:
        raise AnnotationError(
            f"{_CONFIG}.mtu", f"is {quote(mtu)}; it must be a whole number of bytes, such as 1500, or 0"
        )


def _check_one_mode(config: Mapping[str, Any]) -> None:
    vlan = config.get("vlan", 0)
    if config.get("vlanTrunk") and (type(vlan) is not int or vlan != 0):
        raise AnnotationError(
            f"{_CONFIG}.vlan",
            f"is {quote(vlan)} but must be 0 when vlanTrunk is set; remove one of the two",
        )


def _check_provider(nad: Key, provider: object) -> None:
    """Kube-OVN finds the NAD by the parts of the provider, which it splits at each dot."""
    if "." in nad.name:
        raise AnnotationError(
            "metadata.name",
            f"is {quote(nad.name)}; a NAD of type {OVERLAY_PLUGIN} must have a name without dots, because its provider "
            "is split at dots; choose another name",
        )
    wanted = f"{nad.name}.{nad.namespace}.ovn"
    if provider != wanted:
        found = "is missing" if provider in (None, "") else f"is {quote(provider)}"
        raise AnnotationError(f"{_CONFIG}.provider", f"{found}; for this NAD it must be {quote(wanted)}")


LABELS = (names.TYPE_LABEL, names.CLUSTER_NETWORK_LABEL, names.VLAN_ID_LABEL)
"""The labels that a configuration implies."""


def derived_labels(nad: NetworkAttachmentDefinition) -> dict[str, str]:
    """Return the labels that a NAD's configuration implies; none where the configuration can't be read."""
    try:
        network = parse_config(nad.spec.config)
    except AnnotationError:
        return {}
    if network is None:
        return {}
    labels: dict[str, str] = {names.TYPE_LABEL: network.type}
    if is_label_value(network.cluster_network):
        labels[names.CLUSTER_NETWORK_LABEL] = network.cluster_network
    if network.vid:
        labels[names.VLAN_ID_LABEL] = str(network.vid)
    return labels


def label_changes(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None
) -> dict[str, str | None]:
    """Return the labels to set (None: to remove) so that they say what the configuration says.

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


def check_labels(
    nad: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, network: VmNetwork | None
) -> None:
    """Check that no label contradicts the configuration. One that did before, in the same words, is left alone."""
    implied = derived_labels(nad) if network else {}
    for key in LABELS:
        label, value = nad.metadata.labels.get(key), implied.get(key)
        if label is None or label == value or (old is not None and _was_so(old, key, label, value)):
            continue
        if value is not None:
            raise Denied(
                f"its label {key} is {quote(label)} but spec.config has {quote(value)}; make them equal"
            )
        if key == names.VLAN_ID_LABEL and network is not None:
            raise Denied(
                f"its label {key} is {quote(label)} but spec.config has no single VLAN id, because its type is "
                f"{network.type}; remove the label"
            )
        overlay = (
            network is not None and network.type == "OverlayNetwork"
        )  # has the label of what it runs over
        if key == names.CLUSTER_NETWORK_LABEL and not overlay:
            raise Denied(
                f"its label {key} is {quote(label)} but spec.config names no bridge of it; remove the label, or set "
                f'"bridge" to {quote(names.bridge_name(label))}'
            )


def _was_so(old: NetworkAttachmentDefinition, key: str, label: str, value: str | None) -> bool:
    return old.metadata.labels.get(key) == label and derived_labels(old).get(key) == value

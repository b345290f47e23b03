"""The CNI configuration inside a NAD, as far as it says which VLANs of which cluster network a VM network uses."""

import json
from typing import Any, Literal

from msgspec import Struct

from lanloom.api import names
from lanloom.api.l3 import VID_MAX, AnnotationError, quote
from lanloom.api.multus import NetworkAttachmentDefinition

NetworkType = Literal["L2VlanNetwork", "L2VlanTrunkNetwork", "UntaggedNetwork", "OverlayNetwork"]

_CONFIG = "spec.config"


class VmNetwork(Struct, frozen=True, kw_only=True):
    """What a NAD's configuration says. `cluster_network` is empty and `trunk` too where the type has none.

    `vid` is 0 for an untagged network. `trunk` holds inclusive ranges of VLAN ids.
    """

    type: NetworkType
    cluster_network: str = ""
    vid: int = 0
    trunk: tuple[tuple[int, int], ...] = ()


def parse_config(text: str) -> VmNetwork | None:
    """The VM network of a CNI configuration, or None for a plugin that uses no cluster network.

    Raises AnnotationError for broken JSON, and for a bridge configuration that no node could carry.
    """
    config = _json_object(text)
    plugin = config.get("type")
    if plugin == "kube-ovn":
        return VmNetwork(type="OverlayNetwork")
    bridge = config.get("bridge")
    if plugin != "bridge" or not isinstance(bridge, str) or not bridge.endswith(names.BRIDGE_SUFFIX):
        return None
    cluster_network = bridge.removesuffix(names.BRIDGE_SUFFIX)
    if config.get("vlanTrunk"):
        return VmNetwork(
            type="L2VlanTrunkNetwork", cluster_network=cluster_network, trunk=_trunk(config["vlanTrunk"])
        )
    vid = config.get("vlan", 0)
    if type(vid) is not int or not 0 <= vid <= VID_MAX:
        raise AnnotationError(f"{_CONFIG}.vlan", f"is {quote(vid)}; it must be a number from 0 to {VID_MAX}")
    return VmNetwork(
        type="L2VlanNetwork" if vid else "UntaggedNetwork", cluster_network=cluster_network, vid=vid
    )


def cluster_network_of(nad: NetworkAttachmentDefinition) -> str:
    """The cluster network that a NAD belongs to: its label, else its bridge; empty for none or a broken config."""
    label = nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL)
    if label is not None:
        return label
    try:
        network = parse_config(nad.spec.config)
    except AnnotationError:
        return ""
    return network.cluster_network if network else ""


def _json_object(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise AnnotationError(_CONFIG, "is not valid JSON; it must hold a CNI configuration") from None
    if not isinstance(config, dict):
        raise AnnotationError(_CONFIG, "must be a JSON object with a CNI configuration")
    return config


def _trunk(value: object) -> tuple[tuple[int, int], ...]:
    field = f"{_CONFIG}.vlanTrunk"
    if not isinstance(value, list):
        raise AnnotationError(field, "must be a list of ranges with minID and maxID, or of single ids")
    return tuple(bounds for index, item in enumerate(value) for bounds in _bounds(f"{field}[{index}]", item))


def _bounds(field: str, item: object) -> list[tuple[int, int]]:
    """The ranges of one item, which may hold a range, a single id, or both (as the CNI plugin has it)."""
    if not isinstance(item, dict):
        raise AnnotationError(field, "must be an object with minID and maxID, or with id")
    pairs = [("minID", "maxID")] if "minID" in item or "maxID" in item else []
    pairs += [("id", "id")] if "id" in item or not pairs else []
    ranges = []
    for low, high in pairs:
        first, last = item.get(low), item.get(high)
        if type(first) is not int or type(last) is not int or not 1 <= first <= last <= VID_MAX:
            raise AnnotationError(
                field,
                f"is {quote(item)}; ids must be numbers from 1 to {VID_MAX}, minID no higher than maxID",
            )
        ranges.append((first, last))
    return ranges

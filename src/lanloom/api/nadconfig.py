"""The CNI configuration inside a NAD, as far as it says which VLANs of which cluster network a VM network uses.

It is read as CNI plugins and Harvester read it, with Go's `encoding/json`: the case of a key does not matter, null is
no value, and of several keys for one field the last one wins.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from lanloom.api import names
from lanloom.api.l3 import VID_MAX, VID_MIN, AnnotationError
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.text import quote

NetworkType = Literal["L2VlanNetwork", "L2VlanTrunkNetwork", "UntaggedNetwork", "OverlayNetwork"]

_CONFIG = "spec.config"

OVERLAY_PLUGIN, BRIDGE_PLUGIN = "kube-ovn", "bridge"
"""The CNI plugins (`type`) whose configurations are VM networks."""

BRIDGE_PLUGINS = (BRIDGE_PLUGIN, "cnv-bridge")
"""Names of CNI's `bridge` plugin: OpenShift Virtualization ships it as `cnv-bridge` besides."""

DEFAULT_BRIDGE = "cni0"
"""The bridge of a configuration of CNI's `bridge` plugin that names none."""

CONFIG_KEYS = (
    *(
        "cniVersion",
        "name",
        "type",
        "capabilities",
        "ipam",
        "dns",
        "args",
        "runtimeConfig",
        "prevResult",
        "plugins",
    ),
    *(
        "bridge",
        "isGateway",
        "isDefaultGateway",
        "forceAddress",
        "ipMasq",
        "ipMasqBackend",
        "mtu",
        "hairpinMode",
    ),
    *("promiscMode", "vlan", "vlanTrunk", "preserveDefaultVlan", "macspoofchk", "enabledad", "portIsolation"),
    *("disableContainerInterface", "provider", "server_socket"),
)
"""The fields of a configuration that its readers know: CNI itself, the `bridge` plugin, Kube-OVN and Harvester."""

_LINK_KEYS = ("bridge", "master")
"""The fields that name a link of the node."""

TRUNK_KEYS = ("minID", "maxID", "id")
"""The fields of an item of `vlanTrunk`."""

_L3_VIDS = f"a VLAN id from {VID_MIN} to {VID_MAX}"

_DIGITS_MAX = 20
"""Digits of a number that is read: more than any reader takes."""

_POINTERS = ("vlanTrunk", *TRUNK_KEYS)
"""The fields whose value null takes an earlier one away; any other keeps it."""


class VmNetwork(Struct, frozen=True, kw_only=True):
    """What a NAD's configuration says. `cluster_network` is empty and `trunk` too where the type has none.

    `vid` is 0 for an untagged network. `trunk` holds inclusive ranges of VLAN ids.
    """

    type: NetworkType
    cluster_network: str = ""
    vid: int = 0
    trunk: tuple[tuple[int, int], ...] = ()


def parse_config(text: str) -> VmNetwork | None:
    """Return the VM network of a CNI configuration, or None for a plugin that uses no cluster network.

    Raises AnnotationError for broken JSON, and for a bridge configuration that no node could carry.
    """
    config = read_config(text)
    plugin = config.get("type")
    if plugin == OVERLAY_PLUGIN:
        return VmNetwork(type="OverlayNetwork")
    bridge = config.get("bridge")
    if plugin != BRIDGE_PLUGIN or not isinstance(bridge, str) or not bridge.endswith(names.BRIDGE_SUFFIX):
        return None
    cluster_network = bridge.removesuffix(names.BRIDGE_SUFFIX)
    vid = config.get("vlan", 0)
    if config.get("vlanTrunk"):
        # A webhook refuses an id of its own in addition to these, but the plugin tags frames with it all the same.
        own = ((vid, vid),) if type(vid) is int and 1 <= vid <= VID_MAX else ()
        return VmNetwork(
            type="L2VlanTrunkNetwork",
            cluster_network=cluster_network,
            trunk=(*_trunk(config["vlanTrunk"]), *own),
        )
    if type(vid) is not int or not 0 <= vid <= VID_MAX:
        raise AnnotationError(
            f"{_CONFIG}.vlan",
            f"is {quote(vid)}; it must be a number from 0 to {VID_MAX}, and for node addresses at least {VID_MIN}",
        )
    return VmNetwork(
        type="L2VlanNetwork" if vid else "UntaggedNetwork", cluster_network=cluster_network, vid=vid
    )


def l3_vid(text: str) -> int:
    """Return the VLAN id of a configuration whose network can have node addresses.

    Raises AnnotationError for any other.
    """
    network = parse_config(text)
    if network is not None and network.type == "L2VlanNetwork" and network.vid >= VID_MIN:
        return network.vid
    config = read_config(text)
    if network is None:
        why = _no_network(config)
    elif network.vid:
        raise AnnotationError(
            f"{_CONFIG}.vlan", f"is {network.vid}; for node addresses it must be {_L3_VIDS}"
        )
    else:
        why = f"node addresses need type L2VlanNetwork and this is {network.type}"
        if network.type == "UntaggedNetwork":
            typed = "0" if "vlan" in config else "missing"
            why += f": {_CONFIG}.vlan is {typed}; it must be {_L3_VIDS}"
        else:
            why += f"; create another network, with {_L3_VIDS} in {_CONFIG}.vlan"
    raise AnnotationError(names.L3_CONNECTIVITY, f'is "true", but {why}')


def _no_network(config: Mapping[str, Any]) -> str:
    """Return why a configuration is no VM network of a cluster network."""
    wanted = 'the bridge of a cluster network, such as "bridge": "cluster-1-br", and a VLAN id'
    if "plugins" in config:
        return f"{_CONFIG} has a list of plugins; node addresses need a single configuration with {wanted}"
    return f"{_CONFIG} names no bridge of a cluster network; node addresses need {wanted}"


def cluster_network_of(nad: NetworkAttachmentDefinition) -> str:
    """Return the cluster network that a NAD belongs to: its label, else its bridge.

    Empty for none or a broken config.
    """
    label = nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL)
    if label is not None:
        return label
    try:
        network = parse_config(nad.spec.config)
    except AnnotationError:
        return ""
    return network.cluster_network if network else ""


def links_of(nad: NetworkAttachmentDefinition) -> frozenset[str]:
    """Return the links of a node to which a NAD attaches, by whichever of its plugins; none of a broken one.

    They are bridges, and the masters of `macvlan`, `ipvlan` and `vlan`, which may be bridges, too.
    """
    try:
        config = read_config(nad.spec.config)
    except AnnotationError:
        return frozenset()
    plugins = config.get("plugins")
    parts = [config, *(plugins if isinstance(plugins, list) else ())]
    found = (part.get(field) for part in parts if isinstance(part, dict) for field in _LINK_KEYS)
    return frozenset(name for name in found if isinstance(name, str))


def read_config(text: str) -> dict[str, Any]:
    """Return a configuration's fields under their own names, as Go reads them. Raises AnnotationError.

    There are none in an empty text: Multus takes the configuration of such a NAD from a file of the node.
    """
    return _json_object(text, _FIELDS)


def typed_config(text: str) -> dict[str, Any]:
    """Return a configuration with its keys as they were typed. Raises AnnotationError."""
    return _json_object(text, _AS_TYPED)


def field_named(key: str, fields: Iterable[str]) -> str:
    """Return the one of the fields that Go takes a key for; empty for none.

    Go compares with simple case folding, by which two letters beyond ASCII are an s and a k.
    """
    folded = _folded(key)
    return next((field for field in fields if _folded(field) == folded), "")


def _folded(key: str) -> str:
    return key.replace("\u017f", "s").lower()  # U+212A, the other letter, has k for its lower case


_FIELD_OF = {_folded(field): field for field in (*CONFIG_KEYS, *TRUNK_KEYS, *_LINK_KEYS)}


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of one JSON object in the order in which they were typed: the last value holds."""
    fields: dict[str, Any] = {}
    for key, value in pairs:
        field = _FIELD_OF.get(_folded(key), key)
        if value is not None:
            fields[field] = value
        elif field in _POINTERS:
            fields.pop(field, None)
    return fields


def _json_object(text: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    if not text:
        return {}
    try:
        config = decoder.decode(text)
    except AnnotationError:
        raise
    except (ValueError, RecursionError):
        raise AnnotationError(_CONFIG, "is not valid JSON; it must hold a CNI configuration") from None
    if not isinstance(config, dict):
        raise AnnotationError(_CONFIG, "must be a JSON object with a CNI configuration")
    return config


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise AnnotationError(
            _CONFIG, f"has a number of {len(digits)} digits, {digits[:8]}…; at most {_DIGITS_MAX} are allowed"
        )
    return int(digits)


def _constant(name: str) -> float:
    raise AnnotationError(
        _CONFIG, f"is not valid JSON: it contains {name}, which JSON does not allow; write a number"
    )


_FIELDS, _AS_TYPED = (
    json.JSONDecoder(object_pairs_hook=hook, parse_int=_integer, parse_constant=_constant)
    for hook in (_fields, dict)
)


def _trunk(value: object) -> tuple[tuple[int, int], ...]:
    field = f"{_CONFIG}.vlanTrunk"
    if not isinstance(value, list):
        raise AnnotationError(field, "must be a list of ranges with minID and maxID, or of single ids")
    return tuple(bounds for index, item in enumerate(value) for bounds in _bounds(f"{field}[{index}]", item))


def _bounds(field: str, item: object) -> list[tuple[int, int]]:
    """Return the ranges of one item, which may hold a range, a single id, or both (as the CNI plugin has it)."""
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

"""The NetworkAttachmentDefinition of Multus (k8s.cni.cncf.io/v1), and the annotations by which pods name them."""

import json
import re
from collections.abc import Iterable

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Column, Resource
from lanloom.text import quote


class NetworkAttachmentDefinitionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`config` is a CNI configuration: a JSON document in a string."""

    config: str = ""


class NetworkAttachmentDefinition(Object, frozen=True, kw_only=True):
    """A network that virtual machines and pods can attach to."""

    spec: NetworkAttachmentDefinitionSpec = NetworkAttachmentDefinitionSpec()


MULTUS_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation of a pod: the NADs that Multus attaches it to."""

DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
"""Annotation of a pod: the NAD that takes the place of the pod network.

Multus looks for a name without a namespace in the namespace that its own configuration names (`multusNamespace`,
kube-system unless said otherwise), and not in the pod's.
"""

NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
"""Annotation of a pod in which Multus tells its interfaces, as a JSON list."""

_JSON_MARKS = '[{"'
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME_MAX = 253

NETWORKS_MAX = 128
"""Networks that one annotation or machine may name: far more than there are NICs, and few enough to look at each."""

TEXT_MAX = 65_536
"""Characters of an annotation that are read: 500 for each network."""

TOO_MANY = f"it names more than {NETWORKS_MAX} networks"
"""The error of one that names more, which counts as unreadable."""


class Selection(Struct, frozen=True):
    """A NAD that a pod names, and the interface that it wants of it. What is empty was not said."""

    name: str
    namespace: str = ""
    interface: str = ""


def selections(text: str) -> tuple[Selection, ...]:
    """Return what an annotation for Multus names, in order, as Multus reads it (multus-cni, pkg/k8sclient).

    It is JSON if one of `[{"` is in it, and else `namespace/name@interface` with commas between; namespace and
    interface may be missing. Raises ValueError where that can't be read, a name can be no object's, or it is too much.
    """
    _check_length(text)
    if any(mark in text for mark in _JSON_MARKS):
        found = tuple(_element(item) for item in _elements(text))
    elif text.count(",") >= NETWORKS_MAX:
        raise ValueError(TOO_MANY)
    else:
        found = tuple(map(_short, text.split(","))) if text.strip() else ()
    return _checked(found)


def attachments(text: str) -> tuple[Selection, ...]:
    """Return the NADs to which a pod is attached, as Multus tells in NETWORK_STATUS.

    It calls them `namespace/name`; what has no namespace are networks of its own configuration. Raises ValueError where
    that can't be read.
    """
    if "/" not in text:  # of most pods
        return ()
    _check_length(text)
    names = (item.get("name") for item in _elements(text) if isinstance(item, dict))
    return _checked(tuple(_short(name) for name in names if isinstance(name, str) and "/" in name))


def interfaces_of(text: str) -> dict[str, str]:
    """Return the networks of a pod by interface, as Multus names them in NETWORK_STATUS: `namespace/name` for a NAD.

    Entries without an interface are left out; of several for one interface the last one counts. Raises ValueError
    where the annotation can't be read.
    """
    if not text.strip():
        return {}
    _check_length(text)
    found = {}
    for item in _elements(text):
        if isinstance(item, dict):
            interface, name = item.get("interface"), item.get("name")
            if isinstance(interface, str) and isinstance(name, str) and interface:
                found[interface] = name
    return found


class Reported(Struct, frozen=True):
    """An interface of a pod with its NAD (`namespace/name`) and hardware address, as Multus tells in NETWORK_STATUS."""

    interface: str
    nad: str
    mac: str


def reported(text: str) -> tuple[Reported, ...]:
    """Return the interfaces of a pod at NADs; what says less, or can't be read, is left out."""
    if "/" not in text:
        return ()
    try:
        _check_length(text)
        elements = _elements(text)
    except ValueError:
        return ()
    rows = (
        [item.get(key) for key in ("interface", "name", "mac")] for item in elements if isinstance(item, dict)
    )
    texts = ([value for value in row if isinstance(value, str) and value] for row in rows)
    found = (
        Reported(row[0], row[1], row[2].lower())
        for row in texts
        if len(row) == len(Reported.__struct_fields__)
    )
    return tuple(
        item for item in found if item.nad.count("/") == 1 and all(map(is_name, item.nad.split("/")))
    )


def is_name(text: str) -> bool:
    """Return whether a NAD or a namespace may be called so (DNS-1123)."""
    return len(text) <= _NAME_MAX and _NAME.fullmatch(text) is not None


def _check_length(text: str) -> None:
    if len(text) > TEXT_MAX:
        raise ValueError(f"it is longer than {TEXT_MAX} characters")


def _checked(found: tuple[Selection, ...]) -> tuple[Selection, ...]:
    for item in found:
        for name in (item.name, item.namespace):
            if name and not is_name(name):
                raise ValueError(f"{quote(name)} can't be the name of an object")
    return found


def _elements(text: str) -> list[object]:
    try:
        found = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    if not isinstance(found, list):
        raise ValueError("the JSON must be a list")
    if len(found) > NETWORKS_MAX:
        raise ValueError(TOO_MANY)
    return found


def _folded(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as Go reads it into a struct: keys in any case, the last one counts, null says nothing."""
    return {key.casefold(): value for key, value in pairs if value is not None}


_DECODER = json.JSONDecoder(object_pairs_hook=_folded)


def _element(item: object) -> Selection:
    if not isinstance(item, dict):
        raise ValueError("each element of the JSON list must be an object")
    texts = [item.get(key, "") for key in ("name", "namespace", "interface")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("name, namespace and interface must be strings")
    return Selection(*texts)


def _short(text: str) -> Selection:
    parts = text.split("/")
    name, *interfaces = parts[-1].split("@")
    if len(parts) > 2 or len(interfaces) > 1:
        raise ValueError(f"{quote(text)} must be a name, namespace/name or namespace/name@interface")
    namespace = parts[0] if len(parts) == 2 else ""
    return Selection(name.strip(), namespace.strip(), *(item.strip() for item in interfaces))


NADS = Resource(
    group="k8s.cni.cncf.io",
    version="v1",
    kind="NetworkAttachmentDefinition",
    plural="network-attachment-definitions",
    type=NetworkAttachmentDefinition,
    namespaced=True,
    short_names=("net-attach-def", "nad"),
    columns=(
        Column("Cluster-Network", r".metadata.labels.network\.harvesterhci\.io/clusternetwork"),
        Column("VLAN", r".metadata.labels.network\.harvesterhci\.io/vlan-id"),
        Column("L3", r".metadata.annotations.network\.harvesterhci\.io/l3-connectivity"),
        Column("Mode", r".metadata.annotations.network\.harvesterhci\.io/mode"),
        Column("Ready", r".metadata.labels.network\.harvesterhci\.io/ready"),
        Column("Age", ".metadata.creationTimestamp", "date"),
        Column("Type", r".metadata.labels.network\.harvesterhci\.io/type", priority=1),
        Column("Gateway", r".metadata.annotations.network\.harvesterhci\.io/gateway", priority=1),
    ),
)

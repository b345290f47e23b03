"""The NADs of a LAN: what they are called, what stands in them, and what of that was changed.

Each spoke has two, one for machines and one for pods. Which LAN a NAD was made for is its label; the owner reference
is for Kubernetes, which removes what is left behind by a LAN that was removed by force.

A NAD may say that machines use it behind KubeVirt's bridge. virt-handler then renames the pod's interface, puts it into
a bridge of the pod with the machine's tap, and leaves a dummy under the old name. While a machine migrates, the
interface of the target pod has the machine's address and must not send: every bridge of the LAN would learn the new
place before the machine is there. QEMU announces the machine when it runs.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from lanloom.api.dummy import DRAINING, GUARDED
from lanloom.api.kubevirt import bridged_name
from lanloom.api.lan import (
    LAN,
    LANS,
    UID_LABEL,
    Mode,
    SpokeOptions,
    nad_name,
    resource_name,
)
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.meta import Key, ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.subnets import nad_ipam

BRIDGE = "bridge"
"""The value of the field `binding` of a NAD whose users are machines behind KubeVirt's bridge."""


def names_of(interface: str) -> tuple[str, str]:
    """Return the names that a pod's interface may have: that of CNI, and KubeVirt's."""
    return interface, bridged_name(interface)


CNI_VERSION = "0.3.1"

_MODES: tuple[Mode, ...] = ("macvtap", "veth")

Raw = dict[str, Any]


class WantedNad(NamedTuple):
    """A NAD of a LAN as it should be."""

    key: Key
    spoke: str
    mode: Mode
    bridged: bool = False
    ipam: Raw = {}
    """How addresses of the LAN's own subnets are given; empty without any."""

    @property
    def config(self) -> str:
        """The CNI configuration, as k8slan has it unless the LAN has subnets or machines use the bridge binding."""
        found: Raw = {"cniVersion": CNI_VERSION, "name": self.key.name}
        found |= {"type": "macvtap"} if self.mode == "macvtap" else {"type": "k8slanveth", "veth": self.spoke}
        found |= {"binding": BRIDGE} if self.bridged else {}
        found |= {"ipam": self.ipam} if self.ipam else {}
        return json.dumps(found)

    @property
    def resource(self) -> str | None:
        """The resource that its pods request, None for none."""
        return None if self.bridged else resource_name(self.spoke, self.mode)


def wanted_nads(lan: LAN) -> Iterator[WantedNad]:
    """Yield the NADs of a LAN, in the order of its spokes."""
    ipam = nad_ipam(lan)
    for spoke in lan.spec.spokes:
        bridged = lan.spec.spoke_options.get(spoke, SpokeOptions()).binding == BRIDGE
        for mode in _MODES:
            key = Key(lan.metadata.namespace, nad_name(spoke, mode))
            yield WantedNad(key, spoke, mode, bridged and mode == "veth", ipam)


def nads_of_spoke(lan: LAN, spoke: str) -> tuple[Key, ...]:
    """Return both NADs of one spoke."""
    return tuple(Key(lan.metadata.namespace, nad_name(spoke, mode)) for mode in _MODES)


def owner_of(metadata: ObjectMeta) -> str:
    """Return the uid of the LAN that a NAD was made for; empty for any other NAD.

    k8slan's operator writes no label; its NADs are known by the owner reference.
    """
    if uid := metadata.labels.get(UID_LABEL, ""):
        return uid
    return next(
        (
            item.uid
            for item in metadata.owner_references
            if item.kind == LANS.kind and item.api_version.partition("/")[0] == LANS.group
        ),
        "",
    )


def body_of(lan: LAN, nad: WantedNad) -> Raw:
    """Return a NAD to be created."""
    marks = _marks(lan, nad)
    annotations = {key: text for key, text in marks["annotations"].items() if text is not None}
    metadata = {"name": nad.key.name, **marks, "annotations": annotations}
    return {"metadata": metadata, "spec": {"config": nad.config}}


def repair(lan: LAN, nad: WantedNad, found: NetworkAttachmentDefinition) -> Raw:
    """Return the merge patch that makes a NAD what it should be; empty if it is that.

    What others wrote besides is left as it is. A NAD that drained is open again.
    """
    patch: Raw = {}
    meta, marks = found.metadata, _marks(lan, nad)
    for field, have in (("labels", meta.labels), ("annotations", meta.annotations)):
        missing: dict[str, str | None] = {
            key: text for key, text in marks[field].items() if have.get(key) != text
        }
        if field == "annotations" and DRAINING in have:
            missing[DRAINING] = None
        if missing:
            patch.setdefault("metadata", {})[field] = missing
    if not any(item.uid == lan.metadata.uid for item in meta.owner_references):
        kept = [item for item in meta.owner_references if item.kind != LANS.kind and not item.controller]
        patch.setdefault("metadata", {})["ownerReferences"] = [
            *({**_reference(item)} for item in kept),
            *marks["ownerReferences"],
        ]
    if not is_config_wanted(nad, found.spec.config):
        patch["spec"] = {"config": nad.config}
    return patch


def is_config_wanted(nad: WantedNad, config: str) -> bool:
    """Return whether a CNI configuration means what the NAD's should: the same JSON, however it is laid out."""
    try:
        found: object = json.loads(config)
    except (ValueError, RecursionError):
        return False
    return bool(found == json.loads(nad.config))


def is_as_wanted(nad: WantedNad, found: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD does what the LAN's would, whatever made it: then it may become the LAN's."""
    resource = found.metadata.annotations.get(RESOURCE_NAME)
    return resource == nad.resource and is_config_wanted(nad, found.spec.config)


def _marks(lan: LAN, nad: WantedNad) -> Raw:
    meta = lan.metadata
    return {
        "labels": {UID_LABEL: meta.uid},
        "annotations": {RESOURCE_NAME: nad.resource, GUARDED: f"{LANS.kind} {meta.key}"},
        "ownerReferences": [
            {
                "apiVersion": LANS.api_version,
                "kind": LANS.kind,
                "name": meta.name,
                "uid": meta.uid,
                "controller": True,
            }
        ],
    }


def _reference(item: Any) -> Raw:
    found: Raw = {"apiVersion": item.api_version, "kind": item.kind, "name": item.name, "uid": item.uid}
    if item.block_owner_deletion is not None:
        found["blockOwnerDeletion"] = item.block_owner_deletion
    return found

"""What the webhooks allow on the VLAN of a storage network of Harvester's.

Harvester makes a NAD in its own namespace for the storage network, and labels it if the VLAN is to be exclusive. The
label counts in that namespace only: else whoever may write a NAD somewhere could take a VLAN from everybody.
"""

from lanloom.api import names
from lanloom.api.l3 import AnnotationError
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import VmNetwork, parse_config
from lanloom.vlan.rules.refusal import Refused, World

_SYSTEM_NETWORKS = {
    "storage-network.settings.harvesterhci.io": "storagenetwork-",
    "rwx-network.settings.harvesterhci.io": "rwx-network-",
}
"""By what Harvester knows the NADs of its own networks: an annotation that is `true`, or how the name begins."""


def check_storage_vlan(nad: NetworkAttachmentDefinition, network: VmNetwork, world: World) -> None:
    """Check that a NAD keeps off the exclusive VLANs of its cluster network. Harvester's own NADs are exempt."""
    if _is_system_network(nad):
        return
    for other in world.nads_of(network.cluster_network):
        storage = _exclusive(other)
        if storage is None or other.metadata.key == nad.metadata.key:
            continue
        clash = _clash(network, storage)
        if clash:
            raise Refused(
                f"{clash} of the storage network {other.metadata.key}, which has it for itself (label "
                f'{names.EXCLUSIVE_VLAN_LABEL}: "true"); choose other VLAN ids'
            )


def _is_system_network(nad: NetworkAttachmentDefinition) -> bool:
    """Whether a NAD is of Harvester's storage network, or of its network for shared volumes."""
    meta = nad.metadata
    return meta.namespace == names.HARVESTER_NAMESPACE and any(
        meta.annotations.get(annotation) == "true" or meta.name.startswith(prefix)
        for annotation, prefix in _SYSTEM_NETWORKS.items()
    )


def _exclusive(nad: NetworkAttachmentDefinition) -> VmNetwork | None:
    """The network of a NAD that has its VLAN for itself; None for any other."""
    meta = nad.metadata
    if meta.namespace != names.HARVESTER_NAMESPACE or meta.labels.get(names.EXCLUSIVE_VLAN_LABEL) != "true":
        return None
    try:
        return parse_config(nad.spec.config)
    except AnnotationError:
        return None


def _clash(network: VmNetwork, storage: VmNetwork) -> str:
    """What of a network is on the VLAN of another, empty for nothing. A trunk carries untagged frames as well."""
    if any(first <= storage.vid <= last for first, last in network.trunk):
        return f"spec.config.vlanTrunk holds {storage.vid}, the VLAN id"
    if network.vid != storage.vid:
        return ""
    return (
        f"spec.config.vlan is {storage.vid}, the VLAN id" if storage.vid else "it carries the untagged frames"
    )

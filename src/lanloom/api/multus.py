"""The NetworkAttachmentDefinition of Multus (k8s.cni.cncf.io/v1)."""

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Column, Resource


class NetworkAttachmentDefinitionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`config` is a CNI configuration: a JSON document in a string."""

    config: str = ""


class NetworkAttachmentDefinition(Object, frozen=True, kw_only=True):
    """A network that virtual machines and pods can attach to."""

    spec: NetworkAttachmentDefinitionSpec = NetworkAttachmentDefinitionSpec()


NADS = Resource(
    group="k8s.cni.cncf.io",
    version="v1",
    kind="NetworkAttachmentDefinition",
    plural="network-attachment-definitions",
    type=NetworkAttachmentDefinition,
    namespaced=True,
    short_names=("net-attach-def",),
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

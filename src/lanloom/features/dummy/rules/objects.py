"""What is made for an isolated network besides its DaemonSet: a NAD, a Network of addresses, a ClusterNetwork.

NAD configurations are compared as values, never as text: an editor or Harvester's webhook may order and indent one
differently. Members that repeat a default count for nothing. The MTU is Harvester's: its webhook writes that of the
ClusterNetwork into the configuration, and refuses another one.

Harvester's webhook, and Lanloom's own for VLANs, take a NAD of a bridge only if the bridge is called `<name>-br` and a
ClusterNetwork of that name is there. So an isolated network whose bridge is called like that gets one without
uplinks, unless there is one already.
"""

import json
from collections.abc import Iterable
from typing import Any

from lanloom.api import names
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VlanConfig
from lanloom.api.ipam import (
    NETWORKS,
    Network,
    PoolSpec,
    SubnetSpec,
)
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.dummy.rules.model import (
    Isolated,
    Raw,
    is_ours,
    ownership,
    resource_name,
)
from lanloom.features.dummy.rules.spec import label_fault
from lanloom.text import listed

CNI_VERSION = "0.3.1"

_MTU = "mtu"
_IDLE: Raw = {
    "ipam": {},
    "dns": {},
    "vlan": 0,
    _MTU: 0,
    "promiscMode": False,
    "isGateway": False,
    "isDefaultGateway": False,
    "ipMasq": False,
    "forceAddress": False,
    "hairpinMode": False,
}
"""Members of a bridge's configuration, with the values that mean as much as their absence."""


def nad_config(net: Isolated) -> Raw:
    """The CNI configuration, for the `bridge` plugin of the CNI project.

    The gateway is each node's own: `isGateway` gives the bridge the address that the network's subnet has as gateway,
    `ipMasq` hides what goes out behind the node's. Pods keep the default route that they have. `forceAddress` takes the
    bridge's former address off, where the subnet was another one; without it the plugin would fail for every pod.
    """
    config: Raw = {"cniVersion": CNI_VERSION, "name": net.nad.name, "type": "bridge", "bridge": net.bridge}
    if net.subnet is not None:
        config["ipam"] = {"type": "lanloom-ipam", "network": resource_name(net.name, net.uid)}
        if net.gateway == "node":
            config |= {"isGateway": True, "ipMasq": True, "forceAddress": True}
    return config


def nad_body(net: Isolated) -> Raw:
    """The whole NAD, to be created. Harvester's UI takes a network for usable by its label `ready`."""
    metadata = ownership(net.name, net.uid)
    metadata["labels"][names.READY_LABEL] = "true"
    return {
        "apiVersion": NADS.api_version,
        "kind": NADS.kind,
        "metadata": {"name": net.nad.name, "namespace": net.nad.namespace, **metadata},
        "spec": {"config": json.dumps(nad_config(net))},
    }


def is_as_wanted(nad: NetworkAttachmentDefinition, net: Isolated) -> bool:
    """Whether the NAD is the network's own and configures what it asks for. One that can't be read does not."""
    found = _read(nad.spec.config)
    return (
        is_ours(nad.metadata, net.uid)
        and nad.metadata.annotations.get(NAME_ANNOTATION) == net.name
        and found is not None
        and _canonical(found) == _canonical(nad_config(net))
    )


def nad_patch(nad: NetworkAttachmentDefinition, net: Isolated) -> Raw:
    """The merge patch that mends a NAD, on the version that was read; empty if it is as wanted.

    Only for the network's own: that is for the caller to ask.
    """
    if is_as_wanted(nad, net):
        return {}
    config = nad_config(net)
    mtu = (_read(nad.spec.config) or {}).get(_MTU)
    if type(mtu) is int and mtu > 0:
        config[_MTU] = mtu
    metadata = {
        "resourceVersion": nad.metadata.resource_version,
        "labels": {UID_LABEL: net.uid},
        "annotations": {NAME_ANNOTATION: net.name},
    }
    return {"metadata": metadata, "spec": {"config": json.dumps(config)}}


def _read(text: str) -> Raw | None:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _canonical(config: Raw) -> str:
    """Equal for configurations that mean the same. As text, because in Python 1, 1.0 and True are equal."""
    said = {key: value for key, value in config.items() if key not in _IDLE or not _is(value, _IDLE[key])}
    if type(said.get(_MTU)) is int:
        del said[_MTU]
    return json.dumps(said, sort_keys=True)


def _is(value: Any, other: Any) -> bool:
    return value is None or (type(value) is type(other) and value == other)


def gateway_of(net: Isolated) -> str:
    """The address of every node's bridge: the subnet's first; empty without a gateway."""
    if net.subnet is None or net.gateway != "node":
        return ""
    return str(net.subnet.network_address + 1)


def bridge_address(net: Isolated) -> str:
    """The gateway as a CIDR, which every node's bridge has; empty without a gateway."""
    gateway = gateway_of(net)
    return f"{gateway}/{net.subnet.prefixlen}" if gateway and net.subnet is not None else ""


def ipam_network_body(net: Isolated) -> Raw:
    """The Network (ipam.lanloom.io) of whose one pool everybody on the isolated network gets an address.

    The pool is the whole subnet: its edges and the gateway are reserved of themselves. Raises ValueError for a network
    without a subnet, which has no addresses.
    """
    return {
        "apiVersion": NETWORKS.api_version,
        "kind": NETWORKS.kind,
        "metadata": {"name": resource_name(net.name, net.uid), **ownership(net.name, net.uid)},
        "spec": {"subnets": [_subnet(net, "")]},
    }


def ipam_network_patch(current: Network, net: Isolated) -> Raw:
    """The merge patch that gives a Network the subnet again that it is to have; empty if it is as wanted.

    What an administrator reserved or named in it stays, and so does the subnet's UUID.
    """
    patch: Raw = {}
    if current.metadata.annotations.get(NAME_ANNOTATION) != net.name:
        patch["metadata"] = {"annotations": {NAME_ANNOTATION: net.name}}
    wanted = SubnetSpec(
        cidr=str(net.subnet), gateway=gateway_of(net), pools=(PoolSpec(range=str(net.subnet)),)
    )
    kept = current.spec.subnets[0] if len(current.spec.subnets) == 1 else None
    if kept is None or (kept.cidr, kept.gateway, kept.pools) != (wanted.cidr, wanted.gateway, wanted.pools):
        patch["spec"] = {"subnets": [_subnet(net, kept.uuid if kept else "")]}
    if patch:
        patch.setdefault("metadata", {})["resourceVersion"] = current.metadata.resource_version
    return patch


def _subnet(net: Isolated, uuid: str) -> Raw:
    if net.subnet is None:
        raise ValueError(f"DummyClusterNetwork {net.name} has no subnet and provides no addresses")
    gateway = gateway_of(net)
    subnet: Raw = {"cidr": str(net.subnet), "pools": [{"range": str(net.subnet)}]}
    return subnet | ({"gateway": gateway} if gateway else {}) | ({"uuid": uuid} if uuid else {})


_SHOWN = 5


def implied_cluster_network(bridge: str) -> str:
    """The ClusterNetwork whose bridge has this name; empty if none can have it."""
    name = bridge.removesuffix(names.BRIDGE_SUFFIX)
    fits = name != bridge and len(name) <= names.CLUSTER_NETWORK_NAME_MAX
    return name if fits and not label_fault(name, "", "") else ""


def cluster_network_body(net: Isolated, cluster_network: str) -> Raw:
    """The ClusterNetwork without uplinks of which a NAD's bridge must be one."""
    return {
        "apiVersion": CLUSTER_NETWORKS.api_version,
        "kind": CLUSTER_NETWORKS.kind,
        "metadata": {"name": cluster_network, **ownership(net.name, net.uid)},
    }


def uplink_fault(bridge: str, configs: Iterable[VlanConfig]) -> str:
    """Why a bridge can't be isolated: VlanConfigs give it an uplink. Empty if none does.

    `configs` are those of the implied ClusterNetwork, or all.
    """
    implied = implied_cluster_network(bridge)
    uplinks = sorted(
        item.metadata.name for item in configs if implied and item.spec.cluster_network == implied
    )
    if not uplinks:
        return ""
    return (
        f"spec.bridgeName is {bridge}, the bridge of ClusterNetwork {implied}, which has an uplink through VlanConfig "
        f"{listed(uplinks, _SHOWN)}; choose another bridge, or delete every VlanConfig of that ClusterNetwork"
    )

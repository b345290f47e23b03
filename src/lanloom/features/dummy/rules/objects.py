"""The objects of an isolated network besides its DaemonSet: NAD, Network of addresses, ClusterNetwork, and LAN.

NAD configurations are compared as values, never as text: an editor or Harvester's webhook may order and indent a
configuration differently. Members that repeat a default do not count. The MTU is Harvester's: its webhook writes the
MTU of the ClusterNetwork into the configuration, and rejects another one.

Harvester's webhook, and Lanloom's own for VLANs, accept a NAD of a bridge only if the bridge is called `<name>-br` and
a ClusterNetwork of that name exists. So an isolated network with such a bridge gets one without uplinks, unless it
exists.

A network with the scope cluster stands on a LAN, which is joined to the network's bridge on every node. The LAN has no
spokes: users attach to the bridge, by the NAD of the network. Its namespace is that of the DaemonSet, where only
Lanloom creates objects.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from lanloom.api import names
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VlanConfig
from lanloom.api.lan import DEFAULT_PORT, LAN, LANS, READY, RESERVED_VNIS, VNI_MAX
from lanloom.api.madenetworks import MadeNetwork, MadeSubnet
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.subnets import Subnet
from lanloom.features.dummy.rules.daemonset import Acknowledgement
from lanloom.features.dummy.rules.hostbridge import alias_of
from lanloom.features.dummy.rules.model import Isolated, Raw, Settings, is_ours, ownership, resource_name
from lanloom.features.dummy.rules.spec import label_fault
from lanloom.kube.conditions import Finding, find
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
    """Return the CNI configuration, for the `bridge` plugin of the CNI project.

    The gateway is local to each node. `ipMasq` translates outgoing traffic to the address of the node. Pods keep their
    default route. With two subnets, each pod gets an address of each.

    `isGateway` gives the bridge the gateway address of the subnet, as the keeper of the bridge does, too. With a subnet
    of IPv6 it is left out: the plugin would turn on the forwarding of IPv6, for all links of the node. `forceAddress`
    removes the bridge's former address after a change of the subnet. Without it, the plugin would fail for every pod.
    """
    config: Raw = {"cniVersion": CNI_VERSION, "name": net.nad.name, "type": "bridge", "bridge": net.bridge}
    if net.mtu:
        config[_MTU] = net.mtu
    if net.subnets:
        config["ipam"] = {"type": "lanloom-ipam", "network": resource_name(net.name, net.uid)}
        if len(net.subnets) == 2:
            config["ipam"]["ips"] = ["pool4", "pool6"]
        if net.gateway == "node":
            config["ipMasq"] = True
            if all(subnet.version == 4 for subnet in net.subnets):
                config |= {"isGateway": True, "forceAddress": True}
    return config


def nad_body(net: Isolated) -> Raw:
    """Return the whole NAD, to be created. Harvester's UI shows a network as usable by its label `ready`."""
    metadata = ownership(net.name, net.uid)
    metadata["labels"][names.READY_LABEL] = "true"
    return {
        "apiVersion": NADS.api_version,
        "kind": NADS.kind,
        "metadata": {"name": net.nad.name, "namespace": net.nad.namespace, **metadata},
        "spec": {"config": json.dumps(nad_config(net))},
    }


def is_as_wanted(nad: NetworkAttachmentDefinition, net: Isolated) -> bool:
    """Return whether a NAD belongs to the network and has its configuration. An unreadable NAD does not."""
    found = _read(nad.spec.config)
    return (
        is_ours(nad.metadata, net.uid)
        and nad.metadata.annotations.get(NAME_ANNOTATION) == net.name
        and found is not None
        and _canonical(found) == _canonical(nad_config(net))
    )


def nad_patch(nad: NetworkAttachmentDefinition, net: Isolated) -> Raw:
    """Return the merge patch that corrects a NAD, on the version that was read; empty if it is correct.

    Callers check first that the NAD belongs to the network.
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
    """Return equal texts for equivalent configurations. They are texts, because 1, 1.0 and True are equal in Python."""
    said = {key: value for key, value in config.items() if key not in _IDLE or not _is(value, _IDLE[key])}
    if type(said.get(_MTU)) is int:
        del said[_MTU]
    return json.dumps(said, sort_keys=True)


def _is(value: Any, other: Any) -> bool:
    return value is None or (type(value) is type(other) and value == other)


def _gateway(net: Isolated, subnet: Subnet) -> str:
    """Return the address of the bridge on every node: the first of the subnet; empty without a gateway."""
    return str(subnet.network_address + 1) if net.gateway == "node" else ""


def bridge_addresses(net: Isolated) -> str:
    """Return the gateways as CIDRs with commas, which the bridge has on every node; empty without a gateway."""
    subnets = net.subnets if net.gateway == "node" else ()
    return ",".join(f"{_gateway(net, subnet)}/{subnet.prefixlen}" for subnet in subnets)


def ipam_network(net: Isolated) -> MadeNetwork:
    """Return the Network (ipam.lanloom.io) with one pool of each subnet for all NICs on the isolated network.

    Its first and last addresses and the gateways are reserved. With `namespaces`, a node attaches pods of no others.
    Raises ValueError for a network without a subnet, which has no addresses.
    """
    if not net.subnets:
        raise ValueError(f"DummyClusterNetwork {net.name} has no subnet and provides no addresses")
    return MadeNetwork(
        name=resource_name(net.name, net.uid),
        **ownership(net.name, net.uid),
        subnets=tuple(MadeSubnet(str(subnet), _gateway(net, subnet)) for subnet in net.subnets),
        namespaces=net.namespaces,
    )


_SHOWN = 5


def implied_cluster_network(bridge: str) -> str:
    """Return the ClusterNetwork whose bridge has this name; empty if none can have it."""
    name = bridge.removesuffix(names.BRIDGE_SUFFIX)
    fits = name != bridge and len(name) <= names.CLUSTER_NETWORK_NAME_MAX
    return name if fits and not label_fault(name, "", "") else ""


def cluster_network_body(net: Isolated, cluster_network: str) -> Raw:
    """Return the ClusterNetwork without uplinks that the bridge of a NAD must belong to."""
    metadata = ownership(net.name, net.uid)
    if net.mtu:
        metadata["annotations"][names.UPLINK_MTU] = str(net.mtu)
    return {
        "apiVersion": CLUSTER_NETWORKS.api_version,
        "kind": CLUSTER_NETWORKS.kind,
        "metadata": {"name": cluster_network, **metadata},
    }


def uplink_fault(bridge: str, configs: Iterable[VlanConfig]) -> str:
    """Return why a bridge can't be isolated: VlanConfigs give it an uplink. Empty if none does.

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


BRIDGE, VXLAN = "br0", "vx0"
"""Links in the LAN's namespace on a node."""


def lan_key(name: str, uid: str, settings: Settings) -> Key:
    """Return where the LAN of a DummyClusterNetwork is."""
    return Key(settings.namespace, resource_name(name, uid))


def lan_body(net: Isolated, settings: Settings, lans: Iterable[LAN]) -> Raw:
    """Return the LAN, to be created in addition to those that there are."""
    key = lan_key(net.name, net.uid, settings)
    return {
        "apiVersion": LANS.api_version,
        "kind": LANS.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, **ownership(net.name, net.uid)},
        "spec": {
            "ns": f"dcn-{key.name}",
            "bridge": BRIDGE,
            "vxlan": VXLAN,
            "vni": choose_vni(net.uid, lans),
            "defaultVxlanDev": net.underlay,
            **({"underlayFamily": net.underlay_family} if net.underlay_family else {}),
            "spokes": [],
            "hostBridge": {"name": net.bridge, "alias": alias_of(net.uid)},
        },
    }


def choose_vni(uid: str, lans: Iterable[LAN]) -> int:
    """Return a VNI that no LAN has. The search begins at one that follows from the uid, so that two managers agree."""
    taken = {lan.spec.vni for lan in lans if lan.spec.vxlan_port == DEFAULT_PORT}
    taken |= {vni for vni, port in RESERVED_VNIS if port == DEFAULT_PORT}
    start = int(hashlib.sha256(uid.encode()).hexdigest()[:12], 16)
    return next(
        vni for offset in range(len(taken) + 1) if (vni := (start + offset) % VNI_MAX + 1) not in taken
    )


def readiness(lan: LAN, net: Isolated, nodes: Acknowledgement) -> Finding:
    """Return the readiness of the LAN: whether each node that has the bridge is on it, with a sufficient MTU."""
    found = find(lan.status.conditions, READY)
    title = f"LAN {lan.metadata.key}"
    if found is None:
        return Finding("False", "Pending", f"the {title} is not ready yet; is a manager running?")
    if found.status != "True":
        return Finding("False", found.reason, f"{title}: {found.message}")
    joined = {node.name for node in lan.status.nodes if node.ready}
    if missing := [name for name in nodes.acknowledged if name not in joined]:
        return Finding(
            "False",
            "NodesPending",
            f"waiting for {listed(missing)} to join the {title}; the agent of LANs (deploy/lan.yaml) must run there",
        )
    if lan.status.mtu and lan.status.mtu < net.mtu:
        return Finding(
            "False",
            "MTUTooLarge",
            f"the network has packets of {net.mtu} bytes, and the {title} carries at most {lan.status.mtu}; recreate "
            "the network with that spec.mtu, or raise the MTU of the underlay",
        )
    return Finding("True", "Joined", f"VNI {lan.spec.vni}, underlay {net.underlay}")

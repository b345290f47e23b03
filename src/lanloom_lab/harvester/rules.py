"""What Harvester's processes make of objects: pure, for its manager, agents and webhook."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lanloom.api import names
from lanloom.api.core import Node
from lanloom.api.harvester import DEFAULT_MTU, VlanConfig
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import read_config
from lanloom.node.ports import Link
from lanloom_lab.harvester.objects import Raw

MIIMON = 100
MTU_RANGE = (576, 9000)
"""MinMTU and MaxMTU of pkg/utils/consts.go; 0 is valid, too, and the default."""

VLAN_SET, VLAN_SET_HASH = names.PREFIX + "vlan-id-set-str", names.PREFIX + "vlan-id-set-str-hash"
MGMT_LABEL = names.PREFIX + names.MGMT
UNDERLAY = "ovn.kubernetes.io/tunnel_interface"
MGMT_CONFIG = "mgmt-vlanconfig-"


class Refusal(Exception):
    """What Harvester's Go code returns as an error: its message is part of what a user sees."""


def is_selected(selector: Mapping[str, str], node: Node) -> bool:
    """Return whether a VlanConfig's selector takes a node; witnesses have no uplinks (NewSelector, pkg/utils)."""
    labels = node.metadata.labels
    return names.WITNESS_ROLE not in labels and selector.items() <= labels.items()


def matched_nodes(item: Object) -> tuple[str, ...]:
    """Return the nodes of the annotation; none of one that can't be read."""
    try:
        text = item.metadata.annotations.get(names.MATCHED_NODES) or "[]"
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def mtu_of(config: VlanConfig) -> int:
    """Return the MTU that counts, of which 0 is the default (MTUDefaultTo, pkg/utils/mtu.go)."""
    return config.spec.uplink.linkAttributes.mtu or DEFAULT_MTU


def cluster_network_of(config: Mapping[str, Any]) -> str:
    """Return the cluster network of a NAD's bridge (IsBridgeNameValid, pkg/utils/bridge.go). Raises Refusal."""
    bridge = str(config.get("bridge", ""))
    if len(bridge) <= len(names.BRIDGE_SUFFIX):
        raise Refusal(f"the length of bridge name {bridge} is less than {len(names.BRIDGE_SUFFIX)}")
    if len(bridge) > names.LINK_NAME_MAX:
        raise Refusal(f"the length of the bridge name {bridge} can't be more than {names.LINK_NAME_MAX}")
    if not bridge.endswith(names.BRIDGE_SUFFIX):
        raise Refusal(f"the bridge name {bridge} does not include suffix {names.BRIDGE_SUFFIX}")
    return bridge.removesuffix(names.BRIDGE_SUFFIX)


def config_of(nad: NetworkAttachmentDefinition) -> Raw:
    """Return a NAD's configuration (DecodeNadConfigToNetConf, pkg/utils/nad.go). Raises Refusal."""
    try:
        return read_config(nad.spec.config) if nad.spec.config else {}
    except AnnotationError as error:
        raise Refusal(f"failed to unmarshal nad {nad.metadata.key} config: {error}") from None


def nad_labels(labels: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """Return a NAD's labels as its configuration has it (SetNetworkInfoToLabels, pkg/utils/nad.go). Raises Refusal."""
    kind = config.get("type", "")
    if kind not in ("bridge", ""):
        raise Refusal(f"cannot determin the network type from netconf type {kind}")
    found = {key: value for key, value in labels.items() if key != names.VLAN_ID_LABEL}
    found[names.CLUSTER_NETWORK_LABEL] = cluster_network_of(config)
    vid = config.get("vlan", 0)
    if vid:
        return found | {names.TYPE_LABEL: "L2VlanNetwork", names.VLAN_ID_LABEL: str(vid)}
    return found | {names.TYPE_LABEL: "L2VlanTrunkNetwork" if config.get("vlanTrunk") else "UntaggedNetwork"}


def vids_of(config: Mapping[str, Any]) -> set[int]:
    """Return the VLAN ids of a NAD's configuration (dumpVlanIDSet, pkg/utils/nad.go)."""
    trunk = config.get("vlanTrunk")
    if not trunk:
        return {int(config.get("vlan", 0))} - {0}
    found: set[int] = set()
    for item in trunk:
        found |= {item["id"]} if item.get("id") is not None else set()
        if item.get("minID") is not None and item.get("maxID") is not None:
            found |= set(range(item["minID"], item["maxID"] + 1))
    return found - {0}


def network_vids(network: str, nads: Iterable[NetworkAttachmentDefinition]) -> set[int]:
    """Return the VLAN ids of a cluster network, by its NADs' label (GeVlanIDSetFromClusterNetwork). Raises Refusal."""
    found: set[int] = set()
    for nad in nads:
        mine = nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) == network
        if mine and not nad.metadata.is_deleting:
            config = config_of(nad)
            found |= vids_of(config) if config.get("type", "") in ("bridge", "") else set()
    return found


def vlan_set(vids: Iterable[int]) -> dict[str, str]:
    """Return the two annotations that tell agents of a change (VidSetToStringHash, pkg/utils/vlan.go)."""
    text = ",".join(map(str, sorted(vids)))
    return {VLAN_SET: text, VLAN_SET_HASH: hashlib.sha256(text.encode()).hexdigest()}


def host_link(network: str, vid: int) -> str:
    """Return the sub-interface of a HostNetworkConfig (GetClusterNetworkVlanDevice, pkg/utils/bridge.go)."""
    return f"{names.bridge_name(network)}.{vid}"


def manual_vids(network: str, links: Iterable[str]) -> set[int]:
    """Return the VLAN ids of links that are called like sub-interfaces, whatever made them: they are kept.

    (getManuallyConfiguredVlans, pkg/network/iface/link.go.) Lanloom's own have another name where this is too long.
    """
    prefix = host_link(network, 0).removesuffix("0")
    tails = (name.removeprefix(prefix) for name in links if name.startswith(prefix))
    return {int(tail) for tail in tails if tail.isdecimal() and 1 < int(tail) <= 4094}


def is_bond_kept(bond: Link, config: VlanConfig) -> bool:
    """Return whether a bond is as a VlanConfig wants it; if not, it is made again (compareBond, iface/bond.go)."""
    options, attributes = config.spec.uplink.bondOptions, config.spec.uplink.linkAttributes
    return (
        bond.bond_mode == options.mode
        and bond.bond_miimon == miimon_of(config)
        and attributes.mtu in (0, bond.mtu)
        and attributes.txQLen in (-1, bond.tx_queue_length)
    )


def miimon_of(config: VlanConfig) -> int:
    """Return the milliseconds between looks at NICs; -1 is the default (setUplink of the agent's vlanconfig)."""
    miimon = config.spec.uplink.bondOptions.miimon
    return MIIMON if miimon == -1 else miimon


def mgmt_config(node: str, links: Mapping[str, Link]) -> Raw | None:
    """Return the VlanConfig that describes the installer's uplink (CreateOrUpdateMgmtVlanConfig of the agent).

    None without such an uplink: the empty one that it makes then is refused by its own webhook.
    """
    name, bond = MGMT_CONFIG + node, links.get(names.MGMT_BOND)
    if bond is None:
        return None
    nics = [link.name for link in links.values() if link.master == bond.name]
    uplink = {
        "bondOptions": {"mode": bond.bond_mode, "miimon": -1},
        "linkAttributes": {"mtu": bond.mtu, "txQLen": -1},
        "nics": nics,
    }
    labels = {names.CLUSTER_NETWORK_LABEL: names.MGMT}
    spec = {"clusterNetwork": names.MGMT, "uplink": uplink}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}

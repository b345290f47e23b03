"""The names that Lanloom gives on a node. Equal input gives equal names, on every run and every node."""

import re
import uuid
import zlib

from lanloom.api import names
from lanloom.api.linknames import short_hash

_NAMESPACE = uuid.UUID("6c0f7a7e-5d1c-5b55-9a0b-3a4f0e6b2d11")
_PROFILE = re.compile(r"(?P<cluster_network>.+)-vlan(?P<vid>[1-9][0-9]{0,3})\.nmconnection")
_CLUSTER_NETWORK = re.compile(
    rf"(?=.{{1,{names.CLUSTER_NETWORK_NAME_MAX}}}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII
)
_LINK = re.compile(rf"[!-$&-.0-9;-~]{{1,{names.LINK_NAME_MAX}}}", re.ASCII)
_LABEL_MAX = 63
_FIRST_TABLE = 1_000_000_000
_VIDS = 4096


def is_cluster_network(name: str) -> bool:
    """Return whether a ClusterNetwork may be called so: a label of Kubernetes after which links can be named."""
    return _CLUSTER_NETWORK.fullmatch(name) is not None


def is_link(name: str) -> bool:
    """Return whether a link can be called so: what the kernel takes (dev_valid_name), without what is not printable.

    A per cent sign makes a pattern of a name: the kernel puts a number in its place.
    """
    return _LINK.fullmatch(name) is not None and name not in (".", "..")


def routing_table(cluster_network: str, vid: int) -> int:
    """Return the number of the routing table of a VLAN with a gateway, from 1,000,000,000 to 2,073,741,823.

    Far above the small numbers that people and other programs choose. The hash of the cluster network (18 bits) is
    followed by the VLAN id (12 bits), so that two VLANs of a cluster network never share a table.
    """
    return _FIRST_TABLE + int(short_hash(cluster_network, 5), 16) % 2**18 * _VIDS + vid


def profile_id(cluster_network: str, vid: int) -> str:
    """Return the connection id of a profile, and the stem of its file."""
    return f"{cluster_network}-vlan{vid}"


def profile_file(cluster_network: str, vid: int) -> str:
    """Return the file of a profile."""
    return f"{profile_id(cluster_network, vid)}.nmconnection"


def parse_profile_file(name: str) -> tuple[str, int] | None:
    """Return the cluster network and VLAN id that a profile's file name tells, or None for a name of another form."""
    match = _PROFILE.fullmatch(name)
    return (match["cluster_network"], int(match["vid"])) if match else None


def profile_uuid(cluster: str, node: str, cluster_network: str, vid: int) -> str:
    """Return the UUID of a profile: version 5 of cluster, node, cluster network and VLAN id."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join((cluster, node, cluster_network, str(vid)))))


def network_of_profile(file: str) -> str:
    """Return the cluster network that a profile's file name tells; empty for a name of another form."""
    owner = parse_profile_file(file)
    return owner[0] if owner else ""


def network_of_bridge(bridge: str) -> str:
    """Return the cluster network whose bridge has this name."""
    return bridge.removesuffix(names.BRIDGE_SUFFIX)


def network_of_link(link: str) -> str:
    """Return the cluster network whose bridge or bond has this name; empty for a name of another form."""
    ends = (names.BRIDGE_SUFFIX, names.BOND_SUFFIX)
    return next((link.removesuffix(end) for end in ends if link.endswith(end)), "")


def vlan_status_name(cluster_network: str, node: str) -> str:
    """Return the VlanStatus of a cluster network on a node.

    Harvester's controller calls it the same: either takes it over.
    At most 63 characters: both names, cut, and the CRC-32 of both, not cut.
    """
    name = f"{cluster_network}-{node}"
    return f"{name[: _LABEL_MAX - 9]}-{zlib.crc32(name.encode()):08x}"


def is_vlan_status_of(name: str, node: str) -> bool:
    """Return whether a VlanStatus of `node` may be called so, as far as its name tells the node."""
    return any(vlan_status_name(name[:end], node) == name for end in range(1, len(name)) if name[end] == "-")


def report_name(cluster_network: str, node: str) -> str:
    """Return the ClusterNetworkNode of a cluster network on a node: `<cn>-<node>-<hash>`."""
    return f"{cluster_network}-{node[:200].rstrip('.-')}-{short_hash(f'{cluster_network}/{node}', 8)}"


def is_report_of(name: str, node: str) -> bool:
    """Return whether a ClusterNetworkNode of `node`, of whatever cluster network, is called so."""
    tail = report_name("", node)
    return report_name(name[: -len(tail)], node) == name


def node_label(node: str) -> str:
    """Return a node's name as the value of a label: cut with a hash where it is longer than a label may be."""
    return node if len(node) <= _LABEL_MAX else f"{node[: _LABEL_MAX - 9].rstrip('.-')}-{short_hash(node, 8)}"

"""What an agent saved of its networks, judged again: from it come root-owned files and the names of links.

Nothing is taken over as it came. Names are computed anew, and profiles are rendered anew from what they mean; so an
older version's profiles come out as this version writes them.
"""

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.l3 import VID_MAX, VID_MIN, AnnotationError
from lanloom.api.uplinks import BOND_MODES, MTU_MAX, MTU_MIN, TX_QUEUE_MAX, parse_mac
from lanloom.node.vlanids import VlanIds, merge, subtract, vlan_ids
from lanloom.vlan.rules.desired import interface_of
from lanloom.vlan.rules.names import is_cluster_network, is_link
from lanloom.vlan.rules.network import Interface, NodeNetwork
from lanloom.vlan.rules.profile import read
from lanloom.vlan.rules.uplink import LONGEST_MIIMON


def restored(network: NodeNetwork) -> NodeNetwork | None:
    """A network that was saved, as it may be applied; None where anything of it is odd.

    Then nothing that was saved should be applied at all: what is missing among the wanted networks is removed.
    """
    if not (_is_named_rightly(network) and _has_lawful_ids(network)):
        return None
    if not (_is_guest(network) if network.foreign else _has_lawful_uplink(network)):
        return None
    interfaces = [_interface(item, network.cluster_network) for item in network.interfaces]
    known = tuple(item for item in interfaces if item is not None)
    if len(known) < len(interfaces) or vlan_ids(item.vid for item in known) != network.bridge_ids:
        return None
    return replace(network, interfaces=known)


def _is_named_rightly(network: NodeNetwork) -> bool:
    name = network.cluster_network
    return (
        is_cluster_network(name)
        and network.bridge == names.bridge_name(name)
        and network.bond == names.bond_name(name)
        and network.foreign == (name == names.MGMT)
    )


def _has_lawful_ids(network: NodeNetwork) -> bool:
    vids = [item.vid for item in network.interfaces]
    return (
        _are_ids(network.bridge_ids)
        and _are_ids(network.uplink_ids)
        and not subtract(network.bridge_ids, network.uplink_ids)
        and vids == sorted(set(vids))
        and all(0 <= problem.vid <= VID_MAX for problem in network.problems)
    )


def _are_ids(ids: VlanIds) -> bool:
    return all(VID_MIN <= first <= last <= VID_MAX for first, last in ids) and merge(ids) == ids


def _is_guest(network: NodeNetwork) -> bool:
    wanted = (network.nics, network.mode, network.miimon, network.mtu, network.tx_queue_length, network.mac)
    return wanted == ((), "", 0, 0, None, "")


def _has_lawful_uplink(network: NodeNetwork) -> bool:
    return (
        all(is_link(nic) for nic in network.nics)
        and network.mode in ("", *BOND_MODES)
        and 0 < network.miimon <= LONGEST_MIIMON
        and MTU_MIN <= network.mtu <= MTU_MAX
        and (network.tx_queue_length is None or 0 < network.tx_queue_length <= TX_QUEUE_MAX)
        and _is_mac(network.mac)
    )


def _is_mac(text: str) -> bool:
    try:
        return text in ("", parse_mac("mac", text))
    except AnnotationError:
        return text == ""


def _interface(item: Interface, cluster_network: str) -> Interface | None:
    profile = read(item.content)
    if profile is None or profile.cluster_network != cluster_network:
        return None
    found = interface_of(profile, item.network)
    return found if replace(found, content=item.content) == item else None

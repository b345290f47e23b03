"""Whether a DummyClusterNetwork may be as it is to be: nothing that it wants may be somebody else's."""

from collections.abc import Iterable

from lanloom.api.dummy import UID_LABEL, DummyClusterNetwork
from lanloom.api.harvester import VlanConfig
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.dummy.rules.errors import Refused
from lanloom.dummy.rules.harvester import implied_cluster_network, uplink_fault
from lanloom.dummy.rules.marks import is_ours
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.subnet import Ranges, overlaps

NODE_GATEWAY = (
    "spec.gateway is node: each node's bridge has the gateway's address and hides what goes out behind the node's own; "
    "machines on different nodes don't reach each other by it"
)


def check_claims(net: Isolated, networks: Iterable[DummyClusterNetwork]) -> None:
    """No other network has the same NAD or the same bridge. Raises Refused."""
    for item in networks:
        if item.metadata.uid == net.uid or item.metadata.name == net.name:
            continue
        name, leaves = item.metadata.name, item.metadata.is_leaving
        remedy = "wait until that one is gone" if leaves else "choose another name"
        if item.spec.bridge_name == net.bridge:
            raise Refused(
                f"DummyClusterNetwork {net.name}: spec.bridgeName: {net.bridge} is the bridge of "
                f"DummyClusterNetwork {name} already; {remedy}"
            )
        if item.spec.nad == net.nad:
            raise Refused(
                f"DummyClusterNetwork {net.name}: spec.nadName: {net.nad} is the NAD of DummyClusterNetwork {name} "
                f"already; {remedy}"
            )


def check_place(net: Isolated, nad: NetworkAttachmentDefinition | None) -> None:
    """In the NAD's place there is nothing of anybody else. Raises Refused."""
    if nad is None or is_ours(nad.metadata, net.uid):
        return
    leftover = UID_LABEL in nad.metadata.labels
    whose = "a DummyClusterNetwork that is gone has left it behind" if leftover else "it is somebody else's"
    raise Refused(
        f"DummyClusterNetwork {net.name}: spec.nadName: there is a NetworkAttachmentDefinition {net.nad} already, and "
        f"{whose}; choose another name, or delete it when nobody uses it"
    )


def check_uplinks(net: Isolated, configs: Iterable[VlanConfig]) -> None:
    """No VlanConfig gives the bridge an uplink. Raises Refused."""
    if fault := uplink_fault(net.bridge, configs):
        raise Refused(f"DummyClusterNetwork {net.name}: {fault}")


def check_subnet(net: Isolated, ranges: Ranges, others: Iterable[Isolated]) -> None:
    """Nothing in the cluster uses the subnet. Raises Refused."""
    if fault := overlaps(net, ranges, others):
        raise Refused(f"DummyClusterNetwork {net.name}: {fault}")


def check_config(new: VlanConfig, old: VlanConfig | None, networks: Iterable[DummyClusterNetwork]) -> None:
    """An isolated network gets no uplink. Raises Refused."""
    cluster_network = new.spec.cluster_network
    if not cluster_network or (old is not None and old.spec.cluster_network == cluster_network):
        return
    for item in networks:
        if implied_cluster_network(item.spec.bridge_name) == cluster_network:
            raise Refused(
                f"VlanConfig {new.metadata.name}: spec.clusterNetwork: {item.spec.bridge_name} is the bridge of "
                f"DummyClusterNetwork {item.metadata.name}, which is isolated and gets no uplink; name another "
                "cluster network, or delete the DummyClusterNetwork first"
            )

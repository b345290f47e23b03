"""The addresses of an isolated network: its gateway, and the Network of which everybody on it gets one."""

from lanloom.api.dummy import NAME_ANNOTATION
from lanloom.api.ipam import NETWORKS, Network, PoolSpec, SubnetSpec
from lanloom.dummy.rules.marks import Raw, marks
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.names import resource_name


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
        "metadata": {"name": resource_name(net.name, net.uid), **marks(net.name, net.uid)},
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
        raise ValueError(f"DummyClusterNetwork {net.name} has no subnet, so nothing can have addresses of it")
    gateway = gateway_of(net)
    subnet: Raw = {"cidr": str(net.subnet), "pools": [{"range": str(net.subnet)}]}
    return subnet | ({"gateway": gateway} if gateway else {}) | ({"uuid": uuid} if uuid else {})

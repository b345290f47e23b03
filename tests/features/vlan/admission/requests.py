"""Requests as the API server sends them, and a small cluster to judge them in."""

import asyncio
import json
from typing import Any

from lanloom.api import names
from lanloom.api.admission import (
    AdmissionRequest,
    Verdict,
)
from lanloom.api.clusterranges import Taken
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.reader import ClusterReader
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.features.vlan.rules.desired.reserved import reserved
from lanloom.features.vlan.views.apply import cluster_reader
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)

Raw = dict[str, Any]

STATIC = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24"}
"""Addresses for the nodes that carry cluster-1."""

MGMT_VLAN = 2021
"""The management VLAN that the manager's setting names."""


RANGES = (
    Taken("10.116.7.7", "the API server"),
    Taken("10.96.0.0/12", "the services (ServiceCIDR kubernetes)"),
    Taken("10.43.0.1", "service default/kubernetes"),
)
"""The addresses of services and API servers in the small cluster."""


def overlay_config(name: str) -> str:
    """The configuration of an overlay network, the NAD `name` in namespace `default`."""
    return json.dumps({"type": "kube-ovn", "provider": f"{name}.default.ovn"})


def machine(name: str, *networks: str, namespace: str = "default") -> Raw:
    """A VirtualMachine with these NADs, which is stopped."""
    nics = [{"name": f"nic{index}", "multus": {"networkName": title}} for index, title in enumerate(networks)]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"template": {"spec": {"networks": [{"name": "default", "pod": {}}, *nics]}}},
    }


def report(network: str, name: str, ready: bool = True) -> Raw:
    """A node's report of a cluster network."""
    conditions = [{"type": "ready", "status": str(ready)}]
    labels = {names.NODE_LABEL: name, names.CLUSTER_NETWORK_LABEL: network}
    return {
        "kind": "ClusterNetworkNode",
        "metadata": {"name": report_name(network, name), "labels": labels},
        "status": {"clusterNetwork": network, "node": name, "conditions": conditions},
    }


def world(*more: Raw) -> ClusterReader:
    """Two nodes that carry cluster-1, a witness, a cluster network without an uplink, and more."""
    witness = node("witness")
    witness["metadata"]["labels"][names.WITNESS_ROLE] = "true"
    objects = [
        node("node1", address="10.115.252.135"),
        node("node2", address="10.115.252.136"),
        witness,
        cluster_network("mgmt"),
        cluster_network("cluster-1"),
        vlan_config("one", "cluster-1"),
        report("cluster-1", "node1"),
        report("cluster-1", "node2", ready=False),
        cluster_network("bare"),
        *more,
    ]
    cluster = cluster_of(objects)
    known = reserved(cluster.nodes, cluster.statuses, MGMT_VLAN, RANGES)
    return cluster_reader(cluster, known)


def vm(
    name: str, *networks: str, node: str = "node1", phase: str = "Running", namespace: str = "default"
) -> Raw:
    """A virtual machine with these NADs, on a node."""
    nics = [{"name": f"nic{index}", "multus": {"networkName": title}} for index, title in enumerate(networks)]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"networks": [{"name": "default", "pod": {}}, *nics]},
        "status": {"phase": phase, "nodeName": node},
    }


def network(**more: Any) -> Raw:
    """A network on VLAN 2012 of cluster-1, with node addresses by DHCP unless given otherwise."""
    return nad("net", **{"cluster_network": "cluster-1", "vid": 2012, "mode": "dhcp", **more})


def static(addresses: dict[str, str] | str | None) -> Raw:
    """The same with static addresses."""
    return network(mode="static", addresses=addresses)


def annotated(body: Raw, **annotations: str) -> Raw:
    """An object with these annotations too; their names without the prefix, and with underscores for dashes."""
    more = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return {
        **body,
        "metadata": {**body["metadata"], "annotations": {**body["metadata"].get("annotations", {}), **more}},
    }


def with_label(key: str, value: str) -> Raw:
    """The network with one label changed."""
    body = network()
    body["metadata"]["labels"][names.PREFIX + key] = value
    return body


def renamed(body: Raw, name: str) -> Raw:
    """The same under another name."""
    return {**body, "metadata": {**body["metadata"], "name": name}}


def admission(**nodes_of_pods: str) -> VlanAdmission:
    """The webhooks without an API server behind them, for what needs none."""
    return VlanAdmission(None, world(), lambda pod: nodes_of_pods.get(pod, ""))  # type: ignore[arg-type]


def report_verdict(asked: AdmissionRequest) -> Verdict:
    """What is answered to a user who writes a report."""
    return asyncio.run(admission(agent7="node1").validate(asked))

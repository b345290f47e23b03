"""A cluster for trials, as facts and as pods."""

from typing import Any

import msgspec
from msgspec.structs import replace

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import ContainerState, ContainerStatus, Ended, Pod, PodStatus, Waiting
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NADS
from lanloom.features import FEATURES
from lanloom.runtime.feature import trials_of
from lanloom.runtime.trials import Facts, NodeAddress, Report, Trial, TrialNode

KINDS = (CLUSTER_NETWORK_NODES, DUMMY_CLUSTER_NETWORKS, LANS, NADS, NETWORKS)

PLACES = (TrialNode("node1", "host1"), TrialNode("node2", "host2"))

ADDRESSES = tuple(
    NodeAddress(cluster_network="c1", vlan=7, node=node, interface="c1-br.7", address=address)
    for node, address in (("node1", "10.7.0.1"), ("node2", "10.7.0.2"))
)

FACTS = Facts(
    places=PLACES,
    kinds=frozenset(kind.full_name for kind in KINDS),
    run="r1",
    image="lanloom:0.1.0",
    underlay="eth0",
    vni=16_000_000,
    addresses=ADDRESSES,
)


def planned(name: str, **changes: Any) -> Trial:
    """Return a trial of the cluster with these changes of the facts."""
    (found,) = (trial for trial in trials_of(FEATURES, replace(FACTS, **changes)) if trial.name == name)
    return found


def good(trial: Trial) -> dict[str, Report]:
    """Return what the pods of a trial report where all is well."""
    return {
        probe.task.name: Report(
            heard=probe.task.peers,
            mutual=probe.task.peers,
            routed=probe.task.peers if probe.task.routed else (),
            addresses=(f"198.18.77.{number}/24",) if probe.task.routed else (),
            answered=tuple(ping.title for ping in probe.task.pings),
        )
        for number, probe in enumerate(trial.probes, 10)
    }


def ended(report: Report | str, code: int = 0) -> Pod:
    """Return a pod that left this report."""
    message = report if isinstance(report, str) else msgspec.json.encode(report).decode()
    state = ContainerState(terminated=Ended(exit_code=code, message=message, reason="Completed"))
    status = PodStatus(
        phase="Failed" if code else "Succeeded", container_statuses=(ContainerStatus(state=state),)
    )
    return Pod(metadata=ObjectMeta(name="x"), status=status)


def waiting(reason: str, message: str = "") -> Pod:
    """Return a pod whose container waits."""
    state = ContainerState(waiting=Waiting(reason=reason, message=message))
    status = PodStatus(phase="Pending", container_statuses=(ContainerStatus(state=state),))
    return Pod(metadata=ObjectMeta(name="x"), status=status)

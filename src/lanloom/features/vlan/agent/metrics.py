"""The agent's metrics of VLAN networks: the networks of its node, the repairs, and the failures."""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.meta import parse_rfc3339
from lanloom.features.vlan.rules.report.status import PASSING
from lanloom.kube.controller import Outcome
from lanloom.runtime.exposition import CollectorRegistry, Counter, Metric
from lanloom.runtime.metrics import FeatureMetrics, OnDemand, gauge

ROLLED_BACK = "RolledBack"

Failure = tuple[str, int, str]
"""A failure: cluster network, VLAN id (0: its uplink), reason."""


class VlanAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too. Its methods are the agent's observers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._statuses: Mapping[str, ClusterNetworkNodeStatus] = {}
        self._failed: frozenset[Failure] = frozenset()
        self._checked = False
        self._failures = Counter(
            "lanloom_agent_failures",
            "Times that an uplink or an interface failed, or failed for another reason than before.",
            ("reason",),
            registry=registry,
        )
        self._rollbacks = Counter(
            "lanloom_agent_rollbacks",
            "Changes undone because they cut the node off from the API server.",
            registry=registry,
        )
        self._repairs = Counter(
            "lanloom_agent_repairs",
            "Changes by others that the agent reverted.",
            ("kind",),
            registry=registry,
        )
        registry.register(OnDemand(self._collect))

    def reconciled(self, outcome: Outcome) -> None:
        """Count a reconcile of the host. One that came to its end asks for another one later."""
        self._checked = self._checked or outcome == "later"

    def missing(self) -> Iterator[str]:
        """Name what is missing until the agent is ready."""
        if not self._checked:
            yield "the host has not been read yet"

    def report(self, statuses: Mapping[str, ClusterNetworkNodeStatus]) -> None:
        """Record what the node reports, by cluster network."""
        self._statuses = statuses
        failed = frozenset(_failures(statuses))
        for _cluster_network, vid, reason in failed - self._failed:
            self._failures.labels(reason).inc()
            if reason == ROLLED_BACK and vid == 0:
                self._rollbacks.inc()
        self._failed = failed

    def repair(self, kind: str, number: int) -> None:
        """Count repairs of a kind."""
        self._repairs.labels(kind).inc(number)

    def _collect(self) -> Iterator[Metric]:
        statuses = self._statuses
        yield gauge(
            "lanloom_agent_network_ready",
            "Whether a condition of a cluster network on this node is true.",
            ("cluster_network", "condition"),
            [
                ((name, condition.type), condition.status == "True")
                for name, status in statuses.items()
                for condition in status.conditions
            ],
        )
        tally = Tally(
            (name, item.state, item.reason) for name, status in statuses.items() for item in status.interfaces
        )
        yield gauge(
            "lanloom_agent_interfaces",
            "VLAN interfaces with node addresses, by state and reason.",
            ("cluster_network", "state", "reason"),
            tally.items(),
        )
        leases = {name: _expiries(status.interfaces) for name, status in statuses.items()}
        yield gauge(
            "lanloom_agent_dhcp_leases",
            "DHCP leases that the node holds.",
            ("cluster_network",),
            [((name,), len(expiries)) for name, expiries in leases.items()],
        )
        yield gauge(
            "lanloom_agent_dhcp_lease_expiry_timestamp_seconds",
            "When the first lease ends unless it is renewed, in seconds since the epoch.",
            ("cluster_network",),
            [((name,), min(known)) for name, found in leases.items() if (known := [*filter(None, found)])],
        )


def _failures(statuses: Mapping[str, ClusterNetworkNodeStatus]) -> Iterator[Failure]:
    """Yield the uplinks that failed, and the addresses one by one."""
    for name, status in statuses.items():
        for condition in status.conditions:
            failed = condition.status != "True" and condition.reason not in PASSING
            if condition.type == "ready" and failed:
                yield name, 0, condition.reason
        for item in status.interfaces:
            if item.state == "Failed" and item.reason not in PASSING:
                yield name, item.vlan_id, item.reason


def _expiries(interfaces: tuple[VlanInterface, ...]) -> list[float]:
    """Return the ends of the leases; 0 for a lease without one."""
    leases = (item.lease for item in interfaces if item.lease is not None)
    return [parse_rfc3339(lease.expiry) if lease.expiry else 0.0 for lease in leases]

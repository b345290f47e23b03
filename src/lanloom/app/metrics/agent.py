"""What an agent measures besides the kit: what its node carries, what it had to do for that, and what went wrong."""

from collections import Counter as Tally
from collections.abc import Hashable, Iterator, Mapping

from prometheus_client import Counter, Gauge
from prometheus_client.metrics_core import Metric

from lanloom.api.harvester import VlanInterface, VlStatus
from lanloom.api.times import parse_rfc3339
from lanloom.app.metrics.common import OnDemand, ProcessMetrics, gauge
from lanloom.kube.controller import Outcome
from lanloom.vlan.rules.status import PASSING

HOST_CONTROLLER = "vlan-agent"
ROLLED_BACK = "RolledBack"

Failure = tuple[str, int, str]
"""What failed and why: cluster network, VLAN id (0: its uplink), reason."""


class AgentMetrics(ProcessMetrics):
    """The agent's metrics. Its methods are the observers that the agent and its ports are given."""

    def __init__(self) -> None:
        super().__init__()
        self._statuses: Mapping[str, VlStatus] = {}
        self._failed: frozenset[Failure] = frozenset()
        self._looked = False
        self.network_manager_fault = "NetworkManager has not been asked yet"
        """Why NetworkManager can't be reached, in words; empty when it can."""
        registry = self.registry
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
            "What others had changed and the agent put right.",
            ("kind",),
            registry=registry,
        )
        self._dumps = Counter("lanloom_agent_link_dumps", "Looks at the kernel's links.", registry=registry)
        self._steps = Counter(
            "lanloom_agent_link_changes", "Steps carried out on links.", ("step",), registry=registry
        )
        self._refusals = Counter(
            "lanloom_agent_link_errors", "Steps or looks that the kernel refused.", registry=registry
        )
        self._writes = Counter(
            "lanloom_agent_profile_writes",
            "Profiles written or removed.",
            ("verb",),
            registry=registry,
        )
        self._asked = Counter(
            "lanloom_agent_network_manager_requests",
            "What NetworkManager was asked to change.",
            ("verb",),
            registry=registry,
        )
        self._cni_calls = Counter(
            "lanloom_agent_cni_calls",
            "Calls of the CNI plugin, by CNI's code for their error, 0 for none.",
            ("command", "code"),
            registry=registry,
        )
        self._cni_up = Gauge(
            "lanloom_agent_cni_up",
            "Whether the CNI plugin is installed, and whether the agent listens on its socket.",
            ("part",),
            registry=registry,
        )
        self._bridges_removed = Counter(
            "lanloom_agent_isolated_bridges_removed",
            "Bridges of isolated networks that are no more, taken away.",
            registry=registry,
        )
        registry.register(OnDemand(self._collect))

    def reconcile(self, controller: str, key: Hashable, seconds: float, outcome: Outcome) -> None:
        """As of every process. A look at the host that came to its end asks for another one later."""
        super().reconcile(controller, key, seconds, outcome)
        self._looked = self._looked or (controller == HOST_CONTROLLER and outcome == "later")

    def missing(self) -> Iterator[str]:
        """What the agent lacks to be ready, in words."""
        yield from self.unread()
        if not self._looked:
            yield "the host has not been looked at for a first time"
        if self.network_manager_fault:
            yield self.network_manager_fault

    def report(self, statuses: Mapping[str, VlStatus]) -> None:
        """Takes in what the node reports, by cluster network."""
        self._statuses = statuses
        failed = frozenset(_failures(statuses))
        for _cluster_network, vid, reason in failed - self._failed:
            self._failures.labels(reason).inc()
            if reason == ROLLED_BACK and vid == 0:
                self._rollbacks.inc()
        self._failed = failed

    def repair(self, kind: str, number: int) -> None:
        """Something was put right."""
        self._repairs.labels(kind).inc(number)

    def dumped(self) -> None:
        """The kernel was looked at."""
        self._dumps.inc()

    def stepped(self, step: str) -> None:
        """A step on a link was carried out."""
        self._steps.labels(step).inc()

    def refused(self) -> None:
        """The kernel refused a look or a step."""
        self._refusals.inc()

    def written(self, verb: str) -> None:
        """A profile was written or removed."""
        self._writes.labels(verb).inc()

    def asked(self, verb: str) -> None:
        """NetworkManager was asked to change something."""
        self._asked.labels(verb).inc()

    def cni_call(self, command: str, code: int) -> None:
        """The CNI plugin was answered."""
        self._cni_calls.labels(command, str(code)).inc()

    def cni_part(self, part: str, there: bool) -> None:
        """The plugin or its socket was looked at."""
        self._cni_up.labels(part).set(there)

    def isolated_bridge_removed(self) -> None:
        """A bridge of an isolated network that is no more was taken away."""
        self._bridges_removed.inc()

    def _collect(self) -> Iterator[Metric]:
        statuses = self._statuses
        yield gauge(
            "lanloom_agent_network_manager_up",
            "Whether NetworkManager answered the last time that it was asked.",
            (),
            [((), not self.network_manager_fault)],
        )
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
            "When the first of the leases ends unless it is renewed, in seconds since the epoch.",
            ("cluster_network",),
            [((name,), min(known)) for name, found in leases.items() if (known := [*filter(None, found)])],
        )


def _failures(statuses: Mapping[str, VlStatus]) -> Iterator[Failure]:
    """The uplinks that failed, and the addresses one by one."""
    for name, status in statuses.items():
        for condition in status.conditions:
            failed = condition.status != "True" and condition.reason not in PASSING
            if condition.type == "ready" and failed:
                yield name, 0, condition.reason
        for item in status.interfaces:
            if item.state == "Failed" and item.reason not in PASSING:
                yield name, item.vlan_id, item.reason


def _expiries(interfaces: tuple[VlanInterface, ...]) -> list[float]:
    """When each lease ends; 0 for one that does not say."""
    leases = (item.lease for item in interfaces if item.lease is not None)
    return [parse_rfc3339(lease.expiry) if lease.expiry else 0.0 for lease in leases]

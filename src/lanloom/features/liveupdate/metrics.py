"""What a manager shows of live update: its mode, machines that wait, migrations, and moves in place."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.liveupdate import FINAL, NetworkSwap
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT, REASONS
from lanloom.features.liveupdate.settings import Action
from lanloom.kube.conditions import find
from lanloom.kube.informer import Informer
from lanloom.runtime.exposition import CollectorRegistry, Counter, Histogram, Metric
from lanloom.runtime.metrics import OnDemand, gauge

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class LiveUpdateMetrics:
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._ended = Counter(
            "lanloom_network_swaps_ended",
            "Moves of NICs in place that ended, by result: Succeeded, Reverted or Failed.",
            ("result",),
            registry=registry,
        )
        self._gap = Histogram(
            "lanloom_network_swap_gap_seconds",
            "Time for which a move in place that succeeded left its NIC without a network.",
            buckets=_BUCKETS,
            registry=registry,
        )

        self._actions = Counter(
            "lanloom_network_update_actions",
            "Migrations that were requested, refused by the API server, or aborted, and changes that were taken back.",
            ("action",),
            registry=registry,
        )

    def show(
        self,
        swaps: Informer[NetworkSwap],
        instances: Informer[VirtualMachineInstance],
        mode: Callable[[], str],
    ) -> None:
        """Show the swaps that have not ended, the machines that wait, and the mode from now on; called once."""
        self._registry.register(OnDemand(lambda: _unfinished(swaps.store.items())))
        self._registry.register(OnDemand(lambda: _waiting(instances.store.items())))
        self._registry.register(OnDemand(lambda: _mode(mode())))

    def act(self, action: Action) -> None:
        """Count what was done about networks of a machine."""
        self._actions.labels(action).inc()

    def ended(self, swap: NetworkSwap) -> None:
        """Count a swap that ended, and its gap."""
        self._ended.labels(swap.status.phase).inc()
        port = swap.status.port
        if swap.status.phase == "Succeeded" and port is not None and port.gap_milliseconds:
            self._gap.observe(port.gap_milliseconds / 1000)


def _unfinished(swaps: Iterable[NetworkSwap]) -> Iterator[Metric]:
    phases = Tally(swap.status.phase or "Pending" for swap in swaps if swap.status.phase not in FINAL)
    yield gauge(
        "lanloom_network_swaps",
        "Moves of NICs in place that have not ended, by phase.",
        ("phase",),
        [((phase,), count) for phase, count in sorted(phases.items())],
    )


def _waiting(machines: Iterable[VirtualMachineInstance]) -> Iterator[Metric]:
    found = (find(machine.status.conditions, NETWORKS_CURRENT) for machine in machines)
    reasons = Tally(item.reason for item in found if item is not None and item.status == "False")
    yield gauge(
        "lanloom_network_updates",
        "Running machines whose networks are not those that they are to have, by reason of NetworksCurrent.",
        ("reason",),
        [((reason,), reasons[reason]) for reason in sorted(REASONS)],
    )


def _mode(mode: str) -> Iterator[Metric]:
    yield gauge(
        "lanloom_live_update_mode",
        "Who changes networks of running machines: 1 for full, companion or restart. None before the first look.",
        ("mode",),
        [((mode,), 1.0)] if mode else [],
    )

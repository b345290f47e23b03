"""What an agent measures of LANs: CNI calls, devices, allocations."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from msgspec import Struct

from lanloom.features.lan.rules.observed import Traffic
from lanloom.features.lan.rules.storms import Table
from lanloom.runtime.exposition import CollectorRegistry, Counter, Gauge, Metric
from lanloom.runtime.metrics import FeatureMetrics, OnDemand, counter, gauge

SPOKES_SHOWN = 500
"""Attached spokes whose traffic is shown, six to nine series for each: more than a node has pods."""

TABLES_SHOWN = 1000
"""Tables of learned MAC addresses that are shown, two for each LAN."""

_LABELS = ("namespace", "lan", "spoke", "mode", "direction")


class SpokeTraffic(Struct, frozen=True, kw_only=True):
    """What passed the port of an attached spoke."""

    namespace: str
    lan: str
    spoke: str
    mode: str
    traffic: Traffic


class LearnedMacs(Struct, frozen=True, kw_only=True):
    """A table of MAC addresses that the node has learned of a LAN."""

    namespace: str
    lan: str
    table: Table


class LanAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "lanloom_agent_lan_cni_calls",
            "Calls of the CNI programs of LANs, by CNI's code for their error, 0 for none.",
            ("program", "command", "code"),
            registry=registry,
        )
        self._up = Gauge(
            "lanloom_agent_lan_cni_up",
            "Whether the agent listens on the socket of the CNI programs of LANs.",
            registry=registry,
        )
        self._devices = Gauge(
            "lanloom_agent_lan_devices",
            "Devices that are registered with kubelet, two for each spoke.",
            registry=registry,
        )
        self._allocations = Counter(
            "lanloom_agent_lan_allocations",
            "Devices that kubelet asked for, by the status of the answer in gRPC's numbers, 0 for success.",
            ("status",),
            registry=registry,
        )
        self._traffic: Callable[[], Iterable[SpokeTraffic]] = tuple
        self._learned: Callable[[], Iterable[LearnedMacs]] = tuple
        registry.register(OnDemand(self._collect))

    def follow(
        self,
        traffic: Callable[[], Iterable[SpokeTraffic]],
        learned: Callable[[], Iterable[LearnedMacs]] = tuple,
    ) -> None:
        """Show what passes spokes and what was learned, as these yield it at each scrape."""
        self._traffic, self._learned = traffic, learned

    def called(self, program: str, command: str, code: int) -> None:
        """Count an answer to a CNI program."""
        self._calls.labels(program, command, str(code)).inc()

    def serves(self, there: bool) -> None:
        """Tell that the socket of the CNI programs came or went."""
        self._up.set(there)

    def registered(self, count: int) -> None:
        """Record how many devices kubelet knows."""
        self._devices.set(count)

    def allocated(self, _device: str, status: int) -> None:
        """Count an answer to an Allocate."""
        self._allocations.labels(str(status)).inc()

    def _collect(self) -> Iterator[Metric]:
        yield from self._spokes()
        yield from self._tables()

    def _tables(self) -> Iterator[Metric]:
        found = tuple(islice(self._learned(), TABLES_SHOWN))
        for name, text, numbers in (
            (
                "learned_macs",
                "MAC addresses that the node has learned",
                [each.table.learned for each in found],
            ),
            ("learned_macs_limit", "How many it may learn", [each.table.limit for each in found]),
        ):
            yield gauge(
                f"lanloom_agent_lan_{name}",
                f"{text} of a LAN, in the table of its bridge and in that of its VXLAN link, at the last look.",
                ("namespace", "lan", "table"),
                [
                    ((each.namespace, each.lan, each.table.name), number)
                    for each, number in zip(found, numbers, strict=True)
                ],
            )

    def _spokes(self) -> Iterator[Metric]:
        found = tuple(islice(self._traffic(), SPOKES_SHOWN))
        for name, text, pairs in (
            ("frames", "Frames", [each.traffic.frames for each in found]),
            ("bytes", "Bytes", [each.traffic.bytes for each in found]),
            ("dropped_frames", "Frames that were dropped", [each.traffic.dropped for each in found]),
        ):
            yield counter(
                f"lanloom_agent_lan_spoke_{name}",
                f"{text} from (in) and to (out) what is attached to a spoke, since its port was made.",
                _LABELS,
                [
                    ((each.namespace, each.lan, each.spoke, each.mode, direction), number)
                    for each, pair in zip(found, pairs, strict=True)
                    for direction, number in zip(("in", "out"), pair, strict=True)
                ],
            )
        yield counter(
            "lanloom_agent_lan_spoke_refused_frames",
            "Frames that options of a spoke dropped at its port, by option, since the packet filter was made.",
            (*_LABELS[:-1], "option"),
            [
                ((each.namespace, each.lan, each.spoke, each.mode, option), number)
                for each in found
                for option, number in each.traffic.refused
            ],
        )

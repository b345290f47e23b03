"""What a manager shows of LANs: how many are how well, on how many nodes, with which MTU.

All of it is read from the store at each scrape. Should there be very many LANs, only so many have series of their
own, and the counts by reason include the others.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from lanloom.api.lan import LAN, READY
from lanloom.api.meta import parse_rfc3339
from lanloom.kube.conditions import find
from lanloom.kube.informer import Informer
from lanloom.runtime.exposition import CollectorRegistry, Metric
from lanloom.runtime.metrics import OnDemand, gauge

LANS_SHOWN = 500
"""So many LANs have series of their own, in the order of their namespaces and names."""

NEW = "New"
"""The reason of a LAN that no manager has looked at yet."""


class LanMetrics:
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def show(self, lans: Informer[LAN]) -> None:
        """Show these from now on; called once."""
        self._registry.register(OnDemand(lambda: _lans(lans.store.items())))


def _lans(lans: Iterable[LAN]) -> Iterator[Metric]:
    ordered = sorted(lans, key=lambda item: item.metadata.key)
    reasons = Tally(_reason(item) for item in ordered)
    shown = ordered[:LANS_SHOWN]
    labels = ("namespace", "lan")
    yield gauge(
        "lanloom_lans",
        "LANs by the reason of their condition Ready; New is one that no manager has looked at yet.",
        ("reason",),
        [((reason,), count) for reason, count in sorted(reasons.items())],
    )
    yield gauge(
        "lanloom_lan_nodes",
        "Nodes that carry a LAN: all of them, and those on which it is ready.",
        (*labels, "state"),
        [
            ((*item.metadata.key, state), count)
            for item in shown
            for state, count in (
                ("all", len(item.status.nodes)),
                ("ready", sum(node.ready for node in item.status.nodes)),
            )
        ],
    )
    yield gauge(
        "lanloom_lan_mtu_bytes",
        "Largest packet that fits on every node of a LAN; absent while no node carries it.",
        labels,
        [(tuple(item.metadata.key), item.status.mtu) for item in shown if item.status.mtu],
    )
    yield gauge(
        "lanloom_lan_spokes",
        "Spokes of a LAN: how many pods and machines it has places for.",
        labels,
        [(tuple(item.metadata.key), len(item.spec.spokes)) for item in shown],
    )
    yield gauge(
        "lanloom_lan_deletion_timestamp_seconds",
        "When the deletion of a LAN that is not gone yet was asked for, in seconds since the epoch.",
        labels,
        [
            (tuple(item.metadata.key), parse_rfc3339(item.metadata.deletion_timestamp))
            for item in shown
            if item.metadata.deletion_timestamp is not None
        ],
    )


def _reason(lan: LAN) -> str:
    found = find(lan.status.conditions, READY)
    return found.reason if found is not None else NEW

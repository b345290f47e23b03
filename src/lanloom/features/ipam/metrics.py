"""Metrics of address management in a manager: usage of pools, and states of NICs.

Pools are read from the networks' statuses at each scrape. What becomes of NICs is taken from the watch, on every
replica alike, so that it does not matter which one leads. Networks and pools are an administrator's, and there are few;
should there be thousands of pools, only so many are shown, and a metric counts the others.
"""

import asyncio
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from lanloom.api.ipam import (
    ALLOCATED,
    Network,
    Nic,
    PoolStatus,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.rules.shares import EVERY, limit_of
from lanloom.kube.conditions import find
from lanloom.kube.informer import Informer
from lanloom.runtime.exposition import CollectorRegistry, Counter, Histogram, Metric
from lanloom.runtime.metrics import OnDemand, gauge

POOLS_SHOWN = 1000
"""So many pools have series of their own, in the order of their networks' names."""

QUOTAS_SHOWN = 1000
"""So many quotas of namespaces have series of their own."""

ALLOCATION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds."""

REASONS = frozenset(
    [
        "AddressInUse",
        "AddressReserved",
        "Exhausted",
        "Malformed",
        "NamespaceNotAllowed",
        "NetworkMissing",
        "NetworkNotReady",
        "OutsideSubnets",
        "QuotaExceeded",
        "UnknownPool",
    ]
)
"""Why a NIC is refused; anything else is shown as `other`."""

WAITING = "waiting"
"""A NIC that no manager has answered yet."""

_POOL = ("network", "subnet", "pool", "name")


class IpamMetrics:
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._pending: dict[Key, str] = {}
        self._since: dict[Key, float] = {}
        self._used: Tally[tuple[str, str]] = Tally()
        self._given = Counter(
            "lanloom_ipam_allocations",
            "Addresses that NICs were given, as they were seen.",
            registry=registry,
        )
        self._refusals = Counter(
            "lanloom_ipam_refusals",
            "Times that a NIC was refused, by reason.",
            ("reason",),
            registry=registry,
        )
        self._latency = Histogram(
            "lanloom_ipam_allocation_duration_seconds",
            "How long NICs waited for what they asked for, from when it was seen.",
            buckets=ALLOCATION_BUCKETS,
            registry=registry,
        )
        self._leaks = Counter(
            "lanloom_ipam_leaks", "NICs that were deleted because their owners were gone.", registry=registry
        )

    def leaked(self) -> None:
        """Count addresses that leaked, as an observer of `lanloom.features.ipam.manager.owners`."""
        self._leaks.inc()

    def show(self, networks: Informer[Network], nics: Informer[Nic]) -> None:
        """Show these from now on; called once."""
        nics.on_change(self._nic_changed)
        self._registry.register(OnDemand(lambda: _pools(networks.store.items())))
        self._registry.register(OnDemand(self._nics))
        self._registry.register(OnDemand(lambda: _quotas(networks.store.items(), self._used)))

    def _nics(self) -> Iterator[Metric]:
        yield gauge(
            "lanloom_ipam_nics_pending",
            "NICs that have not got what they ask for, by the reason; waiting is none yet.",
            ("reason",),
            Tally((reason,) for reason in self._pending.values()).items(),
        )

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        self._count(old, -1)
        self._count(new, 1)
        if new is None:
            if old is not None:
                self._forget(old.metadata.key)
            return
        state = _state(new)
        if old is None and not state:
            return  # it had everything before we saw it
        if old is not None:
            self._given.inc(len(set(new.status.ips).difference(old.status.ips)))
        self._follow(new.metadata.key, state)

    def _count(self, nic: Nic | None, sign: int) -> None:
        if nic is not None and nic.status.ips:
            place = (nic.status.network, nic.metadata.namespace)
            self._used[place] += sign * len(nic.status.ips)
            if not self._used[place]:
                del self._used[place]

    def _follow(self, key: Key, state: str) -> None:
        """Take in what a NIC waits for now, empty for nothing."""
        before, now = self._pending.get(key, ""), asyncio.get_running_loop().time()
        if state == before:
            return
        if not state:
            if key in self._since:
                self._latency.observe(now - self._since[key])
            self._forget(key)
            return
        self._pending[key] = state
        if state == WAITING:
            self._since[key] = now
        else:
            self._refusals.labels(state).inc()

    def _forget(self, key: Key) -> None:
        self._pending.pop(key, None)
        self._since.pop(key, None)


def _state(nic: Nic) -> str:
    """Return why a NIC has not got what it asks for; empty if it has."""
    found = find(nic.status.conditions, ALLOCATED)
    if nic.metadata.is_deleting:
        return ""
    if found is None or nic.status.observed_generation != nic.metadata.generation:
        return WAITING
    if found.status == "True":
        return ""
    return found.reason if found.reason in REASONS else "other"


def _pools(networks: Iterable[Network]) -> Iterator[Metric]:
    ordered = sorted(networks, key=lambda item: item.metadata.name)
    every = sum(len(item.status.pools) for item in ordered)
    rows = [
        ((item.metadata.name, pool.subnet, pool.range, pool.name), pool)
        for item, pool in islice(_each_pool(ordered), POOLS_SHOWN)
    ]
    for field, what in (
        ("size", "Addresses of a pool."),
        ("used", "Addresses of a pool that NICs own."),
        ("reserved", "Addresses of a pool that are externally reserved and not used."),
        ("free", "Addresses of a pool that can be given away."),
    ):
        values = [(labels, _number(getattr(pool, field))) for labels, pool in rows]
        yield gauge(f"lanloom_ipam_pool_{field}", what, _POOL, values)
    disabled = [(labels, float(pool.disabled)) for labels, pool in rows]
    yield gauge("lanloom_ipam_pool_disabled", "1 for a pool that gives nothing away.", _POOL, disabled)
    hidden = [((), max(0, every - POOLS_SHOWN))]
    yield gauge(
        "lanloom_ipam_pools_hidden", "Pools that have no series because there are too many.", (), hidden
    )


def _quotas(networks: Iterable[Network], used: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    """Yield the namespaces that have a quota of a network, and addresses or a quota of their own."""
    known = {item.metadata.name: item.spec.quota for item in networks}
    places = {
        *used,
        *((network, name) for network, quota in known.items() for name in quota if name != EVERY),
    }
    rows = [
        (place, limit)
        for place in sorted(places)
        if (quota := known.get(place[0])) and (limit := limit_of(quota, place[1])) is not None
    ][:QUOTAS_SHOWN]
    labels = ("network", "namespace")
    yield gauge(
        "lanloom_ipam_namespace_used",
        "Addresses of a network that NICs of a namespace with a quota own.",
        labels,
        [(place, used.get(place, 0)) for place, _ in rows],
    )
    yield gauge("lanloom_ipam_namespace_quota", "Addresses that a namespace may have.", labels, rows)


def _each_pool(networks: Iterable[Network]) -> Iterator[tuple[Network, PoolStatus]]:
    return ((item, pool) for item in networks for pool in item.status.pools)


def _number(text: str) -> float:
    """Return a number of a status, which may be larger than 64 bits; 0 for what is damaged."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 40 else 0.0

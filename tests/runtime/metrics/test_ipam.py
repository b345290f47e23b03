"""What a manager shows of pools and NICs."""

import asyncio
import random
from typing import Any, cast

import msgspec
import pytest

from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    Nic,
)
from lanloom.features.ipam.metrics import POOLS_SHOWN, IpamMetrics
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client, WatchEvent
from lanloom.runtime.exposition import CollectorRegistry
from tests.harness.virtual import run

Raw = dict[str, Any]


class Shown:
    """Metrics, and the watches that feed them."""

    def __init__(self) -> None:
        nobody, rng = cast(Client, None), random.Random(0)
        self.registry = CollectorRegistry()
        self.metrics = IpamMetrics(self.registry)
        self._networks, self._nics = Informer(nobody, NETWORKS, rng=rng), Informer(nobody, NICS, rng=rng)
        self._handler: Any = None
        self._nics.on_change = self._keep  # type: ignore[assignment, method-assign]
        self.metrics.show(self._networks, self._nics)

    def _keep(self, handler: Any) -> None:
        self._handler = handler

    def network(self, name: str, *pools: Raw) -> None:
        """A network whose status has these pools."""
        body = {"metadata": {"name": name, "resourceVersion": "1"}, "status": {"pools": list(pools)}}
        self._networks.store.apply(WatchEvent("ADDED", msgspec.convert(body, Network)))

    def nic(self, old: Nic | None, new: Nic | None) -> None:
        """The watch brings a change of a NIC."""
        self._handler(old, new)

    def value(self, name: str, /, **labels: str) -> float | None:
        """A sample."""
        return self.registry.get_sample_value(name, labels)


def nic(*ips: str, told: str = "", generation: int = 1, name: str = "web") -> Nic:
    """A NIC with the status `True`, or a reason; nothing if it was not answered."""
    conditions = []
    if told:
        conditions = [{"type": "Allocated", "status": "True" if told == "True" else "False", "reason": told}]
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "generation": generation},
            "spec": {"owner": {"kind": "Instance", "name": "web"}},
            "status": {"ips": list(ips), "observedGeneration": 1, "conditions": conditions},
        },
        Nic,
    )


def test_pools_are_shown_as_their_networks_say() -> None:
    """Size, use and room of each pool; also where there are more addresses than fit into 64 bits."""
    shown = Shown()
    shown.network(
        "net1",
        {"range": "2001:db8::/64", "name": "a", "subnet": "2001:db8::/48", "size": str(2**64), "used": "3"},
        {"range": "2001:db8:1::/64", "name": "b", "disabled": True},
    )
    labels = {"network": "net1", "subnet": "2001:db8::/48", "pool": "2001:db8::/64", "name": "a"}
    assert shown.value("lanloom_ipam_pool_size", **labels) == 2.0**64
    assert shown.value("lanloom_ipam_pool_used", **labels) == 3
    assert shown.value("lanloom_ipam_pool_free", **labels) == 0
    assert shown.value("lanloom_ipam_pool_disabled", **labels) == 0
    disabled = {"network": "net1", "subnet": "", "pool": "2001:db8:1::/64", "name": "b"}
    assert shown.value("lanloom_ipam_pool_disabled", **disabled) == 1
    assert shown.value("lanloom_ipam_pools_hidden") == 0


def test_there_are_only_so_many_series() -> None:
    """However many pools there are, a bounded number of them has series, and a metric says how many have none."""
    shown = Shown()
    for number in range(3):
        shown.network(f"net{number}", *({"range": f"10.0.{number}.{index}"} for index in range(POOLS_SHOWN)))
    samples = [
        sample
        for family in shown.registry.collect()
        if "pool_free" in family.name
        for sample in family.samples
    ]
    assert len(samples) == POOLS_SHOWN
    assert shown.value("lanloom_ipam_pools_hidden") == 2 * POOLS_SHOWN


@pytest.mark.parametrize("size", ["", "many", "-1", "9" * 5000, "٣"])
def test_what_is_spoilt_is_shown_as_nothing(size: str) -> None:
    """A damaged status ends no scrape."""
    shown = Shown()
    shown.network("net1", {"range": "x", "size": size})
    assert shown.value("lanloom_ipam_pool_size", network="net1", subnet="", pool="x", name="") == 0


def test_allocations_are_counted_and_timed() -> None:
    """From when a NIC was seen until it has what it asked for; what it had before is not counted."""

    async def story() -> None:
        shown = Shown()
        waiting = nic()
        shown.nic(None, waiting)
        assert shown.value("lanloom_ipam_nics_pending", reason="waiting") == 1
        await asyncio.sleep(2.0)
        given = nic("192.0.2.1", "192.0.2.2", told="True")
        shown.nic(waiting, given)
        assert shown.value("lanloom_ipam_nics_pending", reason="waiting") is None
        assert shown.value("lanloom_ipam_allocations_total") == 2
        assert shown.value("lanloom_ipam_allocation_duration_seconds_sum") == 2.0
        shown.nic(given, nic("192.0.2.1", "192.0.2.3", told="True"))
        assert shown.value("lanloom_ipam_allocations_total") == 3
        shown.nic(None, nic("192.0.2.9", told="True", name="known"))
        assert shown.value("lanloom_ipam_allocations_total") == 3
        assert shown.value("lanloom_ipam_allocation_duration_seconds_count") == 1

    run(story())


def test_refusals_are_counted_by_reason() -> None:
    """Each time that a NIC is refused counts once; a reason of another writer makes no series."""

    async def story() -> None:
        shown = Shown()
        waiting, full = nic(), nic(told="Exhausted")
        shown.nic(None, waiting)
        shown.nic(waiting, full)
        shown.nic(full, full)
        assert shown.value("lanloom_ipam_refusals_total", reason="Exhausted") == 1
        assert shown.value("lanloom_ipam_nics_pending", reason="Exhausted") == 1
        odd = nic(told="MadeUp")
        shown.nic(full, odd)
        assert shown.value("lanloom_ipam_refusals_total", reason="other") == 1
        again = nic(told="MadeUp", generation=2)
        shown.nic(odd, again)
        assert shown.value("lanloom_ipam_nics_pending", reason="waiting") == 1
        shown.nic(again, None)
        assert shown.value("lanloom_ipam_nics_pending", reason="waiting") is None

    run(story())


def test_a_nic_that_was_refused_and_then_served_is_timed() -> None:
    """The whole time counts that it waited, as far as it was seen."""

    async def story() -> None:
        shown = Shown()
        waiting, full, given = nic(), nic(told="Exhausted"), nic("192.0.2.1", told="True")
        shown.nic(None, waiting)
        await asyncio.sleep(1.0)
        shown.nic(waiting, full)
        await asyncio.sleep(9.0)
        shown.nic(full, given)
        assert shown.value("lanloom_ipam_allocation_duration_seconds_sum") == 10.0
        unseen = nic(told="Exhausted", name="other")
        shown.nic(None, unseen)
        shown.nic(unseen, nic("192.0.2.1", told="True", name="other"))
        assert shown.value("lanloom_ipam_allocation_duration_seconds_count") == 1

    run(story())


def test_leaks_are_counted() -> None:
    """A NIC that was deleted for want of an owner is counted."""
    shown = Shown()
    shown.metrics.leaked()
    assert shown.value("lanloom_ipam_leaks_total") == 1

"""What a manager shows of isolated networks."""

import random
from typing import Any, cast

import msgspec
from msgspec import Struct

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.meta import Key
from lanloom.features.dummy.metrics import NETWORKS_SHOWN, DummyMetrics
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client, WatchEvent
from lanloom.nads.references import User
from lanloom.runtime.exposition import CollectorRegistry


class TwoUsers(Struct, frozen=True):
    """A `NadUse` of one NAD that two use."""

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """As the rules ask."""
        return (User("Pod", "vms", "a"), User("Pod", "vms", "b")) if nad == Key("vms", "used") else ()

    def user_of(self, pod: Key) -> User:
        """Never called."""
        raise NotImplementedError

    def seen(self, uid: str) -> int | None:
        """As the rules ask."""
        return None


class Shown:
    """Metrics, and the store that they are read from."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._dcns = Informer(cast(Client, None), DUMMY_CLUSTER_NETWORKS, rng=random.Random(0))
        DummyMetrics(self.registry).show(self._dcns, TwoUsers())

    def network(self, name: str, nad: str = "nad", deleted: str | None = None, **status: Any) -> None:
        """A network as the watch brings it."""
        meta = {"name": name, "resourceVersion": "1", "deletionTimestamp": deleted}
        spec = {"nadNamespace": "vms", "nadName": nad}
        body = {"metadata": meta, "spec": spec, "status": status}
        self._dcns.store.apply(WatchEvent("ADDED", msgspec.convert(body, DummyClusterNetwork)))

    def value(self, name: str, /, **labels: str) -> float | None:
        """A sample."""
        return self.registry.get_sample_value(f"lanloom_dummy_{name}", labels)


def test_networks_are_counted_by_phase() -> None:
    """Every phase has a number, also one that no network is in; one that no manager looked at is new."""
    shown = Shown()
    shown.network("a", phase="Ready")
    shown.network("b", phase="Ready")
    shown.network("c")
    assert shown.value("networks", phase="Ready") == 2
    assert shown.value("networks", phase="New") == 1
    assert shown.value("networks", phase="DeletionBlocked") == 0


def test_nodes_are_those_of_the_status() -> None:
    """How many nodes are live, and how many of them have acknowledged; nothing before they are counted."""
    shown = Shown()
    shown.network("a", nodes={"live": 3, "acknowledged": 2})
    shown.network("b")
    assert shown.value("nodes", network="a", state="live") == 3
    assert shown.value("nodes", network="a", state="acknowledged") == 2
    assert shown.value("nodes", network="b", state="live") is None


def test_users_are_those_of_the_index() -> None:
    """Every user of a network's NAD counts, whether it is being deleted or not."""
    shown = Shown()
    shown.network("a", nad="used")
    shown.network("b")
    assert shown.value("users", network="a") == 2
    assert shown.value("users", network="b") == 0


def test_deletions_tell_their_age() -> None:
    """A network that is being deleted says since when; no other does."""
    shown = Shown()
    shown.network("a", deleted="2026-01-01T00:00:00Z")
    shown.network("b")
    assert shown.value("deletion_timestamp_seconds", network="a") == 1_767_225_600
    assert shown.value("deletion_timestamp_seconds", network="b") is None


def test_series_are_bounded() -> None:
    """Of very many networks only so many have series of their own; all are counted."""
    shown = Shown()
    for number in range(NETWORKS_SHOWN + 1):
        shown.network(f"net-{number:04}", phase="Ready")
    assert shown.value("networks", phase="Ready") == NETWORKS_SHOWN + 1
    assert shown.value("users", network=f"net-{NETWORKS_SHOWN - 1:04}") == 0
    assert shown.value("users", network=f"net-{NETWORKS_SHOWN:04}") is None

"""How much the manager writes on a ClusterNetwork, and where agents find the rest."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.dualstack import NodeAddresses
from lanloom.api.l3annotations import l3_of
from lanloom.features.vlan.rules.desired.l3values import (
    ANNOTATIONS_MAX,
    L3_MAX,
    LEAST_MAX,
    least,
    size,
)
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.report.cluster import annotation_patch, derive_annotations
from lanloom.features.vlan.rules.rollout.policy import revision
from tests.features.vlan.cluster import (
    Cluster,
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)

P = names.PREFIX
NOTE = "example.org/note"


def routes(number: int, count: int = 64) -> str:
    """That many routes over the VLAN of a network."""
    via = f"192.168.{100 + number % 100}.100"
    return json.dumps([{"to": f"100.64.{index}.0/24", "via": via} for index in range(count)])


def heavy(number: int, **more: Any) -> dict[str, Any]:
    """A network whose gateway and routes are some 3 KB."""
    extra = {names.GATEWAY: f"192.168.{100 + number % 100}.1/24", names.ROUTES: routes(number)}
    title = f"route-heavy-network-{number}"
    return nad(title, "cluster-1", 100 + number, namespace="lab2", mode="dhcp", more=extra, **more)


def light(number: int, mode: str = "dhcp") -> dict[str, Any]:
    """A network with little to say, under the longest of names."""
    return nad(f"{'x' * 200}{number:04}", "cluster-1", 2 + number, mode=mode)


def cluster(objects: Iterable[dict[str, Any]], **annotations: str) -> Cluster:
    """node1 with cluster-1 and these networks, after the manager has looked at them."""
    uplink = (node("node1"), cluster_network("cluster-1", **annotations), vlan_config("one", "cluster-1"))
    return cluster_of([*uplink, *objects]).managed()


def carried(found: Cluster) -> NodeNetwork:
    """What node1 carries of cluster-1."""
    (network,) = found.on_node("node1")
    return network


def rejected(found: Cluster) -> list[str]:
    """The networks that get no node addresses, each with the reason."""
    derived = derive_annotations(found.networks[0], found.nads, found.configs)
    return [f"{item.metadata.key}: {error}" for item, error in derived.rejected]


def references(found: Cluster) -> int:
    """How many networks have their values in their NADs alone."""
    return sum(key.startswith(f"{P}l3values-") for key in found.networks[0].metadata.annotations)


@pytest.mark.slow
def test_more_routes_than_a_cluster_network_can_hold_reach_the_nodes() -> None:
    """What does not fit on the ClusterNetwork is read in the NADs, and nodes carry all of it."""
    found = cluster(heavy(number) for number in range(110))
    assert size(found.networks[0].metadata.annotations) <= L3_MAX + 100
    assert references(found) > 0
    alone = [carried(cluster([heavy(number)])).interfaces for number in (0, 109)]
    interfaces = carried(found).interfaces
    assert len(interfaces) == 110
    assert [interfaces[:1], interfaces[109:]] == alone


@pytest.mark.slow
def test_the_oldest_networks_are_written_whole() -> None:
    """Room goes by age, so that a new network changes nothing of those before it."""
    older = [
        heavy(number, created=f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z") for number in range(90)
    ]
    before, after = cluster(older), cluster([heavy(99, created="2026-02-01T00:00:00Z"), *older])
    assert references(before) > 0
    kept = before.networks[0].metadata.annotations
    assert kept.items() <= after.networks[0].metadata.annotations.items()


def test_what_fits_is_written_whole() -> None:
    """With little to write a ClusterNetwork has everything, and nothing refers to a NAD."""
    assert references(cluster(heavy(number) for number in range(20))) == 0


def test_others_annotations_leave_less_room() -> None:
    """The whole never exceeds what Kubernetes allows, whatever others write on the ClusterNetwork."""
    found = cluster((heavy(number) for number in range(10)), **{NOTE: "x" * 200_000})
    assert size(found.networks[0].metadata.annotations) < ANNOTATIONS_MAX
    assert len(carried(found).interfaces) == 10


def test_the_least_has_a_bound() -> None:
    """However long a network's name, map and routes are, what must be written of it is short."""
    body = heavy(4094 - 100)
    body["metadata"] |= {"name": "n" * 253, "namespace": "s" * 63}
    (item,) = cluster_of([body]).nads
    value = l3_of(item)
    assert value is not None
    assert 300 < size(least(item, value)) <= LEAST_MAX


def test_a_network_without_room_is_rejected() -> None:
    """A network too many gets no node addresses, with the size and the limit; those before it keep theirs."""
    found = cluster(light(number) for number in range(1000))
    reasons = rejected(found)
    assert reasons
    assert len(carried(found).interfaces) == 1000 - len(reasons)
    assert "but ClusterNetwork cluster-1 would need 196" in reasons[0]
    assert f"at most {L3_MAX} are allowed" in reasons[0]


def test_a_network_that_is_there_keeps_its_room() -> None:
    """No annotation of others, and no network that is older, takes node addresses away."""
    found = cluster([light(5)])
    full = cluster_network("cluster-1", **found.networks[0].metadata.annotations, **{NOTE: "x" * 261_000})
    older = nad("older", "cluster-1", 3000, mode="dhcp", created="2020-01-01T00:00:00Z")
    crowded = cluster_of([full, light(5), older])
    derived = derive_annotations(crowded.networks[0], crowded.nads, ())
    assert [key.name for key in derived.holders] == [light(5)["metadata"]["name"]]
    assert [item.metadata.name for item, _ in derived.rejected] == ["older"]


def test_removals_are_never_too_large() -> None:
    """On a ClusterNetwork that is full, a network that goes makes the patch smaller."""
    found = cluster(light(number) for number in range(1000))
    less = derive_annotations(found.networks[0], found.nads[1:], found.configs)
    patch = annotation_patch(found.networks[0], less.annotations)
    gone = [key for key, value in patch.items() if value is None]
    assert f"{P}vlan-id-default-{'x' * 29}" in "".join(gone)
    assert size(less.annotations) <= L3_MAX + 100


@pytest.mark.slow
def test_addresses_of_pools_are_always_written() -> None:
    """Leases are nowhere else, so a network with mode pool is written whole, before others' values."""
    pool = nad(
        "pool", "cluster-1", 3000, mode="pool", more={names.IP_POOL: "net1"}, created="2026-02-01T00:00:00Z"
    )
    found = cluster_of([cluster_network("cluster-1"), *(heavy(number) for number in range(90)), pool])
    leases = {
        key: NodeAddresses({"node1": "10.0.0.1/24"}, {})
        for key in [item.metadata.key for item in found.nads][-1:]
    }
    derived = derive_annotations(found.networks[0], found.nads, (), leases=leases)
    assert derived.annotations[f"{P}ipmap-default-pool"] == '{"node1": "10.0.0.1/24"}'
    assert f"{P}l3values-default-pool" not in derived.annotations


@pytest.mark.slow
def test_networks_that_agents_do_not_see_are_always_written() -> None:
    """A NAD without the label of its cluster network is written whole: agents could not read it."""
    bare = heavy(99, created="2026-02-01T00:00:00Z")
    bare["metadata"]["labels"] = {}
    found = cluster([*(heavy(number) for number in range(90)), bare])
    annotations = found.networks[0].metadata.annotations
    assert [key for key in annotations if key.startswith(f"{P}routes-") and "network-99" in key]


def crowded(**changed: dict[str, Any]) -> Cluster:
    """One network whose values are in its NAD, which may have changed since."""
    first = cluster([heavy(0)], **{NOTE: "x" * 212_500})
    assert references(first) == 1
    objects = [node("node1"), vlan_config("one", "cluster-1"), *changed.values()]
    return Cluster(
        nodes=first.nodes, networks=first.networks, configs=first.configs, nads=cluster_of(objects).nads
    )


def reasons_of(found: Cluster) -> list[tuple[str, bool]]:
    """Why node1 can't carry a network as asked, and whether it keeps what it has."""
    return [(item.reason, item.keep) for item in carried(found).problems]


def test_a_network_that_changed_since_keeps_what_is_there() -> None:
    """Where a NAD and its ClusterNetwork disagree, or a NAD is gone, nothing is taken away until they agree."""
    other_mode = heavy(0)
    other_mode["metadata"]["annotations"][names.MODE] = "pool"
    other_mode["metadata"]["annotations"][names.IP_POOL] = "net1"
    broken = heavy(0)
    broken["metadata"]["annotations"][names.ROUTES] = "{"
    assert reasons_of(crowded()) == [("Configuring", True)]
    assert reasons_of(crowded(nad=other_mode)) == [("Configuring", True)]
    assert reasons_of(crowded(nad=broken)) == [("InvalidAnnotation", True)]
    assert reasons_of(crowded(nad=heavy(0))) == []


def test_what_can_t_be_read_keeps_its_reference() -> None:
    """A NAD that became invalid keeps its annotations on the ClusterNetwork, and its VLAN stays wanted."""
    broken = heavy(0)
    broken["metadata"]["annotations"][names.ROUTES] = "{"
    found = crowded(nad=broken)
    derived = derive_annotations(found.networks[0], found.nads, found.configs)
    assert annotation_patch(found.networks[0], derived.annotations) == {}
    assert [(item.vid, item.mode) for item in derived.kept] == [(100, "dhcp")]


def test_a_revision_counts_values_where_they_are() -> None:
    """What only a NAD says is part of the revision; what the ClusterNetwork says, too, counts there alone."""

    def of(found: Cluster) -> str:
        annotations = {**found.networks[0].metadata.annotations, names.ROLLOUT: "{}"}
        return revision(annotations, found.configs, found.nads)

    changed = heavy(0)
    changed["metadata"]["annotations"][names.ROUTES] = routes(0, 3)
    assert of(crowded(nad=heavy(0))) != of(crowded(nad=changed))
    whole = cluster([heavy(0)])
    ahead = Cluster(networks=whole.networks, configs=whole.configs, nads=cluster_of([changed]).nads)
    assert of(whole) == of(ahead)

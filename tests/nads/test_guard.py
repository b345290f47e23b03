"""Who may still refer to a NAD that drains: objects whose controllers use it already."""

from typing import Any

import msgspec
import pytest

from lanloom.api.dummy import ADMITTED, DRAINING
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NetworkSwap
from lanloom.api.meta import Key, Object, parse_rfc3339
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
)
from lanloom.nads.guard import Reservation, closing, is_restart, new_references

Raw = dict[str, Any]
MARK = "2026-01-01T00:00:10Z"
BEFORE, AFTER = "2026-01-01T00:00:09Z", "2026-01-01T00:00:11Z"
ON = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "nets/red"}}}
CONTROLLED = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "u", "controller": True}]


def nad(mark: str = MARK) -> NetworkAttachmentDefinition:
    """The NAD, which drains since then."""
    metadata = {"name": "red", "namespace": "nets", "annotations": {DRAINING: mark}}
    return msgspec.convert({"metadata": metadata}, NetworkAttachmentDefinition)


def owner(resource: Resource[Any], created: str, spec: Raw, **meta: Any) -> Object:
    """An object that makes others."""
    metadata = {"name": "a", "namespace": "default", "creationTimestamp": created, **meta}
    item: Object = msgspec.convert({"metadata": metadata, "spec": spec}, resource.type)
    return item


def machine(title: str, created: str = AFTER) -> Object:
    """A virtual machine with a network."""
    networks = [{"name": "n", "multus": {"networkName": title}}]
    return owner(VIRTUAL_MACHINES, created, {"template": {"spec": {"networks": networks}}})


def deployment(created: str, template: Raw = ON) -> Object:
    """A Deployment."""
    return owner(DEPLOYMENTS, created, {"template": template})


def replica_set(created: str, template: Raw = ON) -> Object:
    """A Deployment's ReplicaSet."""
    return owner(REPLICA_SETS, created, {"template": template}, ownerReferences=CONTROLLED)


def test_nobody_makes_it() -> None:
    """What has no controller is new."""
    assert not is_restart((), nad())


def test_a_machine_on_the_network_starts_again() -> None:
    """A machine that refers to the network was judged when it did so; one that does not is no way in."""
    assert is_restart((machine("nets/red"),), nad())
    assert not is_restart((machine("nets/blue"),), nad())
    assert not is_restart((machine("red"),), nad())


def test_a_machine_that_has_left_the_network_keeps_its_instance_there() -> None:
    """The instance that runs may move, whatever its machine will use when it starts again."""
    networks = [{"name": "n", "multus": {"networkName": "nets/red"}}]
    instance = owner(VIRTUAL_MACHINE_INSTANCES, BEFORE, {"networks": networks})
    assert is_restart((instance, machine("nets/blue")), nad())


def test_what_can_not_be_read_is_no_way_in() -> None:
    """Who may use any network counts as a user of each, and lets none in."""
    broken = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "[{"}}}
    assert not is_restart((deployment(BEFORE, broken),), nad())
    assert not is_restart((owner(VIRTUAL_MACHINES, BEFORE, {}),), nad())


@pytest.mark.parametrize(("created", "restarts"), [(BEFORE, True), (MARK, False), (AFTER, False)])
def test_only_workloads_that_are_older_than_the_mark_make_pods(created: str, restarts: bool) -> None:
    """Workloads are not reviewed; one of the same second as the mark may be younger."""
    assert is_restart((deployment(created),), nad()) == restarts
    assert is_restart((owner(JOBS, created, {"template": ON}),), nad()) == restarts


def test_the_one_behind_the_others_must_be_old() -> None:
    """An old Deployment may roll out again, and an old CronJob go on; what is behind them counts."""
    assert is_restart((replica_set(AFTER), deployment(BEFORE)), nad())
    assert not is_restart((replica_set(AFTER), deployment(AFTER)), nad())
    cron = owner(CRON_JOBS, BEFORE, {"jobTemplate": {"spec": {"template": ON}}})
    assert is_restart((owner(JOBS, AFTER, {"template": ON}), cron), nad())


def test_either_of_them_may_name_the_network() -> None:
    """Pods of a Deployment's former template are replaced too; one that never named the network makes none."""
    assert is_restart((replica_set(BEFORE), deployment(BEFORE, {})), nad())
    assert not is_restart((replica_set(BEFORE, {}), deployment(BEFORE, {})), nad())


def test_a_mark_that_can_not_be_read_is_older_than_any_workload() -> None:
    """Where it is unknown since when it drains, machines are let in and workloads are not."""
    assert not is_restart((deployment(BEFORE),), nad("?"))
    assert is_restart((machine("nets/red"),), nad("?"))


def test_leaving_is_not_joining() -> None:
    """A move refers newly to the network that its machine joins, and not to the one that it leaves."""
    spec = {"machine": "vm", "uid": "u", "network": "blue", "from": "nets/red", "to": "nets/green"}
    swap = msgspec.convert({"metadata": {"name": "a", "namespace": "default"}, "spec": spec}, NetworkSwap)
    assert new_references(swap, None) == (Key("nets", "green"),)


def test_requests_of_a_clock_that_was_set_back() -> None:
    """A NAD that drains waits for a request for 75 seconds, also if that would end only later by a former clock."""
    now = parse_rfc3339(MARK)
    requests = [
        Reservation(uid, 0, now + left, "Pod default/a") for uid, left in (("a", 80.0), ("b", 3675.0))
    ]
    text = msgspec.json.encode(requests).decode()
    metadata = {"name": "red", "namespace": "nets", "annotations": {DRAINING: MARK, ADMITTED: text}}
    found = msgspec.convert({"metadata": metadata}, NetworkAttachmentDefinition)
    missing = closing(found, lambda _uid: None, now)
    assert [
        item.until - now for item in msgspec.json.decode(missing[ADMITTED], type=tuple[Reservation, ...])
    ] == [
        80.0,
        75.0,
    ]
    mended = {"metadata": {**metadata, "annotations": {DRAINING: MARK, **missing}}}
    assert closing(msgspec.convert(mended, NetworkAttachmentDefinition), lambda _uid: None, now) == {}

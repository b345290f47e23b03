"""What an allocation state says that a NIC needs."""

from typing import Any

import msgspec
from msgspec.structs import replace

from lanloom.api.ipam import Network, Nic
from lanloom.features.ipam.manager.allocation import AllocationState


def network() -> Network:
    """A network with a pool of ten addresses, which has no name."""
    subnet = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.19"}]}
    body: dict[str, Any] = {
        "metadata": {"name": "net", "uid": "a network", "resourceVersion": "1"},
        "spec": {"subnets": [subnet]},
    }
    return msgspec.convert(body, Network)


def refused(version: int, generation: int, asked: str) -> Nic:
    """A NIC whose status says, of any writer, that it does not get what it asks for."""
    why = {"status": "False", "reason": "UnknownPool", "message": "no such pool"}
    conditions = [{"type": name, **why} for name in ("Allocated", "Ready")]
    metadata = {"name": "web", "namespace": "default", "uid": "a NIC", "generation": generation}
    body: dict[str, Any] = {
        "metadata": metadata | {"resourceVersion": str(version)},
        "spec": {"owner": {"kind": "Instance", "name": "web"}, "network": "net", "ips": [asked]},
        "status": {"network": "net", "observedGeneration": generation, "conditions": conditions},
    }
    return msgspec.convert(body, Nic)


def test_a_refusal_of_somebody_else_is_judged() -> None:
    """Of what a NIC asks for since it was refused, no refusal counts but this allocator's own."""
    first = refused(2, 1, "b")
    state = AllocationState(network(), [first], 1)
    state.refuse(first)
    assert state.due() == []
    later = refused(3, 2, "pool")
    state.observe(later)
    assert state.due() == [later]
    state.refuse(later)
    assert state.due() == []


def test_a_nic_of_an_older_manager_is_reported_on() -> None:
    """A NIC that has its addresses and no condition `Ready`, as 0.1 left it, needs a report."""
    nic = refused(2, 1, "192.0.2.10")
    allocated, ready = (replace(item, status="True") for item in nic.status.conditions)
    has = replace(nic.status, ips=("192.0.2.10",), conditions=(allocated,))
    state = AllocationState(network(), [replace(nic, status=has)], 1)
    assert len(state.due()) == 1
    state = AllocationState(network(), [replace(nic, status=replace(has, conditions=(allocated, ready)))], 1)
    assert state.due() == []


def test_a_nic_is_in_memory_once() -> None:
    """What the watch brings stands in for the answer to a write, which is equal to it."""
    first = refused(2, 1, "pool")
    state = AllocationState(network(), [first], 1)
    answer, stored = refused(3, 1, "pool"), refused(3, 1, "pool")
    state.observe_answer(first, answer)
    state.observe(stored)
    assert state.due()[0] is stored

"""Whether a network has addresses for a NIC that is to move there: refused before anything moves, in either way."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.ipam import ADDRESSES, NAD, Network, Nic
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.networks import Networks
from lanloom.features.liveupdate.rules.preflight import check
from tests.features.liveupdate.rules.test_in_the_pod import COMPANION
from tests.features.liveupdate.rules.test_in_the_pod import FULL as WITHOUT
from tests.features.liveupdate.rules.test_preflight import facts, lan, machine, nad
from tests.features.liveupdate.rules.test_preflight import pod as launcher
from tests.features.liveupdate.swap.scene import MACHINE, NIC, PLACE

Raw = dict[str, Any]


def network(*pools: Raw, metadata: Raw | None = None, ready: str = "True", **spec: Any) -> Network:
    """A network with these pools, as its allocator reports them."""
    status = {
        "observedGeneration": 1,
        "pools": list(pools),
        "conditions": [{"type": "Ready", "status": ready, "message": "a subnet is wrong"}],
    }
    meta = {"name": "net1", "generation": 1} | (metadata or {})
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Network)


def pool(free: int, range: str = "192.0.2.10", **more: Any) -> Raw:
    """A pool with so many free addresses."""
    return {"range": range, "free": str(free), **more}


def nic(
    owner: str,
    nad: str = f"{PLACE}/vlan20",
    ips: tuple[str, ...] = ("192.0.2.10",),
    network: str = "net1",
    answer: str = "True",
) -> Nic:
    """The NIC of a machine, with addresses of the network, or the allocator's other answer; empty for none yet."""
    status: Raw = {"network": network, "ips": list(ips)} if ips else {}
    if answer:
        status["conditions"] = [{"type": "Allocated", "status": answer}]
    body = {
        "metadata": {"name": owner, "namespace": PLACE, "annotations": {NAD: nad}},
        "spec": {"owner": {"kind": "VirtualMachine", "name": owner}, "network": network, "interface": NIC},
        "status": status,
    }
    return msgspec.convert(body, Nic)


def against(networks: Networks, *, annotations: Raw | None = None, **ipam: Any) -> tuple[str, ...]:
    """What stands against either way to a NAD with that IPAM."""
    config = {"type": "lanloom-ipam", "network": "net1"} | ipam
    found = check(
        facts(
            target=nad("vlan20", vlan=20, ipam=config),
            networks=networks,
            machine=machine(metadata={"annotations": annotations or {}}),
        )
    )
    assert found.against_migration == found.against_in_place
    return found.both


FULL = "network net1 is full; add a pool, or release addresses"
FULL6 = "every IPv6 pool of network net1 is full; add a pool, or release addresses"
REFUSED: dict[str, tuple[Network, Raw, str]] = {
    "no pool": (network(), {}, FULL),
    "a full pool": (network(pool(0)), {}, FULL),
    "a disabled pool": (
        network(pool(0), pool(9, disabled=True)),
        {},
        "network net1 is full, but for 9 free addresses in disabled pools; enable a pool",
    ),
    "a full pool of the name": (
        network(pool(0, name="web"), pool(9)),
        {"pools": ["web"]},
        "pool web of network net1 is full",
    ),
    "no pool of the IP version": (network(pool(9)), {"ips": ["pool6"]}, FULL6),
    "one address for two": (
        network(pool(1, name="a")),
        {"ips": ["a", "a"]},
        "pool a of network net1 is full",
    ),
    "another namespace's": (
        network(pool(9), namespaces=["other"]),
        {},
        "network net1 gives no addresses to namespace default; use another network",
    ),
    "a quota": (
        network(pool(9), quota={"*": 1}),
        {},
        "the quota of namespace default in network net1 is exceeded: requested 1, used 1, limit 1",
    ),
    "a network that goes": (
        network(pool(9), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        {},
        "Network net1 is being deleted",
    ),
    "a network that can't be used": (
        network(pool(9), ready="False"),
        {},
        "Network net1 can't be used: a subnet is wrong",
    ),
    "no such network": (network(pool(9)), {"network": "net2"}, "there is no Network net2; create it"),
}


@pytest.mark.parametrize(("given", "ipam", "words"), REFUSED.values(), ids=list(REFUSED))
def test_no_address(given: Network, ipam: Raw, words: str) -> None:
    """A network that gives the NIC nothing is named with the reason, before anything moves."""
    [told] = against(Networks(pools=(given,), nics=(nic("other"),)), **ipam)
    assert told.startswith(f"NetworkAttachmentDefinition {PLACE}/vlan20: {words}")


UUID = "5c8d1f3e-0a41-4f0f-9a44-2f1d6a0c7b11"
GIVEN: dict[str, tuple[Network, Raw]] = {
    "a free address": (network(pool(0), pool(1)), {}),
    "one of each IP version": (network(pool(1), pool(1, "2001:db8::1")), {"ips": ["pool4", "pool6"]}),
    "an address of its own, which the allocator judges": (network(pool(0)), {"ips": ["192.0.2.99"]}),
    "its namespace is served": (network(pool(1), namespaces=["*"], quota={"default": 2}), {}),
    "pools that no manager has looked at yet": (network(pool(0), metadata={"generation": 2}), {}),
    "a network by its other name": (network(pool(1), name="blue"), {"network": "blue"}),
    "a network by the uid of its object": (network(pool(1), metadata={"uid": UUID}), {"network": UUID}),
    "a network by a UUID of capitals": (network(pool(1), uuid=UUID), {"network": UUID.upper()}),
    "an address by the machine's ordinal": (network(pool(0)), {"ips": ["192.0.2.90-192.0.2.99"]}),
    "a pool called like an address": (network(pool(1, name="1.2.3.x")), {"pools": ["1.2.3.x"]}),
}


@pytest.mark.parametrize(("given", "ipam"), GIVEN.values(), ids=list(GIVEN))
def test_addresses(given: Network, ipam: Raw) -> None:
    """Nothing stands against a network that gives the NIC what it asks for, or of which that is not known."""
    assert against(Networks(pools=(given,), nics=(nic("other"),)), **ipam) == ()


def test_what_the_machine_has() -> None:
    """A machine that has an address there keeps it, also of a full network, by whichever NAD of the network."""
    full = network(pool(0), quota={"*": 1})
    assert against(Networks(pools=(full,), nics=(nic(MACHINE),))) == ()
    assert against(Networks(pools=(full,), nics=(nic(MACHINE, f"{PLACE}/vlan10"),))) == ()
    assert len(against(Networks(pools=(full,), nics=(nic(MACHINE, ""),)))) == 1
    assert len(against(Networks(pools=(full,), nics=(nic(MACHINE, ips=(), answer="False"),)))) == 1
    assert len(against(Networks(pools=(full,), nics=(nic(MACHINE, network="net2"),)))) == 1


SUBNETS: list[Raw] = [
    {
        "cidr": "192.0.2.0/24",
        "pools": [{"range": "192.0.2.8/29", "name": "web"}, {"range": "192.0.2.99", "name": "db"}],
    }
]
KEPT: dict[str, tuple[Raw, bool]] = {
    "any address": ({}, True),
    "the pool that it is from": ({"pools": ["web"]}, True),
    "another pool": ({"pools": ["db"]}, False),
    "no pool of the network": ({"pools": ["six"]}, False),
    "an address of IPv4": ({"ips": ["pool4"]}, True),
    "an address of IPv6": ({"ips": ["pool6"]}, False),
    "that address": ({"ips": ["192.0.2.10"]}, True),
    "that address and another": ({"ips": ["192.0.2.10", "pool"]}, False),
    "two addresses": ({"ips": ["pool", "pool"]}, False),
}


@pytest.mark.parametrize(("ipam", "kept"), KEPT.values(), ids=list(KEPT))
@pytest.mark.parametrize("mode", [COMPANION, WITHOUT], ids=["beside KubeVirt", "without KubeVirt"])
def test_another_nad_of_the_network(ipam: Raw, kept: bool, mode: Mode) -> None:
    """A NIC keeps its address on another NAD of its network if that is what the NAD asks for; else it needs one.

    KubeVirt's launcher, which answers with the address of the start, then answers with the right one.
    """
    full = network(pool(0), pool(0, name="web"), pool(0, name="db"), subnets=SUBNETS)
    networks = Networks(pools=(full,), nics=(nic(MACHINE, f"{PLACE}/vlan10"),))
    target = nad("vlan20", vlan=20, ipam={"type": "lanloom-ipam", "network": "net1"} | ipam)
    move = facts(target=target, networks=networks, mode=mode, pod=launcher(ips=["192.0.2.10"]))
    assert (check(move).both == ()) == kept
    free = network(pool(9), pool(9, name="web"), pool(9, name="db"), pool(9, "2001:db8::1", name="six"))
    spare = Networks(pools=(replace(full, status=free.status),), nics=networks.nics)
    found = check(replace(move, networks=spare))
    assert found.both == found.against_migration == ()
    assert (found.against_in_place == ()) == (kept or mode is WITHOUT)


def test_what_the_machine_is_about_to_have() -> None:
    """A network may be full of the very address that its allocator gives to the machine: its report comes first."""
    full = network(pool(0), quota={"*": 1})
    assert against(Networks(pools=(full,), nics=(nic(MACHINE, ips=(), answer=""),))) == ()
    assert len(against(Networks(pools=(full,), nics=(nic("other", ips=(), answer=""),)))) == 1


def test_what_the_machine_asks_for_itself() -> None:
    """Addresses in the machine's own annotation are left to the allocator."""
    assert (
        against(Networks(pools=(network(pool(0)),)), annotations={ADDRESSES: '{"lan0": ["192.0.2.9"]}'}) == ()
    )


def test_other_address_management() -> None:
    """Addresses of a LAN's NAD are looked at as well, and those of other IPAM programs are not."""
    full = Networks(pools=(network(pool(0)),), lans=(lan(),))
    ipam = {"type": "lanloom-ipam", "network": "net1"}
    target = nad("vlan20", type="k8slanveth", veth="web", ipam=ipam)
    [told] = check(facts(target=target, networks=full)).both
    assert FULL in told
    assert against(full, type="whereabouts") == ()

"""When a profile that must stay down is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.vlan.rules.desired.holds import (
    DUPLICATE_ADDRESS,
    DUPLICATE_BACKOFF,
    LEASE_BACKOFF,
    Backoff,
    Conflict,
    address_conflict,
    duplicate,
    hold,
    is_settled,
    problem,
    tried,
)
from lanloom.node.ports import Connection, ConnectionPhase, Lease, Link, LinkState
from tests.features.vlan.agent.rollback.test_revisions import OLD
from tests.features.vlan.cluster import cluster_network, cluster_of, nad, node, vlan_config

ITEM = OLD.network.interfaces[0]
_MAP = '{"node1": ["192.168.1.10/24", "fd00:1::10/64"]}'
_BOTH = nad("net", "cluster-1", 2012, mode="static", addresses=_MAP)
_OBJECTS = (node("node1"), cluster_network("cluster-1"), vlan_config("one", "cluster-1"), _BOTH)
SIX = cluster_of([*_OBJECTS]).managed().on_node("node1")[0].interfaces[0]
LEASED = replace(ITEM, mode="dhcp", address="")
FAILED = "ip-config-unavailable"


def _conflict(backoff: Backoff, reason: str = DUPLICATE_ADDRESS) -> Conflict:
    return Conflict(reason, "another host has it", backoff)


@given(st.sampled_from([LEASE_BACKOFF, DUPLICATE_BACKOFF]), st.integers(1, 20))
def test_the_backoff_doubles_up_to_the_longest(backoff: Backoff, tries: int) -> None:
    """Each failed try doubles the pause, which begins with the first and ends with the longest one."""
    found = _conflict(backoff)
    known = hold(None, ITEM, found, 1000.0, 0.0)
    seen = [known.pause]
    for _ in range(tries):
        known = hold(tried(known), ITEM, found, known.until, 0.0)
        seen.append(known.pause)
    assert seen == [min(backoff.first * 2**number, backoff.longest) for number in range(tries + 1)]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=5))
def test_what_was_not_tried_stays_as_it_is(times: list[float]) -> None:
    """However often a conflict is seen before the next try, that try is as far away as it was."""
    first = known = hold(None, ITEM, _conflict(DUPLICATE_BACKOFF), 1000.0, 0.0)
    for time in times:
        known = hold(known, ITEM, _conflict(DUPLICATE_BACKOFF), time, time)
    assert known == first


def test_another_conflict_begins_anew() -> None:
    """A conflict of another kind begins with its own first pause."""
    known = tried(hold(None, ITEM, _conflict(LEASE_BACKOFF, "AddressConflict"), 0.0, 0.0))
    assert hold(known, ITEM, _conflict(DUPLICATE_BACKOFF), 30.0, 0.0).pause == DUPLICATE_BACKOFF.first


def test_the_time_of_the_next_try_is_told() -> None:
    """The report of a held interface ends with the time of the wall clock at which it is tried again."""
    known = hold(None, ITEM, _conflict(DUPLICATE_BACKOFF), 5.0, 1_767_225_600.0)
    found = problem(ITEM, known)
    assert (found.vid, found.reason) == (ITEM.vid, DUPLICATE_ADDRESS)
    assert found.message == "another host has it; next attempt at 2026-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("phase", "reason", "held"),
    [
        ("activating", FAILED, True),
        ("failed", FAILED, True),
        ("activating", "", False),
        ("active", FAILED, False),
        ("inactive", "", False),
        ("absent", "", False),
        ("failed", "config-failed", False),
    ],
)
def test_which_failure_is_a_duplicate(phase: ConnectionPhase, reason: str, held: bool) -> None:
    """A static address that could not be configured is another host's; what is on its way or up is not held."""
    connection = Connection(uuid=ITEM.uuid, phase=phase, reason=reason)
    found = address_conflict(ITEM, connection, None, None)
    assert (found is not None and found.reason == DUPLICATE_ADDRESS) == held


def test_no_answer_of_a_dhcp_server_is_none() -> None:
    """A lease that does not come is waited for, and one of an address that another host has is held."""
    connection = Connection(uuid=ITEM.uuid, phase="activating", reason=FAILED)
    assert address_conflict(LEASED, connection, None, None) is None
    taken = replace(connection, reason="ip-address-duplicate")
    found = address_conflict(LEASED, taken, None, None)
    assert found is not None and "the DHCP server" in found.message


@pytest.mark.parametrize(("mtu", "held"), [(1279, False), (1280, True)])
def test_a_bridge_too_small_for_ipv6_is_none(mtu: int, held: bool) -> None:
    """Where the kernel can't have the IPv6 address, no other host is to blame."""
    bridge = Link(name="cluster-1-br", index=1, kind="bridge", mtu=mtu)
    connection = Connection(uuid=SIX.uuid, phase="activating", reason=FAILED)
    found = address_conflict(SIX, connection, LinkState({bridge.name: bridge}), None)
    assert (found is not None) == held


@pytest.mark.parametrize("enabled", [False, True])
def test_a_link_without_ipv6_blames_no_other_host(enabled: bool) -> None:
    """Where a program disables IPv6 while the link gets its addresses, that is the reason, with the remedy."""
    link = Link(name=SIX.name, index=1, kind="vlan", ipv6=enabled)
    connection = Connection(uuid=SIX.uuid, phase="activating", reason=FAILED)
    found = address_conflict(SIX, connection, LinkState({link.name: link}), None)
    assert found is not None
    assert found.reason == (DUPLICATE_ADDRESS if enabled else "KernelUnsupported")
    assert ("/etc/sysctl.d" in found.message) == (not enabled)


def test_when_a_hold_is_over() -> None:
    """A static address is there when its profile is active, a leased one when there is a lease as well."""
    active = Connection(uuid=ITEM.uuid, phase="active")
    assert is_settled(ITEM, active)
    assert not is_settled(LEASED, active)
    assert is_settled(LEASED, replace(active, lease=Lease(address="10.0.0.1/24")))
    assert not is_settled(ITEM, replace(active, phase="activating"))


def test_the_words() -> None:
    """A message names the VLAN and the addresses, with a way out."""
    assert duplicate(ITEM, FAILED) == (
        f"another host on VLAN {ITEM.vid} already has {ITEM.address}; choose another address"
    )
    assert not duplicate(ITEM, "carrier")


def test_the_words_for_a_pool() -> None:
    """A pool would give the address again: the way out is to reserve it, of both families."""
    assert duplicate(replace(SIX, pooled=True), FAILED).endswith(
        "correct that host, or reserve its address in the network of network.harvesterhci.io/ip-pool (lanloom network "
        f"modify --add-reserved-ips {SIX.address.partition('/')[0]},fd00:1::10 NETWORK) and delete the NIC of this "
        "node (kubectl get ipnic)"
    )

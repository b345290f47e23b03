"""Which namespaces take addresses of a network, and how many."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Address, parse_address
from lanloom.features.ipam.rules.ledger import AddressReserved, Ledger
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.requests import Claim, parse_requests, settle_all
from lanloom.features.ipam.rules.shares import (
    NamespaceNotAllowed,
    QuotaExceeded,
    check_shares,
    limit_of,
    serves,
    shares,
)
from lanloom.refusals import Malformed, Refusal
from tests.features.ipam.rules.ledgers import network, subnet
from tests.harness.examples import examples

NET = network(
    subnet("192.0.2.0/24", "192.0.2.10-192.0.2.19"), subnet("2001:db8::/64", "2001:db8::10-2001:db8::19")
)
ONE, TWO = "one/a-0", "two/a-0"


def settled(net: Network, ledger: Ledger, *claims: Claim) -> tuple[tuple[Address, ...], ...]:
    """The addresses of NICs, which then have them."""
    operation = ledger.begin()
    try:
        found = settle_all(operation, net, claims)
    except Refusal:
        operation.abort()
        raise
    operation.commit()
    return found


def claim(owner: str, *ips: str, held: tuple[Address, ...] = (), release: tuple[Address, ...] = ()) -> Claim:
    """What a NIC asks for."""
    return Claim(owner=owner, wanted=parse_requests(ips), held=held, given_up=release)


@pytest.mark.parametrize(
    ("namespaces", "served"),
    [
        ((), {"one", "two"}),
        (("*",), {"one", "two"}),
        (("one",), {"one"}),
        (("one", "*"), {"one", "two"}),
        (("x",), set()),
    ],
    ids=["absent", "all", "one", "all the same", "another"],
)
def test_namespaces_that_are_served(namespaces: tuple[str, ...], served: set[str]) -> None:
    """A network serves the namespaces that it names; all if it names none, or `*`."""
    net = replace(NET, namespaces=namespaces)
    assert {name for name in ("one", "two") if serves(net, name)} == served


def test_limits() -> None:
    """A namespace's own quota comes before that of all; without either there is no limit."""
    assert [limit_of({"*": 5, "one": 9, "two": 0}, name) for name in ("one", "two", "three")] == [9, 0, 5]
    assert limit_of({"one": 1}, "two") is None


ASKING = {
    "an address": ("192.0.2.10",),
    "an address of no subnet": ("10.0.0.1",),
    "another's address": ("192.0.2.50",),
    "a reserved address": ("192.0.2.0",),
    "a pool": ("pool",),
    "no such pool": ("front",),
}


@pytest.mark.parametrize("ips", ASKING.values(), ids=list(ASKING))
def test_a_namespace_that_is_not_served_learns_nothing(ips: tuple[str, ...]) -> None:
    """Whatever it asks for, the answer is the same: it says nothing of what others have."""
    net = replace(NET, namespaces=("one",))
    ledger = Ledger(net, {ONE: [parse_address("192.0.2.50")]})
    with pytest.raises(NamespaceNotAllowed, match=r"^network net1 gives no addresses to namespace two; "):
        settled(net, ledger, claim(TWO, *ips))


def test_what_a_namespace_has_it_keeps() -> None:
    """A NIC of a namespace that is no longer served keeps what it has, and gives it back as it likes."""
    ledger = Ledger(NET)
    (held,) = settled(NET, ledger, claim(TWO, "pool", "pool6"))
    net = replace(NET, namespaces=("one",), quota={"*": 0})
    ledger.reconfigure(net)
    assert settled(net, ledger, claim(TWO, "pool", "pool6", held=held)) == (held,)
    with pytest.raises(NamespaceNotAllowed):
        settled(net, ledger, claim(TWO, "pool", "pool6", held=held, release=held[:1]))
    assert settled(net, ledger, claim(TWO, "pool", held=held)) == (held[:1],)
    assert settled(net, ledger, claim(TWO, held=held[:1])) == ((),)


def test_a_quota() -> None:
    """All addresses of a namespace count, of both versions, in pools and outside; those of others do not."""
    net = replace(NET, quota={"*": 3})
    ledger = Ledger(net)
    settled(net, ledger, claim(ONE, "pool", "pool6"))
    settled(net, ledger, claim(TWO, "pool", "pool", "pool"))
    (explicit,) = settled(net, ledger, claim("one/b-0", "192.0.2.100"))
    with pytest.raises(QuotaExceeded) as refused:
        settled(net, ledger, claim("one/c-0", "pool"))
    assert str(refused.value) == (
        "the quota of namespace one in network net1 is exceeded: requested 1, used 3, limit 3; release addresses, "
        "or ask an administrator to raise spec.quota of Network net1"
    )
    # In exchange for the one that it has, a NIC may have another.
    assert settled(net, ledger, claim("one/b-0", "192.0.2.101", held=explicit)) == (
        (parse_address("192.0.2.101"),),
    )


def test_a_refused_operation_takes_nothing_of_a_quota() -> None:
    """Two NICs that ask together for more than is left get nothing, and one alone gets its own."""
    net = replace(NET, quota={"one": 3})
    ledger = Ledger(net)
    with pytest.raises(QuotaExceeded):
        settled(net, ledger, claim(ONE, "pool", "pool"), claim("one/b-0", "pool", "pool"))
    assert ledger.used_by("one") == 0
    settled(net, ledger, claim(ONE, "pool", "pool"))
    assert ledger.used_by("one") == 2


def test_operations_side_by_side_share_a_quota() -> None:
    """What another operation is about to take counts, until that is aborted."""
    net = replace(NET, quota={"one": 2})
    ledger = Ledger(net)
    first, second = ledger.begin(), ledger.begin()
    settle_all(first, net, [claim(ONE, "pool", "pool")])
    with pytest.raises(QuotaExceeded):
        settle_all(second, net, [claim("one/b-0", "pool")])
    second.abort()
    first.abort()
    settled(net, ledger, claim("one/b-0", "pool"))


@given(
    st.lists(st.tuples(st.sampled_from((ONE, "one/b-0", TWO)), st.integers(0, 3)), max_size=12),
    st.integers(0, 5),
)
@settings(max_examples=examples(60))
def test_no_namespace_grows_beyond_its_quota(asked: list[tuple[str, int]], limit: int) -> None:
    """Whatever NICs ask for in turn, no namespace ends with more than its quota."""
    net = replace(NET, quota={"*": limit})
    ledger = Ledger(net)
    for owner, count in asked:
        try:
            settled(net, ledger, claim(owner, *["pool"] * count, held=ledger.addresses_of(owner)))
        except Refusal:
            continue
    for namespace, owners in (("one", (ONE, "one/b-0")), ("two", (TWO,))):
        has = sum(len(ledger.addresses_of(owner)) for owner in owners)
        assert has == ledger.used_by(namespace) <= limit


def test_force_of_a_namespace_that_may_not_force() -> None:
    """It counts for nothing: a NIC keeps reserved addresses that it has, and the refusal of others names the remedy."""
    net = replace(NET, force_namespaces=("one",))
    ledger = Ledger(net)
    reserved = parse_address("192.0.2.0")
    remedy = (
        r"choose another one, or ask an administrator to add two to spec\.forceNamespaces of Network net1$"
    )
    for force in (False, True):
        with pytest.raises(AddressReserved, match=remedy):
            settled(net, ledger, replace(claim(TWO, "192.0.2.0"), force=force))
    with pytest.raises(AddressReserved, match=r"choose another one, or use --force$"):
        settled(net, ledger, claim(ONE, "192.0.2.0"))
    assert settled(net, ledger, replace(claim(ONE, "192.0.2.0"), force=True)) == ((reserved,),)
    other = Ledger(net, {TWO: [reserved]})
    assert settled(net, other, claim(TWO, "192.0.2.0", held=(reserved,))) == ((reserved,),)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"namespaces": ("one", "Two")}, r"^spec.namespaces\[1\]: "),
        ({"namespaces": ("../x",)}, r"^spec.namespaces\[0\]: "),
        ({"force_namespaces": ("*", "Two")}, r"^spec.forceNamespaces\[1\]: "),
        ({"quota": {"a b": 1}}, r"^spec.quota: "),
    ],
    ids=["capitals", "path", "force", "blank"],
)
def test_shares_that_can_not_be(more: dict[str, object], field: str) -> None:
    """Names are those of namespaces."""
    with pytest.raises(Malformed, match=field):
        check_shares(replace(NET, **more))


def test_shares_in_order() -> None:
    """Who has addresses, and who is named, is listed by name with the limit."""
    net = replace(NET, namespaces=("three", "*"), quota={"*": 5, "one": 2})
    assert list(shares(net, {"two": 4, "gone": 0})) == [("one", 0, 2), ("three", 0, 5), ("two", 4, 5)]

"""Who owns which address, against two dicts; blocks with many owners and with few."""

import tracemalloc
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lanloom.features.ipam.rules.addresses import IPV6, IPRange
from lanloom.features.ipam.rules.owners import Owners
from tests.harness.examples import examples

BLOCK = 4096
NAMES = ("default/a-0", "default/b-0", "other/c-1")

runs = st.tuples(
    st.booleans(),
    st.sampled_from((0, IPV6)),
    st.integers(0, 4) | st.sampled_from((1 << 20, 1 << 27)),
    st.integers(0, BLOCK - 1),
    st.sampled_from((1, 5, 900, 2000, 4096)),
    st.sampled_from((1, 2, 3)),
    st.sampled_from(NAMES),
)
"""Whether to give or to take away, and where: version, block, place in it, how many, how far apart; and to which owner.
"""


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.lists(runs, min_size=4, max_size=12))
def test_owners_are_a_dict_that_can_be_read_from_both_sides(
    runs: Sequence[tuple[bool, int, int, int, int, int, str]],
) -> None:
    """Owners of addresses and addresses of owners are as in a dict, however many are given and taken away."""
    owners, plain = Owners(), dict[int, str]()
    for giving, base, block, inside, count, step, name in runs:
        first = base + block * BLOCK + inside
        for address in range(first, first + count * step, step):
            if giving and address not in plain:
                owners.add(address, name)
                plain[address] = name
            elif not giving and address in plain:
                owners.remove(address)
                del plain[address]
    everything = IPRange(0, 2 * IPV6)
    assert owners.within(everything) == sorted(plain.items())
    assert all(owners.get(address) == name for address, name in plain.items())
    for name in NAMES:
        assert owners.of(name) == tuple(sorted(address for address, other in plain.items() if other == name))
    for _, base, block, inside, count, _, _ in runs:
        part = IPRange(base + block * BLOCK + inside, base + block * BLOCK + inside + count)
        assert owners.within(part) == sorted(item for item in plain.items() if item[0] in part)
        assert owners.get(part.last) == plain.get(part.last, "")


@pytest.mark.parametrize("base", [0, IPV6], ids=["IPv4", "IPv6"])
def test_everything_may_be_taken_away_again(base: int) -> None:
    """After all addresses of many blocks were given and taken away, nothing has an owner."""
    owners = Owners()
    every = range(base + 100, base + 100 + 3 * BLOCK)
    for address in every:
        owners.add(address, f"default/nic-{address % 7}")
    for address in every[::2]:
        owners.remove(address)
    assert [address for address, _ in owners.within(IPRange(base, every[-1]))] == list(every[1::2])
    for address in every[1::2]:
        owners.remove(address)
    assert owners.within(IPRange(0, 2 * IPV6)) == []
    assert owners.of("default/nic-0") == ()


@pytest.mark.slow
def test_what_was_owned_once_takes_no_memory() -> None:
    """After all addresses of many blocks but a few were taken away, hardly more memory is in use than for a few."""
    tracemalloc.start()
    owners = Owners()
    for address in range(16 * BLOCK):
        owners.add(address, "default/nic")
    most, _ = tracemalloc.get_traced_memory()
    for address in range(16 * BLOCK - 1, 20, -1):
        owners.remove(address)
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most > 500_000
    assert left < 100_000


def test_an_owner_is_kept_once() -> None:
    """A key that the caller makes again for each address of a NIC is not kept again and again."""
    owners = Owners()
    for address in range(50):
        owners.add(address, "".join(("default/", "nic")))
    kept = {id(owner) for _, owner in owners.within(IPRange(0, 49))}
    assert len(kept) == 1

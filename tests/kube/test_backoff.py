"""How long to wait before another try."""

from random import Random

import hypothesis.strategies as st
from hypothesis import given

from lanloom.kube.backoff import backoff


@given(attempt=st.integers(0, 10_000), seed=st.integers())
def test_waits_double_up_to_the_cap(attempt: int, seed: int) -> None:
    """A wait is between half and all of the first one doubled for each attempt, and never above the cap."""
    full = 30.0 if attempt > 10 else min(30.0, 0.2 * 2**attempt)
    assert full / 2 <= backoff(attempt, Random(seed), first=0.2, cap=30.0) <= full


def test_fleets_spread() -> None:
    """Waits of many agents after the same failure differ."""
    assert len({backoff(5, Random(seed), first=0.2, cap=30.0) for seed in range(100)}) > 90

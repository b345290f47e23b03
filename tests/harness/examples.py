"""How many examples, seeds and repetitions a test tries.

As many examples and seeds as it names in `make test`, and fewer in `make check`. As many schedules and repetitions as
it names in `make soak`, and a part of them in `make test`: what they find, they find early, and they cost most.
"""

import os
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings

USUAL = 100
"""How many examples a test tries in `make test` that names no number."""

FEW_SEEDS = 2
"""How many seeds `make check` tries of each test."""

PARTS = 5
"""`make test` plays the first of so many parts of what `make soak` plays."""

TIMES = "LANLOOM_SEEDS_TIMES"
"""The variable that says how many times as many as in `make test` are played: PARTS in `make soak`, more overnight."""

_TIMES = int(os.environ.get(TIMES, "1"))

CHOSEN = os.environ.get("LANLOOM_SEED")
"""The one seed that tests try, to replay a failure."""


def register_profiles() -> None:
    """Make the profile of `make test` the current one; `--hypothesis-profile=check` chooses that of `make check`."""
    # A machine that is busy with something else must not make a property test fail.
    settings.register_profile(
        "lanloom",
        max_examples=USUAL,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    settings.register_profile("check", settings.get_profile("lanloom"), max_examples=USUAL // 5)
    settings.load_profile("lanloom")


def examples(count: int) -> int:
    """Return how many examples a test tries in the current profile that tries `count` of them in `make test`."""
    return max(1, count * settings().max_examples // USUAL)


def seeds(count: int) -> Sequence[object]:
    """Return the values of a parameter that are seeds; with LANLOOM_SEED=number, that one alone."""
    if CHOSEN is not None:
        return [int(CHOSEN)]
    return [seed if seed < FEW_SEEDS else pytest.param(seed, marks=pytest.mark.slow) for seed in range(count)]


def played(count: int) -> int:
    """Return how many are played of the `count` of `make soak`."""
    return count * _TIMES // PARTS


def repetitions(few: int, count: int, *, seconds: float) -> Sequence[object]:
    """Return the values of a parameter that says how often: `few` in `make check`, too, and `count` in `make soak`."""
    return [few, pytest.param(played(count), marks=[pytest.mark.slow, pytest.mark.timeout(seconds)])]

"""Which seeds a run plays, and how to play one of them again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.harness.examples import CHOSEN, FEW_SEEDS, played, seeds

few = pytest.mark.parametrize("seed", seeds(FEW_SEEDS))
"""The seeds of `make check`; with LANLOOM_SEED=number that one alone."""

_BATCH = 40


def many(all_of_them: int) -> pytest.MarkDecorator:
    """The other seeds, of `all_of_them` in `make soak`, in parts; none if a seed was chosen. The test must be slow."""
    last = played(all_of_them)
    starts = range(FEW_SEEDS, last, _BATCH) if CHOSEN is None else ()
    batches = [range(start, min(start + _BATCH, last)) for start in starts]
    return pytest.mark.parametrize("seeds", batches, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")


def play_each(test: str, play: Callable[[int], object], *seeds: int) -> None:
    """Play a course of events for each of the seeds; `test` is the test's file."""
    for seed in seeds:
        with replay(seed, test):
            play(seed)


@contextmanager
def replay(seed: int, test: str) -> Iterator[None]:
    """Adds to any error how to see it again; `test` is the test's file."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay it: LANLOOM_SEED={seed} .venv/bin/pytest {test}")
        raise

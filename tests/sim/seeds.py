"""Which seeds a run plays, and how to play one of them again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness.examples import CHOSEN, FEW_SEEDS, seeds

FEW = seeds(FEW_SEEDS)
"""The seeds of `make check`; with LANLOOM_SEED=number that one alone."""

_TIMES = int(os.environ.get("LANLOOM_SEEDS_TIMES", "1"))
"""How many times as many seeds as in `make test` are played, such as overnight."""

_BATCH = 70


def batches(all_of_them: int) -> list[range]:
    """The other seeds of `make test`, in parts; none if a seed was chosen."""
    last = all_of_them * _TIMES
    starts = range(FEW_SEEDS, last, _BATCH) if CHOSEN is None else ()
    return [range(start, min(start + _BATCH, last)) for start in starts]


@contextmanager
def replay(seed: int, test: str) -> Iterator[None]:
    """Adds to any error how to see it again; `test` is the test's file."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay it: LANLOOM_SEED={seed} .venv/bin/pytest {test}")
        raise

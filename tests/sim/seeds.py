"""Which seeds a run plays, and how to play one of them again."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness.examples import CHOSEN, FEW_SEEDS, played, seeds

FEW = seeds(FEW_SEEDS)
"""The seeds of `make check`; with LANLOOM_SEED=number that one alone."""

_BATCH = 40


def batches(all_of_them: int) -> list[range]:
    """The other seeds, of `all_of_them` in `make soak`, in parts; none if a seed was chosen."""
    last = played(all_of_them)
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

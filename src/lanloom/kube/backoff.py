"""How long to wait before another try. One rule for the informer and for the queue."""

from random import Random

_MOST_DOUBLINGS = 30


def backoff(attempt: int, rng: Random, *, first: float, cap: float) -> float:
    """Seconds before try number `attempt` (from 0): doubling from `first` up to `cap`, less up to half at random.

    The random part keeps a fleet of agents from coming back at the same moment.
    """
    return float(min(cap, first * 2 ** min(attempt, _MOST_DOUBLINGS)) * (0.5 + rng.random() / 2))

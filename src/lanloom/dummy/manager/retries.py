"""When to try again what was refused: somebody may have done something about it without our seeing that."""

from random import Random

from lanloom.kube.backoff import backoff

_FIRST, _LONGEST = 1.0, 60.0


class Retries:
    """The next try of each key: seconds that double from one to a minute, less up to half at random."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._failures: dict[str, int] = {}

    def next(self, key: str) -> float:
        """Seconds until the next try, after one more failure."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        return backoff(count, self._rng, first=_FIRST, cap=_LONGEST)

    def forget(self, key: str) -> None:
        """It went well."""
        self._failures.pop(key, None)

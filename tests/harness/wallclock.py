"""A wall clock that is set while processes wait, as by NTP after a boot; the loop's own goes on as before."""

from collections.abc import Callable


class WallClock:
    """Seconds since the epoch, by the clock that it follows, and as far `ahead` of that as it was set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.ahead = 0.0
        self._clock = clock

    def __call__(self) -> float:
        """Return the time."""
        return self._clock() + self.ahead

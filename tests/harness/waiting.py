"""Waiting for what others bring about: a look that fails at what is not there at this moment is a look too early.

Looking takes processor time from those who bring it about, so most of the time passes between two looks, and looks at
what takes long become rare: they make no wait longer by more than its eighth. The caller looks and sleeps, in a thread
or on a loop:

    looks = Looks(60.0, (LookupError,))
    while True:
        with looks.look():
            if value := condition():
                return value
        time.sleep(looks.pause())
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 8
"""The part of the time waited so far that passes until the next look, if that is more than the shortest pause."""


class Looks:
    """Looks at one condition. Exceptions of `not_yet` are no failure while there is time, and then its cause.

    `shortest` and `longest` are seconds between two looks. Without `seconds`, the caller limits the time.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        not_yet: tuple[type[Exception], ...] = (),
        *,
        shortest: float = 0.1,
        longest: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failure: Exception | None = None
        self._not_yet = not_yet
        self._shortest = shortest
        self._longest = longest
        self._clock = clock
        self._first = self._began = clock()
        self._deadline = self._began + seconds

    @contextmanager
    def look(self) -> Iterator[None]:
        """Look once."""
        self._began = self._clock()
        try:
            yield
        except self._not_yet as error:
            self.failure = error
        else:
            self.failure = None

    def pause(self) -> float:
        """Return the seconds until the next look. Raises AssertionError if there is no time left."""
        now = self._clock()
        if now >= self._deadline:
            raise AssertionError("this did not become true in time") from self.failure
        return min(max(self._shortest, 2 * (now - self._began), (now - self._first) / SHARE), self._longest)

"""Which state of an object is the newest that is known, found by its uid; for a while also of one that is gone."""

from collections import deque
from collections.abc import Callable

from lanloom.api.meta import Object

GONE_SECONDS = 120.0
"""How long what is gone is remembered: longer than any request may take that concerns it (`admitted`)."""


class Seen:
    """What watches brought of each object. `now` is in seconds, of any clock that does not go back.

    Of an object that is gone it is the last state that was known while it was there. What came and went while a watch
    was broken was never known. Memory is bounded by what is there, and what went within GONE_SECONDS.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._there: dict[str, Object] = {}
        self._gone: dict[str, int] = {}
        self._forget: deque[tuple[float, str]] = deque()

    def __call__(self, uid: str) -> int | None:
        """The newest known resourceVersion of the object of that uid; None for one that is not known."""
        self._forget_old()
        item = self._there.get(uid)
        return item.metadata.version if item is not None else self._gone.get(uid)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Takes in a change, as an informer tells it."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._leave(old)
        if new is not None:
            self._there[new.metadata.uid] = new

    def _leave(self, item: Object) -> None:
        uid = item.metadata.uid
        if self._there.pop(uid, None) is not None:
            self._forget_old()
            self._gone[uid] = item.metadata.version
            self._forget.append((self._now() + GONE_SECONDS, uid))

    def _forget_old(self) -> None:
        now = self._now()
        while self._forget and self._forget[0][0] <= now:
            self._gone.pop(self._forget.popleft()[1], None)

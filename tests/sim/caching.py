"""An API server whose cache lacks what was written in the last moments."""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import NEWEST, ListOptions, Page, Selection
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.kinds import ServedKind


class CachingEngine(Engine):
    """`lag` is by how many seconds its cache is late at this list."""

    def __init__(self, *words: Any, now: Callable[[], float], **options: Any) -> None:
        super().__init__(*words, now=now, **options)
        self.lag: Callable[[], float] = lambda: 0.0
        self._cached = 0
        self._newer: deque[tuple[float, int]] = deque()
        self._now = now
        self.ledger.listen(self._take)

    def list_page(self, kind: ServedKind, selection: Selection, options: ListOptions = NEWEST) -> Page:
        """Return a page; of lists from the cache, an old one."""
        if options.resource_version:
            oldest = max(int(options.resource_version), self._version_of(self._now() - self.lag()))
            if oldest >= self.ledger.compacted and oldest:
                options = replace(options, resource_version=str(oldest), match="Exact")
        return super().list_page(kind, selection, options)

    def _take(self, change: Change) -> None:
        self._newer.append((self._now(), change.version))

    def _version_of(self, time: float) -> int:
        """The version that all clients could read at a time."""
        while self._newer and self._newer[0][0] <= time:
            self._cached = self._newer.popleft()[1]
        return self._cached

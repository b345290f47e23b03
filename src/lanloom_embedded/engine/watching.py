"""Watching: what happens to a selection of objects, from a version on.

A watch is a position in the feed of its resource; nothing is kept per watch but that. Events are made when the
watcher asks, and made once for all watchers that see them alike.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from lanloom.runtime.https import errors
from lanloom_embedded.engine.feed import Feed
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.reads import Selection, future_version, parse_version
from lanloom_embedded.engine.storage import Change, Stored
from lanloom_embedded.kinds import ServedKind

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Event(Struct, frozen=True):
    """One event. The state is that after the event; of a deletion the last one."""

    type: EventType
    state: Stored


class Watch:
    """One watcher's position. Ask `take` until it returns nothing, then `wait`."""

    def __init__(
        self,
        ledger: Ledger,
        kind: ServedKind,
        selection: Selection,
        resource_version: str,
        *,
        initial: bool | None = None,
    ) -> None:
        """Watch; `initial` says whether to begin with the objects that are there, None: only without a version.

        Raises BadRequest, Timeout for a version that isn't there yet, and Expired when the changes since the version
        are forgotten.
        """
        self.kind = kind
        self._ledger = ledger
        self._feed: Feed = ledger.feed(kind.key)
        self._namespace = selection.namespace
        self._selects = selection.test(kind.key)
        wanted = parse_version(resource_version)
        self._initial: Sequence[Event] = ()
        if initial and wanted > ledger.version:
            raise future_version(wanted, ledger.version)
        begins = initial if initial is not None else not wanted
        self.position = ledger.version if begins or not wanted else wanted
        if begins:
            states = ledger.table(kind.key).select(selection.namespace)
            self._initial = [Event("ADDED", state) for state in states if self._passes(state)]
        self._check_age()

    @property
    def closed(self) -> bool:
        """Whether the resource is no longer served."""
        return self._feed.closed

    def take(self) -> Sequence[Event]:
        """Return the events since the last call. Raises Expired when the watcher was too slow."""
        if self._initial:
            initial, self._initial = self._initial, ()
            return initial
        self._check_age()
        changes = self._feed.after(self.position)
        self._advance()
        return [event for change in changes if (event := self._event(change)) is not None]

    def span(self) -> tuple[int, int] | None:
        """Return the span of `take`, if every watch at the same place would get the same; else None."""
        if self._initial or self._selects is not None or self._namespace:
            return None
        return self.position, self._feed.newest

    def skip(self) -> None:
        """Do as if the changes of `span` had been taken. Raises Expired as `take` does."""
        self._check_age()
        self._advance()

    async def wait(self, seconds: float) -> None:
        """Return when there may be events or the resource is no longer served, or after so long."""
        if not self._initial and not self.closed and self._feed.newest <= self.position:
            await self._feed.wait(seconds)

    def _advance(self) -> None:
        # Between two of its changes a resource stands still: the watch has seen all up to the newest version.
        self.position = max(self.position, self._ledger.version)

    def _check_age(self) -> None:
        if self.position < self._ledger.compacted:
            oldest = self._ledger.compacted
            raise errors.Expired(f"too old resource version: {self.position} ({oldest})")

    def _passes(self, state: Stored | None) -> bool:
        return state is not None and (self._selects is None or self._selects(state))

    def _event(self, change: Change) -> Event | None:
        if self._namespace and change.key.namespace != self._namespace:
            return None
        if self._selects is None:
            return event_of(change)
        before, after = self._passes(change.before), self._passes(change.after)
        if before and not after:
            return Event("DELETED", change.last_state())
        if after and change.after is not None:
            return Event("MODIFIED" if before else "ADDED", change.after)
        return None


def event_of(change: Change) -> Event:
    """Return the event of a change for a watcher of everything."""
    if change.after is None:
        return Event("DELETED", change.last_state())
    return Event("ADDED" if change.before is None else "MODIFIED", change.after)

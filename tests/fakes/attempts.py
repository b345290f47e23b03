"""Which profiles the fake NetworkManager leaves alone, for how long, and why they failed last."""

from msgspec import Struct

TRIES = 4
"""So often in a row is a failing profile activated by itself, unless it says otherwise."""

PAUSE = 0.1
"""Seconds between two such attempts."""

BLOCKED = 300.0
"""For so many seconds is a profile that failed TRIES times left alone."""


class Failure(Struct, frozen=True):
    """Why a profile failed last, and as which failure of all."""

    reason: str
    number: int


class Attempts:
    """By UUID. `failed` counts all failures."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.failed = 0
        self._tries: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._orphans: set[str] = set()
        self._stopped: set[str] = set()

    def may_start(self, uuid: str) -> bool:
        """Whether it is activated by itself now."""
        return not any(uuid in held for held in (self._waiting, self._orphans, self._stopped))

    def fail(self, uuid: str, reason: str, tries: int) -> float:
        """Notes a failure of a profile that is tried so often, 0 always; the seconds after which to `release` it."""
        self.failed += 1
        self.failures[uuid] = Failure(reason, self.failed)
        self._tries[uuid] = self._tries.get(uuid, 0) + 1
        self._waiting.add(uuid)
        return PAUSE if not tries or self._tries[uuid] < tries else BLOCKED

    def release(self, uuid: str, tries: int) -> None:
        """The pause after a failure is over; who failed often enough begins to count from zero."""
        if tries and self._tries.get(uuid, 0) >= tries:
            del self._tries[uuid]
        self._waiting.discard(uuid)

    def orphan(self, uuid: str) -> None:
        """Its device was deleted by hand: it waits until it is loaded or activated."""
        self._orphans.add(uuid)

    def stopped(self, uuid: str) -> None:
        """It was taken down by request: it waits until it is activated."""
        self._stopped.add(uuid)

    def loaded(self, uuid: str) -> None:
        """Its file was read again: this ends the waiting of one whose device was deleted, not of one that failed."""
        self._orphans.discard(uuid)

    def activated(self, uuid: str) -> None:
        """It was activated by request: why it failed before says nothing any more."""
        self.failures.pop(uuid, None)
        self._tries.pop(uuid, None)
        self._waiting.discard(uuid)
        self._orphans.discard(uuid)
        self._stopped.discard(uuid)

    def succeed(self, uuid: str) -> None:
        """It has its address."""
        self.failures.pop(uuid, None)
        self._tries.pop(uuid, None)

    def forget(self, uuid: str) -> None:
        """Its profile is gone."""
        self.activated(uuid)

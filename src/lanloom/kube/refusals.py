"""Writes of our own that the API server does not take: the object that wanted them says so, not the log alone.

A refusal (a webhook, a quota, a right that is missing) is one at once. What an API server on a bad day answers, such as
a 5xx because a webhook is away, is one when it lasts. A controller that has a `Refusals` tells it of both, and of the
end. Conflicts and objects that are gone are no refusals: the next look is based on what is there then.
"""

import asyncio
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from lanloom.kube.errors import AlreadyExists, ApiError, Conflict, Gone, KubeError, NotFound, ServerError

K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Hashable, contravariant=True)

LASTING_SECONDS = 5.0
"""For how long requests of an object fail until that is reported."""

REPEAT_SECONDS = 60.0
"""How often the same refusal is reported again, which shows that it lasts."""

OTHER_SECONDS = 20.0
"""How soon another one is: a report wakes who made it, and a message may have the time in it."""


class Refusals(Protocol[C]):
    """The receiver of refusals. It may raise KubeError: then the report is repeated with the next failure."""

    async def refused(self, key: C, error: ApiError) -> None:
        """Note that a write for the object is refused, or has failed for long."""

    async def accepted(self, key: C) -> None:
        """Record that everything was written for the object."""


class Failing(Generic[K]):
    """Since when the requests of each key have failed, by the loop's clock, and what was reported of that."""

    def __init__(self) -> None:
        self._since: dict[K, float] = {}
        self._reported: dict[K, tuple[str, float]] = {}

    def is_refused(self, key: K, error: KubeError) -> bool:
        """Take note of a failure, and return whether it is to be reported."""
        if not isinstance(error, ApiError):
            self._since.pop(key, None)  # no answer: that says nothing about the object
            return False
        if isinstance(error, Conflict | AlreadyExists | NotFound | Gone):
            return False
        now = asyncio.get_running_loop().time()
        since = self._since.setdefault(key, now)
        if isinstance(error, ServerError) and now - since < LASTING_SECONDS:
            return False
        text, at = self._reported.get(key, ("", -REPEAT_SECONDS))
        if now - at < (REPEAT_SECONDS if text == str(error) else OTHER_SECONDS):
            return False
        self._reported[key] = str(error), now
        return True

    def forget_report(self, key: K) -> None:
        """Forget a report that was not written."""
        self._reported.pop(key, None)

    def end(self, key: K) -> None:
        """Forget the failures of an object: it went well."""
        self._since.pop(key, None)
        self._reported.pop(key, None)

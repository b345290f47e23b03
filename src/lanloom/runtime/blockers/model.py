"""What is said of an object that is not deleted."""

from typing import Literal

from msgspec import Struct

State = Literal["gone", "living", "leaving"]
"""There is no such object (any more); nobody asked for its deletion; its deletion was asked for."""


class Obstacle(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that keeps an object, or would keep it.

    `what` is a finalizer, or what else is in the way; `whose` says who sees to it. `why` is a clause that says what it
    waits for, `waits_for` lists that one by one, and `remedy` is what an operator does about it.
    """

    what: str
    whose: str
    why: str
    waits_for: tuple[str, ...] = ()
    remedy: str = ""


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why an object is not deleted; nothing is in the way if there are no obstacles.

    `since` is its deletionTimestamp. `notes` are good to know and keep nothing.
    """

    kind: str
    name: str
    state: State
    namespace: str = ""
    uid: str = ""
    since: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The object for a message: `Pod default/web`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

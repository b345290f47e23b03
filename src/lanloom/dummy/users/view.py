"""Who uses which network as watches tell, and whose users may have changed.

A query costs what the users of the network are, by the index; a change costs what the object refers to. What a
heartbeat changes wakes nobody.
"""

from collections.abc import Callable

from lanloom.api.meta import Key, Object
from lanloom.api.references import ANY, NONE, References, references_of
from lanloom.dummy.rules.model import User
from lanloom.dummy.users.informers import UserInformers
from lanloom.dummy.users.seen import Seen
from lanloom.dummy.users.stored import StoredUsers

Handler = Callable[[frozenset[Key] | None], None]
"""Told of the NADs whose users may have changed; None: those of any."""


class Users:
    """The users of every NAD as the watches have brought them; a `UserView`.

    It is whole when all its informers are synced. `now` is in seconds, of any clock that does not go back.
    """

    def __init__(self, informers: UserInformers, now: Callable[[], float]) -> None:
        self._stored = StoredUsers({item.resource.kind: item.store for item in informers.all()})
        self._seen = Seen(now)
        self._handlers: list[Handler] = []
        for informer in (informers.machines, informers.instances, informers.pods):
            informer.on_change(self._seen.changed)
        for informer in informers.all():
            informer.on_change(self._changed)

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        return self._stored.users_of(nad)

    def is_used(self, nad: Key) -> bool:
        """Whether anybody uses a NAD or may use it, which takes as long for many as for few."""
        return self._stored.is_used(nad)

    def seen(self, uid: str) -> int | None:
        """The newest resourceVersion that was known of a VM, VMI or pod of that uid; see `Seen`."""
        return self._seen(uid)

    def on_change(self, handler: Handler) -> None:
        """Adds a handler; quick, synchronous. It is told of changes from now on, after the answers contain them."""
        self._handlers.append(handler)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _references(old), _references(new)
        same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        marks = before.marks ^ after.marks if same else before.marks | after.marks
        if any(mark.namespace == ANY for mark in marks):
            self._tell(None)
        elif nads := [nad for nad in marks if not same or before.may_mean(nad) != after.may_mean(nad)]:
            self._tell(frozenset(nads))

    def _tell(self, nads: frozenset[Key] | None) -> None:
        for handler in self._handlers:
            handler(nads)


def _references(item: Object | None) -> References:
    return references_of(item) if item is not None else NONE

"""Who uses which network, by the index that watches keep."""

from collections.abc import Callable

from lanloom.api.meta import Key
from lanloom.dummy.rules.model import User
from lanloom.dummy.users.informers import UserInformers

Handler = Callable[[frozenset[Key] | None], None]
"""Told of the NADs whose users may have changed; None: those of any."""


class Users:
    """The users of every NAD as the watches have brought them; a `UserView`. `now` is in seconds, of any clock."""

    def __init__(self, informers: UserInformers, now: Callable[[], float]) -> None:
        self._informers = informers
        self._now = now

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        raise NotImplementedError

    def seen(self, uid: str) -> int | None:
        """The newest known resourceVersion of a VM, VMI or pod of that uid."""
        raise NotImplementedError

    def on_change(self, handler: Handler) -> None:
        """Adds a handler."""
        raise NotImplementedError

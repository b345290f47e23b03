"""Fresh looks that are shared by who asks at once: each is a list of everything, and 50 networks may go together.

Whoever asks while a look is under way can't be helped by that: it may have passed by what he wants to know. He gets the
next one, with everybody else who asks until that begins. So there is never more than one at a time.
"""

import asyncio

from lanloom.dummy.rules.model import UserView
from lanloom.dummy.users.fresh import fresh_users
from lanloom.kube.ports import Client


class SharedLooks:
    """Fresh looks at one API server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._under_way: asyncio.Task[UserView] | None = None
        self._next: asyncio.Task[UserView] | None = None

    async def users(self) -> UserView:
        """As `fresh_users`, begun after this was called. Raises KubeError."""
        if self._next is None:
            self._next = asyncio.create_task(self._look(self._under_way))
            self._next.add_done_callback(_heard)
        return await asyncio.shield(self._next)

    async def _look(self, before: "asyncio.Task[UserView] | None") -> UserView:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._next = self._next, None
        own = self._under_way
        try:
            return await fresh_users(self._client)
        finally:
            if self._under_way is own:  # or else all that it has found would be kept
                self._under_way = None


def _heard(look: "asyncio.Task[UserView]") -> None:
    """Nobody may be left who hears why a look failed."""
    if not look.cancelled():
        look.exception()

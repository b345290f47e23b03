"""A client that gets errors, and that is overtaken by others, where a test says so."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from lanloom.api.resource import Resource
from lanloom.kube.errors import ApiError
from tests.features.dummy.manager.scene import Mortal, Scene
from tests.harness.interceptor import Verb

R = TypeVar("R")


class Troubled(Mortal):
    """A client that gets errors where `failing` has them, by verb and plural, once the manager has read everything.

    What `before` holds happens right before a request of that verb and plural, once.
    """

    failing: dict[tuple[str, str], ApiError]
    before: dict[tuple[str, str], Callable[[], Awaitable[Any]]]

    async def _ask(
        self, verb: Verb, resource: Resource[Any], send: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        if self._counts:
            if (happens := self.before.pop((verb, resource.plural), None)) is not None:
                await happens()
            if (error := self.failing.get((verb, resource.plural))) is not None:
                raise error
        return await super()._ask(verb, resource, send)


def troubled(each: Scene) -> Troubled:
    """A client of a manager that leads in the scene."""
    client = Troubled(each.engine)
    client.failing, client.before = {}, {}
    each.lead(client)
    return client


async def ready(each: Scene) -> Troubled:
    """A network that works, and the client of its manager."""
    client = troubled(each)
    await each.whole.wait()
    client.begin()
    await each.add()
    await each.rest()
    assert (await each.get()).status.phase == "Ready"
    return client

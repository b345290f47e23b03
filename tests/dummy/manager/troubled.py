"""A client that gets errors, and that is overtaken by others, where a test says so."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import ApiError
from lanloom.kube.ports import Listing
from tests.dummy.manager.mortal import Mortal
from tests.dummy.manager.scene import Scene

T = TypeVar("T", bound=Object)


class Troubled(Mortal):
    """A client that gets errors where `failing` has them, by verb and plural, once the manager has read everything.

    What `before` holds happens right before a request of that verb and plural, once.
    """

    failing: dict[tuple[str, str], ApiError]
    before: dict[tuple[str, str], Callable[[], Awaitable[Any]]]

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says."""
        await self._meet("list", resource)
        return await super().list(resource, namespace, labels=labels, fields=fields)

    async def create(self, resource: Resource[T], body: T | Mapping[str, Any], namespace: str = "") -> T:
        """As the port says."""
        await self._meet("create", resource)
        return await super().create(resource, body, namespace)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """As the port says."""
        await self._meet("patch", resource)
        return await super().patch(resource, name, patch, namespace, subresource=subresource)

    async def delete(self, resource: Resource[T], name: str, namespace: str = "", **options: Any) -> None:
        """As the port says."""
        await self._meet("delete", resource)
        await super().delete(resource, name, namespace, **options)

    async def _meet(self, verb: str, resource: Resource[T]) -> None:
        if not self._counts:
            return
        if (happens := self.before.pop((verb, resource.plural), None)) is not None:
            await happens()
        if (error := self.failing.get((verb, resource.plural))) is not None:
            raise error


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

"""Reading one object that may not be there."""

from typing import TypeVar

from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client

T = TypeVar("T", bound=Object)


async def look_up(client: Client, resource: Resource[T], key: Key) -> T | None:
    """The object as the API server has it now; None where there is none, or no such kind. Raises KubeError.

    The key of an object that is in no namespace has an empty one.
    """
    try:
        return await client.get(resource, key.name, key.namespace)
    except NotFound:
        return None

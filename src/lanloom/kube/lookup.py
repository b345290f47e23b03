"""Reading one object that may not be there.

That a server does not serve a kind is no proof that there are no objects of it: one that starts says so of all custom
resources. Their definitions tell.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lanloom.api.core import CRDS
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
    except NotFound as error:
        if not error.is_of(key.name) and await is_defined(client, resource):
            raise
        return None


async def list_if_defined(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    """All objects of a custom kind; none where there is no such kind. Raises KubeError.

    Where the kind is defined and not served, as while an API server starts, that is an error and no empty list.
    """
    try:
        return (await client.list(resource)).items
    except NotFound:
        if await is_defined(client, resource):
            raise
        return ()


async def is_defined(client: Client, resource: Resource[Any]) -> bool:
    """Whether there is a CustomResourceDefinition of a kind. Raises KubeError, also while the server knows none yet."""
    try:
        await client.get(CRDS, resource.full_name)
    except NotFound as error:
        if not error.is_of(resource.full_name):
            raise
        return False
    return True


@contextmanager
def gone_already(name: str) -> Iterator[None]:
    """Lets pass that there is no object of that name any more; not that the server does not know its kind."""
    try:
        yield
    except NotFound as error:
        if not error.is_of(name):
            raise

"""Who uses which network, read from the API server at this moment.

By this a network is taken away, so it errs on the other side: what can't be read raises. Only a kind that is known not
to exist has no objects. Of KubeVirt's kinds that is known when their definition is not there; that the server does not
serve them is no proof, because one that starts doesn't either, for a moment. The kinds of Kubernetes itself are served
from the first answer on, or not at all (by servers that have only some of them); pods are never missing.

Whoever makes others is read before them: who is gone by then makes nothing more, and what was made is in a later list.
"""

import asyncio
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.dummy.rules.model import User, UserView
from lanloom.dummy.users.informers import REFERENCES, WAVES, index_values
from lanloom.dummy.users.stored import StoredUsers
from lanloom.kube.errors import NotFound
from lanloom.kube.lookup import is_defined
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

_DEFINED = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)
"""The kinds that a CustomResourceDefinition brings."""

_SEEN = {resource.kind for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)}


class FreshUsers:
    """The users of every NAD as they were read; a `UserView`."""

    def __init__(self, stores: dict[str, Store[Any]]) -> None:
        self._stored = StoredUsers(stores)
        read = (item.metadata for kind in _SEEN for item in stores[kind].items())
        self._versions = {meta.uid: meta.version for meta in read}

    def users_of(self, nad: Key) -> tuple[User, ...]:
        """Everybody who uses a NAD or may use it, each once, ordered."""
        return self._stored.users_of(nad)

    def seen(self, uid: str) -> int | None:
        """The resourceVersion of a VM, VMI or pod of that uid; None if it was not there."""
        return self._versions.get(uid)


async def fresh_users(client: Client) -> UserView:
    """Lists everything that may use a network. Raises KubeError where that can't be known: then all may be in use."""
    stores: dict[str, Store[Any]] = {}
    for wave in WAVES:
        lists = await asyncio.gather(*(_listed(client, resource) for resource in wave))
        stores |= {resource.kind: _store(items) for resource, items in zip(wave, lists, strict=True)}
    return FreshUsers(stores)


def _store(items: tuple[Object, ...]) -> Store[Any]:
    store: Store[Any] = Store({REFERENCES: index_values})
    for _ in store.replace(items):
        pass
    return store


async def _listed(client: Client, resource: Resource[Any]) -> tuple[Object, ...]:
    try:
        return (await client.list(resource)).items
    except NotFound:
        if resource is PODS or (resource in _DEFINED and await is_defined(client, resource)):
            raise
        return ()

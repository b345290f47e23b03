"""The NICs of networks as the API server has them, read with the least that it takes.

All NICs are listed, because the API server selects none by its network. But only their versions are looked at. An
object has one content for each version: what the store has in the listed version is what was listed.

Proof that an allocator may build on it, which needs each NIC as it was after the take-over (docs/architecture.md). The
list begins after the take-over, and names every NIC of the network that is there then. What the store has in the listed
version is the listed NIC; a later version was written after the list, and what is read by name is read after it. A NIC
that is gone by then, or has left the network, has a later version than every write to it of a former allocator is
based on, so such a write is refused.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from lanloom.api.ipam import NICS, Nic
from lanloom.api.meta import Key, Object, ObjectVersion
from lanloom.api.resource import Resource
from lanloom.features.ipam.reader import networks_among, networks_of
from lanloom.kube.lookup import SingleFlight, get_or_none
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

T = TypeVar("T")

GETS_MAX = 64
"""If more NICs than this have to be read whole, a list of all of them costs less."""

_GETS_AT_ONCE = 16


class NicList(Struct, frozen=True):
    """NICs by network: each as it was at the version, or later. What came since may be missing."""

    nics: Mapping[str, tuple[Nic, ...]]
    version: int


class _Meta(ObjectVersion, Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    resource_version: str


class _Networked(Struct, frozen=True):
    network: str = ""


class NicVersion(Object, frozen=True, kw_only=True):
    """The version of a NIC, and its networks: to decode that takes a sixth of what the whole NIC takes."""

    metadata: _Meta  # type: ignore[assignment]
    spec: _Networked = _Networked()
    status: _Networked = _Networked()


NIC_VERSIONS = Resource(
    group=NICS.group,
    version=NICS.version,
    kind=NICS.kind,
    plural=NICS.plural,
    type=NicVersion,
    namespaced=True,
)


class _Versions(Struct, frozen=True):
    nics: Mapping[str, tuple[NicVersion, ...]]
    version: int


class LiveNics:
    """Read NICs live. Callers share lists; each gets one that began after it asked. `store` is the informer's."""

    def __init__(self, client: Client, store: Store[Nic]) -> None:
        self._client = client
        self._store = store
        self._versions = SingleFlight(self._list_versions)
        self._whole = SingleFlight(self._list_whole)

    async def read(self, networks: Collection[str]) -> NicList:
        """Return the NICs of these networks. Raises KubeError.

        Each is as it was at some moment after the call: in the list, by the watch in a version that is no older than
        the listed one, or by a GET after the list. One that is gone by then, or has left the network, is missing.
        """
        listed = await self._versions.get()
        wanted = {item.metadata.key: item for name in networks for item in listed.nics.get(name, ())}
        found = {key: self._stored(item) for key, item in wanted.items()}
        unknown = [key for key, nic in found.items() if nic is None]
        if len(unknown) > GETS_MAX:
            return await self._whole.get()
        found.update(zip(unknown, await self._get(unknown), strict=True))
        nics = {
            name: tuple(
                nic
                for item in listed.nics.get(name, ())
                if (nic := found[item.metadata.key]) is not None and name in networks_of(nic)
            )
            for name in networks
        }
        return NicList(nics, listed.version)

    def _stored(self, item: NicVersion) -> Nic | None:
        """Return the store's NIC, if it is no older than the listed one."""
        stored = self._store.get(item.metadata.key)
        if stored is None:
            return None
        mine, listed = stored.metadata, item.metadata
        known = mine.resource_version == listed.resource_version or mine.version > listed.version
        return stored if known else None

    async def _get(self, keys: Collection[Key]) -> list[Nic | None]:
        slots = asyncio.Semaphore(_GETS_AT_ONCE)

        async def get(key: Key) -> Nic | None:
            async with slots:
                return await get_or_none(self._client, NICS, key)

        return await asyncio.gather(*map(get, keys))

    async def _list_versions(self) -> _Versions:
        listing = await self._client.list(NIC_VERSIONS)
        found = _by_network(
            listing.items, lambda item: networks_among(item.spec.network, item.status.network)
        )
        return _Versions(found, int(listing.resource_version))

    async def _list_whole(self) -> NicList:
        listing = await self._client.list(NICS)
        return NicList(_by_network(listing.items, networks_of), int(listing.resource_version))


def _by_network(items: Iterable[T], networks: Callable[[T], Iterable[str]]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {}
    for item in items:
        for name in networks(item):
            found.setdefault(name, []).append(item)
    return {name: tuple(each) for name, each in found.items()}

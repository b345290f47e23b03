"""Lists of all NICs that were begun after they were asked for; networks that are taken over together share one."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from lanloom.api.ipam import NICS, Nic
from lanloom.ipam.manager.informers import networks_of
from lanloom.kube.ports import Client


class FreshList(Struct, frozen=True):
    """NICs by network, as they were at a version."""

    nics: Mapping[str, tuple[Nic, ...]]
    version: int


class FreshNics:
    """Reads NICs on demand."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._begun = 0
        self._readers = 0
        self._found: tuple[int, FreshList] | None = None

    async def read(self) -> FreshList:
        """A list that was begun after this call. Raises KubeError."""
        already = self._begun
        self._readers += 1
        try:
            async with self._lock:
                if self._found is None or self._found[0] <= already:
                    self._begun += 1
                    self._found = (self._begun, await self._list())
                return self._found[1]
        finally:
            self._readers -= 1
            if not self._readers:
                self._found = None  # nobody waits for it, and it may be large

    async def _list(self) -> FreshList:
        listing = await self._client.list(NICS)
        nics: dict[str, list[Nic]] = {}
        for item in listing.items:
            for name in networks_of(item):
                nics.setdefault(name, []).append(item)
        return FreshList({name: tuple(items) for name, items in nics.items()}, int(listing.resource_version))

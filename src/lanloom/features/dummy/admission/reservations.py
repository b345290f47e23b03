"""Writes down on NADs who was allowed to refer to them. What is asked while a write is under way goes into the next.

A write is based on the version of the NAD that was judged. So nothing of anybody new is written onto a NAD that was
marked as draining meanwhile, and whoever marks it finds everything that was written before. What those make who use a
draining NAD is noted, too: whoever deletes it does so on the version for which he found nobody.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lanloom.api.dummy import ADMITTED
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.dummy.manager.reader import StoreReader
from lanloom.features.dummy.rules.admit_references import (
    Reservation,
    is_closed,
    is_crowded,
    is_isolated,
    with_reservations,
)
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.ports import Client

_SIZE_MAX = 200_000
"""Kubernetes takes 256 KiB of annotations at the most."""


class TooManyReservations(Exception):
    """More requests refer to the NAD at once than can be written down, all in all or of one namespace."""


class _Waiting(NamedTuple):
    request: Reservation
    answer: "asyncio.Future[NetworkAttachmentDefinition | None]"


class _Queue(NamedTuple):
    nad: Key
    for_users: bool

    def takes(self, nad: NetworkAttachmentDefinition) -> bool:
        """Whether requests of this queue may be noted on the NAD."""
        return is_isolated(nad) and not is_closed(nad, for_users=self.for_users)


class Reservations:
    """The notes of one replica. `now` is in seconds since the epoch."""

    def __init__(self, client: Client, reader: StoreReader, *, now: Callable[[], float]) -> None:
        self._client = client
        self._reader = reader
        self._now = now
        self._waiting: defaultdict[_Queue, list[_Waiting]] = defaultdict(list)
        self._writers: dict[_Queue, asyncio.Task[None]] = {}
        self._written: dict[Key, NetworkAttachmentDefinition] = {}

    async def write(
        self, key: Key, request: Reservation, *, for_users: bool = False
    ) -> NetworkAttachmentDefinition | None:
        """The NAD with the note on it; or as it is without, if it is no isolated network's, or closed, or not there.

        Raises KubeError, TooMany.
        """
        queue = _Queue(key, for_users)
        if self._is_crowded(queue, request.namespace):
            raise TooManyReservations
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting[queue].append(waiting)
        if queue not in self._writers:
            self._writers[queue] = asyncio.create_task(self._work(queue))
        return await waiting.answer

    async def get_live(self, key: Key) -> NetworkAttachmentDefinition | None:
        """The NAD as the API server has it now. Raises KubeError."""
        try:
            return await self._client.get(NADS, key.name, key.namespace)
        except NotFound as error:
            if not error.is_of(key.name):
                raise
            return None

    async def _work(self, queue: _Queue) -> None:
        while batch := self._waiting.pop(queue, None):
            try:
                found = await self._write(queue, batch)
            except Exception as error:
                for item in batch:
                    if not item.answer.done():
                        item.answer.set_exception(error)
            else:
                for item in batch:
                    if not item.answer.done():
                        item.answer.set_result(found)
        del self._writers[queue]

    async def _write(self, queue: _Queue, batch: Sequence[_Waiting]) -> NetworkAttachmentDefinition | None:
        """Goes on until the NAD was not changed by others in between, or nobody waits any more."""
        key, nad = queue.nad, self._known(queue.nad)
        requests = [item.request for item in batch]
        while not all(item.answer.done() for item in batch):
            if nad is None or not queue.takes(nad):
                nad = await self.get_live(key)
                if nad is None or not queue.takes(nad):
                    return nad
            text = with_reservations(nad, requests, self._reader.users.seen, self._now())
            if len(text) > _SIZE_MAX:
                raise TooManyReservations
            metadata = {
                "resourceVersion": nad.metadata.resource_version,
                "annotations": {ADMITTED: text},
            }
            try:
                written = await self._client.patch(NADS, key.name, {"metadata": metadata}, key.namespace)
            except Conflict:
                nad = None
            except NotFound as error:
                if not error.is_of(key.name):
                    raise
                return None
            else:
                self._written[key] = written
                return written
        return None

    def _is_crowded(self, queue: _Queue, namespace: str) -> bool:
        nad = self._known(queue.nad)
        if nad is None or not is_isolated(nad):
            return False
        waiting = sum(item.request.namespace == namespace for item in self._waiting.get(queue, ()))
        return is_crowded(nad, namespace, waiting, self._reader.users.seen, self._now())

    def _known(self, key: Key) -> NetworkAttachmentDefinition | None:
        """The newest state that is known without asking."""
        stored, written = self._reader.nad(key), self._written.get(key)
        if written is None or (stored is not None and stored.metadata.version >= written.metadata.version):
            self._written.pop(key, None)
            return stored
        return written

"""Writes the statuses of NICs, many at once, and tells of what they got or were refused."""

import asyncio
from collections.abc import Sequence

from lanloom.api.ipam import ALLOCATED, NICS, UNIQUE, Nic, NicStatus
from lanloom.ipam.manager.book import Book
from lanloom.ipam.manager.reign import Reign
from lanloom.kube.conditions import find
from lanloom.kube.errors import Conflict, KubeError, NotFound
from lanloom.kube.events import Recorder, reference
from lanloom.kube.mergediff import struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.statuses import StatusWriter

_AT_ONCE = 16

TOLD_AT_ONCE = 32
"""Where more NICs than this are written at once, no Events say what they got: it would be twice the writes."""


class NicWriter:
    """Always on the version of the NIC that it is given: a retry on a newer one would get round the fence."""

    def __init__(self, client: Client, reign: Reign, recorder: Recorder) -> None:
        self._statuses = StatusWriter(client)
        self._reign = reign
        self._recorder = recorder
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def write_all(self, book: Book | None, writes: Sequence[tuple[Nic, NicStatus]]) -> list[KubeError]:
        """Writes each, and tells the book of the answers. What could not be written is for the caller to repeat."""
        quiet = len(writes) > TOLD_AT_ONCE
        outcomes = await asyncio.gather(*(self._write(book, nic, status, quiet) for nic, status in writes))
        return [error for error in outcomes if error is not None]

    async def _write(self, book: Book | None, nic: Nic, status: NicStatus, quiet: bool) -> KubeError | None:
        async with self._slots:
            try:
                await self._write_one(book, nic, status)
            except NotFound as error:
                if not error.is_of(nic.metadata.name):
                    return error
                if book is not None:
                    book.lose(str(nic.metadata.key), nic.metadata.uid)
            except KubeError as error:
                return error
            else:
                await self._tell(nic, status, quiet)
        return None

    async def _write_one(self, book: Book | None, nic: Nic, status: NicStatus) -> None:
        meta = nic.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": struct_diff(nic.status, status),
        }
        try:
            answer = await self._statuses.patch(NICS, meta.name, body, meta.namespace)
        except Conflict:
            if book is not None:
                await self._reign.reread_nic(book, str(meta.key), meta.uid)
            raise
        if book is not None:
            book.wrote(nic, answer)

    async def _tell(self, nic: Nic, status: NicStatus, quiet: bool) -> None:
        about = reference(NICS, nic)
        before, after = (find(item.conditions, ALLOCATED) for item in (nic.status, status))
        if after is not None and after.status == "False":
            if before is None or (before.reason, before.message) != (after.reason, after.message):
                await self._recorder.event(about, "Warning", after.reason, after.message)
        elif (
            not quiet
            and after is not None
            and (status.ips, status.network) != (nic.status.ips, nic.status.network)
        ):
            await self._recorder.event(about, "Normal", after.reason, after.message)
        double = find(status.conditions, UNIQUE)
        if double is not None and double != find(nic.status.conditions, UNIQUE):
            await self._recorder.event(about, "Warning", double.reason, double.message)

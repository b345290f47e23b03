"""Gives addresses of one network at a time to its NICs. Nothing else does; docs/architecture.md says why it is safe.

The order of the writes is part of that: the take-over before the list that the book is made of; a grant in the network,
on the version that was known, before the status of a NIC, on the version that was known before the grant.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from lanloom.api.ipam import NETWORKS, UNIQUE, Grant, Network, NetworkStatus, Nic, NicStatus
from lanloom.ipam.manager.book import Book
from lanloom.ipam.manager.decisions import Decision, decide
from lanloom.ipam.manager.netstatus import PoolView, news, pool_views, status_of
from lanloom.ipam.manager.nicstatus import status_after, touched
from lanloom.ipam.manager.nicwrites import NicWriter
from lanloom.ipam.manager.reign import Reign
from lanloom.kube.conditions import find
from lanloom.kube.errors import Conflict, KubeError, NotFound, ServerError
from lanloom.kube.events import Recorder, reference
from lanloom.kube.mergediff import struct_diff

SPACING_SECONDS = 1.0
"""How far apart writes of a network's status are at the least, unless addresses are granted or its spec was changed.

Who changed it looks at once what came of it, and addresses come and go by the thousand.
"""

BATCH = 256
"""So many NICs at the most are settled by one grant: the network's object has to carry it."""


class Write(Struct, frozen=True):
    """What is to be written to a NIC. `gives` says whether it then has addresses that it did not have."""

    decision: Decision
    status: NicStatus
    gives: bool

    @property
    def nic(self) -> Nic:
        """The NIC as it was known when that was decided."""
        return self.decision.nic


class NetworkAllocator:
    """Looks after the networks of a reign. `now` gives seconds since the epoch."""

    def __init__(self, reign: Reign, writer: NicWriter, recorder: Recorder, now: Callable[[], float]) -> None:
        self._reign = reign
        self._writer = writer
        self._recorder = recorder
        self._now = now
        self._written: dict[str, float] = {}

    async def reconcile(self, network: Network) -> float | None:
        """Gives a network's NICs what they need; in how many seconds to look again, if that is known."""
        name = network.metadata.name
        try:
            return await self._reconcile(name, network)
        except Conflict:
            await self._reign.reread(name)  # so that the next try does not build on what is known to be old
            raise
        except NotFound as error:
            if not error.is_of(
                name
            ):  # the server may have just started; to try again is all that there is to do
                raise ServerError(error.code, error.reason, f"Nics are not served now: {error}") from None
            self._reign.forget(name)
            return SPACING_SECONDS
        except KubeError:
            raise
        except Exception:
            # The book may have been left in disorder; the next one is made afresh.
            self._reign.forget(name)
            raise

    async def _reconcile(self, name: str, network: Network) -> float | None:
        book = self._reign.book(network)
        if book is None:
            if (wait := self._reign.banned(name)) > 0:
                return wait
            book = await self._reign.take_over(network)
        book.look(await self._reign.keep(book.network))
        waits = [await self._reign.confirm(book)]
        writes = self._decide(book)
        await self._grant(book, writes)
        failures = await self._writer.write_all(book, [(item.nic, item.status) for item in writes])
        waits.append(await self._report(book))
        if failures:
            raise failures[0]
        if len(writes) == BATCH:
            return 0.0
        return min((wait for wait in waits if wait is not None), default=None)

    def _decide(self, book: Book) -> list[Write]:
        """What is to be written to the NICs that need something; what they get is held in the ledger."""
        writes: list[Write] = []
        for nic in book.due():
            write = self._decide_one(book, nic)
            if write is not None:
                writes.append(write)
            if len(writes) == BATCH:
                break
        return writes

    def _decide_one(self, book: Book, nic: Nic) -> Write | None:
        decision = decide(book.ledger, nic, book.held(nic), book.problem)
        key, now = str(nic.metadata.key), self._now()
        status = status_after(decision, book.name, self._reign.epoch_of, book.twice(key), now)
        if decision.ips is None:
            book.refuse(nic)
        if status == nic.status and book.is_granted(key):
            status = touched(status, now)  # so that no write of what was granted can come after it
        gives = decision.ips is not None and not set(decision.ips) <= set(book.owned(nic))
        if not gives and decision.operation is not None:
            decision.operation.abort()
        return Write(decision, status, gives) if gives or status != nic.status else None

    async def _grant(self, book: Book, writes: Sequence[Write]) -> None:
        """Writes down who is about to get what. Raises Conflict if the network changed, or is another's by now."""
        giving = [item for item in writes if item.gives]
        if not giving:
            return
        grants = book.grants()
        for item in giving:
            key, uid = str(item.nic.metadata.key), item.nic.metadata.uid
            former = grants[key].ips if key in grants else ()
            grants[key] = Grant(nic=key, uid=uid, ips=tuple(dict.fromkeys((*item.status.ips, *former))))
            book.is_about_to_write(item.nic)
        views, status = self._status(book, grants.values())
        before = book.network.status
        try:
            network = await self._write(book, status)
        finally:
            for item in giving:
                if item.decision.operation is not None:
                    item.decision.operation.abort()
        book.look(network)
        await self._tell(book, views, before)

    async def _report(self, book: Book) -> float | None:
        """Writes the network's status if it is not what is so; or returns in how many seconds that may be done."""
        if book.network.metadata.is_leaving and book.is_free:
            await self._reign.let_go(book.network)
            return None
        views, status = self._status(book, book.grants().values())
        if status == book.network.status:
            return None
        wait = self._written.get(book.name, -math.inf) + SPACING_SECONDS - asyncio.get_running_loop().time()
        changed = status.observed_generation != book.network.status.observed_generation
        if wait > 0 and not changed:
            return wait
        before = book.network.status
        book.look(await self._write(book, status))
        await self._tell(book, views, before)
        return None

    def _status(self, book: Book, grants: Iterable[Grant]) -> tuple[tuple[PoolView, ...], NetworkStatus]:
        views = pool_views(book.ledger, book.levels)
        status = status_of(
            book.network,
            views,
            problem=book.problem,
            nics=book.size,
            grants=grants,
            twice=book.owned_twice(),
            now=self._now(),
        )
        return views, status

    async def _write(self, book: Book, status: NetworkStatus) -> Network:
        patch = struct_diff(book.network.status, status)
        self._written[book.name] = asyncio.get_running_loop().time()
        return await self._reign.write_status(book.network, patch)

    async def _tell(self, book: Book, views: Sequence[PoolView], before: NetworkStatus) -> None:
        """Tells of pools that got fuller or emptier, and of addresses that are owned twice."""
        told = list(news(book.name, views, book.levels))
        book.levels = {view.pool.range: view.level for view in views}
        about = reference(NETWORKS, book.network)
        for item in told:
            await self._recorder.event(about, item.type, item.reason, item.message)
        double = find(book.network.status.conditions, UNIQUE)
        if double is not None and double != find(before.conditions, UNIQUE):
            await self._recorder.event(about, "Warning", double.reason, double.message)

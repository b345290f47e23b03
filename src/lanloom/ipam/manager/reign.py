"""Which networks this process has taken over, and everything that it knows and writes of their objects.

A network is taken over by raising its epoch, on the version that was read. From then on whatever its former allocator
still writes to the network's object is refused, because it does so on an older version.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from msgspec import to_builtins

from lanloom.api.ipam import FINALIZER, NETWORKS, NICS, Allocator, Network, Nic
from lanloom.api.meta import Key
from lanloom.ipam.manager.book import Book
from lanloom.ipam.manager.fresh import FreshList, FreshNics
from lanloom.ipam.manager.informers import BY_NETWORK, IpamInformers, networks_of
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.kube.statuses import StatusWriter

RETAKE_SECONDS = 20.0
"""After this long a network that another allocator has taken is taken back, should we still lead then.

That other one may be a leader of former times that was slow, and it has learned of its fall by then. If it is the new
leader, we have learned of ours.
"""

CONFIRM_SECONDS = 5.0
"""After this long a NIC that was listed and that the watch has not brought is asked for."""

_AT_ONCE = 16
"""So many networks are claimed at the same time."""

log = structlog.get_logger(__name__)


class Reign:
    """The books of one leadership. `identity` is this process's own."""

    def __init__(self, client: Client, informers: IpamInformers, identity: str) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._informers = informers
        self._identity = identity
        self._fresh = FreshNics(client)
        self._books: dict[str, Book] = {}
        self._known: dict[str, Network] = {}
        self._banned: dict[str, float] = {}
        self._doubts: dict[str, dict[tuple[str, str], float]] = {}

    def clear(self) -> None:
        """Forgets everything: what was known in one leadership is worth nothing in the next."""
        for memory in (self._books, self._known, self._banned, self._doubts):
            memory.clear()

    def nic_changed(self, old: Nic | None, new: Nic | None) -> set[str]:
        """Takes in what the watch tells of a NIC; the networks that it matters to."""
        names = {name for item in (old, new) if item is not None for name in networks_of(item)}
        key = str(new.metadata.key) if new is not None else ""
        # A look into each book, because a network that a NIC was in between two states is in neither of them.
        for name, book in self._books.items():
            gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
            if old is not None and gone and self._lose(book, old):
                names.add(name)
            if new is not None and (name in names or book.knows(key)):
                book.see(new)
                names.add(name)
        return names

    def _lose(self, book: Book, nic: Nic) -> bool:
        """Whether the book knew that NIC, perhaps from a list: the watch may have shown it in another network yet."""
        key = str(nic.metadata.key)
        known = book.uid_of(key) == nic.metadata.uid
        book.lose(key, nic.metadata.uid)
        later = book.uid_of(key)
        if later:
            # A namesake that we were told of otherwise; should it be gone too, the watch need not tell of it.
            self._doubt(book, {(key, later)})
        return known

    async def find(self, name: str) -> Network | None:
        """The newest known object of a network. Asks the API server before it says that there is none."""
        stored, known = self._informers.networks.store.get(Key("", name)), self._known.get(name)
        if stored is not None:
            return stored if known is None else max(stored, known, key=lambda item: item.metadata.version)
        return await self.reread(name)

    async def reread(self, name: str) -> Network | None:
        """A network as the API server has it now."""
        try:
            return self._note(await self._client.get(NETWORKS, name))
        except NotFound as error:
            if not error.is_of(name):
                raise
            self.forget(name)
            return None

    def forget(self, name: str) -> None:
        """The network is gone."""
        for memory in (self._books, self._known, self._banned, self._doubts):
            memory.pop(name, None)

    def epoch_of(self, name: str) -> int:
        """The epoch of a network, as far as is known."""
        book = self._books.get(name)
        if book is not None:
            return book.epoch
        stored = self._informers.networks.store.get(Key("", name))
        return stored.status.allocator.epoch if stored is not None else 0

    def book(self, network: Network) -> Book | None:
        """The book of a network, if it is still ours."""
        name = network.metadata.name
        book = self._books.get(name)
        if book is None:
            return None
        if book.network.metadata.uid == network.metadata.uid:
            book.look(network)
            present = book.network.status.allocator
            if present == Allocator(holder=self._identity, epoch=book.epoch):
                return book
            log.warning("network-taken-by-another", network=name, holder=present.holder, epoch=present.epoch)
            self._banned[name] = asyncio.get_running_loop().time() + RETAKE_SECONDS
        del self._books[name]
        return None

    def banned(self, name: str) -> float:
        """For how many seconds a network is left to another allocator; 0 or less if it is not."""
        return self._banned.get(name, -math.inf) - asyncio.get_running_loop().time()

    async def take_over(self, network: Network) -> Book:
        """Makes sure that no other allocator can grant anything any more, and then reads who owns what."""
        network = await self._claim(network)
        return self._open(network, await self._fresh.read())

    async def take_all(self, networks: Iterable[Network]) -> None:
        """Takes many networks over and reads all NICs once. Those that can't be taken now are left for another time."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def claim(network: Network) -> Network | None:
            async with slots:
                with suppress(KubeError):
                    return await self._claim(network)
            return None

        claimed = await asyncio.gather(*map(claim, networks))
        try:
            fresh = await self._fresh.read()
        except KubeError:
            return
        for network in claimed:
            if network is not None and network.metadata.name not in self._books:
                self._open(network, fresh)
                await asyncio.sleep(0)  # a lease must be renewed meanwhile, and webhooks answered

    async def _claim(self, network: Network) -> Network:
        network = await self.keep(network)
        mine = Allocator(holder=self._identity, epoch=network.status.allocator.epoch + 1)
        return await self.write_status(network, {"allocator": to_builtins(mine)})

    def _open(self, network: Network, fresh: FreshList) -> Book:
        """The book of a network that was claimed before the list was begun."""
        name, store = network.metadata.name, self._informers.nics.store
        listed = fresh.nics.get(name, ())
        watched = [store.get(item.metadata.key) or item for item in listed]
        nics = (
            seen if seen.metadata.version == item.metadata.version else item
            for item, seen in zip(listed, watched, strict=True)
        )
        book = self._books[name] = Book(
            network, nics, fresh.version
        )  # what is the same is kept in memory once
        for nic in (*watched, *store.by(BY_NETWORK, name)):
            book.see(nic)
        self._doubt(book, book.names())
        log.info("network-taken-over", network=name, epoch=book.epoch, nics=book.size)
        return book

    async def confirm(self, book: Book) -> float | None:
        """Asks for NICs that the watch is slow to bring; in how many seconds to do so, if that is not now.

        They may have gone before it could bring them, and then it never tells. Raises KubeError.
        """
        doubts, now = self._doubts.get(book.name, {}), asyncio.get_running_loop().time()
        present = {(key, uid) for key, uid in doubts if book.uid_of(key) == uid}
        for item in doubts.keys() - self._unseen(present):
            del doubts[item]
        for (key, uid), since in sorted(doubts.items()):
            if since + CONFIRM_SECONDS <= now:
                await self.reread_nic(book, key, uid)
                if doubts.get((key, uid)) == since:
                    del doubts[key, uid]
        return min((since + CONFIRM_SECONDS - now for since in doubts.values()), default=None)

    async def reread_nic(self, book: Book, key: str, uid: str) -> None:
        """Tells the book how a NIC is now. Raises KubeError."""
        namespace, _, name = key.partition("/")
        try:
            found = await self._client.get(NICS, name, namespace)
        except NotFound as error:
            if not error.is_of(name):
                raise
            book.lose(key, uid)
            return
        if found.metadata.uid != uid:
            book.lose(key, uid)
        book.see(found)
        self._doubt(book, {(key, found.metadata.uid)})

    def _doubt(self, book: Book, nics: set[tuple[str, str]]) -> None:
        """Remembers NICs (key and uid) that we know of and the watch has not brought."""
        now = asyncio.get_running_loop().time()
        doubts = self._doubts.setdefault(book.name, {})
        for item in self._unseen(nics):
            doubts[item] = now

    def _unseen(self, nics: set[tuple[str, str]]) -> set[tuple[str, str]]:
        known = {
            (key, found.metadata.uid)
            for key, _ in nics
            if (found := self._informers.nics.store.get(Key(*key.split("/")))) is not None
        }
        return nics - known

    async def keep(self, network: Network) -> Network:
        """Sees to it that a network stays as long as its addresses are owned."""
        meta = network.metadata
        if FINALIZER in meta.finalizers or meta.is_leaving:
            return network
        return await self._put_finalizers(network, (*meta.finalizers, FINALIZER))

    async def let_go(self, network: Network) -> None:
        """Lets a network that is being deleted go."""
        left = [item for item in network.metadata.finalizers if item != FINALIZER]
        if left != list(network.metadata.finalizers):
            await self._put_finalizers(network, left)

    async def write_status(self, network: Network, patch: Mapping[str, Any]) -> Network:
        """Patches a network's status, if the network is still the one that is known. Raises Conflict."""
        body = {"metadata": _version_of(network), "status": patch}
        name = network.metadata.name
        return self._note(await self._statuses.patch(NETWORKS, name, body))

    async def _put_finalizers(self, network: Network, finalizers: Sequence[str]) -> Network:
        body = {"metadata": {**_version_of(network), "finalizers": list(finalizers)}}
        return self._note(await self._client.patch(NETWORKS, network.metadata.name, body))

    def _note(self, network: Network) -> Network:
        """Remembers what is newer than what the watch has brought."""
        known = self._known.get(network.metadata.name)
        if known is None or known.metadata.version < network.metadata.version:
            self._known[network.metadata.name] = network
        return network


def _version_of(network: Network) -> dict[str, str]:
    return {"resourceVersion": network.metadata.resource_version}

"""The objects of one resource as last seen, with indexes. Only its informer changes it; everyone else reads.

What the watch delivers may be stale: after a broken connection the events since the last bookmark come again. An
event is stale if its resourceVersion is not above the one that the store has for that object, or had when the object
was deleted. Kubernetes allows that comparison for versions that are decimal numbers; any other version is taken in
the order of arrival. A list is never older than what was seen: it is the truth, and what it lacks is gone.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, NoReturn, Protocol, TypeVar

from lanloom.api.meta import Key, Object
from lanloom.kube.ports import WatchEvent

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)

Indexes = Mapping[str, Callable[[T], Iterable[str]]]
"""Index name → the values under which an object is found there. The functions are pure and don't raise."""


class Change(NamedTuple, Generic[T_co]):
    """The change of one object; `old` is None when it is new, `new` is None when it is gone."""

    old: T_co | None
    new: T_co | None


class StoreView(Protocol[T]):
    """Objects that are found by key and by index value. Raises KeyError for an index that it doesn't have."""

    def get(self, key: Key) -> T | None:
        """Return the object of that key."""

    def by(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that the index has under the value."""

    def values(self, index: str, item: T) -> Iterable[str]:
        """Return under which values the index would have an object."""


class Store(Generic[T]):
    """Objects by key and by index value."""

    def __init__(self, indexes: Indexes[T] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._gone: dict[Key, int] = {}
        self._functions = dict(indexes or {})
        # A key alone stands for itself: most owners have one NIC, and a dict for one key takes more than many keys do.
        self._indexes: dict[str, dict[str, Key | dict[Key, None]]] = {name: {} for name in self._functions}

    def __bool__(self) -> NoReturn:
        """Refuse the test, because an empty store and a missing one are easily mixed up."""
        raise TypeError("the truth of a store is ambiguous; ask `len(store)` or compare with None")

    def __len__(self) -> int:
        return len(self._objects)

    def add_index(self, name: str, function: Callable[[T], Iterable[str]]) -> None:
        """Add an index of present and future objects. Raises ValueError if one of that name exists."""
        if name in self._functions:
            raise ValueError(f"the store has an index {name} already")
        self._functions[name] = function
        self._indexes[name] = {}
        for key, item in self._objects.items():
            self._enter(name, key, item)

    def get(self, key: Key) -> T | None:
        """Return the object of that key."""
        return self._objects.get(key)

    def items(self) -> tuple[T, ...]:
        """Return every object, as of now."""
        return tuple(self._objects.values())

    def by(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that the index has under the value.

        Raises KeyError for an index that the store doesn't have.
        """
        found = self._indexes[index].get(value, {})
        return tuple(map(self._objects.__getitem__, (found,) if isinstance(found, Key) else found))

    def values(self, index: str, item: T) -> Iterable[str]:
        """Return under which values an index would have an object. Raises KeyError as `by` does."""
        return self._functions[index](item)

    def has(self, index: str, value: str) -> bool:
        """Return whether the index has anything under the value.

        Raises KeyError for an index that the store doesn't have.
        """
        return value in self._indexes[index]

    def replace(self, items: Iterable[T]) -> Iterator[Change[T]]:
        """Make the store equal to a list; yields each difference right after it was made.

        Lazy, so that the informer can let others run in between: the store is right when the iterator is exhausted.
        """
        self._gone.clear()
        missing = dict.fromkeys(self._objects)
        for new in items:
            key = new.metadata.key
            missing.pop(key, None)
            old = self._objects.get(key)
            if old is None or old.metadata.resource_version != new.metadata.resource_version:
                yield self._put(key, new)
        for key in missing:
            yield self._remove(key)

    def apply(self, event: WatchEvent[T]) -> Change[T] | None:
        """Take in one event of a watch; None if it changed nothing."""
        version = _number(event.object)
        if event.type == "BOOKMARK":
            self._forget_deletions(version)
            return None
        key = event.object.metadata.key
        if self._is_stale(key, version):
            return None
        if event.type == "DELETED":
            self._gone[key] = version
            return self._remove(key) if key in self._objects else None
        self._gone.pop(key, None)
        return self._put(key, event.object)

    def _is_stale(self, key: Key, version: int) -> bool:
        """Return whether a newer state of the object is known. Unknown numbers (-1) never are, nor are they newer."""
        known = self._objects.get(key)
        newest = self._gone.get(key, -1) if known is None else _number(known)
        return -1 < version <= newest

    def _forget_deletions(self, version: int) -> None:
        """Forget deletions up to a bookmark's version: no event before it comes again."""
        self._gone = {key: number for key, number in self._gone.items() if number > version}

    def _put(self, key: Key, new: T) -> Change[T]:
        old = self._objects.get(key)
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = new
        for name in self._functions:
            self._enter(name, key, new)
        return Change(old, new)

    def _enter(self, name: str, key: Key, item: T) -> None:
        index = self._indexes[name]
        for value in self._functions[name](item):
            found = index.setdefault(value, key)
            if not isinstance(found, Key):
                found[key] = None
            elif found != key:
                index[value] = {found: None, key: None}

    def _remove(self, key: Key) -> Change[T]:
        old = self._objects.pop(key)
        self._unindex(key, old)
        return Change(old, None)

    def _unindex(self, key: Key, old: T) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                keys = index.get(value, key)
                if not isinstance(keys, Key):
                    keys.pop(key, None)
                if not keys or keys == key:
                    index.pop(value, None)


class MutationCache(Generic[T]):
    """Objects of a store, in the form of an own write where the watch has not brought that yet."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._written: dict[Key, T] = {}

    def get(self, key: Key) -> T | None:
        """Return the object of that key, or None where the watch knows none."""
        stored, written = self._store.get(key), self._written.get(key)
        return written if stored is not None and written is not None and _follows(written, stored) else stored

    def add(self, written: T) -> T:
        """Remember the server's answer to an own write, and return it; one that the watch overtook is no news."""
        key = written.metadata.key
        stored = self._store.get(key)
        if stored is not None and _follows(written, stored):
            self._written[key] = written
        return written

    def observe(self, old: T | None, new: T | None) -> None:
        """Forget a write that the watch has caught up with; the handler of the store's informer."""
        item = new or old
        written = self._written.get(item.metadata.key) if item is not None else None
        if written is not None and (new is None or not _follows(written, new)):
            del self._written[written.metadata.key]


def _follows(written: Object, stored: Object) -> bool:
    """Return whether a write is of the stored object, and newer."""
    return written.metadata.uid == stored.metadata.uid and written.metadata.version > stored.metadata.version


def _number(item: Object) -> int:
    """Return the object's resourceVersion as a number, or -1 if it is not one."""
    version = item.metadata.resource_version
    return int(version) if version.isdecimal() else -1


class Overlay(Generic[T]):
    """The objects of another with some in place of those of the same key."""

    def __init__(self, under: StoreView[T], items: Iterable[T]) -> None:
        self._under = under
        self._items = {item.metadata.key: item for item in items}
        self._indexes: dict[str, dict[str, list[T]]] = {}

    def get(self, key: Key) -> T | None:
        """Return the object of that key."""
        return self._items.get(key) or self._under.get(key)

    def by(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects that the index has under the value. Raises KeyError as a store does."""
        under = (item for item in self._under.by(index, value) if item.metadata.key not in self._items)
        if index not in self._indexes:  # made when asked for: most overlays are of one object, and asked once
            self._indexes[index] = self._indexed(index)
        return (*under, *self._indexes[index].get(value, ()))

    def values(self, index: str, item: T) -> Iterable[str]:
        """Return under which values the index would have an object. Raises KeyError as a store does."""
        return self._under.values(index, item)

    def _indexed(self, index: str) -> dict[str, list[T]]:
        found: dict[str, list[T]] = {}
        for item in self._items.values():
            for value in dict.fromkeys(self.values(index, item)):
                found.setdefault(value, []).append(item)
        return found


def freeze_memory() -> None:
    """Take everything that is alive out of the garbage collector's sight; call once, after the first sync.

    The stores hold most of a process's objects, for its whole life. Without this, each full collection walks them all.
    """
    gc.collect()
    gc.freeze()

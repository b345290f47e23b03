"""Stored objects, the port to the storage that outlives the process, and a storage in memory.

An object is written once and read often, so it is kept as the JSON that goes over the wire, without `apiVersion` and
`kind`: those depend on the version in which a client asks, and are put in front when it is sent.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from lanloom.api.meta import Key, ObjectMeta
from lanloom_embedded.kinds import GroupPlural, Raw, ServedKind

_TYPE_FIELDS = ("apiVersion", "kind")
_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


class _Envelope(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_envelopes = msgspec.json.Decoder(_Envelope)
_raws = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class Stored(Struct, frozen=True):
    """One state of one object. `data` is its JSON without apiVersion and kind."""

    key: Key
    version: int
    data: bytes
    labels: Mapping[str, str]

    def raw(self) -> Raw:
        """Return the object, decoded again: the caller may change it."""
        return _raws.decode(self.data)

    def meta(self) -> ObjectMeta:
        """Return the object's metadata."""
        return _envelopes.decode(self.data).metadata


class Change(Struct, frozen=True):
    """One committed step of one object: `before` None is a creation, `after` None a deletion."""

    resource: GroupPlural
    key: Key
    version: int
    before: Stored | None
    after: Stored | None

    @property
    def frees(self) -> bool:
        """Whether it is a step of a deletion: the removal, or a state of an object that is being deleted."""
        return self.after is None or self.after.meta().deletion_timestamp is not None

    def last_state(self) -> Stored:
        """Return the object as it was, in the version of its deletion."""
        if self.before is None:
            raise ValueError(f"{self.resource} {self.key} was not there before version {self.version}")
        return stored(self.before.raw(), self.version)


def stored(raw: Raw, version: int) -> Stored:
    """Put `version` (0: none) into an object and make it ready to be kept."""
    meta = {**raw["metadata"], "resourceVersion": str(version)}
    if not version:
        del meta["resourceVersion"]
    body = {"metadata": {name: meta[name] for name in _META_ORDER if name in meta}}
    body |= {name: value for name, value in raw.items() if name not in _TYPE_FIELDS and name != "metadata"}
    return restored(_encoder.encode(body), version)


def restored(data: bytes, version: int) -> Stored:
    """Return an object from the bytes that were kept."""
    meta = _envelopes.decode(data).metadata
    return Stored(meta.key, version, data, meta.labels)


def wire_prefix(kind: ServedKind) -> bytes:
    """Return the bytes before an object's first field."""
    return _prefix(kind.group, kind.version, kind.kind)


@lru_cache(maxsize=1024)
def _prefix(group: str, version: str, kind: str) -> bytes:
    """Return the bytes of a kind; they are asked for with each object that is read."""
    head = _encoder.encode({"apiVersion": f"{group}/{version}" if group else version, "kind": kind})
    return head[:-1] + b","


def wire(kind: ServedKind, state: Stored) -> bytes:
    """Return the object as a client of this kind and version sees it."""
    return wire_prefix(kind) + state.data[1:]


def full(kind: ServedKind, state: Stored) -> Raw:
    """Return the object decoded, with its apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **state.raw()}


class StorageError(Exception):
    """The storage can't be opened, or can't keep a change; the message says which file and why."""


class DataDamaged(StorageError):
    """What was kept can't be read, or some of it is missing. Restore a backup."""


class DiskFull(StorageError):
    """There is no space for a change. Deletions may still be kept."""


class Snapshot(Struct, frozen=True):
    """The contents of a storage when it was opened.

    `version` is the newest resourceVersion ever given out; `compacted` the newest one whose change is forgotten.
    `history` holds the changes after `compacted`, oldest first.
    """

    version: int
    compacted: int
    objects: tuple[tuple[GroupPlural, Stored], ...] = ()
    history: tuple[Change, ...] = ()


class Storage(Protocol):
    """Keeps changes. One engine uses it, which never commits twice at the same time.

    `full` says that a change found no space, and that the space which is kept for deletions may be in use.
    """

    full: bool

    def load(self) -> Snapshot:
        """Load the contents. Raises StorageError."""
        ...

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keep all changes or none; return when they outlive the process. Raises StorageError, DiskFull.

        Changes up to `compacted` may be forgotten; the objects themselves are kept. Changes of which one is a step of
        a deletion (`Change.frees`) may use the space that is kept for that.
        """
        ...

    async def make_room(self) -> None:
        """Try to end `full`: take the space for deletions back from the disk. May be called at any time."""
        ...

    async def close(self) -> None:
        """Let go of the storage."""
        ...


class MemoryStorage:
    """Keeps changes in memory. An engine that is opened on it again finds what the former one committed."""

    full = False

    def __init__(self) -> None:
        self._version = 1
        self._compacted = 1
        self._objects: dict[tuple[GroupPlural, Key], Stored] = {}
        self._history: list[Change] = []

    def load(self) -> Snapshot:
        """Load the contents."""
        objects = tuple((resource, state) for (resource, _), state in self._objects.items())
        history = tuple(change for change in self._history if change.version > self._compacted)
        return Snapshot(self._version, self._compacted, objects, history)

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Keep the changes, at once."""
        for change in changes:
            if change.after is None:
                self._objects.pop((change.resource, change.key), None)
            else:
                self._objects[change.resource, change.key] = change.after
            self._version = change.version
        self._history.extend(changes)
        if compacted > self._compacted:
            self._compacted = compacted
            self._history = [change for change in self._history if change.version > compacted]

    async def make_room(self) -> None:
        """There is always room."""

    async def close(self) -> None:
        """There is nothing to let go of."""

"""Objects as they are kept: bytes, with just enough beside them to find and select them.

An object is written once and read often, so it is kept as the JSON that goes over the wire, without `apiVersion` and
`kind`: those depend on the version in which a client asks, and are put in front when it is sent.
"""

from collections.abc import Mapping
from typing import Any

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
        """The object, decoded anew: the caller may change it."""
        return _raws.decode(self.data)

    def meta(self) -> ObjectMeta:
        """The object's metadata."""
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
    """An object from the bytes that were kept."""
    meta = _envelopes.decode(data).metadata
    return Stored(meta.key, version, data, meta.labels)


def wire_prefix(kind: ServedKind) -> bytes:
    """Return the bytes before an object's first field."""
    head = _encoder.encode({"apiVersion": kind.api_version, "kind": kind.kind})
    return head[:-1] + b","


def wire(kind: ServedKind, state: Stored) -> bytes:
    """The object as a client of this kind and version sees it."""
    return wire_prefix(kind) + state.data[1:]


def full(kind: ServedKind, state: Stored) -> Raw:
    """The object decoded, with its apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **state.raw()}

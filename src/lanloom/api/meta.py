"""Object metadata as every Kubernetes object carries it, the syntax of labels, and times as Kubernetes writes them.

The Structs hold only the fields that Lanloom uses. Unknown fields survive because objects are patched, never written
back whole (see `lanloom.kube.ports.Client.patch`).
What can't be a label can't be selected either. A time is RFC 3339 in UTC; here, seconds since the epoch.
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Meta, Struct


class Key(NamedTuple):
    """The key of an object of one resource: its namespace (empty for cluster-scoped ones) and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A reference to the object that owns this one (metadata.ownerReferences of Kubernetes)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


def version_number(text: str) -> int:
    """Return a resourceVersion as a number, which orders states of objects; 0 for one that is no number."""
    return int(text) if text.isdecimal() else 0


class ObjectVersion:
    """What follows from the name and the version in metadata, of which a Struct may hold all fields or few."""

    __slots__ = ()

    name: str
    namespace: str
    resource_version: str

    @property
    def key(self) -> Key:
        """The object's key in a store."""
        return Key(self.namespace, self.name)

    @property
    def version(self) -> int:
        """The resourceVersion as a number."""
        return version_number(self.resource_version)


class ObjectMeta(ObjectVersion, Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Metadata of an object. Times are RFC 3339 strings in UTC, as on the wire."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def is_deleting(self) -> bool:
        """Whether the object's deletion was asked for, and it waits for its finalizers."""
        return self.deletion_timestamp is not None


class Object(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of every kind. `api_version` and `kind` may be empty: items of a list carry neither."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One condition of a status.

    Holds the fields of both forms in use: `metav1.Condition` (lastTransitionTime) and Harvester's own, which adds
    lastUpdateTime. `status` is "True", "False" or "Unknown". `observed_generation` is the `metadata.generation` that
    the condition speaks of. Kinds without a status subresource have none: each write of a status counts there.
    """

    type: str
    status: str
    observed_generation: int = 0
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    last_update_time: str = ""


def unseen(*types: str) -> Meta:
    """Return the schema's default for the status of objects that no controller has seen: these conditions, unknown.

    kstatus takes an object without the condition `Ready` for current.
    """
    about = {
        "status": "Unknown",
        "reason": "NoManager",
        "message": "no manager has processed it yet; check that one runs",
    }
    return Meta(extra_json_schema={"default": {"conditions": [{"type": type} | about for type in types]}})


_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


def is_label_key(text: str) -> bool:
    """Return whether a label may have this key: a name of up to 63 characters, perhaps after a DNS name and a slash."""
    prefix, slash, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or _PREFIX.fullmatch(prefix) is not None)


def is_label_value(text: str) -> bool:
    """Return whether a label may have this non-empty value: at most 63 letters, digits, dashes, dots, underscores."""
    return _NAME.fullmatch(text) is not None


def rfc3339(seconds: float) -> str:
    """`metav1.Time`: whole seconds, for example 2026-11-21T07:00:00Z."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()[:-6] + "Z"


def rfc3339_micro(seconds: float) -> str:
    """`metav1.MicroTime`: six digits of a second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_rfc3339(text: str) -> float:
    """Return the seconds since the epoch. Raises ValueError for text that is not RFC 3339."""
    return datetime.fromisoformat(text).timestamp()


AHEAD_SECONDS = 10.0
"""So much the clocks of two processes may differ."""


def is_ahead(seconds: float, now: float) -> bool:
    """Return whether a time that was written is yet to come: the clock was set back since; no wait may go by it."""
    return seconds - now > AHEAD_SECONDS

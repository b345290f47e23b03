"""Objects in Kubernetes' protobuf form, as newer kubectl sends them in `create` and `auth can-i`.

Only bodies of requests are read, and only of the kinds that kubectl makes itself, and Leases, by which controllers in
Go elect a leader: answers are always JSON, which every
client of Kubernetes takes. The numbers of the fields are those of Kubernetes' published messages and never change.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from lanloom.runtime.https.bodies import VALUES, too_many_values
from lanloom_embedded.kinds import Raw

MAGIC = b"k8s\x00"
"""The first bytes of every such body."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_Convert = Callable[[Any], Any]


class ProtobufError(ValueError):
    """The bytes are no object that can be read."""


class _Field(NamedTuple):
    """A field of a message: its name in JSON, how a value is read, and how often it occurs.

    A value that is a message is read by that message's fields.
    """

    name: str
    convert: "_Convert | _Message"
    shape: Literal["one", "many", "map"] = "one"


_Message = Mapping[int, _Field]


class _Budget:
    """Counts the fields of a body, known or not, in whatever message."""

    def __init__(self) -> None:
        self._left = VALUES

    def spend(self) -> None:
        """Take one more field. Raises EntityTooLarge."""
        self._left -= 1
        if self._left < 0:
            raise too_many_values()


def decode_object(body: bytes) -> Raw:
    """Return the object of a body, as it would be in JSON. Raises ProtobufError, EntityTooLarge (too many fields)."""
    if not body.startswith(MAGIC):
        raise ProtobufError("it doesn't begin with k8s")
    budget = _Budget()
    envelope = _read(body[len(MAGIC) :], _ENVELOPE, budget)
    types: Raw = envelope.get("typeMeta", {})
    message = _MESSAGES.get((types.get("apiVersion", ""), types.get("kind", "")))
    if message is None:
        raise ProtobufError(
            f"{types.get('kind', 'an object without a kind')} of {types.get('apiVersion', 'no version')} "
            "is only understood in JSON or YAML"
        )
    return {**types, **_read(envelope.get("raw", b""), message, budget)}


def _read(data: bytes, message: _Message, budget: _Budget) -> Raw:
    found: Raw = {}
    for number, value in _parts(data):
        budget.spend()
        if (field := message.get(number)) is None:
            continue
        try:
            _add(found, field, _converted(value, field, budget))
        except (TypeError, AttributeError, OverflowError, OSError, UnicodeDecodeError) as error:
            raise ProtobufError(f"{field.name} has no value that can be read") from error
    return found


def _converted(value: Any, field: _Field, budget: _Budget) -> Any:
    return field.convert(value) if callable(field.convert) else _read(value, field.convert, budget)


def _add(found: Raw, field: _Field, value: Any) -> None:
    match field.shape:
        case "many":
            found.setdefault(field.name, []).append(value)
        case "map":
            found.setdefault(field.name, {})[value.get("key", "")] = value.get("value", "")
        case "one" if value is not None and (value or isinstance(value, bool | dict)):
            # Go writes empty texts and zeros where JSON has nothing.
            found[field.name] = value


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(data, position)
        elif (length := _WIDTHS.get(wire_type, -1)) < 0:
            raise ProtobufError(f"field {number} has the unknown wire type {wire_type}")
        end = position + length
        if end > len(data):
            raise ProtobufError(f"it ends within field {number}")
        yield number, data[position:end]
        position = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise ProtobufError("it ends within a number")


def _text(value: bytes) -> str:
    return value.decode()


def _whole_bytes(value: bytes) -> bytes:
    # bytes() of a number would make that many zeros.
    return memoryview(value).tobytes()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _whole(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _time(value: bytes) -> str | None:
    seconds = _read(value, _TIME, _Budget()).get("seconds", 0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def _micro_time(value: bytes) -> str | None:
    found = _read(value, _TIME, _Budget())
    moment = datetime.fromtimestamp(found.get("seconds", 0), UTC)
    microseconds = found.get("nanos", 0) // 1000 % 1_000_000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{microseconds:06}Z" if found else None


def _map_of(convert: _Convert) -> _Message:
    return {1: _Field("key", _text), 2: _Field("value", convert)}


def _texts(*names: str) -> dict[int, _Field]:
    """Return a message of texts, numbered from one."""
    return {number: _Field(name, _text) for number, name in enumerate(names, 1)}


def _lists(*names: str) -> dict[int, _Field]:
    """Return a message of lists of texts, numbered from one."""
    return {number: _Field(name, _text, "many") for number, name in enumerate(names, 1)}


_ENVELOPE: _Message = {
    1: _Field("typeMeta", _texts("apiVersion", "kind")),
    2: _Field("raw", _whole_bytes),
}
_TIME: _Message = {1: _Field("seconds", _whole), 2: _Field("nanos", _whole)}
_OWNER: _Message = {
    1: _Field("kind", _text),
    3: _Field("name", _text),
    4: _Field("uid", _text),
    5: _Field("apiVersion", _text),
    6: _Field("controller", bool),
    7: _Field("blockOwnerDeletion", bool),
}
_META = _Field(
    "metadata",
    {
        1: _Field("name", _text),
        2: _Field("generateName", _text),
        3: _Field("namespace", _text),
        5: _Field("uid", _text),
        6: _Field("resourceVersion", _text),
        7: _Field("generation", _whole),
        8: _Field("creationTimestamp", _time),
        9: _Field("deletionTimestamp", _time),
        10: _Field("deletionGracePeriodSeconds", _whole),
        11: _Field("labels", _map_of(_text), "map"),
        12: _Field("annotations", _map_of(_text), "map"),
        13: _Field("ownerReferences", _OWNER, "many"),
        14: _Field("finalizers", _text, "many"),
    },
)
_TEXT_MAP = _map_of(_text)
_BYTES_MAP = _map_of(_base64)
_REFERENCE = _texts("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_RULE = _lists("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_ROLE: _Message = {1: _META, 2: _Field("rules", _RULE, "many")}
_BINDING: _Message = {
    1: _META,
    2: _Field("subjects", _texts("kind", "apiGroup", "name", "namespace"), "many"),
    3: _Field("roleRef", _texts("apiGroup", "kind", "name")),
}
_ATTRIBUTES = _texts("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REVIEW_SPEC: _Message = {
    1: _Field("resourceAttributes", _ATTRIBUTES),
    2: _Field("nonResourceAttributes", _texts("path", "verb")),
}
_LEASE_SPEC: _Message = {
    1: _Field("holderIdentity", _text),
    2: _Field("leaseDurationSeconds", _whole),
    3: _Field("acquireTime", _micro_time),
    4: _Field("renewTime", _micro_time),
    5: _Field("leaseTransitions", _whole),
}
_RBAC = "rbac.authorization.k8s.io/v1"
_MESSAGES: dict[tuple[str, str], _Message] = {
    ("v1", "ConfigMap"): {
        1: _META,
        2: _Field("data", _TEXT_MAP, "map"),
        3: _Field("binaryData", _BYTES_MAP, "map"),
        4: _Field("immutable", bool),
    },
    ("v1", "Secret"): {
        1: _META,
        2: _Field("data", _BYTES_MAP, "map"),
        3: _Field("type", _text),
        4: _Field("stringData", _TEXT_MAP, "map"),
        5: _Field("immutable", bool),
    },
    ("v1", "Namespace"): {1: _META, 2: _Field("spec", _lists("finalizers"))},
    ("v1", "ServiceAccount"): {
        1: _META,
        2: _Field("secrets", _REFERENCE, "many"),
        3: _Field("imagePullSecrets", _texts("name"), "many"),
        4: _Field("automountServiceAccountToken", bool),
    },
    ("coordination.k8s.io/v1", "Lease"): {1: _META, 2: _Field("spec", _LEASE_SPEC)},
    (_RBAC, "Role"): _ROLE,
    (_RBAC, "ClusterRole"): _ROLE,
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        1: _META,
        2: _Field("spec", _REVIEW_SPEC),
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: _META,
        2: _Field("spec", _texts("namespace")),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: _META},
}

"""Request bodies: read up to a limit, decoded by their media type.

A body is measured before anything is built from it. A long one is decoded by a thread.

Numbers become what Kubernetes keeps: integers of 64 bits, everything else a double. Go reads a number without a
fraction into an int64 if it fits, and into a float64 otherwise. Python's integers have no bound, and what doesn't fit
could neither be stored nor answered.

YAML becomes the values that JSON would give. kube-apiserver turns YAML into JSON before it reads an object
(sigs.k8s.io/yaml). The same is done here: scalars become what Go's reader of YAML 1.1 makes of them, dates stay text,
and there are no numbers of base 60. A document is built from libyaml's events one by one. Each can be refused before
more is read, other threads run between two of them, and nesting does not reach Python's stack. Aliases are refused: a
few lines can stand for gigabytes.
"""

import base64
import binascii
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import yaml

from lanloom.runtime.https import errors
from lanloom.runtime.https.bodies import (
    BODY_BYTES,
    DEPTH,
    check_json,
    check_numbers,
    too_deep,
)
from lanloom.runtime.https.errors import EntityTooLarge
from lanloom.runtime.https.shares import INLINE_BYTES, Share
from lanloom_embedded.front import protobuf
from lanloom_embedded.kinds import Raw

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN = b"0" * 19


def from_float(text: str) -> int | float:
    """Return a number that is written with a fraction or an exponent: 3.0 is the integer 3. Raises ValueError."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {_shortened(text)} is too large")
    return int(value) if value.is_integer() and fits(value) else value


def fits(value: float) -> bool:
    """Return whether a number without a fraction fits into 64 bits with a sign."""
    return _SMALLEST <= value <= _LARGEST


def has_long_integers(text: bytes) -> bool:
    """Return whether a JSON text may hold an integer of more than 64 bits."""
    return _LONG_RUN in text.translate(_DIGITS)


def narrowed(value: Any) -> Any:
    """Return the value with integers of more than 64 bits as doubles; lists and objects are changed in place.

    Raises ValueError for one that a double can't hold either.
    """
    match value:
        case bool():
            return value
        case int() if not fits(value):
            return _double(value)
        case dict():
            for key, each in value.items():
                value[key] = narrowed(each)
        case list():
            value[:] = [narrowed(each) for each in value]
    return value


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"the number {_shortened(str(value))} is too large") from None


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


MOST_VALUES = 25_000
"""Values in a document. Each takes some twenty times as long as in JSON, which all common clients send."""

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_MOST_TAG_DIRECTIVES = 8
"""libyaml compares each %TAG directive with all before it."""

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(
    r"([-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|0[bB](?P<bin>[01]{1,64})|0[oO]?(?P<oct>[0-7]{1,22})|(?P<dec>0|[1-9][0-9]{0,19}))"
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_Collection = dict[str, Any] | list[Any]
_Scalar = str | int | float | bool | None


def from_yaml(body: bytes) -> Any:
    """Return the only document of a body, None if there is none.

    Raises ValueError, EntityTooLarge, BadRequest (too deep).
    """
    text = body.decode()
    if text.count("%TAG") > _MOST_TAG_DIRECTIVES:
        raise ValueError(f"yaml parse error: there are more than {_MOST_TAG_DIRECTIVES} %TAG directives")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.YAMLError as error:
        raise ValueError(f"yaml parse error: {error}") from None
    return builder.document


class _Builder:
    """Builds a document from events, on a stack of its own."""

    def __init__(self) -> None:
        self.document: Any = None
        self._documents = 0
        self._values = 0
        self._open: list[_Collection] = []
        self._keys: list[str | None] = []
        """For each open collection the name of the field whose value comes next."""

    def take(self, event: yaml.Event) -> None:
        """Take in the next event. Raises ValueError, EntityTooLarge, BadRequest."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._begin({}, event, "map")
            case yaml.SequenceStartEvent():
                self._begin([], event, "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
                self._keys.pop()
            case yaml.AliasEvent():
                raise _refused(event, "aliases are not accepted; write the value out")
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _refused(event, "a body is one document; send the others in requests of their own")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._awaits_key:
            self._keys[-1] = _key(event)
        else:
            self._add(_value(event))

    def _begin(self, collection: _Collection, event: yaml.CollectionStartEvent, tag: str) -> None:
        if event.tag is not None and event.tag.removeprefix(_TAG) not in ("!", tag):
            raise _unknown_tag(event.tag, event)
        if self._awaits_key:
            raise _refused(event, "the name of a field must be text")
        if len(self._open) == DEPTH:
            raise too_deep()
        self._add(collection)
        self._open.append(collection)
        self._keys.append(None)

    @property
    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _add(self, value: Any) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise EntityTooLarge(
                f"Request entity too large: the YAML body holds more than {MOST_VALUES} values; send it as JSON"
            )
        if not self._open:
            self.document = value
            return
        collection, key = self._open[-1], self._keys[-1]
        if isinstance(collection, list):
            collection.append(value)
        elif key is not None:
            collection[key] = value
            self._keys[-1] = None


def _key(event: yaml.ScalarEvent) -> str:
    if event.implicit[0] and event.value == _MERGE:
        raise _refused(event, "merge keys (<<) are not accepted; write the fields out")
    match _value(event):
        case str() as text:
            return text
        case None:
            raise _refused(event, "the name of a field must not be null")
        case bool() as flag:
            return "true" if flag else "false"
        case number:
            return str(number)


def _value(event: yaml.ScalarEvent) -> _Scalar:
    text: str = event.value
    if event.tag is None:
        return _resolved(text, event) if event.implicit[0] else text
    match event.tag.removeprefix(_TAG):
        case "str" | "!" | "timestamp":
            return text
        case "binary":
            return _decoded(text, event)
        case "int" | "float" | "bool" | "null" as kind:
            value = _resolved(text, event)
            if not _is_of(value, kind):
                raise _refused(event, f"it is not of its tag's type {kind}")
            return value
    raise _unknown_tag(event.tag, event)


def _resolved(text: str, event: yaml.Event) -> _Scalar:
    """Return the value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise _refused(event, f"JSON has no number {text}")
    plain = text.replace("_", "")
    if found := _INTEGER.fullmatch(plain):
        name = str(found.lastgroup)
        value = int(found[1] + found[name], _BASES[name])
        return value if fits(value) else float(value)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if math.isfinite(number):
            return int(number) if number.is_integer() and fits(number) else number
    return text


def _decoded(text: str, event: yaml.Event) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refused(event, "it is not text in base64") from None


def _is_of(value: _Scalar, kind: str) -> bool:
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "bool"
        case int():
            return kind in ("int", "float")
        case float():
            return kind == "float"
    return False


def _unknown_tag(tag: str, event: yaml.Event) -> ValueError:
    return _refused(event, f"the tag {tag} is not accepted; leave it out")


def _refused(event: yaml.Event, why: str) -> ValueError:
    where = ""
    if (mark := event.start_mark) is not None:
        where = f"line {mark.line + 1}, column {mark.column + 1}: "
    return ValueError(f"yaml parse error: {where}{why}")


JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

Receive = Callable[[], Awaitable[Any]]

_decoder = msgspec.json.Decoder(float_hook=from_float)


class Disconnected(Exception):
    """The client left before its request was complete. There is no client for an answer."""


async def read(receive: Receive, share: Share) -> bytes:
    """Return the whole body. A long one is held in the share of its user.

    Raises EntityTooLarge, TooManyRequests, and Disconnected rather than to take a part for the whole.
    """
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await _next(receive)
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        parts.append(part)
        size += len(part)
        if size > BODY_BYTES:
            raise errors.too_large(BODY_BYTES)
        if size > INLINE_BYTES:
            share.take(size - share.held)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message


async def read_object(receive: Receive, share: Share, content_type: str, kind: str) -> Raw:
    """Return the object of a kind in the body; null is an empty one.

    Raises BadRequest, UnsupportedMediaType, EntityTooLarge, TooManyRequests.
    """
    return await object_in(await read(receive, share), share, content_type, kind)


async def object_in(body: bytes, share: Share, content_type: str, kind: str) -> Raw:
    """Return the object of a kind in a body that was read. Raises as `read_object` does."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    reader = _READERS.get(media_type)
    if reader is None:
        raise errors.unsupported_media_type(list(_READERS))
    try:
        found = await share.decoded(reader, body)
    except ValueError as error:
        raise errors.BadRequest(f"{unrecognized}: couldn't get version/kind; {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise errors.BadRequest(f"{unrecognized}: it is no object with apiVersion and kind")
    return found


async def read_patch(receive: Receive, share: Share) -> Any:
    """Return the patch in the body, which is JSON. Raises BadRequest, EntityTooLarge, TooManyRequests."""
    try:
        return await share.decoded(from_json, await read(receive, share))
    except ValueError as error:
        raise errors.BadRequest(f"the patch can't be read: {error}") from None


def from_json(body: bytes) -> Any:
    """Return a JSON document. Raises ValueError, EntityTooLarge (too many values), BadRequest (too deep)."""
    check_json(body)
    try:
        check_numbers(body)
        found = _decoder.decode(body)
        return narrowed(found) if has_long_integers(body) else found
    except (ValueError, RecursionError) as error:
        raise ValueError(f"json parse error: {error}") from None


_READERS: dict[str, Callable[[bytes], Any]] = {
    JSON: from_json,
    YAML: from_yaml,
    PROTOBUF: protobuf.decode_object,
}

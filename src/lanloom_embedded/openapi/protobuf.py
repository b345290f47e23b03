"""The parts of a swagger document that old kubectls read, in the protobuf form of gnostic's OpenAPIv2.proto.

kubectl before 1.27 asks for `/openapi/v2` in this form only: Debian's 1.20.2, which the tests run, gets 406 without it
and then refuses every `apply`, `create`, `diff` and `explain`. kubectl 1.32 does not ask for version 2 at all. The old
one reads the definitions (types, fields, descriptions), to check manifests and to explain, and of the paths the
parameters of patches, to find out whether a kind takes `--dry-run=server`. So there is no more in the message.

Written by hand: the messages that occur here are few, and the field numbers of a published format never change.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lanloom_embedded.kinds import Raw

_VARINT, _BYTES = 0, 2
_Encode = Callable[[int, Any], bytes]


def encode_swagger(document: Raw) -> bytes:
    """The message `openapi.v2.Document` with what old kubectls read of a swagger document."""
    return _message(document, _DOCUMENT)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, value: Any) -> bytes:
    return _bytes(field, str(value).encode()) if value else b""


def _texts(field: int, value: Iterable[str]) -> bytes:
    return b"".join(_bytes(field, each.encode()) for each in value)


def _flag(field: int, value: Any) -> bytes:
    return _key(field, _VARINT) + b"\x01" if value else b""


def _named(field: int, values: Mapping[str, Any], encode: Callable[[Any], bytes]) -> bytes:
    """A map as repeated messages of a name (1) and a value (2)."""
    return b"".join(
        _bytes(field, _text(1, name) + _bytes(2, encode(value))) for name, value in values.items()
    )


def _message(value: Mapping[str, Any], fields: Mapping[str, tuple[int, _Encode]]) -> bytes:
    """A message whose JSON keys the table knows; `x-` stands for the extensions, and other keys are left out."""
    made = b"".join(encode(number, value[key]) for key, (number, encode) in fields.items() if key in value)
    extensions = {key: each for key, each in value.items() if key.startswith("x-")}
    if extensions and "x-" in fields:
        number, _ = fields["x-"]
        made += _named(number, extensions, lambda each: _text(2, json.dumps(each)))
    return made


def _of(fields: Mapping[str, tuple[int, _Encode]]) -> _Encode:
    return lambda number, value: _bytes(number, _message(value, fields))


def _schema(field: int, value: Raw) -> bytes:
    return _bytes(field, _message(value, _SCHEMA))


def _schemas(field: int, value: Mapping[str, Raw]) -> bytes:
    return _bytes(field, _named(1, value, lambda each: _message(each, _SCHEMA)))


def _type(field: int, value: Any) -> bytes:
    return _bytes(field, _texts(1, [value] if isinstance(value, str) else value))


def _items(field: int, value: Raw) -> bytes:
    return _bytes(field, _schema(1, value))


def _additional(field: int, value: Any) -> bytes:
    return _bytes(field, _schema(1, value) if isinstance(value, dict) else _flag(2, value))


def _parameters(field: int, value: Iterable[Raw]) -> bytes:
    return b"".join(_bytes(field, _parameter(each)) for each in value)


def _parameter(value: Raw) -> bytes:
    """The chain ParametersItem, Parameter, and for all but bodies NonBodyParameter."""
    if value["in"] == "body":
        return _bytes(1, _bytes(1, _message(value, _BODY)))
    return _bytes(1, _bytes(2, _bytes(3, _message(value, _QUERY))))


def _paths(field: int, value: Mapping[str, Raw]) -> bytes:
    return _bytes(field, _named(2, value, lambda each: _message(each, _PATH_ITEM)))


_SCHEMA: dict[str, tuple[int, _Encode]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "required": (19, _texts),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _schemas),
    "x-": (31, _text),
}
_BODY: dict[str, tuple[int, _Encode]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema),
}
_QUERY: dict[str, tuple[int, _Encode]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
}
_OPERATION: dict[str, tuple[int, _Encode]] = {"parameters": (8, _parameters), "x-": (13, _text)}
_PATH_ITEM: dict[str, tuple[int, _Encode]] = {"patch": (8, _of(_OPERATION))}
_DOCUMENT: dict[str, tuple[int, _Encode]] = {
    "swagger": (1, _text),
    "info": (2, _of({"title": (1, _text), "version": (2, _text)})),
    "paths": (8, _paths),
    "definitions": (9, _schemas),
}

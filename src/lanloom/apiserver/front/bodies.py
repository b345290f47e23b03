"""Request bodies: read up to a limit, decoded by their media type."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import yaml

from lanloom.apiserver import errors
from lanloom.apiserver.front import protobuf
from lanloom.apiserver.kinds import Raw

LIMIT = 3 * 1024 * 1024
"""Bytes of a request's body, as in the real server."""

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

Receive = Callable[[], Awaitable[Any]]


def _number(text: str) -> int | float:
    """A whole number is an integer however it is written (3.0 is 3), as Go has it."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is too large")
    return int(value) if value.is_integer() else value


_decoder = msgspec.json.Decoder(float_hook=_number)


async def read(receive: Receive) -> bytes:
    """The whole body. Raises EntityTooLarge."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > LIMIT:
            raise errors.too_large(LIMIT)
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > LIMIT:
            raise errors.too_large(LIMIT)
        parts.append(part)
    return b"".join(parts)


def decode_object(body: bytes, content_type: str, kind: str) -> Raw:
    """The object of a kind in a body; null is an empty one. Raises BadRequest, UnsupportedMediaType."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    reader = _READERS.get(media_type)
    if reader is None:
        raise errors.unsupported_media_type(list(_READERS))
    try:
        found = reader(body)
    except ValueError as error:
        raise errors.BadRequest(f"{unrecognized}: couldn't get version/kind; {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise errors.BadRequest(f"{unrecognized}: it is no object with apiVersion and kind")
    return found


def from_json(body: bytes) -> Any:
    """A JSON document. Raises ValueError."""
    try:
        return _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"json parse error: {error}") from None


def _from_yaml(body: bytes) -> Any:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=yaml.CSafeLoader)):
            # A few lines of them can stand for gigabytes.
            raise ValueError("YAML documents with aliases are not accepted")
        document = yaml.load(body, Loader=yaml.CSafeLoader)
        # Through JSON, so that dates and the like become what they would have been in JSON.
        return msgspec.json.decode(msgspec.json.encode(document))
    except (yaml.YAMLError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(f"yaml parse error: {error}") from None


_READERS: dict[str, Callable[[bytes], Any]] = {
    JSON: from_json,
    YAML: _from_yaml,
    PROTOBUF: protobuf.decode_object,
}

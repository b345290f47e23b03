"""Request bodies: read up to a limit, decoded by their media type."""

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

_decoder = msgspec.json.Decoder()


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


def decode(body: bytes, content_type: str) -> Any:
    """The document in a body. Raises BadRequest, UnsupportedMediaType."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    if media_type == YAML:
        return _from_yaml(body)
    if media_type == PROTOBUF:
        return _from_protobuf(body)
    if media_type != JSON and not media_type.endswith("+json"):
        raise errors.unsupported_media_type([JSON, YAML, PROTOBUF])
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type JSON or YAML): {error}"
        ) from None


def decode_object(body: bytes, content_type: str) -> Raw:
    """The object in a body. Raises BadRequest, UnsupportedMediaType."""
    found = decode(body, content_type)
    if not isinstance(found, dict):
        raise errors.BadRequest(
            "the object provided is unrecognized (must be an object with apiVersion and kind)"
        )
    return found


def _from_protobuf(body: bytes) -> Any:
    try:
        return protobuf.decode_object(body)
    except protobuf.ProtobufError as error:
        raise errors.BadRequest(f"the protobuf object can't be read: {error}") from None


def _from_yaml(body: bytes) -> Any:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=yaml.CSafeLoader)):
            # A few lines of them can stand for gigabytes.
            raise errors.BadRequest("YAML documents with aliases are not accepted")
        document = yaml.load(body, Loader=yaml.CSafeLoader)
        # Through JSON, so that dates and the like become what they would have been in JSON.
        return msgspec.json.decode(msgspec.json.encode(document))
    except (yaml.YAMLError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise errors.BadRequest(f"the YAML document can't be read: {error}") from None

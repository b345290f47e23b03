"""Admission requests as typed values."""

from typing import TypeVar

import msgspec

from lanloom.api.admission import AdmissionRequest, Raw
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.dummy.rules.errors import Malformed

T = TypeVar("T", bound=Object)

_SHOWN = 300


def new_of(resource: Resource[T], request: AdmissionRequest) -> T | None:
    """The object as it is to be; None on DELETE. Raises Malformed."""
    return None if request.object is None else _typed(resource, request.object)


def old_of(resource: Resource[T], request: AdmissionRequest) -> T | None:
    """The object as it is; None on CREATE. Raises Malformed."""
    return None if request.old_object is None else _typed(resource, request.old_object)


def is_leaving(item: Object) -> bool:
    """Whether its deletion was asked for: its finalizers must be able to go whatever stands in it."""
    return item.metadata.deletion_timestamp is not None


def _typed(resource: Resource[T], raw: Raw) -> T:
    try:
        return msgspec.convert(raw, resource.type)
    except (msgspec.ValidationError, RecursionError) as error:
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        title = f"{resource.kind} {_one_line(name)}" if isinstance(name, str) else f"a {resource.kind}"
        raise Malformed(f"can't read {title} because {_one_line(str(error))}") from None


def _one_line(text: str) -> str:
    """A text of others for a message."""
    return "".join(char if char.isprintable() else "�" for char in text[:_SHOWN])

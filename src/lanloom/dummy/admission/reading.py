"""Admission requests as typed values."""

from typing import TypeVar

import msgspec

from lanloom.api.admission import AdmissionRequest, Raw, one_line
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


def _typed(resource: Resource[T], raw: Raw) -> T:
    try:
        return msgspec.convert(raw, resource.type)
    except (msgspec.ValidationError, RecursionError) as error:
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        title = (
            f"{resource.kind} {one_line(name[:_SHOWN])}" if isinstance(name, str) else f"a {resource.kind}"
        )
        raise Malformed(f"can't read {title} because {one_line(str(error)[:_SHOWN])}") from None

"""Admission as features see it: a request, a verdict. The wire form is `admission.k8s.io/v1` AdmissionReview."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.reading import convert
from lanloom.api.resource import Resource
from lanloom.text import one_line

Raw = dict[str, Any]
T = TypeVar("T", bound=Object)

_SHOWN = 300
"""Characters of a name or of an error that a message shows."""


class Unreadable(Exception):
    """The object of a request is none of its kind; the message names it and says why."""


class UserInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user of a request (authentication.k8s.io/v1 UserInfo)."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class GroupVersionResource(Struct, frozen=True):
    """The resource that is asked about."""

    group: str
    version: str
    resource: str


class AdmissionRequest(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One admission request; `operation` is CREATE, UPDATE or DELETE.

    `object` is None on DELETE, `old_object` on CREATE.
    """

    uid: str
    operation: str
    resource: GroupVersionResource
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    object: Raw | None = None
    old_object: Raw | None = None
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer to a request.

    `message` is shown to the user when the request is refused; it names the object, the field and the remedy.
    `patch` is a JSON patch (RFC 6902) that fills in defaults. `warnings` are shown although the request is allowed.
    """

    allowed: bool = True
    message: str = ""
    patch: tuple[Raw, ...] = ()
    warnings: tuple[str, ...] = ()


def refusal(why: object) -> Verdict:
    """Return a refusal with its reason, in which names and values may stand that are the user's."""
    return Verdict(allowed=False, message=one_line(str(why)))


def new_of(resource: Resource[T], request: AdmissionRequest) -> T | None:
    """Return the object as it is to be; None on DELETE. Raises Unreadable."""
    return None if request.object is None else _typed(resource, request.object)


def old_of(resource: Resource[T], request: AdmissionRequest) -> T | None:
    """Return the object as it is; None on CREATE. Raises Unreadable."""
    return None if request.old_object is None else _typed(resource, request.old_object)


def _typed(resource: Resource[T], raw: Raw) -> T:
    try:
        return convert(raw, resource.type)
    except (msgspec.ValidationError, RecursionError) as error:
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        title = f"{resource.kind} {name[:_SHOWN]}" if isinstance(name, str) else f"a {resource.kind}"
        raise Unreadable(one_line(f"can't read {title} because {_cut(str(error))}")) from None


def _cut(words: str) -> str:
    """Return the words, without the middle of too many: their end names the field."""
    half = _SHOWN // 2
    return words if len(words) <= _SHOWN else f"{words[:half]}…{words[-half:]}"

"""Admission as features see it: a request, a verdict. The wire form is `admission.k8s.io/v1` AdmissionReview."""

from typing import Any

from msgspec import Struct

Raw = dict[str, Any]


class UserInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks (authentication.k8s.io/v1 UserInfo)."""

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


def one_line(text: str) -> str:
    """A text of others for a message: in place of what no terminal shows stands something that one does."""
    return "".join(char if char.isprintable() else "�" for char in text)


def refusal(why: object) -> Verdict:
    """A refusal with its reason, in which names and values may stand that are the user's."""
    return Verdict(allowed=False, message=one_line(str(why)))

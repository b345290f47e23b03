"""Errors about single fields, worded as Kubernetes words them.

They are values, not exceptions: validation collects many of them and the API server raises one Invalid with
all. The wording (and Go's way of printing values) is part of the interface: people and programs read it.
"""

import json
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

FieldErrorType = Literal[
    "FieldValueNotFound",
    "FieldValueRequired",
    "FieldValueDuplicate",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueForbidden",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
    "InternalError",
]

_TITLES: dict[str, str] = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset(
    {"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError"}
)


class Verbatim(str):
    """A value that is already printed as Go would print it."""

    __slots__ = ()


class FieldError(Struct, frozen=True):
    """One field that breaks a rule: `field` is a path as `spec.nics[0]`, `value` is what was found there."""

    type: FieldErrorType
    field: str
    value: Any = None
    detail: str = ""

    def body(self) -> str:
        """The message without the field, as it stands in a cause."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE:
            text += f": {go_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"

    def cause(self) -> dict[str, str]:
        """The StatusCause of this error."""
        return {"reason": self.type, "message": self.body(), "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """A value must be given."""
    return FieldError("FieldValueRequired", field, None, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value has the wrong form or range."""
    return FieldError("FieldValueInvalid", field, value, detail)


def not_supported(field: str, value: Any, supported: tuple[str, ...]) -> FieldError:
    """A value is none of an enumeration's; `supported` are named in the given order."""
    listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in supported)
    detail = f"supported values: {listed}" if supported else ""
    return FieldError("FieldValueNotSupported", field, value, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique is there twice."""
    return FieldError("FieldValueDuplicate", field, value)


def forbidden(field: str, detail: str) -> FieldError:
    """A value may not be given here."""
    return FieldError("FieldValueForbidden", field, None, detail)


def too_long(field: str, limit: int) -> FieldError:
    """A value is longer than `limit` bytes."""
    return FieldError("FieldValueTooLong", field, None, f"must have at most {limit} bytes")


def go_strings(values: Iterable[str]) -> Verbatim:
    """A list of texts as Go prints it."""
    return Verbatim(f"[]string{{{', '.join(go_value(each) for each in values)}}}")


def go_value(value: Any) -> str:
    """A value as Go prints it in these messages: numbers and booleans plain, text quoted, others as `%#v`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Verbatim):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return repr(value).removesuffix(".0")
    return _go_syntax(value)


def _go_syntax(value: Any) -> str:
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, dict):
        inside = ", ".join(f"{go_value(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[]interface {{}}{{{', '.join(_go_syntax(each) for each in value)}}}"
    return go_value(value)

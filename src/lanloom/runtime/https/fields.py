"""Errors about single fields, worded as Kubernetes words them.

They are values, not exceptions: validation collects many of them and the API server raises one Invalid with
all. The wording is part of the interface: people and programs read it.
"""

import json
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


class FieldError(Struct, frozen=True):
    """One field that breaks a rule: `field` is a path as `spec.nics[0]`, `value` is what was found there."""

    type: FieldErrorType
    field: str
    value: Any = None
    detail: str = ""

    def body(self) -> str:
        """Return the message without the field, as it stands in a cause."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE:
            text += f": {shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"

    def cause(self) -> dict[str, str]:
        """Return the StatusCause of this error."""
        return {"reason": self.type, "message": self.body(), "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """Report that a value must be given."""
    return FieldError("FieldValueRequired", field, None, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Report that a value has the wrong form or range."""
    return FieldError("FieldValueInvalid", field, value, detail)


def not_supported(field: str, value: Any, supported: tuple[str, ...]) -> FieldError:
    """Report that a value is none of an enumeration's; `supported` are named in the given order."""
    listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in supported)
    detail = f"supported values: {listed}" if supported else ""
    return FieldError("FieldValueNotSupported", field, value, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error for a value that must be unique and is there twice."""
    return FieldError("FieldValueDuplicate", field, value)


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    """Report that a value has a type that the field can't have."""
    return FieldError("FieldValueTypeInvalid", field, value, detail)


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Report that a collection holds more than `limit` items."""
    return FieldError("FieldValueTooMany", field, count, f"must have at most {limit} items")


def forbidden(field: str, detail: str) -> FieldError:
    """Report that a value may not be given here."""
    return FieldError("FieldValueForbidden", field, None, detail)


def too_long(field: str, limit: int) -> FieldError:
    """Report that a value is longer than `limit` bytes."""
    return FieldError("FieldValueTooLong", field, None, f"may not be more than {limit} bytes")


def shown(value: Any) -> str:
    """Return a value as it stands in these messages: in JSON, as Go writes it; numbers and booleans plain."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if isinstance(value, int | float):
        return text.removesuffix(".0")
    if isinstance(value, str):
        return text
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

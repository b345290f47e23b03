"""Bounds of numbers. Go compares them in the type of the value, and the messages show the bound in that type."""

from collections.abc import Callable, Mapping
from typing import Any

from lanloom.apiserver.fields import invalid
from lanloom.apiserver.schema.findings import Findings

Schema = Mapping[str, Any]
Check = Callable[[Any, str, Findings], None]

_LIMITS = {"int32": 2**31, "": 2**63}
_LARGEST_SINGLE = 3.4028235677973366e38
"""From here on a number rounds to infinity in 32 bits."""


def check_range(schema: Schema) -> Check | None:
    """The check that a number fits into its type and format, None where every number does."""
    kind, name = schema["type"], schema.get("format", "")
    is_single = kind == "number" and name in ("float", "float32")
    if kind != "integer" and not is_single:
        return None
    limit = _LIMITS.get(name, _LIMITS[""])
    what = f"{kind} with format {name}" if name else f"{kind} (default format)"

    def check(value: Any, path: str, found: Findings) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if is_single:
            fits = abs(value) < _LARGEST_SINGLE
        else:
            fits = -limit <= value < limit and float(value).is_integer()
        if not fits:
            found.append(invalid("<nil>", "", f"Checked value must be of type {what} in {path}"))

    return check


def check_number(schema: Schema) -> Check:
    """The check of minimum, maximum (exclusive or not) and multipleOf."""
    factor = schema.get("multipleOf")
    bounds = [
        (bound, schema.get(f"exclusive{key.capitalize()}", False), key == "maximum")
        for key in ("minimum", "maximum")
        if (bound := schema.get(key)) is not None
    ]

    def check(value: Any, path: str, found: Findings) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if factor and not (value / factor).is_integer():
            shown = _as(value, factor)
            found.append(invalid(path, value, f"{path} in body should be a multiple of {_go_number(shown)}"))
        for bound, exclusive, is_maximum in bounds:
            if _exceeds(value, bound, exclusive, is_maximum):
                shown = _as(value, bound)
                found.append(invalid(path, value, f"{path} in body {_wording(shown, exclusive, is_maximum)}"))

    return check


def _exceeds(value: float, bound: float, exclusive: bool, is_maximum: bool) -> bool:
    if exclusive and value == bound:
        return True
    return value > bound if is_maximum else value < bound


def _wording(bound: float, exclusive: bool, is_maximum: bool) -> str:
    side = "less" if is_maximum else "greater"
    return f"should be {side} than {'' if exclusive else 'or equal to '}{_go_number(bound)}"


def _as(value: float, bound: float) -> float:
    """A bound in the type of the value, as Go compares them."""
    return int(bound) if isinstance(value, int) else bound


def _go_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e21 else repr(number)

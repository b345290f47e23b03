"""The schema of schemas: which keywords a CRD's schema has, of which types, and how deep schemas may be nested.

It is checked before anything else looks at a schema. What comes later may then rely on the types; and no definition is
taken that can't be described (OpenAPI) or whose objects can't be written.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lanloom.runtime.https.fields import FieldError, forbidden, wrong_type
from lanloom_embedded.schema.validation import Schema, json_type

DEPTH = 40
"""Most schemas that may stand one inside the other. Schemas of whole pod templates need about 20."""

_Check = Callable[[Any, str], Iterator[FieldError]]

_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_VALUES = ("default", "enum", "example")


def check_types(schema: Any, path: str) -> Iterator[FieldError]:
    """Yield every keyword at and below a schema whose value has a wrong type; the schema stands at `path`.

    Keywords that structural schemas can't have (`$ref`, `patternProperties`) are not looked into.
    """
    if not isinstance(schema, dict):
        yield _wrong(schema, path, "object")
        return
    for key, value in schema.items():
        if (check := _KEYWORDS.get(key)) is not None:
            yield from check(value, f"{path}.{key}")


def check_depth(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield the first place where schemas, or the values in them, are nested deeper than DEPTH. Needs no recursion."""
    level: list[tuple[Any, str]] = [(schema, path)]
    for _ in range(DEPTH):
        level = [below for each, where in level for below in _below(each, where)]
    if level:
        yield forbidden(
            level[0][1], f"a schema may be nested at most {DEPTH} deep: split it, or use fewer levels"
        )


def subschemas(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """Yield the schemas right below a schema, with their paths."""
    for key in ("items", "additionalProperties", "not"):
        if isinstance(each := schema.get(key), Mapping):
            yield each, f"{path}.{key}"
    for key in _LISTS_OF_SCHEMAS:
        for index, each in enumerate(schema.get(key) or ()):
            yield each, f"{path}.{key}[{index}]"
    for name, each in (schema.get("properties") or {}).items():
        yield each, f"{path}.properties[{name}]"


class _Value:
    """A value within a schema: what is below it are values as well."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _below(each: Any, path: str) -> Iterator[tuple[Any, str]]:
    if not isinstance(each, _Value):
        yield from subschemas(each, path)
        yield from ((_Value(each[key]), f"{path}.{key}") for key in _VALUES if key in each)
    elif isinstance(each.value, dict):
        yield from ((_Value(value), f"{path}.{key}") for key, value in each.value.items())
    elif isinstance(each.value, list):
        yield from ((_Value(value), f"{path}[{index}]") for index, value in enumerate(each.value))


def _wrong(value: Any, path: str, wanted: str) -> FieldError:
    actual = json_type(value)
    return wrong_type(path, actual, f'{path} in body must be of type {wanted}: "{actual}"')


def _text(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str):
        yield _wrong(value, path, "string")


def _flag(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield _wrong(value, path, "boolean")


def _integer(value: Any, path: str) -> Iterator[FieldError]:
    """Yield why a value is no whole number of 64 bits, as Go reads it."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        yield _wrong(value, path, "integer")


def _number(value: Any, path: str) -> Iterator[FieldError]:
    """Yield why a value is no number that fits into a double, as Go reads it."""
    try:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        fits = False
    if not fits:
        yield _wrong(value, path, "number")


def _values(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield _wrong(value, path, "array")


def _texts(value: Any, path: str) -> Iterator[FieldError]:
    yield from _list_of(_text, value, path)


def _schemas(value: Any, path: str) -> Iterator[FieldError]:
    yield from _list_of(check_types, value, path)


def _list_of(check: _Check, value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield _wrong(value, path, "array")
        return
    for index, each in enumerate(value):
        yield from check(each, f"{path}[{index}]")


def _rules(value: Any, path: str) -> Iterator[FieldError]:
    yield from _list_of(_rule, value, path)


def _rule(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield _wrong(value, path, "object")
        return
    for key in ("rule", "message", "messageExpression", "reason", "fieldPath"):
        if value.get(key) is not None:
            yield from _text(value[key], f"{path}.{key}")


def _properties(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield _wrong(value, path, "object")
        return
    for name, each in value.items():
        yield from check_types(each, f"{path}[{name}]")


def _schema_or_flag(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, bool | dict):
        yield _wrong(value, path, "object,boolean")
    elif isinstance(value, dict):
        yield from check_types(value, path)


def _schema_or_list(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list | dict):
        yield _wrong(value, path, "object,array")
    elif isinstance(value, dict):
        yield from check_types(value, path)


_KEYWORDS: Mapping[str, _Check] = {
    **dict.fromkeys(("type", "format", "title", "description", "pattern"), _text),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _text),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _texts),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _integer
    ),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _number),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _flag),
    **dict.fromkeys(("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"), _flag),
    "x-kubernetes-int-or-string": _flag,
    "x-kubernetes-validations": _rules,
    "enum": _values,
    "properties": _properties,
    **dict.fromkeys(_LISTS_OF_SCHEMAS, _schemas),
    "not": check_types,
    "items": _schema_or_list,
    "additionalProperties": _schema_or_flag,
}

"""Validation of values against a schema, with the messages and field paths of Kubernetes' own validator.

Every schema becomes a closure `check(value, path, found)` that appends what it finds; closures call those
of the schemas below them. A check for a type that the value doesn't have finds nothing: the type's own
check has said it already.

A schema may become stricter than the objects that are stored. As Kubernetes 1.30 and newer do ("ratcheting"), an
update is refused for what it changes only. Unchanged values are known by their paths."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lanloom.runtime.https.fields import (
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    wrong_type,
)
from lanloom_embedded.schema.scalars import (
    Match,
    PatternError,
    check_number,
    check_range,
    compile_pattern,
    format_check,
)

Schema = Mapping[str, Any]


class Findings(list[FieldError]):
    """The broken rules of one validation; values at `unchanged` paths are not looked at."""

    unchanged: frozenset[str] = frozenset()


def unchanged_paths(value: Any, old: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield the outermost values that equal those of the object before, as paths (`spec.ports[0].port`).

    Items of a list are compared with those of the same key, and in lists without keys not at all.
    """
    if _canonical(value) == _canonical(old):
        yield path
    elif isinstance(value, dict) and isinstance(old, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key in sorted(value.keys() & old.keys()):
            below = properties.get(key, others if isinstance(others, Mapping) else {})
            yield from unchanged_paths(value[key], old[key], below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(old, list) and schema.get("x-kubernetes-list-type") == "map":
        keys = schema.get("x-kubernetes-list-map-keys", ())
        before = {_identity(each, keys): each for each in old}
        for index, each in enumerate(value):
            if (identity := _identity(each, keys)) in before:
                yield from unchanged_paths(each, before[identity], schema["items"], f"{path}[{index}]")


def _identity(item: Any, keys: tuple[str, ...]) -> str:
    return _canonical([item.get(key) for key in keys] if isinstance(item, dict) else item)


def _canonical(value: Any) -> str:
    """Return a value as text: Python takes 1 and true for equal, which JSON doesn't."""
    return json.dumps(value, sort_keys=True)


Check = Callable[[Any, str, Findings], None]

_NO_FIELD = "<nil>"
"""Where Kubernetes reports a failed oneOf, anyOf, allOf or not."""


def compile_validation(schema: Schema) -> Check:
    """Return a function that appends to a list every rule of the schema that a value breaks."""
    made = (make(schema) for make, keys in _COMPILERS if any(key in schema for key in keys))
    checks = [check for check in made if check is not None]
    if len(checks) == 1:
        return checks[0]

    def check(value: Any, path: str, found: Findings) -> None:
        for each in checks:
            each(value, path, found)

    return check


def json_type(value: Any) -> str:
    """Return the name of a decoded value's type, as schemas name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
    return "object"


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}


def _is_anything(_: Any) -> bool:
    return True


def _type(schema: Schema) -> Check:
    wanted = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    first, *others = [_TYPES[each] for each in wanted.split(",") if each in _TYPES] or [_is_anything]
    nullable = bool(schema.get("nullable"))

    def check(value: Any, path: str, found: Findings) -> None:
        # Almost every value has the one type of its schema.
        if first(value) or (value is None and nullable) or any(accept(value) for accept in others):
            return
        actual = json_type(value)
        text = f"{path} in body must be of type {wanted}: {json.dumps(actual)}"
        found.append(wrong_type(path, actual, text))

    return check


def _combinations(schema: Schema) -> Check:
    any_of = [compile_validation(each) for each in schema.get("anyOf", ())]
    one_of = [compile_validation(each) for each in schema.get("oneOf", ())]
    all_of = [compile_validation(each) for each in schema.get("allOf", ())]
    never = compile_validation(schema["not"]) if "not" in schema else None

    def check(value: Any, path: str, found: Findings) -> None:
        if value is None:
            return
        name = json.dumps(path, ensure_ascii=False)
        if any_of:
            _check_any(_outcomes(any_of, value, path), name, found)
        if one_of:
            _check_one(_outcomes(one_of, value, path), name, found)
        if all_of:
            _check_all(_outcomes(all_of, value, path), name, found)
        if never is not None and not _outcomes([never], value, path)[0]:
            found.append(_combined(f"{name} must not validate the schema (not)"))

    return check


def _outcomes(checks: Sequence[Check], value: Any, path: str) -> list[Findings]:
    outcomes: list[Findings] = []
    for each in checks:
        broken = Findings()
        each(value, path, broken)
        outcomes.append(broken)
    return outcomes


def _check_any(outcomes: list[Findings], name: str, found: Findings) -> None:
    if all(outcomes):
        found.append(_combined(f"{name} must validate at least one schema (anyOf)"))
        found += outcomes[0]


def _check_one(outcomes: list[Findings], name: str, found: Findings) -> None:
    valid = sum(not broken for broken in outcomes)
    if valid == 1:
        return
    how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
    found.append(_combined(f"{name} must validate one and only one schema (oneOf). {how_many}"))
    if not valid:
        found += outcomes[0]


def _check_all(outcomes: list[Findings], name: str, found: Findings) -> None:
    found += [error for broken in outcomes for error in broken]
    if any(outcomes):
        suffix = ". None validated" if all(outcomes) else ""
        found.append(_combined(f"{name} must validate all the schemas (allOf){suffix}"))


def _combined(message: str) -> FieldError:
    return invalid(_NO_FIELD, "", message)


def _text(schema: Schema) -> Check:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern: str = schema.get("pattern", "")
    matches = _pattern_match(pattern)

    def problem(value: str) -> str | None:
        if shortest is not None and len(value) < shortest:
            return f"should be at least {shortest} chars long"
        if pattern and not matches(value):
            return f"should match '{pattern}'"
        return None

    def check(value: Any, path: str, found: Findings) -> None:
        if not isinstance(value, str):
            return
        if longest is not None and len(value) > longest:
            found.append(too_long(path, longest))
        elif what := problem(value):
            found.append(invalid(path, value, f"{path} in body {what}"))

    return check


def _pattern_match(pattern: str) -> Match:
    """Return whether the text matches; a pattern that can't be compiled matches nothing, so that no rule passes
    unchecked.
    """
    try:
        return compile_pattern(pattern)
    except PatternError:
        return lambda _: False


def _format(schema: Schema) -> Check:
    name = schema["format"]
    accept = format_check(name)

    def check(value: Any, path: str, found: Findings) -> None:
        if accept is not None and isinstance(value, str) and not accept(value):
            text = f"{path} in body must be of type {name}: {json.dumps(value)}"
            found.append(wrong_type(path, value, text))

    return check


def _array(schema: Schema) -> Check:
    item = compile_validation(schema.get("items", {}))
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    unique = bool(schema.get("uniqueItems"))

    def check(value: Any, path: str, found: Findings) -> None:
        if not isinstance(value, list):
            return
        for index, each in enumerate(value):
            where = f"{path}[{index}]"
            if where not in found.unchanged:
                item(each, where, found)
        if fewest is not None and len(value) < fewest:
            found.append(invalid(path, len(value), f"{path} in body should have at least {fewest} items"))
        if most is not None and len(value) > most:
            found.append(too_many(path, len(value), most))
        if unique and len({json.dumps(each, sort_keys=True) for each in value}) < len(value):
            found.append(invalid(path, "", f"{path} in body shouldn't contain duplicates"))

    return check


def _enum(schema: Schema) -> Check:
    values = schema["enum"]
    listed = tuple(each if isinstance(each, str) else json.dumps(each) for each in values)

    def check(value: Any, path: str, found: Findings) -> None:
        if not any(each == value and isinstance(each, bool) is isinstance(value, bool) for each in values):
            found.append(not_supported(path, value, listed))

    return check


def _object(schema: Schema) -> Check:
    properties = {key: compile_validation(each) for key, each in schema.get("properties", {}).items()}
    others = schema.get("additionalProperties")
    check_other = compile_validation(others) if isinstance(others, Mapping) else None
    needed: Sequence[str] = schema.get("required", ())
    count = _property_count(schema)

    def check(value: Any, path: str, found: Findings) -> None:
        if not isinstance(value, dict) or count(value, path, found):
            return
        for key, each in value.items():
            where = f"{path}.{key}" if path else key
            if where in found.unchanged:
                continue
            if (below := properties.get(key)) is not None:
                below(each, where, found)
            elif check_other is not None:
                check_other(each, where, found)
            elif others is False:
                found.append(invalid(path, key, f"{path}.{key} in body is a forbidden property"))
        absent = (key for key in needed if key not in value)
        found += (required(f"{path}.{key}" if path else key) for key in absent)

    return check


def _property_count(schema: Schema) -> Callable[[dict[str, Any], str, Findings], bool]:
    """Return whether an object has too few or too many properties; nothing else is checked then."""
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")

    def check(value: dict[str, Any], path: str, found: Findings) -> bool:
        if fewest is not None and len(value) < fewest:
            text = f"{path} in body should have at least {fewest} properties"
            found.append(invalid(path, len(value), text))
            return True
        if most is not None and len(value) > most:
            found.append(too_many(path, len(value), most))
            return True
        return False

    return check


_COMPILERS: tuple[tuple[Callable[[Schema], Check | None], tuple[str, ...]], ...] = (
    (_type, ("type", "x-kubernetes-int-or-string")),
    (_combinations, ("anyOf", "oneOf", "allOf", "not")),
    (_text, ("maxLength", "minLength", "pattern")),
    (_format, ("format",)),
    (check_range, ("type",)),
    (check_number, ("multipleOf", "minimum", "maximum")),
    (_array, ("items", "minItems", "maxItems", "uniqueItems")),
    (_enum, ("enum",)),
    (_object, ("properties", "additionalProperties", "required", "minProperties", "maxProperties")),
)

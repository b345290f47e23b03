"""Label and field selectors in Kubernetes' own syntax, parsed once and then asked for every object.

The grammar of label selectors has three forms of requirement (`key`, `key=value`, `key in (value, …)`)
and their negations. A malformed selector is a BadRequest, worded as Kubernetes words it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from lanloom.runtime.https.errors import BadRequest, aggregate
from lanloom.runtime.https.fields import FieldError, invalid
from lanloom_embedded.kinds import GroupPlural, Raw
from lanloom_embedded.syntax import label_value, qualified_name

Operator = Literal["exists", "!", "=", "==", "!=", "in", "notin", ">", "<"]

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SPECIAL = frozenset({"==", "!=", "=", "!", "<", ">", "(", ")", ","})
_BINARY = frozenset({"=", "==", "!=", "in", "notin", ">", "<"})
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Requirement(Struct, frozen=True):
    """One requirement on one label. `values` has one value for comparisons, none for `exists` and `!`."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; an absent label meets the negative ones."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case ">" | "<":
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        (bound,) = self.values
        if not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


class LabelSelector(Struct, frozen=True):
    """Requirements that must all be met; none of them selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class FieldTerm(Struct, frozen=True):
    """One comparison of a field's text with a value; an absent field is the empty text."""

    field: str
    value: str
    equal: bool

    def matches(self, raw: Raw) -> bool:
        """Return whether the object's field compares as wanted."""
        return (field_text(raw, self.field) == self.value) is self.equal


class FieldSelector(Struct, frozen=True):
    """Terms that must all be met; none of them selects everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, raw: Raw) -> bool:
        """Return whether the object is selected."""
        return all(term.matches(raw) for term in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the one value that the field must have, or None: a list by name need not read every object."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)


def parse_labels(text: str) -> LabelSelector:
    """Return a label selector. Raises BadRequest."""
    return LabelSelector(tuple(sorted(_Parser(text).requirements(), key=lambda each: each.key)))


class _Parser:
    """Reads tokens from left to right. An empty token is the end of the text."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text.strip())
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            if self._peek() in _SPECIAL - {"!"}:
                raise _unexpected(self._peek(), ", expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            separator = self._take()
            if not separator:
                break
            if separator != ",":
                raise _unexpected(separator, ", expected: ',' or 'end of string'")
            if not self._peek() or self._peek() in _SPECIAL - {"!"}:
                raise _unexpected(self._peek(), ", expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        try:
            return self._parse_requirement()
        except BadRequest as error:
            raise BadRequest(f"unable to parse requirement: {error.message}") from None

    def _parse_requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not key or key in _SPECIAL:
            raise _unexpected(key, ", expected: identifier")
        _check_key(key)
        if negated or self._peek() in ("", ","):
            return Requirement(key, "!" if negated else "exists")
        operator = self._take()
        if operator not in _BINARY:
            raise _unexpected(operator, ", expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if operator in ("in", "notin") else frozenset({self._value()})
        _check_values(key, operator, values)
        return Requirement(key, cast(Operator, operator), values)

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._take()
        if value in _SPECIAL:
            raise _unexpected(value, ", expected: identifier")
        return value

    def _set(self) -> frozenset[str]:
        opening = self._take()
        if opening != "(":
            raise _unexpected(opening, " expected: '('")
        first = self._peek()
        if not first or first in _SPECIAL - {",", ")"}:
            raise _unexpected(first, ", expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            item = "" if self._peek() in (",", ")") else self._take()
            if item in _SPECIAL or (not item and not self._peek()):
                raise _unexpected(item, ", expected: ',', or identifier")
            values.add(item)
            separator = self._take()
            if separator == ")":
                return frozenset(values)
            if separator != ",":
                raise _unexpected(separator, ", expected: ',' or ')'")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _unexpected(token: str, expected: str) -> BadRequest:
    return BadRequest(f"found '{token}'{expected}")


def _check_key(key: str) -> None:
    if errors := qualified_name(key):
        raise BadRequest(str(invalid("<nil>", key, "; ".join(errors))))


def _check_values(key: str, operator: str, values: frozenset[str]) -> None:
    found: list[FieldError] = []
    for index, value in enumerate(sorted(values)):
        if operator in "<>" and not _INTEGER.fullmatch(value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            found.append(invalid(f"values[{index}]", value, why))
        if errors := label_value(value):
            found.append(invalid(f"values[{index}][{key}]", value, "; ".join(errors)))
    if found:
        raise BadRequest(aggregate([str(each) for each in found]))


_EVERYWHERE = frozenset({"metadata.name", "metadata.namespace"})
_EVENT_FIELDS = _EVERYWHERE | {
    "reason",
    "reportingComponent",
    "source",
    "type",
    *(
        f"involvedObject.{each}"
        for each in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
}
_SELECTABLE: dict[GroupPlural, frozenset[str]] = {
    GroupPlural("", "events"): _EVENT_FIELDS,
    GroupPlural("", "namespaces"): frozenset({"metadata.name", "status.phase"}),
    GroupPlural("", "nodes"): frozenset({"metadata.name", "spec.unschedulable"}),
    GroupPlural("", "pods"): _EVERYWHERE
    | {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
    },
    GroupPlural("", "secrets"): _EVERYWHERE | {"type"},
}
_FALSE_WHEN_ABSENT = frozenset({"spec.unschedulable"})


def parse_fields(text: str, resource: GroupPlural) -> FieldSelector:
    """Return a field selector over a resource. Raises BadRequest, also for a field that can't be selected by."""
    supported = _SELECTABLE.get(resource, _EVERYWHERE)
    terms = tuple(_field_term(text, part) for part in sorted(_split_terms(text)) if part)
    for term in terms:
        if term.field not in supported:
            raise BadRequest(_unsupported(term.field, resource))
    return FieldSelector(terms)


def required_name(text: str) -> str:
    """Return the name that a field selector requires of an object, empty if none, or none that a path could have.

    A list or a watch of that one object is what a role allows that names it.
    """
    try:
        terms = tuple(_field_term(text, part) for part in sorted(_split_terms(text)) if part)
    except BadRequest:
        return ""
    name = FieldSelector(terms).exact("metadata.name") or ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _unsupported(field: str, resource: GroupPlural) -> str:
    """Kubernetes' own kinds without fields of their own say it in other words than all others."""
    if resource in _SELECTABLE or not (resource.group in ("", "apps") or resource.group.endswith(".k8s.io")):
        return f"field label not supported: {field}"
    listed = ", ".join(json.dumps(each) for each in sorted(_EVERYWHERE))
    return f"{json.dumps(field)} is not a known field selector: only {listed}"


def field_text(raw: Raw, field: str) -> str:
    """Return a selectable field of an object as text, empty when it is absent."""
    value: Any = raw
    for part in ("source.component" if field == "source" else field).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if field in _FALSE_WHEN_ABSENT else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split_terms(text: str) -> list[str]:
    """Return the parts between commas that no backslash escapes; escapes stay in."""
    return re.findall(r"(?:\\.|[^\\,]|\\$)+", text, re.DOTALL)


def _field_term(text: str, part: str) -> FieldTerm:
    match = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
    if not match:
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
    field, operator, value = match.groups()
    return FieldTerm(field, _unescaped(value), operator != "!=")


def _unescaped(value: str) -> str:
    plain = re.sub(r"\\[\\,=]", "", value)
    if broken := re.search(r"\\(.|$)", plain, re.DOTALL):
        raise BadRequest(f"invalid field selector: invalid escape sequence: {broken.group()}")
    if found := re.search("[,=]", plain):
        raise BadRequest(f"invalid field selector: unescaped character in value: {ord(found.group())}")
    return re.sub(r"\\([\\,=])", r"\1", value)

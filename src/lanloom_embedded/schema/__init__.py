"""Structural schemas (apiextensions.k8s.io/v1): what the server does with an object because of its kind's
schema.

A schema is compiled once into closures. For every object that is written, the server prunes what the
schema doesn't know, fills in defaults and validates, in that order. Every step is pure but for the object
that it is given.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from lanloom.runtime.https.fields import FieldError
from lanloom_embedded.schema.extensions import (
    ACCEPT_UNENFORCED,
    META_FIELDS,
    embedded_errors,
    list_errors,
    rules_in,
)
from lanloom_embedded.schema.meta import check_types
from lanloom_embedded.schema.pruning import compile_defaults, drop_nulls, prune
from lanloom_embedded.schema.scalars import unknown_formats
from lanloom_embedded.schema.structural import check_structural
from lanloom_embedded.schema.validation import Findings, compile_validation, unchanged_paths

__all__ = [
    "ACCEPT_UNENFORCED",
    "META_FIELDS",
    "CompiledSchema",
    "check_structural",
    "check_types",
    "rules_in",
    "unknown_formats",
]


class CompiledSchema:
    """One openAPIV3Schema, ready for use on many objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._text = json.dumps(schema)
        self._below: dict[str, CompiledSchema] = {}
        self._validate = compile_validation(schema)
        self._fill_in = compile_defaults(schema)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove the fields that the schema doesn't know; return their paths (`spec.list[0].field`).

        apiVersion, kind and metadata always stay.
        """
        return prune(obj, self._schema)

    def default(self, obj: dict[str, Any]) -> None:
        """Drop nulls that the schema doesn't allow and fill in defaults."""
        drop_nulls(obj, self._schema)
        self._fill_in(obj)

    def validate(
        self, obj: dict[str, Any], old: dict[str, Any] | None = None, only: str = ""
    ) -> list[FieldError]:
        """Return the rules that the object breaks, in the order of the schema.

        `old` is the object before an update: what it broke already, and what stayed, is not found. `only` names the
        field to look at, if it isn't all of the object.
        """
        found = self._broken(obj, None, only)
        if found and old is not None:
            found = self._broken(obj, old, only)
        if "x-kubernetes-embedded-resource" in self._text:
            found += embedded_errors(obj, self._schema, "")
        if "x-kubernetes-list-type" in self._text:
            repeated = list(list_errors(obj, self._schema, ""))
            if repeated and (old is None or not any(list_errors(old, self._schema, ""))):
                found += repeated
        return found

    def _broken(self, obj: dict[str, Any], old: dict[str, Any] | None, only: str) -> list[FieldError]:
        found = Findings()
        if only:
            return self._broken_below(obj, old, only)
        if old is not None:
            found.unchanged = frozenset(unchanged_paths(obj, old, self._schema))
        if "" not in found.unchanged:
            self._validate(obj, "", found)
        return found

    def _broken_below(self, obj: dict[str, Any], old: dict[str, Any] | None, field: str) -> list[FieldError]:
        """Return the faults of one field: the messages begin at it, the paths of the errors at the object."""
        schema = self._schema.get("properties", {}).get(field)
        if schema is None or field not in obj:
            return []
        within = self._below.get(field) or self._below.setdefault(field, CompiledSchema(schema))
        found = within._broken(obj[field], None if old is None else old.get(field), "")
        return [
            structs.replace(each, field=f"{field}.{each.field}" if each.field else field)
            if each.field != "<nil>"
            else each
            for each in found
        ]

"""Structural schemas (apiextensions.k8s.io/v1): what the server does with an object because of its kind's
schema.

A schema is compiled once into closures. For every object that is written, the server prunes what the
schema doesn't know, fills in defaults and validates, in that order. Every step is pure but for the object
that it is given.
"""

import json
from collections.abc import Mapping
from typing import Any

from lanloom.apiserver.fields import FieldError
from lanloom.apiserver.schema.defaults import compile_defaults, drop_nulls
from lanloom.apiserver.schema.embedded import embedded_errors
from lanloom.apiserver.schema.listtypes import list_errors
from lanloom.apiserver.schema.pruning import prune
from lanloom.apiserver.schema.structural import check_structural
from lanloom.apiserver.schema.validation import compile_validation

__all__ = ["CompiledSchema", "check_structural"]


class CompiledSchema:
    """One openAPIV3Schema, ready for use on many objects."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._text = json.dumps(schema)
        self._validate = compile_validation(schema)
        self._fill_in = compile_defaults(schema)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Removes the fields that the schema doesn't know; returns their paths (`spec.list[0].field`).

        apiVersion, kind and metadata always stay.
        """
        return prune(obj, self._schema)

    def default(self, obj: dict[str, Any]) -> None:
        """Drops nulls that the schema doesn't allow and fills in defaults."""
        drop_nulls(obj, self._schema)
        self._fill_in(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """The rules that the object breaks, in the order of the schema."""
        found: list[FieldError] = []
        self._validate(obj, "", found)
        if "x-kubernetes-embedded-resource" in self._text:
            found += embedded_errors(obj, self._schema, "")
        if "x-kubernetes-list-type" in self._text:
            found += list_errors(obj, self._schema, "")
        return found

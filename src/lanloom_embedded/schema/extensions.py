"""Kubernetes' extensions of schemas that need checks of their own.

- `x-kubernetes-embedded-resource`: an object inside the object says its kind, and its metadata is metadata.
- `x-kubernetes-list-type`: no item of a set, and no key of a map, may occur twice.
- `x-kubernetes-validations`: this server does not evaluate rules in CEL, so it says where they are. Dropping them would
  let objects through that their definition forbids. A definition with rules is refused by field, unless its author
  accepts with an annotation that nothing enforces them. Then they are kept, for clients and other servers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lanloom.runtime.https.fields import (
    FieldError,
    duplicate,
    invalid,
    required,
)
from lanloom_embedded.schema.meta import subschemas
from lanloom_embedded.schema.validation import Schema
from lanloom_embedded.syntax import dns_1035_label, label_value, qualified_name

META_FIELDS = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""The fields of metadata; others are pruned, whatever the schema says."""


def embedded_errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """Return the faults of embedded objects at and below a value."""
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            yield from _check(value, path)
        yield from _below(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from embedded_errors(each, schema["items"], f"{path}[{index}]")


def _below(value: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, each in value.items():
        if not isinstance(each, dict | list):
            continue
        if key in properties:
            yield from embedded_errors(each, properties[key], f"{path}.{key}" if path else key)
        elif isinstance(others, Mapping):
            yield from embedded_errors(each, others, f"{path}[{key}]")


def _check(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for key in ("apiVersion", "kind"):
        where = f"{path}.{key}"
        if key not in value:
            yield required(where)
        elif not isinstance(value[key], str):
            yield invalid(where, value[key], "must be a string")
        elif not value[key]:
            yield invalid(where, "", "must not be empty")
        elif key == "apiVersion" and value[key].count("/") > 1:
            yield invalid(where, value[key], f"unexpected GroupVersion string: {value[key]}")
        elif key == "kind" and (errors := dns_1035_label(value[key].lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(errors)}"
            yield invalid(where, value[key], text)
    if "metadata" in value:
        yield from _check_metadata(value["metadata"], f"{path}.metadata")


def _check_metadata(metadata: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(metadata, dict):
        yield invalid(path, metadata, "must be an object")
        return
    for name in ("labels", "annotations"):
        texts = metadata.get(name)
        if texts is None:
            continue
        if not isinstance(texts, dict) or not all(isinstance(each, str) for each in texts.values()):
            yield invalid(f"{path}.{name}", texts, "must be an object with text values")
            continue
        for key, text in texts.items():
            yield from (invalid(f"{path}.{name}", key, why) for why in qualified_name(key.lower()))
            if name == "labels":
                yield from (invalid(f"{path}.{name}", text, why) for why in label_value(text))


def list_errors(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield the repeated items at and below a value."""
    if isinstance(value, dict):
        yield from _in_object(value, schema, path)
    elif isinstance(value, list):
        match schema.get("x-kubernetes-list-type"):
            case "set":
                yield from _repeated(value, path)
            case "map":
                yield from _in_map(value, schema.get("x-kubernetes-list-map-keys", ()), path)
        if "items" in schema:
            for index, each in enumerate(value):
                yield from list_errors(each, schema["items"], f"{path}[{index}]")


def _in_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for key, each in value.items():
        if not isinstance(each, dict | list):
            continue
        if key in properties:
            yield from list_errors(each, properties[key], f"{path}.{key}" if path else key)
        elif isinstance(others, Mapping):
            yield from list_errors(each, others, f"{path}[{key}]")


def _in_map(value: list[Any], keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for index, each in enumerate(value):
        if each is not None and not isinstance(each, dict):
            yield invalid(f"{path}[{index}]", each, "must be an object for an array of list-type map")
            return
    yield from _repeated([{key: each[key] for key in keys if key in (each or {})} for each in value], path)


def _repeated(items: Sequence[Any], path: str) -> Iterator[FieldError]:
    """Yield one error for each item that is there twice or more, at its second place."""
    seen: dict[str, int] = {}
    for index, each in enumerate(items):
        text = json.dumps(each, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield duplicate(f"{path}[{index}]", each)


RULES = "x-kubernetes-validations"

ACCEPT_UNENFORCED = "lanloom.io/unenforced-rules"
"""The annotation of a CRD whose rules may stay unenforced; its value is `accept`."""


def rules_in(schema: Schema, path: str) -> Iterator[str]:
    """Yield the places of rules in a schema that stands at `path`, outermost first."""
    if schema.get(RULES):
        yield f"{path}.{RULES}"
    for below, where in subschemas(schema, path):
        yield from rules_in(below, where)

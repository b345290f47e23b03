"""Objects inside objects (x-kubernetes-embedded-resource): they say their kind, and their metadata is metadata."""

from collections.abc import Iterator, Mapping
from typing import Any

from lanloom.apiserver.fields import FieldError, invalid, required
from lanloom.apiserver.syntax import dns_1035_label, label_value, qualified_name

Schema = Mapping[str, Any]

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
    """What is wrong with the objects that are embedded at and below a value."""
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

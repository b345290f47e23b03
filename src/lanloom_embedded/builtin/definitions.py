"""CustomResourceDefinitions: their rules, and the schemas inside them.

Keys of a schema that this server doesn't know are dropped and reported, not kept in vain.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lanloom.runtime.https.fields import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from lanloom_embedded.kinds import Raw
from lanloom_embedded.schema import (
    ACCEPT_UNENFORCED,
    check_structural,
    check_types,
    rules_in,
)
from lanloom_embedded.syntax import dns_1035_label, subdomain

_KNOWN = frozenset(
    {
        "$ref",
        "$schema",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "definitions",
        "dependencies",
        "description",
        "enum",
        "example",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "externalDocs",
        "format",
        "id",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "nullable",
        "oneOf",
        "pattern",
        "patternProperties",
        "properties",
        "required",
        "title",
        "type",
        "uniqueItems",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)


def prune_schemas(crd: Raw) -> list[str]:
    """Remove unknown keys from the schemas of a CRD in place and return their paths.

    A key that is null counts as absent, and a property that is null as an empty schema, as Go reads them.
    """
    removed: list[str] = []
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict) and schema.get("openAPIV3Schema") is not None:
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            _prune(schema.get("openAPIV3Schema"), path, removed)
    return removed


def _prune(schema: Any, path: str, removed: list[str]) -> None:
    if not isinstance(schema, dict):
        return
    for key in tuple(schema):
        if key not in _KNOWN:
            removed.append(f"{path}.{key}")
        if key not in _KNOWN or schema[key] is None:
            del schema[key]
    _fill_nulls(schema)
    for key in ("items", "additionalProperties", "not"):
        _prune(schema.get(key), f"{path}.{key}", removed)
    for key in ("allOf", "anyOf", "oneOf"):
        listed = schema.get(key)
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            _prune(each, f"{path}.{key}[{index}]", removed)
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, Mapping) else ():
        _prune(each, f"{path}.properties[{name}]", removed)


def _fill_nulls(schema: Raw) -> None:
    """Replace schemas within a schema that are null by empty ones."""
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(listed := schema.get(key), list):
            schema[key] = [{} if each is None else each for each in listed]
    if isinstance(properties := schema.get("properties"), dict):
        schema["properties"] = {name: {} if each is None else each for name, each in properties.items()}


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SCOPES = ("Cluster", "Namespaced")
_UNENFORCED = (
    "rules in CEL are not enforced by this server: remove them, or set the annotation "
    f'{ACCEPT_UNENFORCED}: "accept" to keep them without effect'
)


def check_crd(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Yield the name, the names, the versions and their schemas, and what can't be changed."""
    if unreadable := list(schema_types(obj)):
        yield from unreadable
        return
    spec = obj["spec"]
    names, versions = spec.get("names", {}), spec.get("versions") or []
    name, plural, group = obj["metadata"].get("name", ""), names.get("plural", ""), spec.get("group", "")
    if old is None and name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _check_group(group)
    yield from _check_scope(spec.get("scope", ""))
    yield from _check_versions(versions)
    yield from _check_names(names)
    yield from _check_schemas(versions)
    if not accepts_unenforced(obj):
        yield from (forbidden(place, _UNENFORCED) for place in places_of_rules(obj))
    yield from _check_conversion(spec.get("conversion", {}))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, text)
    if old is not None:
        yield from _check_update(spec, old["spec"])
        yield from _check_stored(versions, obj.get("status", {}).get("storedVersions") or [])


def schema_types(crd: Raw) -> Iterator[FieldError]:
    """Yield every keyword in the schemas of a CRD whose value has a wrong type."""
    for index, version in enumerate(crd["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield from check_types(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def places_of_rules(crd: Raw) -> Iterator[str]:
    """Yield where in a CRD the rules are that this server does not enforce."""
    for index, version in enumerate(crd["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from rules_in(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def accepts_unenforced(crd: Raw) -> bool:
    """Return whether the author of a CRD accepts that its rules are not enforced."""
    annotations = crd["metadata"].get("annotations") or {}
    return bool(annotations.get(ACCEPT_UNENFORCED) == "accept")


def _check_scope(scope: str) -> Iterator[FieldError]:
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)


def _check_group(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif errors := subdomain(group):
        yield invalid("spec.group", group, ",".join(errors))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _check_names(names: Raw) -> Iterator[FieldError]:
    path = "spec.names"
    for key in ("plural", "singular"):
        yield from _check_label(names.get(key, ""), f"{path}.{key}")
    for key in ("kind", "listKind"):
        given = names.get(key, "")
        if not given:
            yield required(f"{path}.{key}")
        elif errors := dns_1035_label(given.lower()):
            text = f"may have mixed case, but should otherwise match: {','.join(errors)}"
            yield invalid(f"{path}.{key}", given, text)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names.get("listKind", ""), "kind and listKind may not be the same")
    for key in ("shortNames", "categories"):
        for index, each in enumerate(names.get(key) or ()):
            yield from _check_label(each, f"{path}.{key}[{index}]")


def _check_label(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield required(path)
    elif errors := dns_1035_label(text):
        yield invalid(path, text, ",".join(errors))


def _check_versions(versions: list[Raw]) -> Iterator[FieldError]:
    names = [version.get("name", "") for version in versions]
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if errors := dns_1035_label(names[index]):
            yield invalid(f"{path}.name", names[index], ",".join(errors))
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            yield invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text)
    yield from _check_columns(versions)
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")


def _check_columns(versions: list[Raw]) -> Iterator[FieldError]:
    """Where all versions have the same columns, Kubernetes reports their errors once, as of `spec`."""
    columns = [version.get("additionalPrinterColumns") or [] for version in versions]
    same = all(each == columns[0] for each in columns)
    for index, shown in enumerate(columns[:1] if same else columns):
        prefix = "spec" if same else f"spec.versions[{index}]"
        for place, column in enumerate(shown):
            yield from _check_column(column, f"{prefix}.additionalPrinterColumns[{place}]")


def _check_column(column: Raw, path: str) -> Iterator[FieldError]:
    allowed = f"must be one of {','.join(_COLUMN_TYPES)}"
    kind, place = column.get("type", ""), column.get("jsonPath", "")
    if not column.get("name"):
        yield required(f"{path}.name")
    if not kind:
        yield required(f"{path}.type", allowed)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, allowed)
    if not place:
        yield required(f"{path}.JSONPath")
    elif not place.startswith("."):
        yield invalid(f"{path}.JSONPath", place, "must be a simple json path starting with .")


def _check_schemas(versions: list[Raw]) -> Iterator[FieldError]:
    """Where all versions have one schema, Kubernetes reports its errors once, as of `spec.validation`."""
    schemas = [version.get("schema", {}).get("openAPIV3Schema") for version in versions]
    for index, schema in enumerate(schemas):
        if schema is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    if schemas and schemas[0] is not None and all(each == schemas[0] for each in schemas):
        yield from check_structural(schemas[0], "spec.validation.openAPIV3Schema")
        return
    for index, schema in enumerate(schemas):
        if schema is not None:
            yield from check_structural(schema, f"spec.versions[{index}].schema.openAPIV3Schema")


def _check_conversion(conversion: Raw) -> Iterator[FieldError]:
    strategy = conversion.get("strategy", "None")
    if strategy == "Webhook":
        text = "conversion by webhook is not supported by this server; use None"
        yield forbidden("spec.conversion.strategy", text)
    elif strategy != "None":
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _check_update(spec: Raw, old: Raw) -> Iterator[FieldError]:
    for name in ("scope", "group"):
        if spec.get(name) != old.get(name):
            yield invalid(f"spec.{name}", spec.get(name, ""), "field is immutable")
    names, old_names = spec.get("names", {}), old.get("names", {})
    for name in ("kind", "plural"):
        if names.get(name) != old_names.get(name):
            yield invalid(f"spec.names.{name}", names.get(name, ""), "field is immutable")


def _check_stored(versions: list[Raw], stored: list[str]) -> Iterator[FieldError]:
    """Yield the versions that go although objects may be stored in them."""
    names = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} "
                f"and removes {name} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", name, text)

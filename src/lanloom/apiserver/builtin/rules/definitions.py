"""Rules of CustomResourceDefinitions."""

from collections.abc import Iterator

from lanloom.apiserver.fields import FieldError, forbidden, invalid, not_supported, required
from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.schema import check_structural
from lanloom.apiserver.syntax import dns_1035_label, subdomain

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SCOPES = ("Cluster", "Namespaced")


def check_crd(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """The name, the names, the versions and their schemas, and what can't be changed."""
    spec = obj["spec"]
    name, plural, group = obj["metadata"].get("name", ""), spec["names"]["plural"], spec["group"]
    if name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _check_group(group)
    if spec["scope"] not in _SCOPES:
        yield not_supported("spec.scope", spec["scope"], _SCOPES)
    yield from _check_names(spec["names"])
    yield from _check_versions(spec["versions"])
    yield from _check_schemas(spec["versions"])
    yield from _check_conversion(spec.get("conversion", {}))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, text)
    if old is not None:
        yield from _check_update(spec, old["spec"])


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
    if names.get("kind") == names.get("listKind"):
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
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if errors := dns_1035_label(version["name"]):
            yield invalid(f"{path}.name", version["name"], ",".join(errors))
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            yield invalid(f"{path}.deprecationWarning", version["deprecationWarning"], text)
        for place, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _check_column(column, f"{path}.additionalPrinterColumns[{place}]")
    names = [version["name"] for version in versions]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(version["storage"] for version in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")


def _check_column(column: Raw, path: str) -> Iterator[FieldError]:
    if not column["name"]:
        yield required(f"{path}.name")
    if column["type"] not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
    if not column["jsonPath"].startswith("."):
        text = "must be a simple json path starting with ."
        yield invalid(f"{path}.JSONPath", column["jsonPath"], text)


def _check_schemas(versions: list[Raw]) -> Iterator[FieldError]:
    """Where all versions have one schema, Kubernetes reports its errors once, as of `spec.validation`."""
    schemas = [version.get("schema", {}).get("openAPIV3Schema") for version in versions]
    for index, schema in enumerate(schemas):
        if schema is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
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
        if spec[name] != old[name]:
            yield invalid(f"spec.{name}", spec[name], "field is immutable")
    for name in ("kind", "plural"):
        if spec["names"][name] != old["names"][name]:
            yield invalid(f"spec.names.{name}", spec["names"][name], "field is immutable")

"""CustomResourceDefinitions of the kinds that Lanloom brings along, derived from their Structs.

The Structs are the one place where a field is written down: its name on the wire, its type, its bounds
(`msgspec.Meta`) and, in the docstrings, what it means. Schemas are structural and have no `$ref`, as
apiextensions.k8s.io/v1 demands. An absent field means what the Struct's default says; the schemas set only the
defaults that the definitions of other projects set, whose clients read an absent number as 0, and that of a status:
kstatus takes an object without one for current. Fields that no definition knows are refused or dropped, as by those: a
misspelt selector would match every node.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import inspect as types

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Column, Resource

CATEGORY = "lanloom"
"""`kubectl get lanloom` lists the objects of all of them."""

UNSEEN = {"observedGeneration": -1}
"""The status of an object that no controller has looked at yet: kstatus takes it for one in progress."""

_ROOT_FIELDS = {
    "apiVersion": {"type": "string", "description": "Group and version of this form of the object."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object"},
}

_BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "minimum",
    "lt": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}


def manifest(resource: Resource[Any]) -> dict[str, Any]:
    """Return the CRD of one resource."""
    version: dict[str, Any] = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(resource)},
    }
    if resource.status:
        version["subresources"] = {"status": {}}
    if resource.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in resource.columns]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "names": _names(resource),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def to_yaml(document: Mapping[str, Any]) -> str:
    """Return a manifest as a YAML document, keys in the order in which they are read best."""
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=110)


def _names(resource: Resource[Any]) -> dict[str, Any]:
    # Multus writes its plural with hyphens, and its singular accordingly.
    singular = resource.plural.removesuffix("s") if "-" in resource.plural else resource.singular
    return {
        "plural": resource.plural,
        "singular": singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        # A kube-apiserver leaves an empty list out; a manifest with one would always differ from it.
        **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
        "categories": [CATEGORY],
    }


def _column(column: Column) -> dict[str, Any]:
    made: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        made["description"] = column.description
    if column.priority:
        made["priority"] = column.priority
    return made


def _root(resource: Resource[Any]) -> dict[str, Any]:
    info = types.type_info(resource.type)
    if not isinstance(info, types.StructType) or not issubclass(info.cls, Object):
        raise TypeError(f"{resource.kind} is not an Object")
    own = [field for field in info.fields if field.encode_name not in _ROOT_FIELDS]
    properties = _ROOT_FIELDS | {field.encode_name: _schema(field.type) for field in own}
    if resource.status and "observedGeneration" in properties.get("status", {}).get("properties", {}):
        properties["status"]["default"] = dict(UNSEEN)
    if not resource.status and "conditions" in properties.get("status", {}).get("properties", {}):
        # The generation counts writes of the status, too: a condition that named it would always speak of an older one.
        del properties["status"]["properties"]["conditions"]["items"]["properties"]["observedGeneration"]
    return _object(info, properties, list(resource.required))


def _schema(info: types.Type) -> dict[str, Any]:
    """Return the structural schema of a type. Raises TypeError for one that the wire format has no use for."""
    match info:
        case types.Metadata():
            return _schema(info.type) | (info.extra_json_schema or {})
        case types.StructType():
            return _struct(info)
        case types.UnionType():
            return _optional(info)
        case types.DictType(value_type=types.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(info.value_type)}
        case types.VarTupleType() | types.ListType():
            return {
                "type": "array",
                "items": _schema(info.item_type),
                **_lengths(info, "Items"),
            }
        case types.StrType():
            return {"type": "string", **_bounds(info), **_lengths(info, "Length")}
        case types.IntType():
            return {"type": "integer", "format": "int64", **_bounds(info)}
        case types.FloatType():
            return {"type": "number", **_bounds(info)}
        case types.BoolType():
            return {"type": "boolean"}
        case types.LiteralType():
            return {"type": "string", "enum": sorted(str(value) for value in info.values)}
    raise TypeError(f"{info} has no structural schema")


def _struct(info: types.StructType) -> dict[str, Any]:
    if info.cls is ObjectMeta:
        return {"type": "object"}
    properties = {field.encode_name: _schema(field.type) for field in info.fields}
    required = [field.encode_name for field in info.fields if field.required]
    return _object(info, properties, required)


def _object(info: types.StructType, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    if info.cls.__doc__:
        made["description"] = _description(info)
    made["properties"] = properties
    if required:
        made["required"] = required
    return made


def _description(info: types.StructType) -> str:
    """Return the docstring on one line, with the fields named as on the wire."""
    text = " ".join(inspect.cleandoc(info.cls.__doc__ or "").split())
    for field in info.fields:
        text = text.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return text


def _optional(info: types.UnionType) -> dict[str, Any]:
    others = [one for one in info.types if not isinstance(one, types.NoneType)]
    if len(others) != 1:
        raise TypeError(f"{info} has no structural schema: it is a union of more than a type and None")
    made = _schema(others[0])
    return made | {"nullable": True} if len(info.types) > 1 else made


def _bounds(info: types.StrType | types.IntType | types.FloatType) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, key in _BOUNDS.items():
        value = getattr(info, name, None)
        if value is None:
            continue
        made[key] = value
        if name in ("gt", "lt"):
            made[f"exclusive{key.capitalize()}"] = True
    return made


def _lengths(info: types.StrType | types.VarTupleType | types.ListType, what: str) -> dict[str, Any]:
    bounds = {f"min{what}": info.min_length, f"max{what}": info.max_length}
    return {key: value for key, value in bounds.items() if value is not None}

"""OpenAPI documents of what is served, for `kubectl explain`, `apply` and its check of what an operation understands.

`/openapi/v2` is one document for all; kubectl before 1.27 reads it, as protobuf only. `/openapi/v3` is an index and a
document for each group and version. Both are made from the served kinds: keep them as long as these stay the same.

Clients look into the paths for two things: which kind stands behind a path, and which query parameters its operations
understand (kubectl asks so before it trusts `--dry-run=server` or field validation).

`encode_swagger` writes what old clients read of a swagger document, in the form of gnostic's OpenAPIv2.proto. Debian's
kubectl 1.20.2, which the tests run, gets 406 without it and then refuses every `apply`, `create`, `diff` and `explain`.
It reads the definitions, to check manifests and to explain, and the parameters of patches, to find out whether a kind
takes `--dry-run=server`. The encoder is written by hand: few messages occur here, and the field numbers of a published
format never change.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.openapi.schemas import (
    GVK,
    V2,
    V3,
    SchemaVersion,
    common,
    definition_name,
    definitions_of,
    gvk,
    reference,
)

__all__ = ["PROTOBUF", "PROTOBUF_ACCEPTED", "document", "encode_swagger", "index", "swagger"]

_JSON = "application/json"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_LIST_QUERY = {
    "allowWatchBookmarks": ("boolean", "Whether a watch has bookmarks."),
    "continue": ("string", "Where the page starts."),
    "fieldSelector": ("string", "Fields that objects must have."),
    "labelSelector": ("string", "Labels that objects must have."),
    "limit": ("integer", "Most objects of a page."),
    "resourceVersion": ("string", "Version to list or to watch from."),
    "resourceVersionMatch": ("string", "How the version is meant."),
    "timeoutSeconds": ("integer", "Seconds after which it ends."),
    "watch": ("boolean", "Whether changes follow."),
}
_WRITE_QUERY = {
    "dryRun": ("string", "All: nothing is changed."),
    "fieldManager": ("string", "Who changes."),
    "fieldValidation": ("string", "What unknown fields mean: Ignore, Warn or Strict."),
}
_DELETE_QUERY = {
    "dryRun": ("string", "All: nothing is changed."),
    "gracePeriodSeconds": ("integer", "Seconds to end gracefully."),
    "propagationPolicy": ("string", "Background, Foreground or Orphan."),
}
# verb: method, action, name in the operation's id
_COLLECTION = {
    "list": ("get", "list", "list"),
    "create": ("post", "post", "create"),
    "deletecollection": ("delete", "deletecollection", "deleteCollection"),
}
_ITEM = {
    "get": ("get", "get", "read"),
    "update": ("put", "put", "replace"),
    "patch": ("patch", "patch", "patch"),
    "delete": ("delete", "delete", "delete"),
}
_STATUS = {verb: _ITEM[verb] for verb in ("get", "update", "patch")}


def _patch_types(kind: ServedKind) -> tuple[str, ...]:
    """Return the patch types of `kubectl apply`: it chooses the strategic patch wherever it is offered."""
    return (*_PATCHES, *((_STRATEGIC,) if kind.builtin else ()), _APPLY)


def paths_of(kinds: Iterable[ServedKind], version: SchemaVersion) -> dict[str, Raw]:
    """Return the paths of these kinds."""
    made: dict[str, Raw] = {}
    for kind in kinds:
        collection = _collection_path(kind)
        made[collection] = _path(kind, _COLLECTION, "", version)
        if kind.storage:
            made[f"{collection}/{{name}}"] = _path(kind, _ITEM, "", version)
        if kind.has_status:
            made[f"{collection}/{{name}}/status"] = _path(kind, _STATUS, "Status", version)
        if kind.namespaced:
            made[collection.replace("/namespaces/{namespace}", "")] = _everywhere(kind, version)
    return made


def _collection_path(kind: ServedKind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    namespace = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}/{kind.version}{namespace}/{kind.plural}"


def _path(
    kind: ServedKind, verbs: dict[str, tuple[str, str, str]], suffix: str, version: SchemaVersion
) -> Raw:
    parameters = (
        [_parameter("path", "namespace", "string", "The namespace.", version)] if kind.namespaced else []
    )
    if verbs is not _COLLECTION:
        parameters.append(_parameter("path", "name", "string", "Name of the object.", version))
    operations = {
        method: _operation(kind, verb, action, f"{name}{_id(kind, suffix)}", version)
        for verb, (method, action, name) in verbs.items()
        if verb in kind.verbs
    }
    return operations | ({"parameters": parameters} if parameters else {})


def _everywhere(kind: ServedKind, version: SchemaVersion) -> Raw:
    """Return the path over all namespaces, which can only be listed."""
    name = f"list{_id(kind, 'ForAllNamespaces')}"
    return {"get": _operation(kind, "list", "list", name, version)} if "list" in kind.verbs else {}


def _id(kind: ServedKind, suffix: str) -> str:
    group = "".join(part.capitalize() for part in (kind.group or "core").removesuffix(".k8s.io").split("."))
    scope = "Namespaced" if kind.namespaced and suffix != "ForAllNamespaces" else ""
    return f"{group}{kind.version.capitalize()}{scope}{kind.kind}{suffix}"


def _operation(kind: ServedKind, verb: str, action: str, name: str, version: SchemaVersion) -> Raw:
    made: Raw = {
        "operationId": name,
        "description": f"{name[0].upper()}{name[1:]}",
        "x-kubernetes-action": action,
        GVK: gvk(kind),
    }
    parameters = [_parameter("query", *query, version) for query in _query(verb)]
    answer = reference(_answer(kind, verb), version)
    if version is V2:
        made["produces"] = [_JSON]
        made["consumes"] = list(_patch_types(kind)) if verb == "patch" else ["*/*"]
        body = _body(kind, verb, version)
        parameters += (
            [{"name": "body", "in": "body", "required": verb != "delete", "schema": body}] if body else []
        )
        made["responses"] = {"200": {"description": "OK", "schema": answer}}
    else:
        if body := _body(kind, verb, version):
            types = _patch_types(kind) if verb == "patch" else ("*/*",)
            made["requestBody"] = {"content": {each: {"schema": body} for each in types}}
        made["responses"] = {"200": {"description": "OK", "content": {_JSON: {"schema": answer}}}}
    return made | ({"parameters": parameters} if parameters else {})


def _query(verb: str) -> list[tuple[str, str, str]]:
    queries = {
        "list": _LIST_QUERY,
        "create": _WRITE_QUERY,
        "update": _WRITE_QUERY,
        "patch": _WRITE_QUERY | {"force": ("boolean", "Whether conflicts are overridden.")},
        "delete": _DELETE_QUERY,
        "deletecollection": _LIST_QUERY | _DELETE_QUERY,
    }
    return [(name, *rest) for name, rest in queries.get(verb, {}).items()]


def _parameter(where: str, name: str, kind: str, description: str, version: SchemaVersion) -> Raw:
    made: Raw = {"name": name, "in": where, "description": description}
    if where == "path":
        made["required"] = True
    return made | ({"type": kind} if version is V2 else {"schema": {"type": kind}})


def _body(kind: ServedKind, verb: str, version: SchemaVersion) -> Raw:
    """Return the schema of what a request carries, empty for nothing."""
    match verb:
        case "create" | "update":
            return reference(definition_name(kind), version)
        case "patch":
            return {"type": "object"}
        case "delete" | "deletecollection":
            return reference(common("DeleteOptions"), version)
    return {}


def _answer(kind: ServedKind, verb: str) -> str:
    if verb in ("delete", "deletecollection"):
        return common("Status")
    return definition_name(kind) + ("List" if verb == "list" else "")


PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The media type of `encode_swagger`. Clients accept it by this name or, before 1.23, by `PROTOBUF_ACCEPTED`."""

PROTOBUF_ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type in old clients' requests. An answer can't be of this type: Go refuses to parse it."""

_TITLE = "Kubernetes"


def swagger(kinds: Sequence[ServedKind], version: str) -> Raw:
    """`/openapi/v2`. `version` is the server's version, as v1.20.2."""
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": version},
        "paths": paths_of(kinds, V2),
        "definitions": definitions_of(kinds, V2),
    }


def index(kinds: Sequence[ServedKind]) -> Raw:
    """`/openapi/v3`: where the documents of groups and versions are. An address changes with its content."""
    names = dict.fromkeys((kind.group, kind.version) for kind in kinds)
    return {"paths": {_name(*each): {"serverRelativeURL": _address(kinds, *each)} for each in names}}


def document(kinds: Sequence[ServedKind], group: str, version: str, server_version: str) -> Raw | None:
    """`/openapi/v3/api/v1` (empty group) or `/openapi/v3/apis/GROUP/VERSION`, None for what isn't served."""
    served = _served(kinds, group, version)
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": server_version},
        "paths": paths_of(served, V3),
        "components": {"schemas": definitions_of(served, V3)},
    }


def _served(kinds: Sequence[ServedKind], group: str, version: str) -> list[ServedKind]:
    return [kind for kind in kinds if (kind.group, kind.version) == (group, version)]


def _name(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _address(kinds: Sequence[ServedKind], group: str, version: str) -> str:
    content = document(kinds, group, version, "")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest().upper()
    return f"/openapi/v3/{_name(group, version)}?hash={digest}"


_VARINT, _BYTES = 0, 2
_Encode = Callable[[int, Any], bytes]


def encode_swagger(document: Raw) -> bytes:
    """Return the message `openapi.v2.Document` with what old kubectls read of a swagger document."""
    return _message(document, _DOCUMENT)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, value: Any) -> bytes:
    return _bytes(field, str(value).encode()) if value else b""


def _texts(field: int, value: Iterable[str]) -> bytes:
    return b"".join(_bytes(field, each.encode()) for each in value)


def _flag(field: int, value: Any) -> bytes:
    return _key(field, _VARINT) + b"\x01" if value else b""


def _named(field: int, values: Mapping[str, Any], encode: Callable[[Any], bytes]) -> bytes:
    """Return a map as repeated messages of a name (1) and a value (2)."""
    return b"".join(
        _bytes(field, _text(1, name) + _bytes(2, encode(value))) for name, value in values.items()
    )


def _message(value: Mapping[str, Any], fields: Mapping[str, tuple[int, _Encode]]) -> bytes:
    """Return a message whose JSON keys the table knows; `x-` stands for the extensions, and other keys are left out."""
    made = b"".join(encode(number, value[key]) for key, (number, encode) in fields.items() if key in value)
    extensions = {key: each for key, each in value.items() if key.startswith("x-")}
    if extensions and "x-" in fields:
        number, _ = fields["x-"]
        made += _named(number, extensions, lambda each: _text(2, json.dumps(each)))
    return made


def _of(fields: Mapping[str, tuple[int, _Encode]]) -> _Encode:
    return lambda number, value: _bytes(number, _message(value, fields))


def _schema(field: int, value: Raw) -> bytes:
    return _bytes(field, _message(value, _SCHEMA))


def _schemas(field: int, value: Mapping[str, Raw]) -> bytes:
    return _bytes(field, _named(1, value, lambda each: _message(each, _SCHEMA)))


def _type(field: int, value: Any) -> bytes:
    return _bytes(field, _texts(1, [value] if isinstance(value, str) else value))


def _items(field: int, value: Raw) -> bytes:
    return _bytes(field, _schema(1, value))


def _additional(field: int, value: Any) -> bytes:
    return _bytes(field, _schema(1, value) if isinstance(value, dict) else _flag(2, value))


def _parameters(field: int, value: Iterable[Raw]) -> bytes:
    return b"".join(_bytes(field, _parameter_message(each)) for each in value)


def _parameter_message(value: Raw) -> bytes:
    """Return the chain ParametersItem, Parameter, and for all but bodies NonBodyParameter."""
    if value["in"] == "body":
        return _bytes(1, _bytes(1, _message(value, _BODY)))
    return _bytes(1, _bytes(2, _bytes(3, _message(value, _QUERY))))


def _paths(field: int, value: Mapping[str, Raw]) -> bytes:
    return _bytes(field, _named(2, value, lambda each: _message(each, _PATH_ITEM)))


_SCHEMA: dict[str, tuple[int, _Encode]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "required": (19, _texts),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _schemas),
    "x-": (31, _text),
}
_BODY: dict[str, tuple[int, _Encode]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema),
}
_QUERY: dict[str, tuple[int, _Encode]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
}
_OPERATION: dict[str, tuple[int, _Encode]] = {"parameters": (8, _parameters), "x-": (13, _text)}
_PATH_ITEM: dict[str, tuple[int, _Encode]] = {"patch": (8, _of(_OPERATION))}
_DOCUMENT: dict[str, tuple[int, _Encode]] = {
    "swagger": (1, _text),
    "info": (2, _of({"title": (1, _text), "version": (2, _text)})),
    "paths": (8, _paths),
    "definitions": (9, _schemas),
}

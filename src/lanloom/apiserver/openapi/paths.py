"""Operations of served kinds as OpenAPI paths.

Clients look here for two things: which kind stands behind a path, and which query parameters its
operations understand (kubectl asks so before it trusts `--dry-run=server` or field validation).
"""

from collections.abc import Iterable

from lanloom.apiserver.kinds import Raw, ServedKind
from lanloom.apiserver.openapi.schemas import GVK, V2, Flavour, common, definition_name, gvk, reference

_JSON = "application/json"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
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
    """What `kubectl apply` may send: it chooses the strategic patch wherever it is offered."""
    return (*_PATCHES, _STRATEGIC) if kind.builtin else _PATCHES


def paths_of(kinds: Iterable[ServedKind], flavour: Flavour) -> dict[str, Raw]:
    """The paths of these kinds."""
    made: dict[str, Raw] = {}
    for kind in kinds:
        collection = _collection_path(kind)
        made[collection] = _path(kind, _COLLECTION, "", flavour)
        if kind.storage:
            made[f"{collection}/{{name}}"] = _path(kind, _ITEM, "", flavour)
        if kind.has_status:
            made[f"{collection}/{{name}}/status"] = _path(kind, _STATUS, "Status", flavour)
        if kind.namespaced:
            made[collection.replace("/namespaces/{namespace}", "")] = _everywhere(kind, flavour)
    return made


def _collection_path(kind: ServedKind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    namespace = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}/{kind.version}{namespace}/{kind.plural}"


def _path(kind: ServedKind, verbs: dict[str, tuple[str, str, str]], suffix: str, flavour: Flavour) -> Raw:
    parameters = (
        [_parameter("path", "namespace", "string", "The namespace.", flavour)] if kind.namespaced else []
    )
    if verbs is not _COLLECTION:
        parameters.append(_parameter("path", "name", "string", "Name of the object.", flavour))
    operations = {
        method: _operation(kind, verb, action, f"{name}{_id(kind, suffix)}", flavour)
        for verb, (method, action, name) in verbs.items()
        if verb in kind.verbs
    }
    return operations | ({"parameters": parameters} if parameters else {})


def _everywhere(kind: ServedKind, flavour: Flavour) -> Raw:
    """The path over all namespaces, which can only be listed."""
    name = f"list{_id(kind, 'ForAllNamespaces')}"
    return {"get": _operation(kind, "list", "list", name, flavour)} if "list" in kind.verbs else {}


def _id(kind: ServedKind, suffix: str) -> str:
    group = "".join(part.capitalize() for part in (kind.group or "core").removesuffix(".k8s.io").split("."))
    scope = "Namespaced" if kind.namespaced and suffix != "ForAllNamespaces" else ""
    return f"{group}{kind.version.capitalize()}{scope}{kind.kind}{suffix}"


def _operation(kind: ServedKind, verb: str, action: str, name: str, flavour: Flavour) -> Raw:
    made: Raw = {
        "operationId": name,
        "description": f"{name[0].upper()}{name[1:]}",
        "x-kubernetes-action": action,
        GVK: gvk(kind),
    }
    parameters = [_parameter("query", *query, flavour) for query in _query(verb)]
    answer = reference(_answer(kind, verb), flavour)
    if flavour is V2:
        made["produces"] = [_JSON]
        made["consumes"] = list(_patch_types(kind)) if verb == "patch" else ["*/*"]
        body = _body(kind, verb, flavour)
        parameters += (
            [{"name": "body", "in": "body", "required": verb != "delete", "schema": body}] if body else []
        )
        made["responses"] = {"200": {"description": "OK", "schema": answer}}
    else:
        if body := _body(kind, verb, flavour):
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


def _parameter(where: str, name: str, kind: str, description: str, flavour: Flavour) -> Raw:
    made: Raw = {"name": name, "in": where, "description": description}
    if where == "path":
        made["required"] = True
    return made | ({"type": kind} if flavour is V2 else {"schema": {"type": kind}})


def _body(kind: ServedKind, verb: str, flavour: Flavour) -> Raw:
    """The schema of what a request carries, empty for nothing."""
    match verb:
        case "create" | "update":
            return reference(definition_name(kind), flavour)
        case "patch":
            return {"type": "object"}
        case "delete" | "deletecollection":
            return reference(common("DeleteOptions"), flavour)
    return {}


def _answer(kind: ServedKind, verb: str) -> str:
    if verb in ("delete", "deletecollection"):
        return common("Status")
    return definition_name(kind) + ("List" if verb == "list" else "")

"""The rules of object metadata: what a client may set, what the server sets, and what must never change.

Metadata also identifies the object of a request: it must be the one that the URL names, by type, name, namespace,
version and uid. Field paths and words are those of apimachinery's `ValidateObjectMeta`.
"""

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from lanloom.runtime.https import errors, fields
from lanloom.runtime.https.errors import BadRequest
from lanloom.runtime.https.fields import FieldError
from lanloom_embedded import syntax
from lanloom_embedded.engine.reads import parse_version
from lanloom_embedded.engine.storage import Stored
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.schema import META_FIELDS

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
_SHOWN = 60
"""Characters of a value that a message shows."""


def fault(path: str, value: Any, wanted: Any) -> str:
    """Return the first field at or below `path` that is not of its type, with its value and what it must be."""
    wanted = _without_none(wanted)
    origin = get_origin(wanted) or (dict if _is_struct(wanted) else wanted)
    if not isinstance(value, origin) or (origin is int and isinstance(value, bool)):
        return f"{path} is {_shown(value)}; it must be {_WORDS[origin]}"
    for place, item, kind in _parts(path, value, wanted):
        try:
            msgspec.convert(item, kind)
        except msgspec.ValidationError:
            return fault(place, item, kind)
    return f"{path} is {_shown(value)}, which is out of range"


def _parts(path: str, value: Any, wanted: Any) -> list[tuple[str, Any, Any]]:
    """Return the fields or items of a value, with their types."""
    if _is_struct(wanted):
        return [
            (f"{path}.{name}", value[name], kind)
            for name, kind in get_type_hints(wanted).items()
            if name in value
        ]
    if isinstance(value, dict):
        (_, kind) = get_args(wanted)
        return [(f"{path}[{fields.shown(key)}]", item, kind) for key, item in value.items()]
    if isinstance(value, list):
        (kind,) = get_args(wanted)
        return [(f"{path}[{index}]", item, kind) for index, item in enumerate(value)]
    return []


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        return next(each for each in get_args(wanted) if each is not type(None))
    return wanted


def _is_struct(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Struct)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return _WORDS[type(value)]
    text = fields.shown(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all keys and values of an object's annotations."""

NameRule = Callable[[str], list[str]]

_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class _Owner(Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class _Meta(Struct, omit_defaults=True):
    """Every field of metadata that the server keeps; managedFields, selfLink and unknown ones are dropped."""

    name: str | None = None
    generateName: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None
    generation: int | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    ownerReferences: list[_Owner] | None = None
    finalizers: list[str] | None = None


def clean(value: Any, kind: str) -> Raw:
    """Metadata with known fields of the right types only. Raises BadRequest, which names the object of that kind."""
    try:
        meta = msgspec.convert({} if value is None else value, _Meta)
    except msgspec.ValidationError:
        name = value.get("name") if isinstance(value, dict) else None
        title = f"{kind} {fields.shown(name)}" if isinstance(name, str) else f"a {kind}"
        raise BadRequest(f"can't read {title} because {fault('metadata', value, _Meta)}") from None
    result: Raw = {name: each for name, each in msgspec.to_builtins(meta).items() if each not in ({}, [], "")}
    for texts in ("labels", "annotations"):
        if texts in result:
            result[texts] = {key: text or "" for key, text in result[texts].items()}
    for owner in result.get("ownerReferences", ()):
        for flag in ("controller", "blockOwnerDeletion"):
            if owner[flag] is None:
                del owner[flag]
    return result


def unknown(value: Any) -> list[str]:
    """Return the paths of fields that no metadata has."""
    return (
        [f"metadata.{name}" for name in value if name not in META_FIELDS] if isinstance(value, dict) else []
    )


def check_new(meta: Raw, namespaced: bool, name_rule: NameRule) -> list[FieldError]:
    """Return the faults in the metadata of a new object."""
    found: list[FieldError] = []
    prefix = meta.get("generateName", "")
    if prefix:
        # What is appended makes a trailing dash or dot good.
        found += [
            fields.invalid("metadata.generateName", prefix, why)
            for why in name_rule(prefix[:-1] + "a" if prefix[-1] in "-." else prefix)
        ]
    name = meta.get("name", "")
    if not name:
        found.append(fields.required("metadata.name", "name or generateName is required"))
    else:
        found += [fields.invalid("metadata.name", name, why) for why in name_rule(name)]
    namespace = meta.get("namespace", "")
    if namespaced:
        found += [fields.invalid("metadata.namespace", namespace, why) for why in syntax.dns_label(namespace)]
    return found + _check_common(meta)


def check_update(meta: Raw, old: Raw) -> list[FieldError]:
    """Return the faults in the metadata of an object's next state."""
    found: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = set(meta.get("finalizers", ())) - set(old.get("finalizers", ()))
        if added:
            listed = ", ".join(fields.shown(each) for each in sorted(added))
            why = "no new finalizers can be added if the object is being deleted, "
            why += f"found new finalizers []string{{{listed}}}"
            found.append(fields.forbidden("metadata.finalizers", why))
    found += [
        fields.invalid(f"metadata.{name}", meta.get(name, ""), "field is immutable")
        for name in _IMMUTABLE
        if meta.get(name) != old.get(name)
    ]
    return found + _check_common(meta)


def carry_over(meta: Raw, old: Raw) -> None:
    """Fill in what an update may leave out, and take back what only the server may set."""
    if not meta.get("uid"):
        meta["uid"] = old["uid"]
    for name in ("creationTimestamp", "generation"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        # No client can take back a deletion; that none can fake one is what `check_update` says.
        if name in old:
            meta[name] = old[name]


def _check_common(meta: Raw) -> list[FieldError]:
    return [
        *check_labels(meta.get("labels", {})),
        *_check_annotations(meta.get("annotations", {})),
        *_check_owners(meta.get("ownerReferences", ())),
        *_check_finalizers(meta.get("finalizers", ())),
    ]


def check_labels(labels: Mapping[str, str], path: str = "metadata.labels") -> list[FieldError]:
    """Return the faults of labels."""
    found: list[FieldError] = []
    for key, value in labels.items():
        found += [fields.invalid(path, key, why) for why in syntax.qualified_name(key)]
        found += [fields.invalid(path, value, why) for why in syntax.label_value(value)]
    return found


def _check_annotations(annotations: Mapping[str, str]) -> list[FieldError]:
    path = "metadata.annotations"
    found: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        found += [fields.invalid(path, key, why) for why in syntax.qualified_name(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT:
        found.append(fields.too_long(path, ANNOTATIONS_LIMIT))
    return found


def _check_owners(owners: list[Raw] | tuple[()]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    found: list[FieldError] = []
    controller = ""
    for owner in owners:
        if not owner["apiVersion"]:
            found.append(fields.invalid(f"{path}.apiVersion", "", "version must not be empty"))
        found += [
            fields.invalid(f"{path}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        ]
        if owner.get("controller"):
            if controller:
                why = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {owner["name"]}'
                )
                found.append(fields.invalid(path, owner["name"], why))
            controller = owner["name"]
    return found


def bare_finalizers(finalizers: Iterable[str]) -> list[str]:
    """Return the finalizers without a domain that aren't Kubernetes' own."""
    return [each for each in finalizers if "/" not in each and each not in _STANDARD_FINALIZERS]


def check_bare_finalizers(finalizers: list[str] | tuple[()]) -> list[FieldError]:
    """Check that finalizers of built-in kinds have a domain, unless they are Kubernetes' own."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        fields.invalid(f"metadata.finalizers[{index}]", each, why)
        for index, each in enumerate(finalizers)
        if bare_finalizers([each])
    ]


def _check_finalizers(finalizers: list[str] | tuple[()]) -> list[FieldError]:
    path = "metadata.finalizers"
    found: list[FieldError] = []
    for each in finalizers:
        found += [fields.invalid(path, each, why) for why in syntax.qualified_name(each)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(fields.invalid(path, list(finalizers), why))
    return found


def check_type(kind: ServedKind, body: Raw) -> None:
    """Check that a new object is of the URL's kind and version. Raises BadRequest, Invalid."""
    version, named = body.get("apiVersion"), body.get("kind")
    if not kind.builtin and not (version and named):
        missing = "kind" if version else "apiVersion"
        raise errors.BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {missing} is missing'
        )
    if (version or kind.api_version) != kind.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    _check_kind(kind, body)


def check_patched_type(kind: ServedKind, body: Raw) -> None:
    """Check that a patch does not make another kind or version of an object. Raises BadRequest, Invalid."""
    version = body.get("apiVersion") or kind.api_version
    if kind.builtin or version == kind.api_version:
        check_type(kind, {**body, "apiVersion": version})
        return
    found = fields.invalid("apiVersion", version, f"must be {kind.api_version}")
    raise errors.invalid(kind.qualified_kind, _name_in(body), [found])


def _check_kind(kind: ServedKind, body: Raw) -> None:
    named = body.get("kind") or kind.kind
    if named == kind.kind:
        return
    if kind.builtin:
        raise errors.BadRequest(
            f'{named} in version "{kind.version}" cannot be handled as a {kind.kind}: it is another kind'
        )
    found = fields.invalid("kind", named, f"must be {kind.kind}")
    raise errors.invalid(f"{named}.{kind.group}", _name_in(body), [found])


def _name_in(body: Raw) -> str:
    """Return the name in a body whose types are not checked yet, for a message."""
    meta = body.get("metadata")
    return str(meta.get("name", "")) if isinstance(meta, dict) else ""


def unknown_fields(kind: ServedKind, paths: list[str]) -> errors.BadRequest:
    """Return the refusal of unknown fields where the client asked for strictness."""
    listed = ", ".join(f'unknown field "{path}"' for path in paths)
    return errors.BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {listed}"
    )


def place_new(kind: ServedKind, meta: Raw, namespace: str) -> None:
    """Put a new object into the namespace of the request. Raises BadRequest."""
    if meta.get("resourceVersion", "0") != "0":
        raise errors.BadRequest("resourceVersion should not be set on objects to be created")
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    _set_namespace(kind, meta, namespace)


def check_identity(kind: ServedKind, meta: Raw, namespace: str, name: str) -> None:
    """Check that the object of an update is the one that the URL names. Raises BadRequest."""
    if not name:
        raise errors.BadRequest("name must be provided")
    given = meta.get("name")
    if not given:
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    place = meta.get("namespace", namespace)
    if kind.namespaced and place != namespace:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    _set_namespace(kind, meta, namespace)


def _set_namespace(kind: ServedKind, meta: Raw, namespace: str) -> None:
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)


def check_version(kind: ServedKind, meta: Raw, current: Stored) -> None:
    """Optimistic locking: a version that the request names must be the current one. Raises Conflict, BadRequest."""
    wanted = parse_version(meta.get("resourceVersion", ""))
    if wanted and wanted != current.version:
        raise errors.conflict(kind.resource, current.key.name)


def check_uid(kind: ServedKind, meta: Raw, current: Stored) -> None:
    """Check that a replacement that names a uid is meant for that very object. Raises Conflict."""
    uid, actual = meta.get("uid"), current.meta().uid
    if uid and uid != actual:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict(kind.resource, current.key.name, why)


def require_version(kind: ServedKind, meta: Raw, name: str) -> None:
    """Check that the client knows the version, without which some kinds are not replaced. Raises Invalid."""
    if not parse_version(meta.get("resourceVersion", "")):
        found = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(kind.resource, name, [found])

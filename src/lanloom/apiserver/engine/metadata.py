"""The rules of object metadata: what a client may set, what the server sets, and what must never change.

Field paths and words are those of apimachinery's `ValidateObjectMeta`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.apiserver import fields, syntax
from lanloom.apiserver.errors import BadRequest
from lanloom.apiserver.fields import FieldError
from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.schema import META_FIELDS

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


def clean(value: Any) -> Raw:
    """Metadata with known fields of the right types only. Raises BadRequest."""
    try:
        meta = msgspec.convert({} if value is None else value, _Meta)
    except msgspec.ValidationError as error:
        raise BadRequest(f"metadata can't be read: {error}") from None
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
    """The paths of fields that no metadata has."""
    return (
        [f"metadata.{name}" for name in value if name not in META_FIELDS] if isinstance(value, dict) else []
    )


def check_new(meta: Raw, namespaced: bool, name_rule: NameRule) -> list[FieldError]:
    """What is wrong with the metadata of an object that is to be created."""
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
    """What is wrong with the metadata of an object's next state."""
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
    """Fills in what an update may leave out, and takes back what only the server may set."""
    if not meta.get("uid"):
        meta["uid"] = old["uid"]
    for name in ("creationTimestamp", "generation"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        # Nobody can take back a deletion; that nobody can fake one is what `check_update` says.
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
    """What is wrong with labels."""
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
    """The finalizers without a domain that aren't Kubernetes' own."""
    return [each for each in finalizers if "/" not in each and each not in _STANDARD_FINALIZERS]


def check_bare_finalizers(finalizers: list[str] | tuple[()]) -> list[FieldError]:
    """Finalizers of built-in kinds have a domain, unless they are Kubernetes' own."""
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

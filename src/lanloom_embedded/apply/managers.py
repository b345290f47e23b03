"""What an apply asks for, and what becomes of an object and its owners, by an apply and by any other write.

An owner is known by its manager's name, the operation (Apply or Update), the API version and the subresource. All rules
are pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.runtime.https import errors
from lanloom_embedded.apply.paths import Fields, Path, from_wire, shown, to_wire
from lanloom_embedded.apply.typed import (
    CONTAINER,
    Schema,
    check_declared,
    flatten,
    merged,
    of_object,
    without,
)
from lanloom_embedded.kinds import Raw, ServedKind

BEFORE = "before-first-apply"
"""The manager of all that an object had before owners were kept."""

_IDENTITY = (
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
)
_NOBODYS = {
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in _IDENTITY),
}
"""Fields that no manager owns: the server's own, and what an object is known by."""

_ALWAYS = ("apiVersion", "kind", "metadata")


class Owner(Struct, frozen=True, order=True):
    """Who owns fields."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def title(self, time: str) -> str:
        """Return the owner as a conflict names it."""
        where = f' with subresource "{self.subresource}"' if self.subresource else ""
        how = f" using {self.api_version} at {time}" if self.operation == "Update" else ""
        return f'"{self.manager}"{where}{how}'


class Owned(Struct, frozen=True):
    """What a manager owns, and since when."""

    fields: Fields
    time: str


Managers = Mapping[Owner, Owned]


def managers_of(obj: Raw) -> dict[Owner, Owned]:
    """Return the owners of an object's fields, as its metadata has them."""
    return {
        Owner(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        ): Owned(from_wire(entry.get("fieldsV1")), entry.get("time", ""))
        for entry in obj["metadata"].get("managedFields", ())
    }


def entries(managers: Managers) -> list[Raw]:
    """Return managedFields: who applies first, then by time."""
    found = []
    for owner, owned in sorted(
        managers.items(), key=lambda pair: (pair[0].operation != "Apply", pair[1].time, pair[0])
    ):
        if not owned.fields:
            continue
        entry: Raw = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_wire(owned.fields),
        }
        found.append({**entry, **({"subresource": owner.subresource} if owner.subresource else {})})
    return found


def fields_of(schema: Schema, obj: Raw) -> dict[Path, Any]:
    """Return the fields of an object that a manager can own."""
    return {path: value for path, value in flatten(of_object(schema), obj) if path not in _NOBODYS}


class Applied(Struct, frozen=True):
    """What an apply makes of an object, and who owns its fields then."""

    object: Raw
    managers: Managers


def first(schema: Schema, config: Raw, owner: Owner, now: str) -> Managers:
    """Return the owner of an object that an apply creates."""
    return {owner: Owned(frozenset(fields_of(schema, config)), now)}


def apply(schema: Schema, live: Raw, config: Raw, owner: Owner, *, force: bool, now: str) -> Applied:
    """Apply a configuration to an object. Raises Conflict, unless by force.

    What the configuration no longer has goes, unless another manager owns it.
    """
    managers = managers_of(live)
    if not managers:
        whole = frozenset(fields_of(schema, live))
        before = Owner(BEFORE, "Update", owner.api_version)
        managers[before] = Owned(whole, live["metadata"].get("creationTimestamp", now))
    last, wanted = managers.pop(owner, None), frozenset(fields_of(schema, config))
    theirs = frozenset[Path]().union(*(owned.fields for owned in managers.values()))
    new = merged(of_object(schema), live, config)
    if last is not None:
        new = without(of_object(schema), new, last.fields - wanted, wanted | theirs)
    changed, removed = _difference(schema, live, new)
    clashes = {other: owned.fields & changed for other, owned in managers.items() if owned.fields & changed}
    if clashes and not force:
        raise _conflict(clashes, managers)
    kept = {
        other: _narrowed(owned, clashes.get(other, frozenset()) | removed)
        for other, owned in managers.items()
    }
    same = last is not None and last.fields == wanted and not changed and not removed
    time = last.time if same and last is not None else now
    return Applied(new, {**kept, owner: Owned(wanted, time)})


def updated(schema: Schema, old: Raw, new: Raw, owner: Owner, now: str) -> Managers:
    """Return the owners after another write than an apply: who wrote owns what changed."""
    managers = managers_of(old)
    changed, removed = _difference(schema, old, new)
    mine = managers.pop(owner, Owned(frozenset(), now))
    kept = {other: _narrowed(owned, changed | removed) for other, owned in managers.items()}
    fields = (mine.fields | changed) - removed
    return {**kept, owner: Owned(fields, now if changed or removed else mine.time)}


def _difference(schema: Schema, old: Raw, new: Raw) -> tuple[Fields, Fields]:
    """Return the fields that are new or different, and those that are gone.

    An object or a list that becomes empty, or was empty, is the same field as before.
    """
    before, after = fields_of(schema, old), fields_of(schema, new)
    new_ones = _not_emptied({path: after[path] for path in after.keys() - before.keys()}, before)
    gone = _not_emptied({path: before[path] for path in before.keys() - after.keys()}, after)
    changed = {path for path in before.keys() & after.keys() if _differs(before[path], after[path])}
    return new_ones | changed, gone


def _not_emptied(fields: Mapping[Path, Any], others: Iterable[Path]) -> Fields:
    """Return the fields but for empty ones below which the other form of the object has something."""
    prefixes = {path[:length] for path in others for length in range(1, len(path))}
    return frozenset(path for path, value in fields.items() if value not in ({}, []) or path not in prefixes)


def _differs(one: Any, other: Any) -> bool:
    return one is not CONTAINER and other is not CONTAINER and one != other


def _narrowed(owned: Owned, gone: Fields) -> Owned:
    return replace(owned, fields=owned.fields - gone)


def _conflict(clashes: Mapping[Owner, Fields], managers: Managers) -> errors.Conflict:
    """Return the refusal in kube-apiserver's words."""
    found = [
        (owner.title(managers[owner].time), shown(path))
        for owner in sorted(clashes)
        for path in sorted(clashes[owner])
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {title}", "field": path}
        for title, path in found
    ]
    if len(found) == 1:
        ((title, path),) = found
        return errors.Conflict(
            f"Apply failed with 1 conflict: conflict with {title}: {path}", details={"causes": causes}
        )
    lines = _by_manager(found)
    return errors.Conflict(f"Apply failed with {len(found)} conflicts: {lines}", details={"causes": causes})


def _by_manager(found: Iterable[tuple[str, str]]) -> str:
    paths: dict[str, list[str]] = {}
    for title, path in found:
        paths.setdefault(title, []).append(path)
    return "\n".join(
        line
        for title in paths
        for line in (f"conflicts with {title}:", *(f"- {path}" for path in paths[title]))
    )


def configuration(kind: ServedKind, body: Raw, namespace: str, name: str, subresource: str) -> Raw:
    """Return the configuration of an object or of its status. Raises BadRequest, StatusError.

    An object is applied without its status, and its status without the rest.
    """
    given = body.get("metadata")
    given = given if isinstance(given, dict) else {}
    if given.get("managedFields"):
        raise errors.BadRequest("metadata.managedFields must be nil")
    if kind.schema is not None and not kind.builtin:
        title = (
            f"failed to create typed patch object ({namespace}/{name}; {kind.api_version}, Kind={kind.kind})"
        )
        check_declared(of_object(kind.schema), {key: body[key] for key in body if key not in _ALWAYS}, title)
    meta = {key: value for key, value in given.items() if value is not None}
    meta = {**meta, "name": given.get("name") or name}
    if kind.namespaced:
        meta.setdefault("namespace", namespace)
    if subresource:
        meta = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}
        wanted = {"status": body["status"]} if "status" in body else {}
    else:
        without = (*_ALWAYS, "status") if kind.has_status else _ALWAYS
        wanted = {key: value for key, value in body.items() if key not in without}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **wanted}

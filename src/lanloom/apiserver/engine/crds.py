"""CustomResourceDefinitions: what the server decides about them, and the kinds that they make it serve.

A CRD is accepted in the very write that brings it: its conditions are there in the answer, and its kinds are
served as soon as the write is committed.
"""

from collections.abc import Iterable
from typing import Any

from lanloom.api.times import rfc3339
from lanloom.apiserver.engine.deletion import CRD_FINALIZER
from lanloom.apiserver.kinds import GroupPlural, Raw, ServedKind

_NAME_FIELDS = ("plural", "singular", "shortNames", "kind", "listKind")


def served_kinds(crd: Raw) -> tuple[ServedKind, ...]:
    """The kinds that a CRD serves, preferred version first; none before its names are accepted."""
    if not _is_established(crd):
        return ()
    spec = crd["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    versions.sort(key=lambda version: version_order(version["name"]))
    return tuple(_served_kind(spec, version) for version in versions)


def resource_of(crd: Raw) -> GroupPlural:
    """The resource that a CRD defines."""
    return GroupPlural(crd["spec"]["group"], crd["spec"]["names"]["plural"])


def _served_kind(spec: Raw, version: Raw) -> ServedKind:
    names = spec["names"]
    warning = f"{spec['group']}/{version['name']} {names['kind']} is deprecated"
    return ServedKind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        list_kind=names.get("listKind", ""),
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        has_status="status" in (version.get("subresources") or {}),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        deprecated=(version.get("deprecationWarning") or warning) if version.get("deprecated") else "",
    )


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, then by name."""
    for rank, word in enumerate(("", "beta", "alpha")):
        major, found, minor = version.removeprefix("v").partition(word) if word else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not word):
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)


def settle(crd: Raw, others: Iterable[Raw], now: float) -> None:
    """Sets a CRD's status, in place: accepted names, conditions, stored versions."""
    spec, old = crd["spec"], crd.get("status") or {}
    taken = _conflict(spec, others)
    conditions = {each["type"]: each for each in old.get("conditions") or ()}
    for condition in _conditions(taken, bool(_condition(old, "Established"))):
        kept = conditions.get(condition["type"])
        if kept is None or kept["status"] != condition["status"]:
            conditions[condition["type"]] = {**condition, "lastTransitionTime": rfc3339(now)}
    stored = list(old.get("storedVersions") or ())
    storage = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
    if storage and storage not in stored:
        stored.append(storage)
    crd["status"] = {
        "conditions": list(conditions.values()),
        "acceptedNames": old.get("acceptedNames", {"plural": "", "kind": ""})
        if taken
        else dict(spec["names"]),
        "storedVersions": stored,
    }


def is_cleaning_up(crd: Raw) -> bool:
    """Whether the CRD waits for its objects to go."""
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and CRD_FINALIZER in meta.get("finalizers", ())


def _is_established(crd: Raw) -> bool:
    found = _condition(crd.get("status") or {}, "Established")
    return found is not None and found["status"] == "True"


def _condition(status: Raw, type_: str) -> Raw | None:
    return next((each for each in status.get("conditions") or () if each["type"] == type_), None)


def _conflict(spec: Raw, others: Iterable[Raw]) -> tuple[str, str] | None:
    """The first name that another CRD of the group has already: its field and the name."""
    taken: dict[str, set[str]] = {"resource": set(), "kind": set()}
    for other in others:
        if (
            other["spec"]["group"] == spec["group"]
            and other["spec"]["names"]["plural"] != spec["names"]["plural"]
        ):
            names = (other.get("status") or {}).get("acceptedNames") or {}
            taken["resource"].update(_values(names, ("plural", "singular", "shortNames")))
            taken["kind"].update(_values(names, ("kind", "listKind")))
    for field in _NAME_FIELDS:
        space = "kind" if field in ("kind", "listKind") else "resource"
        for name in _values(spec["names"], (field,)):
            if name in taken[space]:
                return field, name
    return None


def _values(names: Raw, fields: tuple[str, ...]) -> list[str]:
    found: list[Any] = [names.get(field) for field in fields]
    return [name for each in found if each for name in (each if isinstance(each, list) else [each])]


def _conditions(taken: tuple[str, str] | None, established_before: bool) -> list[Raw]:
    if taken is None:
        return [
            _as_condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            _as_condition(
                "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ]
    field, name = taken
    reason = field[0].upper() + field[1:] + "Conflict"
    conditions = [_as_condition("NamesAccepted", "False", reason, f'"{name}" is already in use')]
    if not established_before:
        conditions.append(_as_condition("Established", "False", "NotAccepted", "not all names are accepted"))
    return conditions


def _as_condition(type_: str, status: str, reason: str, message: str) -> Raw:
    return {"type": type_, "status": status, "reason": reason, "message": message}

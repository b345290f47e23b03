"""CustomResourceDefinitions: what the server decides about them, and the kinds that they make it serve.

A CRD's names are accepted in a second write right after the one that brings it, as the real server's controllers
do it; but here the request is answered only then, so that the kinds are served when the client knows of the CRD.
"""

from collections.abc import Iterable
from typing import Any

from lanloom.api.times import rfc3339
from lanloom.apiserver.engine.deletion import CRD_FINALIZER
from lanloom.apiserver.kinds import ALL_VERBS, GroupPlural, Raw, ServedKind, Verb

_TERMINATING_VERBS: tuple[Verb, ...] = ("delete", "deletecollection", "get", "list", "watch")
_TERMINATING: Raw = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
_NAME_FIELDS = ("plural", "singular", "shortNames", "kind", "listKind")


def served_kinds(crd: Raw) -> tuple[ServedKind, ...]:
    """The kinds that a CRD serves, preferred version first; none before its names are accepted."""
    if not _is_established(crd):
        return ()
    spec = crd["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    versions.sort(key=lambda version: version_order(version["name"]))
    terminating = is_cleaning_up(crd)
    return tuple(_served_kind(spec, version, terminating=terminating) for version in versions)


def resource_of(crd: Raw) -> GroupPlural:
    """The resource that a CRD defines."""
    return GroupPlural(crd["spec"]["group"], crd["spec"]["names"]["plural"])


def _served_kind(spec: Raw, version: Raw, *, terminating: bool) -> ServedKind:
    names = spec["names"]
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
        verbs=_TERMINATING_VERBS if terminating else ALL_VERBS,
        deprecated=_deprecation(spec, version),
    )


def _deprecation(spec: Raw, version: Raw) -> str:
    """The warning of a deprecated version: its own words, or which version to use."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    better = sorted(
        (each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")),
        key=version_order,
    )
    if better and version_order(better[0]) < version_order(name):
        return f"{group}/{name} {kind} is deprecated; use {group}/{better[0]} {kind}"
    return f"{group}/{name} {kind} is deprecated"


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, then by name."""
    for rank, word in enumerate(("", "beta", "alpha")):
        major, found, minor = version.removeprefix("v").partition(word) if word else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not word):
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)


def first_status(spec: Raw) -> Raw:
    """The status of a CRD before its names are accepted."""
    return with_stored_version({"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}, spec)


def with_stored_version(status: Raw, spec: Raw) -> Raw:
    """A status that names the version in which objects are stored from now on."""
    stored = list(status.get("storedVersions") or ())
    storage = next((each["name"] for each in spec.get("versions") or () if each.get("storage")), "")
    if storage and storage not in stored:
        stored.append(storage)
    return {**status, "storedVersions": stored}


def settled(crd: Raw, others: Iterable[Raw], now: float) -> Raw:
    """A CRD with accepted names and conditions; the same one if there is nothing to change."""
    status = crd.get("status") or {}
    accepted, conflict = _accept(crd["spec"], others)
    wanted = _conditions(conflict, _is_established(crd))
    if is_cleaning_up(crd):
        wanted.append(_TERMINATING)
    return {
        **crd,
        "status": {**status, "conditions": _merged(status, wanted, now), "acceptedNames": accepted},
    }


def _merged(status: Raw, wanted: list[Raw], now: float) -> list[Raw]:
    """The conditions with the wanted ones; the time of one changes with its status only."""
    found = {each["type"]: each for each in status.get("conditions") or ()}
    for condition in wanted:
        kept = found.get(condition["type"])
        same = kept is not None and kept["status"] == condition["status"]
        changed = kept["lastTransitionTime"] if same and kept is not None else rfc3339(now)
        found[condition["type"]] = {**condition, "lastTransitionTime": changed}
    return list(found.values())


def is_cleaning_up(crd: Raw) -> bool:
    """Whether the CRD waits for its objects to go."""
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and CRD_FINALIZER in meta.get("finalizers", ())


def _is_established(crd: Raw) -> bool:
    found = _condition(crd.get("status") or {}, "Established")
    return found is not None and found["status"] == "True"


def _condition(status: Raw, type_: str) -> Raw | None:
    return next((each for each in status.get("conditions") or () if each["type"] == type_), None)


def _accept(spec: Raw, others: Iterable[Raw]) -> tuple[Raw, tuple[str, str] | None]:
    """The names that no other CRD of the group has, and the last conflict: its field and the name."""
    taken = _taken(spec, others)
    accepted: Raw = {"plural": "", "kind": ""}
    conflict: tuple[str, str] | None = None
    for field in _NAME_FIELDS:
        if field not in spec["names"]:
            continue
        space = taken["kind" if field in ("kind", "listKind") else "resource"]
        clash = next((name for name in _values(spec["names"], (field,)) if name in space), None)
        if clash is None:
            accepted[field] = spec["names"][field]
        else:
            conflict = (field, clash)
    if "categories" in spec["names"]:
        accepted["categories"] = spec["names"]["categories"]
    return accepted, conflict


def _taken(spec: Raw, others: Iterable[Raw]) -> dict[str, set[str]]:
    taken: dict[str, set[str]] = {"resource": set(), "kind": set()}
    for other in others:
        if (
            other["spec"]["group"] == spec["group"]
            and other["spec"]["names"]["plural"] != spec["names"]["plural"]
        ):
            names = (other.get("status") or {}).get("acceptedNames") or {}
            taken["resource"].update(_values(names, ("plural", "singular", "shortNames")))
            taken["kind"].update(_values(names, ("kind", "listKind")))
    return taken


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

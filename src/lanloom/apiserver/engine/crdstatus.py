"""The status of CustomResourceDefinitions: whether their names are accepted, and what is stored in which version.

Names are accepted in a second write right after the one that brings a CRD, as the real server's controllers do it;
but here the request is answered only then, so that the kinds are served when the client knows of the CRD.
"""

from collections.abc import Iterable
from typing import Any

from lanloom.api.times import rfc3339
from lanloom.apiserver.engine.crds import is_cleaning_up, is_established
from lanloom.apiserver.kinds import Raw

_TERMINATING: Raw = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
_NAME_FIELDS = ("plural", "singular", "shortNames", "kind", "listKind")


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
    """A CRD with accepted names and conditions; `others` are the names of all else in its group."""
    status = crd.get("status") or {}
    accepted, conflict = _accept(crd["spec"], others)
    wanted = _conditions(conflict, is_established(crd))
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


def _accept(spec: Raw, others: Iterable[Raw]) -> tuple[Raw, tuple[str, str] | None]:
    """The names that nothing else in the group has, and the last conflict: its field and the name."""
    taken = _taken(others)
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


def _taken(others: Iterable[Raw]) -> dict[str, set[str]]:
    taken: dict[str, set[str]] = {"resource": set(), "kind": set()}
    for names in others:
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

"""CustomResourceDefinitions: the kinds that they make the server serve, and their status.

Names are accepted in a second write right after the one that brings a CRD, as the real server's controllers do it;
but here the request is answered only then, so that the kinds are served when the client knows of the CRD.
"""

from collections.abc import Callable, Iterable
from typing import Any

from lanloom.api.meta import Key, rfc3339
from lanloom.runtime.https import errors
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.deletion import CRD_FINALIZER
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Change, Stored
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.engine.writes import Writer
from lanloom_embedded.kinds import (
    ALL_VERBS,
    CRDS,
    GroupPlural,
    Raw,
    ServedKind,
    Verb,
)


def merge_conditions(status: Raw, wanted: list[Raw], now: float) -> list[Raw]:
    """Return the conditions with the wanted ones; the time of one changes with its status only."""
    found = {each["type"]: each for each in status.get("conditions") or ()}
    for condition in wanted:
        kept = found.get(condition["type"])
        same = kept is not None and kept["status"] == condition["status"]
        changed = kept["lastTransitionTime"] if same and kept is not None else rfc3339(now)
        found[condition["type"]] = {**condition, "lastTransitionTime": changed}
    return list(found.values())


_TERMINATING_VERBS: tuple[Verb, ...] = ("delete", "deletecollection", "get", "list", "watch")


def served_kinds(crd: Raw) -> tuple[ServedKind, ...]:
    """Return the kinds that a CRD serves, preferred version first; none before its names are accepted."""
    if not is_established(crd):
        return ()
    spec = crd["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    versions.sort(key=lambda version: version_order(version["name"]))
    terminating = is_cleaning_up(crd)
    return tuple(_served_kind(spec, version, terminating=terminating) for version in versions)


def resource_of(crd: Raw) -> GroupPlural:
    """Return the resource that a CRD defines."""
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
    """Return the warning of a deprecated version: its own words, or which version to use."""
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
    """Sort versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1, then by name."""
    for rank, word in enumerate(("", "beta", "alpha")):
        major, found, minor = version.removeprefix("v").partition(word) if word else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not word):
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)


def is_cleaning_up(crd: Raw) -> bool:
    """Return whether the CRD waits for its objects to go."""
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and CRD_FINALIZER in meta.get("finalizers", ())


def is_established(crd: Raw) -> bool:
    """Return whether the CRD's names were accepted once; it is served from then on."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


_TERMINATING: Raw = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
_NAME_FIELDS = ("plural", "singular", "shortNames", "kind", "listKind")


def first_status(spec: Raw) -> Raw:
    """Return the status of a CRD before its names are accepted."""
    return with_stored_version({"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}, spec)


def with_stored_version(status: Raw, spec: Raw) -> Raw:
    """Return a status that names the version in which objects are stored from now on."""
    stored = list(status.get("storedVersions") or ())
    storage = next((each["name"] for each in spec.get("versions") or () if each.get("storage")), "")
    if storage and storage not in stored:
        stored.append(storage)
    return {**status, "storedVersions": stored}


def settled(crd: Raw, others: Iterable[Raw], now: float) -> Raw:
    """Return a CRD with accepted names and conditions; `others` are the names of all else in its group."""
    status = crd.get("status") or {}
    accepted, conflict = _accept(crd["spec"], others)
    wanted = _conditions(conflict, is_established(crd))
    if is_cleaning_up(crd):
        wanted.append(_TERMINATING)
    return {
        **crd,
        "status": {**status, "conditions": merge_conditions(status, wanted, now), "acceptedNames": accepted},
    }


def _accept(spec: Raw, others: Iterable[Raw]) -> tuple[Raw, tuple[str, str] | None]:
    """Return the names that nothing else in the group has, and the last conflict: its field and the name."""
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


class Definitions:
    """The CRDs of a server."""

    def __init__(self, ledger: Ledger, registry: Registry, writer: Writer, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._registry = registry
        self._writer = writer
        self._now = now
        for state in ledger.table(CRDS).select(""):
            self._serve(state)
        ledger.listen(self._on_change)

    async def settle(self, name: str, cause: Call) -> None:
        """Bring the status of a CRD up to date, if it is still there. Mostly it is: that costs no write.

        Webhooks are asked about the status if they were asked about its `cause`.
        """
        kind, key = self._registry.any_version(CRDS), Key("", name)
        state = self._ledger.latest(CRDS, key)
        if kind is None or state is None:
            return
        crd = state.raw()
        if self._settled(crd) == crd:
            await self._ledger.settle(CRDS, key)
            return
        try:
            call = Call(webhooks=cause.webhooks)
            await self._writer.patch(kind, "", name, self._settled, call, subresource="status")
        except errors.NotFound:
            return

    def in_group(self, group: str) -> list[str]:
        """Return the names of the CRDs of a group."""
        return [state.key.name for state in self._group(group)]

    def _group(self, group: str) -> list[Stored]:
        """Return the CRDs of a group, which ends the name of each of them: none has to be decoded for that."""
        states = self._ledger.table(CRDS).select("")
        return [state for state in states if state.key.name.partition(".")[2] == group]

    def _settled(self, crd: Raw) -> Raw:
        return settled(crd, self._names_beside(crd), self._now())

    def _names_beside(self, crd: Raw) -> list[Raw]:
        """Return the names of everything else in the CRD's group; those of a built-in kind can't be taken."""
        group, name = crd["spec"]["group"], crd["metadata"]["name"]
        others = [state.raw() for state in self._group(group) if state.key.name != name]
        accepted = [(other.get("status") or {}).get("acceptedNames") or {} for other in others]
        builtins = [
            {
                "plural": kind.plural,
                "singular": kind.singular_name,
                "kind": kind.kind,
                "listKind": kind.list_name,
            }
            for kind in self._registry.kinds()
            if kind.builtin and kind.group == group
        ]
        return [*accepted, *builtins]

    def _on_change(self, change: Change) -> None:
        if change.resource != CRDS:
            return
        if change.after is not None:
            self._serve(change.after)
        elif change.before is not None:
            resource = resource_of(change.before.raw())
            self._registry.serve(resource, ())
            self._ledger.close_feed(resource)

    def _serve(self, state: Stored) -> None:
        crd = state.raw()
        self._registry.serve(resource_of(crd), served_kinds(crd))

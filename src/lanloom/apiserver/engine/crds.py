"""CustomResourceDefinitions: the kinds that they make the server serve."""

from lanloom.apiserver.engine.deletion import CRD_FINALIZER
from lanloom.apiserver.kinds import ALL_VERBS, GroupPlural, Raw, ServedKind, Verb

_TERMINATING_VERBS: tuple[Verb, ...] = ("delete", "deletecollection", "get", "list", "watch")


def served_kinds(crd: Raw) -> tuple[ServedKind, ...]:
    """The kinds that a CRD serves, preferred version first; none before its names are accepted."""
    if not is_established(crd):
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


def is_cleaning_up(crd: Raw) -> bool:
    """Whether the CRD waits for its objects to go."""
    meta = crd["metadata"]
    return bool(meta.get("deletionTimestamp")) and CRD_FINALIZER in meta.get("finalizers", ())


def is_established(crd: Raw) -> bool:
    """Whether the CRD's names were accepted once; it is served from then on."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

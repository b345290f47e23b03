"""Discovery documents: which groups, versions and resources there are.

Clients start here. Old ones read one document per group and version; since Kubernetes 1.26 two aggregated
documents say all (`/api` and `/apis` with the media type that `AGGREGATED` names). Made from the served
kinds alone, so that custom kinds appear as they are served.
"""

from collections.abc import Iterable, Sequence

from lanloom_embedded.kinds import Raw, ServedKind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
"""The media type of the aggregated documents; `version` is v2 or v2beta1."""

_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")


def api_versions(address: str) -> Raw:
    """Return `/api`: the versions of the core group. `address` is the server's host and port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Iterable[ServedKind]) -> Raw:
    """`/apis`: all groups but the core."""
    groups = _versions_by_group(kinds)
    listed = [_group(name, versions) for name, versions in groups.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(kinds: Iterable[ServedKind], name: str) -> Raw | None:
    """`/apis/GROUP`, None for a group that isn't served."""
    versions = _versions_by_group(kinds).get(name)
    if not name or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(kinds: Iterable[ServedKind], name: str, version: str) -> Raw | None:
    """`/api/v1` (empty name) or `/apis/GROUP/VERSION`, None for what isn't served."""
    served = [kind for kind in kinds if (kind.group, kind.version) == (name, version)]
    if not served:
        return None
    entries = [entry for kind in sorted(served, key=lambda each: each.plural) for entry in _entries(kind)]
    api_version = {"apiVersion": "v1"} if name else {}
    group_version = served[0].api_version
    return {"kind": "APIResourceList", **api_version, "groupVersion": group_version, "resources": entries}


def aggregated(kinds: Iterable[ServedKind], *, core: bool, version: str = "v2") -> Raw:
    """Return `/api` (core) or `/apis` as one APIGroupDiscoveryList of the version v2 or v2beta1."""
    served = list(kinds)
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_discovery(served, name, each) for each in versions],
        }
        for name, versions in _versions_by_group(served).items()
        if (name == "") is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _versions_by_group(kinds: Iterable[ServedKind]) -> dict[str, list[str]]:
    """Return groups and their versions in the order in which they are served, the preferred version first."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        versions = groups.setdefault(kind.group, [])
        if kind.version not in versions:
            versions.append(kind.version)
    return groups


def _group(name: str, versions: Sequence[str]) -> Raw:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _verbs(kind: ServedKind) -> list[str]:
    return list(kind.verbs) if kind.builtin else [verb for verb in _CUSTOM_VERBS if verb in kind.verbs]


def _entries(kind: ServedKind) -> list[Raw]:
    """Return the resource and its status."""
    entry: Raw = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.has_status:
        return [entry]
    status = {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_STATUS_VERBS),
    }
    return [entry, status]


def _discovery(kinds: Iterable[ServedKind], name: str, version: str) -> Raw:
    served = sorted(
        (kind for kind in kinds if (kind.group, kind.version) == (name, version)),
        key=lambda each: each.plural,
    )
    return {"version": version, "resources": [_resource(kind) for kind in served], "freshness": "Current"}


def _resource(kind: ServedKind) -> Raw:
    response = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    made: Raw = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        made["shortNames"] = list(kind.short_names)
    if kind.categories:
        made["categories"] = list(kind.categories)
    if kind.has_status:
        status = {"subresource": "status", "responseKind": response, "verbs": list(_STATUS_VERBS)}
        made["subresources"] = [status]
    return made

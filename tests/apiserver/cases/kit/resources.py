"""The resources that cases name by their plural alone, and where they are served."""

from typing import NamedTuple


class Place(NamedTuple):
    """The API version's path, and whether objects live in namespaces."""

    root: str
    namespaced: bool


_CORE = "/api/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_HOOKS = "/apis/admissionregistration.k8s.io/v1"

PLACES = {
    "configmaps": Place(_CORE, True),
    "endpoints": Place(_CORE, True),
    "events": Place(_CORE, True),
    "namespaces": Place(_CORE, False),
    "nodes": Place(_CORE, False),
    "pods": Place(_CORE, True),
    "secrets": Place(_CORE, True),
    "serviceaccounts": Place(_CORE, True),
    "services": Place(_CORE, True),
    "leases": Place("/apis/coordination.k8s.io/v1", True),
    "daemonsets": Place("/apis/apps/v1", True),
    "customresourcedefinitions": Place("/apis/apiextensions.k8s.io/v1", False),
    "mutatingwebhookconfigurations": Place(_HOOKS, False),
    "validatingwebhookconfigurations": Place(_HOOKS, False),
    "roles": Place(_RBAC, True),
    "rolebindings": Place(_RBAC, True),
    "clusterroles": Place(_RBAC, False),
    "clusterrolebindings": Place(_RBAC, False),
    "widgets": Place("/apis/example.com/v1", True),
    "gadgets": Place("/apis/example.com/v1", False),
}


def resolve(path: str, namespace: str) -> str:
    """The URL path of `plural[/name[/subresource]]` in a namespace; what begins with a slash stays as it is."""
    if path.startswith("/"):
        return path
    plural, slash, rest = path.partition("/")
    place = PLACES[plural]
    inside = f"/namespaces/{namespace}" if place.namespaced else ""
    return f"{place.root}{inside}/{plural}{slash}{rest}"

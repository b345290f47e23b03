"""What a server has from its first start: the roles that its users expect."""

from lanloom.apiserver.authz import MASTERS
from lanloom.apiserver.kinds import Raw

_RBAC = "rbac.authorization.k8s.io"
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = [*_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
_ANYBODY = ("system:authenticated", "system:unauthenticated")


def bootstrap_roles() -> tuple[Raw, ...]:
    """Cluster roles and their bindings, named as in Kubernetes."""
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    reviews = [
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            "verbs": ["create"],
        },
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ]
    return (
        *_role("cluster-admin", everything, (MASTERS,)),
        *_role("system:discovery", [_get(_DISCOVERY)], _ANYBODY[:1]),
        *_role("system:public-info-viewer", [_get(_HEALTH)], _ANYBODY),
        *_role("system:basic-user", reviews, _ANYBODY[:1]),
    )


def _get(paths: list[str]) -> Raw:
    return {"nonResourceURLs": paths, "verbs": ["get"]}


def _role(name: str, rules: list[Raw], groups: tuple[str, ...]) -> tuple[Raw, Raw]:
    metadata = {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
    head = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
    }
    return {**head, "kind": "ClusterRole", "rules": rules}, binding

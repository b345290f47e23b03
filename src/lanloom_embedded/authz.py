"""Who may do what: roles and bindings of rbac.authorization.k8s.io, as they are stored in the server.

The rules are gathered once and again after a change of any role or binding. `system:masters` may do everything,
whatever the objects say, so that no write can lock all users out. A new server begins with the roles that its users
expect (`bootstrap_roles`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.runtime.https import errors
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.kinds import GroupPlural, Raw

MASTERS = "system:masters"

RBAC = "rbac.authorization.k8s.io"
_ROLES = GroupPlural(RBAC, "roles")
_CLUSTER_ROLES = GroupPlural(RBAC, "clusterroles")
_BINDINGS = GroupPlural(RBAC, "rolebindings")
_CLUSTER_BINDINGS = GroupPlural(RBAC, "clusterrolebindings")
ROLE_RESOURCES = frozenset({_ROLES, _CLUSTER_ROLES})
BINDING_RESOURCES = frozenset({_BINDINGS, _CLUSTER_BINDINGS})


class Attempt(Struct, frozen=True, kw_only=True):
    """An action for authorization: on a resource, or, with `path`, on another address."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """The resource as rules name it: `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Grant(Struct, frozen=True):
    """Rules that a binding gives; `namespace` is empty for the whole cluster."""

    namespace: str
    rules: Sequence[Raw]


class Authorizer:
    """Decides by the stored roles and bindings."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._grants: dict[str, list[Grant]] | None = None
        ledger.listen(self._on_change)

    def check(self, user: UserInfo, attempt: Attempt) -> None:
        """Raise Forbidden unless the user may do it."""
        if self.allows(user, attempt):
            return
        if attempt.path:
            raise errors.forbidden_path(f'User "{user.username}" cannot {attempt.verb} path "{attempt.path}"')
        where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
        why = (
            f'User "{user.username}" cannot {attempt.verb} resource "{attempt.full_resource}" '
            f'in API group "{attempt.group}" {where}'
        )
        qualified = f"{attempt.resource}.{attempt.group}" if attempt.group else attempt.resource
        raise errors.forbidden(qualified, attempt.name, why)

    def allows(self, user: UserInfo, attempt: Attempt) -> bool:
        """Return whether the user may do it."""
        if MASTERS in user.groups:
            return True
        return any(_rule_allows(rule, attempt) for rule in self.rules(user, attempt.namespace))

    def rules(self, user: UserInfo, namespace: str) -> Iterator[Raw]:
        """Yield the rules that hold for a user in a namespace (empty: cluster-wide ones only)."""
        if self._grants is None:
            self._grants = self._gather()
        for subject in (f"User:{user.username}", *(f"Group:{group}" for group in user.groups)):
            for grant in self._grants.get(subject, ()):
                if grant.namespace in ("", namespace):
                    yield from grant.rules

    def _on_change(self, change: Change) -> None:
        if change.resource in ROLE_RESOURCES or change.resource in BINDING_RESOURCES:
            self._grants = None

    def _gather(self) -> dict[str, list[Grant]]:
        grants: defaultdict[str, list[Grant]] = defaultdict(list)
        for resource in (_CLUSTER_BINDINGS, _BINDINGS):
            for state in self._ledger.table(resource).select(""):
                binding = state.raw()
                grant = Grant(state.key.namespace, self._role_rules(binding, state.key.namespace))
                for subject in binding.get("subjects") or ():
                    grants[_subject(subject, state.key.namespace)].append(grant)
        return dict(grants)

    def _role_rules(self, binding: Raw, namespace: str) -> Sequence[Raw]:
        reference = binding["roleRef"]
        resource = _ROLES if reference["kind"] == "Role" else _CLUSTER_ROLES
        table = self._ledger.table(resource)
        wanted = namespace if resource == _ROLES else ""
        for key, state in table.objects.items():
            if key.name == reference["name"] and key.namespace == wanted:
                rules: Sequence[Raw] = state.raw().get("rules") or ()
                return rules
        return ()


def _subject(subject: Raw, namespace: str) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"User:system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"
    return f"{subject['kind']}:{subject['name']}"


def _rule_allows(rule: Raw, attempt: Attempt) -> bool:
    if not _has(rule.get("verbs"), attempt.verb):
        return False
    if attempt.path:
        return any(_path_matches(each, attempt.path) for each in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), attempt.group)
        and _resource_allowed(rule.get("resources") or (), attempt)
        and (not names or attempt.name in names)
    )


def _has(allowed: Sequence[str] | None, wanted: str) -> bool:
    return allowed is not None and ("*" in allowed or wanted in allowed)


def _resource_allowed(allowed: Sequence[str], attempt: Attempt) -> bool:
    if "*" in allowed or attempt.full_resource in allowed:
        return True
    return bool(attempt.subresource) and f"*/{attempt.subresource}" in allowed


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


_RBAC = "rbac.authorization.k8s.io"
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = [*_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
_ANYBODY = ("system:authenticated", "system:unauthenticated")


def bootstrap_roles() -> tuple[Raw, ...]:
    """Return cluster roles and their bindings, named as in Kubernetes."""
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

"""Who may do what: roles and bindings of rbac.authorization.k8s.io, as they are stored in the server.

The rules are gathered once and again after a change of any role or binding. `system:masters` may do everything,
whatever the objects say, so that nobody can lock everybody out.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from lanloom.api.admission import UserInfo
from lanloom.apiserver import errors
from lanloom.apiserver.engine.ledger import Ledger
from lanloom.apiserver.engine.stored import Change
from lanloom.apiserver.kinds import GroupPlural, Raw

MASTERS = "system:masters"

_RBAC = "rbac.authorization.k8s.io"
_ROLES = GroupPlural(_RBAC, "roles")
_CLUSTER_ROLES = GroupPlural(_RBAC, "clusterroles")
_BINDINGS = GroupPlural(_RBAC, "rolebindings")
_CLUSTER_BINDINGS = GroupPlural(_RBAC, "clusterrolebindings")
_RESOURCES = frozenset({_ROLES, _CLUSTER_ROLES, _BINDINGS, _CLUSTER_BINDINGS})


class Attempt(Struct, frozen=True, kw_only=True):
    """What somebody wants to do: to a resource, or, with `path`, to an address that is none."""

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
        ledger.listen(self._notice)

    def check(self, user: UserInfo, attempt: Attempt) -> None:
        """Raises Forbidden unless the user may do it."""
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
        """Whether the user may do it."""
        if MASTERS in user.groups:
            return True
        return any(_rule_allows(rule, attempt) for rule in self.rules(user, attempt.namespace))

    def rules(self, user: UserInfo, namespace: str) -> Iterator[Raw]:
        """The rules that hold for a user in a namespace (empty: cluster-wide ones only)."""
        if self._grants is None:
            self._grants = self._gather()
        for subject in (f"User:{user.username}", *(f"Group:{group}" for group in user.groups)):
            for grant in self._grants.get(subject, ()):
                if grant.namespace in ("", namespace):
                    yield from grant.rules

    def _notice(self, change: Change) -> None:
        if change.resource in _RESOURCES:
            self._grants = None

    def _gather(self) -> dict[str, list[Grant]]:
        grants: defaultdict[str, list[Grant]] = defaultdict(list)
        for resource in (_CLUSTER_BINDINGS, _BINDINGS):
            for state in self._ledger.shelf(resource).select(""):
                binding = state.raw()
                grant = Grant(state.key.namespace, self._role_rules(binding, state.key.namespace))
                for subject in binding.get("subjects") or ():
                    grants[_subject(subject, state.key.namespace)].append(grant)
        return dict(grants)

    def _role_rules(self, binding: Raw, namespace: str) -> Sequence[Raw]:
        reference = binding["roleRef"]
        resource = _ROLES if reference["kind"] == "Role" else _CLUSTER_ROLES
        shelf = self._ledger.shelf(resource)
        wanted = namespace if resource == _ROLES else ""
        for key, state in shelf.objects.items():
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

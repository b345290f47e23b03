"""The rights of the manager and of the agents, exactly: verbs and kinds, nothing more.

The embedded server and the manifests in `deploy/` use the same rules: those of the features (`Feature.rights`), and
here those that every feature shares.

A rule for a single object names it: a process has no rights on other Secrets, webhook configurations or Leases. RBAC
can't bind `create` to a name. The manager may create Secrets and Leases in its own namespace, which harms no existing
object. It may not create webhook configurations: a webhook for Secrets and pods could read and rewrite all of them.
They are installed, and the manager patches them by name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lanloom.api import core, kubevirt, names
from lanloom.api.clusterranges import API_SERVICE, ENDPOINT_SLICES, SERVICE_CIDRS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features import FEATURES
from lanloom.runtime.certificates import SECRET_NAME
from lanloom.runtime.feature import Feature, rights_of
from lanloom.runtime.identity import MANAGER_LEASE
from lanloom.runtime.rights import FOLLOW, READ, WRITE, Access
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME

Raw = dict[str, Any]

_EVENTS: Raw = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
_WEBHOOKS = "admissionregistration.k8s.io"
_CONFIGURATIONS = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
_LEASES = core.LEASES
_MACHINES, _INSTANCES = kubevirt.VIRTUAL_MACHINES, kubevirt.VIRTUAL_MACHINE_INSTANCES
_REVIEWS = core.SELF_REVIEWS

_WORKLOADS: tuple[Raw, ...] = (
    {
        "apiGroups": [_INSTANCES.group],
        "resources": [_MACHINES.plural, _INSTANCES.plural],
        "verbs": READ,
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": READ},
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"],
        "verbs": READ,
    },
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": READ},
)
"""The kinds that may use a network."""

_CLUSTER: tuple[Raw, ...] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["services"], "resourceNames": [API_SERVICE], "verbs": READ},
    {"apiGroups": [SERVICE_CIDRS.group], "resources": ["servicecidrs"], "verbs": FOLLOW},
    {
        "apiGroups": [ENDPOINT_SLICES.group],
        "resources": [ENDPOINT_SLICES.plural],
        "resourceNames": [API_SERVICE],
        "verbs": FOLLOW,
    },
)
"""The cluster's namespaces, and the addresses that it uses."""

_PROCESS: tuple[Raw, ...] = (
    {
        "apiGroups": [_WEBHOOKS],
        "resources": _CONFIGURATIONS,
        "resourceNames": [CONFIGURATION_NAME],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": [_REVIEWS.group], "resources": [_REVIEWS.plural], "verbs": ["create"]},
    _EVENTS,
)

_NAMESPACE: tuple[Raw, ...] = (
    {"apiGroups": [ENDPOINT_SLICES.group], "resources": [ENDPOINT_SLICES.plural], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET_NAME], "verbs": [*READ, "patch"]},
    {"apiGroups": [_LEASES.group], "resources": [_LEASES.plural], "verbs": ["create"]},
    {
        "apiGroups": [_LEASES.group],
        "resources": [_LEASES.plural],
        "resourceNames": [MANAGER_LEASE],
        "verbs": ["get", "patch"],
    },
)
"""In Lanloom's namespace. A list or watch of one object has its name as a field selector."""


_AGENTS_NAMESPACE: tuple[Raw, ...] = (
    {
        "apiGroups": [DAEMON_SETS.group],
        "resources": [DAEMON_SETS.plural],
        "resourceNames": ["lanloom-agent", "lanloom-lan"],
        "verbs": FOLLOW,
    },
)
"""The agents' own DaemonSets, whose end is that of the CNI programs."""


def agent_roles(features: Iterable[Feature] = FEATURES) -> tuple[Raw, ...]:
    """Return the agents' cluster role, its roles in the namespaces of features, and the bindings.

    They are bound to the agents' group (embedded server) and to their service account.
    """
    agents = [_group(names.AGENTS_GROUP), _account("lanloom-agent")]
    access = [rights_of(feature).agent for feature in features]
    rules = (*_rules(access), _definitions(kind for each in access for kind in each.definitions), _EVENTS)
    namespaces = _by_namespace(access, {names.LANLOOM_NAMESPACE: _AGENTS_NAMESPACE})
    roles = (_role("lanloom-agent", name, each, agents) for name, each in namespaces.items())
    return (
        _cluster_role("lanloom-agent", rules),
        _binding("ClusterRoleBinding", "lanloom-agent", "ClusterRole", agents),
        *(part for role in roles for part in role),
    )


def manager_roles(features: Iterable[Feature] = FEATURES) -> tuple[Raw, ...]:
    """Return the manager's cluster role, its roles in the namespaces of Lanloom and of features, and the bindings."""
    account = [_account("lanloom-manager")]
    access = [rights_of(feature).manager for feature in features]
    own = [kind for each in access for kind in each.definitions]
    asked: tuple[Resource[Any], ...] = (
        _MACHINES,
        _INSTANCES,
        *own,
    )
    rules = (*_rules(access), *_WORKLOADS, _definitions(asked), *_CLUSTER, *_PROCESS)
    namespaces = _by_namespace(access, {names.LANLOOM_NAMESPACE: _NAMESPACE})
    roles = (_role("lanloom-manager", name, each, account) for name, each in namespaces.items())
    return (
        _cluster_role("lanloom-manager", rules),
        _binding("ClusterRoleBinding", "lanloom-manager", "ClusterRole", account),
        *(part for role in roles for part in role),
    )


def tenant_roles(features: Iterable[Feature] = FEATURES) -> tuple[Raw, ...]:
    """Return what Kubernetes' roles `view`, `edit` and `admin` get, as cluster roles that it aggregates to them.

    They can be bound by themselves too. Bound in a namespace they reach that namespace only; bound to the whole cluster
    all namespaces, and no object without one. None of them grants writing NetworkAttachmentDefinitions: those name
    programs, bridges and links of nodes.
    """
    rights = [rights_of(feature) for feature in features]
    read = {kind for each in rights for kind in (*each.own, *each.foreign) if kind.namespaced}
    written = {
        "view": (read, READ),
        "edit": ({kind for each in rights for kind in each.edit}, WRITE),
        "admin": ({kind for each in rights for kind in each.admin}, WRITE),
    }
    return tuple(_tenant_role(name, kinds, verbs) for name, (kinds, verbs) in written.items())


def _tenant_role(name: str, kinds: Iterable[Resource[Any]], verbs: list[str]) -> Raw:
    ordered = sorted(kinds, key=lambda kind: kind.full_name)
    rules = ({"apiGroups": [kind.group], "resources": [kind.plural], "verbs": verbs} for kind in ordered)
    role = _cluster_role(f"lanloom-{name}", tuple(rules))
    label = f"rbac.authorization.k8s.io/aggregate-to-{name}"
    return {**role, "metadata": {**role["metadata"], "labels": {label: "true"}}}


def _by_namespace(
    access: Iterable[Access], first: Mapping[str, tuple[Raw, ...]]
) -> dict[str, tuple[Raw, ...]]:
    """Return the rules of each namespace."""
    found = dict(first)
    for each in access:
        for namespace, more in each.namespaces.items():
            found[namespace] = (*found.get(namespace, ()), *more)
    return found


def _rules(access: Iterable[Access]) -> tuple[Raw, ...]:
    return tuple(rule for each in access for rule in each.cluster)


def _definitions(kinds: Iterable[Resource[Any]]) -> Raw:
    """Return the right to read definitions, which tell an absent kind from one that is not served yet."""
    return {
        "apiGroups": [core.CRDS.group],
        "resources": [core.CRDS.plural],
        "resourceNames": [kind.full_name for kind in kinds],
        "verbs": ["get"],
    }


def _role(name: str, namespace: str, rules: tuple[Raw, ...], subjects: list[Raw]) -> tuple[Raw, Raw]:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": list(rules),
    }
    return role, _binding("RoleBinding", name, "Role", subjects, namespace)


def _cluster_role(name: str, rules: tuple[Raw, ...]) -> Raw:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _binding(kind: str, name: str, role_kind: str, subjects: list[Raw], namespace: str = "") -> Raw:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name},
        "subjects": subjects,
    }


def _group(name: str) -> Raw:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}


def _account(name: str) -> Raw:
    return {"kind": "ServiceAccount", "name": name, "namespace": names.LANLOOM_NAMESPACE}

"""The rights of the manager and of the agents, exactly: verbs and kinds, nothing more.

The embedded server and the manifests in `deploy/` use the same rules. That an agent writes only its own node's
VlanStatus is what the validating webhook adds, because RBAC can't say it.

Where a process needs one object of a kind, its name is said: other Secrets of the namespace, other webhooks and other
Leases are none of its business. Creating can't be bound to a name, and harms nothing that is there.

Whoever may create DaemonSets in a namespace may run any pod there that its Pod Security level admits. The manager may
in Lanloom's own namespace only, whose pods have the host's network anyway.
"""

from typing import Any

from lanloom.api import core, dummy, harvester, ipam, kubevirt, multus, names, services
from lanloom.api.resource import Resource
from lanloom.app.credentials import SECRET_NAME
from lanloom.app.dummy.settings import CONFIG_MAP
from lanloom.app.manager import LEASE_NAME
from lanloom.app.webhookconfig import CONFIGURATION_NAME

Raw = dict[str, Any]

_FOLLOW = ["list", "watch"]
_READ = ["get", *_FOLLOW]
_MAKE = [*_READ, "create", "patch", "delete"]
_EVENTS: Raw = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
_WEBHOOKS = "admissionregistration.k8s.io"
_CONFIGURATIONS = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
_LEASES = core.LEASES
_VMS = kubevirt.VIRTUAL_MACHINE_INSTANCES
_REVIEWS = core.SELF_REVIEWS


def _definitions(*kinds: Resource[Any]) -> Raw:
    """Their definitions are asked for, to know whether they are only not served at the moment."""
    return {
        "apiGroups": [core.CRDS.group],
        "resources": [core.CRDS.plural],
        "resourceNames": [kind.full_name for kind in kinds],
        "verbs": ["get"],
    }


AGENT_RULES: tuple[Raw, ...] = (
    {"apiGroups": [harvester.GROUP], "resources": ["clusternetworks", "vlanconfigs"], "verbs": _FOLLOW},
    {"apiGroups": [multus.NADS.group], "resources": [multus.NADS.plural], "verbs": _FOLLOW},
    {"apiGroups": [harvester.GROUP], "resources": ["vlanstatuses"], "verbs": [*_READ, "create", "delete"]},
    {"apiGroups": [harvester.GROUP], "resources": ["vlanstatuses/status"], "verbs": ["patch"]},
    {"apiGroups": [ipam.GROUP], "resources": ["networks"], "verbs": ["get", "list"]},
    {"apiGroups": [ipam.GROUP], "resources": ["nics"], "verbs": _MAKE},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [_VMS.group], "resources": [_VMS.plural], "verbs": ["get"]},
    {"apiGroups": [dummy.GROUP], "resources": ["dummyclusternetworks"], "verbs": _FOLLOW},
    _definitions(_VMS, ipam.NICS),
    _EVENTS,
)

MANAGER_RULES: tuple[Raw, ...] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": _READ},
    {"apiGroups": [multus.NADS.group], "resources": [multus.NADS.plural], "verbs": _MAKE},
    {"apiGroups": [harvester.GROUP], "resources": ["clusternetworks"], "verbs": _MAKE},
    {"apiGroups": [harvester.GROUP], "resources": ["vlanconfigs"], "verbs": [*_FOLLOW, "patch"]},
    {"apiGroups": [harvester.GROUP], "resources": ["clusternetworks/status"], "verbs": ["patch"]},
    {"apiGroups": [harvester.GROUP], "resources": ["vlanstatuses"], "verbs": [*_FOLLOW, "delete"]},
    {"apiGroups": [ipam.GROUP], "resources": ["networks"], "verbs": _MAKE},
    {"apiGroups": [ipam.GROUP], "resources": ["networks/status", "nics/status"], "verbs": ["patch"]},
    {"apiGroups": [ipam.GROUP], "resources": ["nics"], "verbs": _MAKE},
    {
        "apiGroups": [dummy.GROUP],
        "resources": ["dummyclusternetworks"],
        "verbs": [*_FOLLOW, "create", "patch"],
    },
    {"apiGroups": [dummy.GROUP], "resources": ["dummyclusternetworks/status"], "verbs": ["patch"]},
    {"apiGroups": [_VMS.group], "resources": [kubevirt.VIRTUAL_MACHINES.plural, _VMS.plural], "verbs": _READ},
    {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"],
        "verbs": _READ,
    },
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": _READ},
    _definitions(kubevirt.VIRTUAL_MACHINES, _VMS, multus.NADS, ipam.NETWORKS, ipam.NICS),
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["services"], "resourceNames": ["kubernetes"], "verbs": ["get"]},
    {"apiGroups": [services.SERVICE_CIDRS.group], "resources": ["servicecidrs"], "verbs": ["list"]},
    {"apiGroups": [_WEBHOOKS], "resources": _CONFIGURATIONS, "verbs": ["create"]},
    {
        "apiGroups": [_WEBHOOKS],
        "resources": _CONFIGURATIONS,
        "resourceNames": [CONFIGURATION_NAME],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": [_REVIEWS.group], "resources": [_REVIEWS.plural], "verbs": ["create"]},
    _EVENTS,
)

MANAGER_NAMESPACE_RULES: tuple[Raw, ...] = (
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET_NAME], "verbs": [*_READ, "patch"]},
    {"apiGroups": [_LEASES.group], "resources": [_LEASES.plural], "verbs": ["create"]},
    {
        "apiGroups": [_LEASES.group],
        "resources": [_LEASES.plural],
        "resourceNames": [LEASE_NAME],
        "verbs": ["get", "patch"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP], "verbs": _FOLLOW},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "create", "patch", "delete"]},
)
"""Lists and watches of one object are those with its name as a field selector."""


def agent_role() -> tuple[Raw, Raw]:
    """The cluster role of the agents and its binding: to their group on the embedded server, and to their account."""
    return _cluster_role("lanloom-agent", AGENT_RULES), _binding(
        "ClusterRoleBinding",
        "lanloom-agent",
        "ClusterRole",
        [_group(names.AGENTS_GROUP), _account("lanloom-agent")],
    )


def manager_roles() -> tuple[Raw, ...]:
    """The manager's cluster role, its role in Lanloom's namespace, and the bindings of both to its account."""
    account = [_account("lanloom-manager")]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "lanloom-manager", "namespace": names.LANLOOM_NAMESPACE},
        "rules": list(MANAGER_NAMESPACE_RULES),
    }
    return (
        _cluster_role("lanloom-manager", MANAGER_RULES),
        _binding("ClusterRoleBinding", "lanloom-manager", "ClusterRole", account),
        role,
        _binding("RoleBinding", "lanloom-manager", "Role", account),
    )


def _cluster_role(name: str, rules: tuple[Raw, ...]) -> Raw:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _binding(kind: str, name: str, role_kind: str, subjects: list[Raw]) -> Raw:
    metadata = {"name": name} | ({"namespace": names.LANLOOM_NAMESPACE} if kind == "RoleBinding" else {})
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

"""Rules of built-in kinds that a schema can't say, in the real server's words: those that users would miss."""

from collections.abc import Callable, Iterator

from lanloom.apiserver.builtin.rules.access import check_binding, check_role
from lanloom.apiserver.builtin.rules.admission import check_webhooks
from lanloom.apiserver.builtin.rules.definitions import check_crd
from lanloom.apiserver.builtin.rules.objects import (
    check_config_map,
    check_event,
    check_lease,
    check_pod,
    check_secret,
    check_workload,
)
from lanloom.apiserver.fields import FieldError
from lanloom.apiserver.kinds import GroupPlural, Raw

Rule = Callable[[Raw, Raw | None], Iterator[FieldError]]

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_RULES: dict[GroupPlural, Rule] = {
    GroupPlural("", "configmaps"): check_config_map,
    GroupPlural("", "events"): check_event,
    GroupPlural("", "pods"): check_pod,
    GroupPlural("", "secrets"): check_secret,
    GroupPlural("apps", "daemonsets"): check_workload,
    GroupPlural("apps", "deployments"): check_workload,
    GroupPlural("coordination.k8s.io", "leases"): check_lease,
    GroupPlural(_RBAC, "roles"): check_role(namespaced=True),
    GroupPlural(_RBAC, "clusterroles"): check_role(namespaced=False),
    GroupPlural(_RBAC, "rolebindings"): check_binding(namespaced=True),
    GroupPlural(_RBAC, "clusterrolebindings"): check_binding(namespaced=False),
    GroupPlural(_ADMISSION, "mutatingwebhookconfigurations"): check_webhooks,
    GroupPlural(_ADMISSION, "validatingwebhookconfigurations"): check_webhooks,
    GroupPlural("apiextensions.k8s.io", "customresourcedefinitions"): check_crd,
}


def broken_rules(resource: GroupPlural, obj: Raw, old: Raw | None) -> list[FieldError]:
    """The rules that an object breaks, which has the form that its schema demands."""
    rule = _RULES.get(resource)
    return list(rule(obj, old)) if rule is not None else []

"""Rules of built-in kinds that a schema can't express.

Refusals use the real server's words, for the rules that users would miss.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address

from lanloom.runtime.https.fields import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from lanloom_embedded.builtin.admission import check_webhooks
from lanloom_embedded.builtin.definitions import check_crd
from lanloom_embedded.kinds import GroupPlural, Raw
from lanloom_embedded.syntax import (
    config_key,
    dns_label,
    path_segment,
    subdomain,
)

_RBAC = "rbac.authorization.k8s.io"
Rule = Callable[[Raw, Raw | None], Iterator[FieldError]]


def check_role(*, namespaced: bool) -> Rule:
    """Return the check of a Role (`namespaced`) or a ClusterRole."""

    def check(obj: Raw, _: Raw | None) -> Iterator[FieldError]:
        for index, rule in enumerate(obj.get("rules") or ()):
            yield from _check_rule(rule, f"rules[{index}]", namespaced)

    return check


def _check_rule(rule: Raw, path: str, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            yield invalid(where, urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(where, urls, text)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def check_binding(*, namespaced: bool) -> Rule:
    """Return the check of a RoleBinding (`namespaced`) or a ClusterRoleBinding."""
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def check(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
        role = obj["roleRef"]
        if role.get("apiGroup") != _RBAC:
            yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_RBAC,))
        if role["kind"] not in kinds:
            yield not_supported("roleRef.kind", role["kind"], kinds)
        if not role["name"]:
            yield required("roleRef.name")
        yield from (invalid("roleRef.name", role["name"], why) for why in path_segment(role["name"]))
        for index, subject in enumerate(obj.get("subjects") or ()):
            yield from _check_subject(subject, f"subjects[{index}]", namespaced)
        if old is not None and role != old["roleRef"]:
            yield invalid("roleRef", role, "cannot change roleRef")

    return check


def _check_subject(subject: Raw, path: str, namespaced: bool) -> Iterator[FieldError]:
    name, group = subject["name"], subject.get("apiGroup", "")
    if not name:
        yield required(f"{path}.name")
    match subject["kind"]:
        case "ServiceAccount":
            if name:
                yield from (invalid(f"{path}.name", name, why) for why in subdomain(name))
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != _RBAC:
                yield not_supported(f"{path}.apiGroup", group, (_RBAC,))
        case other:
            yield not_supported(f"{path}.kind", other, ("ServiceAccount", "User", "Group"))


DATA_LIMIT = 1024 * 1024
"""Bytes of a ConfigMap's or a Secret's data."""

_IMMUTABLE = "field is immutable when `immutable` is set"
_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def check_secret(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Keys, size, keys that the type demands, and what can't be changed."""
    data: Mapping[str, str] = obj.get("data") or {}
    if old is not None:
        if obj.get("type") != old.get("type"):
            yield invalid("type", obj.get("type", ""), "field is immutable")
        yield from _unchanged(obj, old, ("data",))
    yield from _keys(data, "data")
    if sum(len(each) * 3 // 4 for each in data.values()) > DATA_LIMIT:
        yield too_long("data", DATA_LIMIT)
    for key in _NEEDED_KEYS.get(obj.get("type", ""), ()):
        if key not in data:
            yield required(f"data[{key}]")


def check_config_map(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Keys, size, and what can't be changed."""
    data: Mapping[str, str] = obj.get("data") or {}
    binary: Mapping[str, str] = obj.get("binaryData") or {}
    if old is not None:
        yield from _unchanged(obj, old, ("data", "binaryData"))
    yield from _keys(data, "data")
    yield from _keys(binary, "binaryData")
    for key in sorted(data.keys() & binary.keys()):
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(each.encode()) for each in data.values()) + sum(
        len(each) * 3 // 4 for each in binary.values()
    )
    if size > DATA_LIMIT:
        yield too_long("[]", DATA_LIMIT)


def _keys(data: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key in data:
        yield from (invalid(f"{path}[{key}]", key, why) for why in config_key(key))


def _unchanged(obj: Raw, old: Raw, names: tuple[str, ...]) -> Iterator[FieldError]:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden("immutable", _IMMUTABLE)
    for name in names:
        if (obj.get(name) or {}) != (old.get(name) or {}):
            yield forbidden(name, _IMMUTABLE)


def check_lease(obj: Raw, _: Raw | None) -> Iterator[FieldError]:
    """Check durations and counts."""
    spec = obj.get("spec", {})
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must to greater or equal than 0")


def check_revision(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Yield what is wrong with the number, and with the state, which is there and never changes."""
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    elif old is not None and obj["data"] != old.get("data"):
        yield invalid("data", obj["data"], "field is immutable")
    if obj["revision"] < 0:
        yield invalid("revision", obj["revision"], "must be greater than or equal to 0")


def check_endpoints(obj: Raw, _: Raw | None) -> Iterator[FieldError]:
    """Check that others can reach the addresses, so none is of the server's own loopback."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        for group in ("addresses", "notReadyAddresses"):
            for place, address in enumerate(subset.get(group) or ()):
                path = f"subsets[{index}].{group}[{place}].ip"
                yield from (invalid(path, address["ip"], why) for why in _not_special(address["ip"]))


def _not_special(text: str) -> Iterator[str]:
    try:
        address = ip_address(text)
    except ValueError:
        yield "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        return
    if address.is_unspecified:
        yield f"may not be unspecified ({text})"
    if address.is_loopback:
        yield "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        yield "may not be in the link-local range (169.254.0.0/16, fe80::/10)"


def check_job(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Check that pods end, of a template that never changes."""
    spec = obj.get("spec")
    if spec is None:
        yield required("spec")
        return
    pod = spec["template"].get("spec", {})
    yield from _check_pod_spec(pod, "spec.template.spec")
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if old is not None and spec["template"] != old["spec"]["template"]:
        yield invalid("spec.template", spec["template"], "field is immutable")


def check_event(obj: Raw, _: Raw | None) -> Iterator[FieldError]:
    """Yield why an event is not in the namespace of its object, or in `default` when that has none."""
    namespace = obj["metadata"].get("namespace", "")
    involved = obj["involvedObject"].get("namespace", "")
    if involved != namespace and (involved or namespace != "default"):
        yield invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if obj.get("eventTime") is not None:
        reporter = "reportingController"
        for name, field in (("reportingComponent", reporter), ("reportingInstance", None), ("action", None)):
            if not obj.get(name):
                yield required(field or name)


def check_pod(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Check names of containers, and the node, which a pod keeps once it has it."""
    yield from _check_pod_spec(obj.get("spec", {}), "spec")
    if old is not None:
        before, after = (each.get("spec", {}).get("nodeName") for each in (old, obj))
        if before and before != after:
            yield forbidden(
                "spec.nodeName", "a pod can't move to another node; delete it and create a new one"
            )


def check_workload(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
    """Yield why a selector changes, or does not select the pods of the template."""
    spec = obj.get("spec")
    if spec is None:
        yield required("spec")
        return
    selector, labels = spec["selector"], spec["template"].get("metadata", {}).get("labels", {})
    wanted = selector.get("matchLabels", {})
    if not wanted and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, "empty selector is invalid")
    elif any(labels.get(key) != value for key, value in wanted.items()):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, text)
    if old is not None and selector != old["spec"]["selector"]:
        yield invalid("spec.selector", selector, "field is immutable")
    yield from _check_pod_spec(spec["template"].get("spec", {}), "spec.template.spec")


def _check_pod_spec(spec: Raw, path: str) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{index}]"
            yield from (
                invalid(f"{where}.name", container["name"], why) for why in dns_label(container["name"])
            )
            if not container.get("image"):
                yield required(f"{where}.image")


_ADMISSION = "admissionregistration.k8s.io"
_RULES: dict[GroupPlural, Rule] = {
    GroupPlural("", "configmaps"): check_config_map,
    GroupPlural("", "endpoints"): check_endpoints,
    GroupPlural("", "events"): check_event,
    GroupPlural("", "pods"): check_pod,
    GroupPlural("", "secrets"): check_secret,
    GroupPlural("apps", "controllerrevisions"): check_revision,
    GroupPlural("apps", "daemonsets"): check_workload,
    GroupPlural("apps", "deployments"): check_workload,
    GroupPlural("batch", "jobs"): check_job,
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
    """Return the rules that an object breaks, which has the form that its schema demands."""
    rule = _RULES.get(resource)
    return list(rule(obj, old)) if rule is not None else []

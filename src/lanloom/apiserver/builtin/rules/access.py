"""Rules of roles and their bindings."""

from collections.abc import Callable, Iterator

from lanloom.apiserver.fields import FieldError, invalid, not_supported, required
from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.syntax import path_segment, subdomain

_GROUP = "rbac.authorization.k8s.io"
Rule = Callable[[Raw, Raw | None], Iterator[FieldError]]


def check_role(*, namespaced: bool) -> Rule:
    """The check of a Role (`namespaced`) or a ClusterRole."""

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
    """The check of a RoleBinding (`namespaced`) or a ClusterRoleBinding."""
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def check(obj: Raw, old: Raw | None) -> Iterator[FieldError]:
        role = obj["roleRef"]
        if role.get("apiGroup") != _GROUP:
            yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_GROUP,))
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
            if group != _GROUP:
                yield not_supported(f"{path}.apiGroup", group, (_GROUP,))
        case other:
            yield not_supported(f"{path}.kind", other, ("ServiceAccount", "User", "Group"))

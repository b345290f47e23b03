"""No user grants what they don't have: the check of roles and bindings before they are written.

Without it, every user who may write bindings is an administrator. As in kube-apiserver, a Role or ClusterRole needs the
rights themselves or the verb `escalate` on it, a binding those of its role or the verb `bind` on that role.
`system:masters` may grant anything. Changes of owner references and finalizers alone are not checked, so that garbage
collection goes on.

The rules in question are broken down to single rights: one verb on one resource of one group, of one name at the most,
or one verb on one path. A right is covered if a single rule that is held covers it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lanloom.api.admission import UserInfo
from lanloom.api.meta import Key
from lanloom.runtime.https import errors
from lanloom_embedded.authz import (
    BINDING_RESOURCES,
    MASTERS,
    RBAC,
    ROLE_RESOURCES,
    Attempt,
    Authorizer,
)
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.webhooks import Attributes
from lanloom_embedded.kinds import GroupPlural, Raw

_FIELDS = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}
"""Fields of a rule, and how kube-apiserver prints them."""

EVERYTHING: tuple[Raw, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
"""The rights of a cluster administrator."""


_MOST_RIGHTS = 4096
"""Single rights of one role that are looked at. A rule of a few kilobytes can stand for millions."""


def missing_rights(held: Iterable[Raw], wanted: Iterable[Raw]) -> list[Raw]:
    """Return the single rights of `wanted` that no rule of `held` covers.

    Raises ValueError if they are too many to tell.
    """
    rules = list(held)
    open_rules = [rule for rule in wanted if not any(_covers(each, rule) for each in rules)]
    if sum(map(_count, open_rules)) > _MOST_RIGHTS:
        raise ValueError(
            f"the rules that are not held as a whole stand for more than {_MOST_RIGHTS} single rights; "
            "split the role, or name fewer API groups, resources, names and verbs in one rule"
        )
    return [
        right
        for rule in open_rules
        for right in _rights(rule)
        if not any(_covers(each, right) for each in rules)
    ]


def described(rights: Iterable[Raw]) -> list[str]:
    """Return rights as kube-apiserver prints them, sorted, with one line for those that differ only in verbs."""
    found: dict[tuple[str, ...], Raw] = {}
    for right in rights:
        apart = () if "resources" in right else right["verbs"]
        key = (*apart, *(_quoted(_texts(right, name)) for name in _FIELDS if name != "verbs"))
        found.setdefault(key, {**right, "verbs": []})["verbs"].extend(right["verbs"])
    return sorted({_printed(right) for right in found.values()})


def _count(rule: Raw) -> int:
    """Return how many single rights a rule stands for."""
    groups, resources, paths, names, verbs = (len(_texts(rule, name)) for name in _FIELDS)
    return (groups * resources * max(names, 1) + paths) * verbs


def _rights(rule: Raw) -> Iterator[Raw]:
    """Yield the single rights of a rule."""
    verbs = _texts(rule, "verbs")
    for group in _texts(rule, "apiGroups"):
        for resource in _texts(rule, "resources"):
            for verb in verbs:
                right: Raw = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = _texts(rule, "resourceNames")
                if not names:
                    yield right
                for name in names:
                    yield {**right, "resourceNames": [name]}
    for path in _texts(rule, "nonResourceURLs"):
        for verb in verbs:
            yield {"nonResourceURLs": [path], "verbs": [verb]}


def _covers(rule: Raw, right: Raw) -> bool:
    """Return whether one rule covers another one as a whole."""
    names = _texts(rule, "resourceNames")
    return (
        _has(_texts(rule, "verbs"), _texts(right, "verbs"))
        and _has(_texts(rule, "apiGroups"), _texts(right, "apiGroups"))
        and all(_covers_resource(_texts(rule, "resources"), each) for each in _texts(right, "resources"))
        and all(
            _covers_path(_texts(rule, "nonResourceURLs"), each) for each in _texts(right, "nonResourceURLs")
        )
        and (
            not names or (bool(_texts(right, "resourceNames")) and set(right["resourceNames"]) <= set(names))
        )
    )


def _has(held: Sequence[str], wanted: Sequence[str]) -> bool:
    return "*" in held or set(wanted) <= set(held)


def _covers_resource(held: Sequence[str], resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _has(held, [resource]) or (bool(slash) and f"*/{subresource}" in held)


def _covers_path(held: Sequence[str], path: str) -> bool:
    return any(each == path or (each.endswith("*") and path.startswith(each.rstrip("*"))) for each in held)


def _texts(rule: Raw, name: str) -> Sequence[str]:
    found: Sequence[str] = rule.get(name) or ()
    return found


def _printed(rule: Raw) -> str:
    parts = (f"{title}:{_quoted(rule[name])}" for name, title in _FIELDS.items() if rule.get(name))
    return "{" + ", ".join(parts) + "}"


def _quoted(texts: Sequence[Any]) -> str:
    return "[" + " ".join(json.dumps(str(text), ensure_ascii=False) for text in texts) + "]"


_BOOKKEEPING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


class Escalation:
    """Checks what a request would grant."""

    def __init__(self, ledger: Ledger, authorizer: Authorizer) -> None:
        self._ledger = ledger
        self._authorizer = authorizer

    def check(self, asked: Attributes, user: UserInfo) -> None:
        """Raise Forbidden unless the user may grant what the object grants, NotFound for a binding without a role.

        `asked.object` is a valid object, as it is to be stored.
        """
        key = asked.kind.key
        if key not in ROLE_RESOURCES and key not in BINDING_RESOURCES:
            return
        if MASTERS in user.groups or asked.object is None or _is_bookkeeping(asked):
            return
        if key in ROLE_RESOURCES:
            self._check_role(asked, asked.object, user)
        else:
            self._check_binding(asked, asked.object, user)

    def _check_role(self, asked: Attributes, role: Raw, user: UserInfo) -> None:
        escalate = Attempt(
            verb="escalate",
            group=RBAC,
            resource=asked.kind.plural,
            namespace=asked.namespace,
            name=asked.name if asked.operation == "UPDATE" else "",
        )
        if self._authorizer.allows(user, escalate):
            return
        self._confirm(asked, user, role.get("rules") or ())
        if role.get("aggregationRule") or (asked.old or {}).get("aggregationRule"):
            held = self._authorizer.rules(user, asked.namespace)
            if missing_rights(held, EVERYTHING):
                raise self._forbidden(asked, "must have cluster-admin privileges to use the aggregationRule")

    def _check_binding(self, asked: Attributes, binding: Raw, user: UserInfo) -> None:
        reference = binding["roleRef"]
        plural = "roles" if reference["kind"] == "Role" else "clusterroles"
        bind = Attempt(
            verb="bind", group=RBAC, resource=plural, namespace=asked.namespace, name=reference["name"]
        )
        if self._authorizer.allows(user, bind):
            return
        resource = GroupPlural(RBAC, plural)
        place = asked.namespace if plural == "roles" else ""
        role = self._ledger.latest(resource, Key(place, reference["name"]))
        if role is None:
            raise errors.not_found(str(resource), reference["name"])
        self._confirm(asked, user, role.raw().get("rules") or ())

    def _confirm(self, asked: Attributes, user: UserInfo, rules: Sequence[Raw]) -> None:
        try:
            missing = missing_rights(self._authorizer.rules(user, asked.namespace), rules)
        except ValueError as error:
            raise self._forbidden(asked, str(error)) from None
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(described(missing))
            raise self._forbidden(
                asked,
                f'user "{user.username}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently '
                f"held:\n{listed}",
            )

    def _forbidden(self, asked: Attributes, why: str) -> errors.Forbidden:
        name = (asked.object or {}).get("metadata", {}).get("name", asked.name)
        return errors.forbidden(asked.kind.resource, name, why)


def _is_bookkeeping(asked: Attributes) -> bool:
    """Return whether an update changes nothing but what garbage collection needs."""
    if asked.old is None or asked.object is None:
        return False
    return _without_bookkeeping(asked.old) == _without_bookkeeping(asked.object)


def _without_bookkeeping(obj: Raw) -> Raw:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    return {**obj, "metadata": metadata}

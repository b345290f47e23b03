"""What Kubernetes' roles `view`, `edit` and `admin` get of Lanloom: nothing besides what a namespace may have."""

from typing import Any

import pytest

from lanloom.api.multus import NADS
from lanloom.features import FEATURES
from lanloom.processes.rbac import agent_roles, manager_roles, tenant_roles
from lanloom.runtime.feature import rights_of
from lanloom.runtime.rights import READ, WRITE
from lanloom_embedded.escalation import missing_rights

ROLES = {role["metadata"]["name"].removeprefix("lanloom-"): role for role in tenant_roles()}
KINDS = {
    kind.full_name: kind for each in FEATURES for kind in (*rights_of(each).own, *rights_of(each).foreign)
}


def rights(name: str) -> set[tuple[str, str]]:
    """The rights of a role: full name of a kind, and verb."""
    return {
        (f"{resource}.{group}", verb)
        for rule in ROLES[name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("name", ["view", "edit", "admin"])
def test_a_role_is_aggregated_to_its_own(name: str) -> None:
    """Kubernetes adds the rules to its role of that name, and to those that contain it."""
    assert ROLES[name]["metadata"]["labels"] == {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}


def test_viewers_read_every_kind_that_is_in_namespaces() -> None:
    """Every kind of a feature that is in namespaces can be read by viewers, and nothing else."""
    expected = {(name, verb) for name, kind in KINDS.items() if kind.namespaced for verb in READ}
    assert rights("view") == expected


@pytest.mark.parametrize("name", ["edit", "admin"])
def test_writers_write_whole_objects_of_namespaces(name: str) -> None:
    """No role has a wildcard, a subresource, a verb that grants rights, or a kind without namespaces."""
    for kind, verb in rights(name):
        assert verb in WRITE
        assert KINDS[kind].namespaced, kind


def test_nobody_gets_to_write_nads() -> None:
    """A NAD names programs, bridges and links of nodes: the cluster decides which users may write it."""
    every = {right for name in ROLES for right in rights(name)}
    assert not {verb for kind, verb in every if kind == NADS.full_name} & set(WRITE)


def test_no_role_has_what_manager_or_agent_have_alone() -> None:
    """None of the rights that make a process what it is can be had by a role of tenants."""
    tenants: list[dict[str, Any]] = [rule for role in ROLES.values() for rule in role["rules"]]
    for roles in (manager_roles(), agent_roles()):
        own = [role for role in roles if role["kind"] == "ClusterRole"]
        for status in (rule for role in own for rule in role["rules"] if "/status" in str(rule["resources"])):
            assert missing_rights(tenants, [status]), status

"""No user grants what they don't have, over the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lanloom_embedded.escalation import EVERYTHING, described, missing_rights
from lanloom_embedded.kinds import Raw
from tests.embedded.front.browser import Answer, Browser, browsing


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Raw:
    """A rule; several values are separated by commas."""
    found: Raw = {
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
        "verbs": verbs.split(","),
    }
    return {**found, "resourceNames": names.split(",")} if names else found


def paths(verbs: str, urls: str) -> Raw:
    """A rule on paths."""
    return {"nonResourceURLs": urls.split(","), "verbs": verbs.split(",")}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ([rule("get,list", "pods")], [rule("get", "pods")]),
        ([rule("get", "pods"), rule("list", "pods")], [rule("get,list", "pods")]),
        ([rule("get", "pods"), rule("get", "secrets")], [rule("get", "pods,secrets")]),
        ([rule("*", "*", "*")], [rule("get,*", "pods,pods/status,*", "apps,*")]),
        ([rule("get", "*/status")], [rule("get", "pods/status")]),
        ([rule("get", "pods")], [rule("get", "pods", names="a,b")]),
        ([rule("get", "pods", names="a,b")], [rule("get", "pods", names="a")]),
        (
            [rule("get", "pods", names="a"), rule("get", "pods", names="b")],
            [rule("get", "pods", names="a,b")],
        ),
        ([paths("get", "/api/*")], [paths("get", "/api/v1,/api/*")]),
        ([paths("*", "*")], [paths("get", "/metrics")]),
        (EVERYTHING, EVERYTHING),
        ([], []),
        ([], [{"verbs": ["get"]}]),
    ],
)
def test_rights_that_are_held_are_not_missing(held: list[Raw], wanted: list[Raw]) -> None:
    """Every single right that one of the rules covers is held."""
    assert missing_rights(held, wanted) == []


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([], [rule("get,list", "pods")], ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']),
        (
            [rule("get", "pods")],
            [rule("get,list", "pods,secrets", "")],
            [
                '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
                '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
            ],
        ),
        (
            [rule("get", "pods", names="a")],
            [rule("get", "pods", names="a,b")],
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        (
            [rule("get", "pods", names="a")],
            [rule("get", "pods")],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [rule("get", "pods")],
            [rule("get", "pods/log")],
            ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}'],
        ),
        (
            [rule("get,list", "pods")],
            [rule("*", "pods")],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}'],
        ),
        (
            [paths("get", "/api")],
            EVERYTHING,
            ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}', '{NonResourceURLs:["*"], Verbs:["*"]}'],
        ),
        (
            [],
            [paths("get,post", "/a")],
            ['{NonResourceURLs:["/a"], Verbs:["get"]}', '{NonResourceURLs:["/a"], Verbs:["post"]}'],
        ),
        ([paths("get", "/api/*")], [paths("get", "/apis")], ['{NonResourceURLs:["/apis"], Verbs:["get"]}']),
    ],
)
def test_missing_rights_are_told_one_by_one(held: list[Raw], wanted: list[Raw], missing: list[str]) -> None:
    """What is not held is named as kube-apiserver does, with the verbs on a resource together."""
    assert described(missing_rights(held, wanted)) == missing


def test_a_rule_that_stands_for_millions_of_rights_is_not_written_out() -> None:
    """Rules of many groups, resources and verbs cost no time: they are held as a whole, or refused."""
    many = ",".join(f"a{number}" for number in range(1000))
    huge = rule(many, many, many, many)
    assert missing_rights(EVERYTHING, [huge]) == []
    with pytest.raises(ValueError, match="more than 4096 single rights; split the role"):
        missing_rights([rule("get", "pods")], [huge])


RBAC = "rbac.authorization.k8s.io"
CLUSTER = f"/apis/{RBAC}/v1"
SPACE = f"{CLUSTER}/namespaces/default"
MERGE = "application/merge-patch+json"
READ: Raw = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
WRITE_RBAC: Raw = {
    "apiGroups": [RBAC],
    "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
    "verbs": ["create", "update", "patch", "get", "list"],
}


def role(kind: str, *rules: Raw, name: str = "given", **rest: object) -> Raw:
    """A Role or ClusterRole."""
    head = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}}
    return {**head, "rules": list(rules), **rest}


def binding(kind: str, role_kind: str, role_name: str, *, user: str = "alice", name: str = "given") -> Raw:
    """A binding of a role to a user."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role_name},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
    }


@asynccontextmanager
async def editing(*rules: Raw) -> AsyncIterator[Browser]:
    """A server on which alice may write roles and bindings, and has these rights besides."""
    async with browsing() as browser:
        await made(
            browser.request(
                "POST", f"{CLUSTER}/clusterroles", role("ClusterRole", WRITE_RBAC, *rules, name="editor")
            )
        )
        await made(
            browser.request(
                "POST",
                f"{CLUSTER}/clusterrolebindings",
                binding("ClusterRoleBinding", "ClusterRole", "editor", name="editor"),
            )
        )
        yield browser


async def made(asked: object) -> Answer:
    """An answer that must be 201 or 200."""
    answer: Answer = await asked  # type: ignore[misc]
    assert answer.status in (200, 201), answer.text
    return answer


KINDS = [("Role", f"{SPACE}/roles"), ("ClusterRole", f"{CLUSTER}/clusterroles")]


@pytest.mark.parametrize(("kind", "url"), KINDS)
async def test_a_role_with_rights_that_its_writer_lacks_is_refused(kind: str, url: str) -> None:
    """POST, PUT and PATCH of a role are refused with the rights that the user does not hold."""
    async with editing(READ) as browser:
        await made(browser.request("POST", url, role(kind, READ), token="alice"))
        more = {**READ, "verbs": ["get", "delete"]}
        refused = [
            await browser.request("POST", url, role(kind, more, name="more"), token="alice"),
            await browser.request("PUT", f"{url}/given", role(kind, more), token="alice"),
            await browser.request("PUT", f"{url}/given2", role(kind, more, name="given2"), token="alice"),
            await browser.request(
                "PATCH", f"{url}/given", {"rules": [more]}, token="alice", content_type=MERGE
            ),
        ]
        for answer in refused:
            assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
        plural = url.rpartition("/")[2]
        assert refused[0].json["message"] == (
            f'{plural}.{RBAC} "more" is forbidden: user "alice" (groups=["testers" "system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}'
        )


@pytest.mark.parametrize(("kind", "url"), KINDS)
async def test_the_verb_escalate_allows_any_role(kind: str, url: str) -> None:
    """A user with `escalate` on roles writes rights that they do not hold."""
    escalate = {"apiGroups": [RBAC], "resources": ["roles", "clusterroles"], "verbs": ["escalate"]}
    async with editing(escalate) as browser:
        await made(browser.request("POST", url, role(kind, READ), token="alice"))


async def test_escalate_on_one_role_is_for_that_role() -> None:
    """`escalate` with a name allows changes of that role, and no others."""
    only = {
        "apiGroups": [RBAC],
        "resources": ["clusterroles"],
        "verbs": ["escalate"],
        "resourceNames": ["given"],
    }
    async with editing(only) as browser:
        url = f"{CLUSTER}/clusterroles"
        for name in ("given", "other"):
            await made(browser.request("POST", url, role("ClusterRole", name=name)))
        await made(browser.request("PUT", f"{url}/given", role("ClusterRole", READ), token="alice"))
        other = await browser.request(
            "PUT", f"{url}/other", role("ClusterRole", READ, name="other"), token="alice"
        )
        assert other.status == 403


BINDINGS = [
    ("ClusterRoleBinding", "ClusterRole", f"{CLUSTER}/clusterrolebindings"),
    ("RoleBinding", "ClusterRole", f"{SPACE}/rolebindings"),
    ("RoleBinding", "Role", f"{SPACE}/rolebindings"),
]


@pytest.mark.parametrize(("kind", "role_kind", "url"), BINDINGS)
async def test_a_binding_needs_the_rights_of_its_role(kind: str, role_kind: str, url: str) -> None:
    """A user binds a role whose rights they hold, and is refused another one with the rights that they lack."""
    roles = f"{CLUSTER}/clusterroles" if role_kind == "ClusterRole" else f"{SPACE}/roles"
    async with editing(READ) as browser:
        await made(browser.request("POST", roles, role(role_kind, READ, name="held")))
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await made(browser.request("POST", roles, role(role_kind, everything, name="all")))
        await made(browser.request("POST", url, binding(kind, role_kind, "held"), token="alice"))
        refused = await browser.request(
            "POST", url, binding(kind, role_kind, "all", name="more"), token="alice"
        )
        assert refused.status == 403
        assert refused.json["message"].endswith(
            'not currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'
        )
        assert (await browser.request("GET", "/api/v1/secrets", token="alice")).status == 403


@pytest.mark.parametrize(("kind", "role_kind", "url"), BINDINGS)
async def test_the_verb_bind_allows_the_binding_of_a_role(kind: str, role_kind: str, url: str) -> None:
    """A user with `bind` on a role gives it to any user, and no other role."""
    roles = f"{CLUSTER}/clusterroles" if role_kind == "ClusterRole" else f"{SPACE}/roles"
    plural = roles.rpartition("/")[2]
    bind = {"apiGroups": [RBAC], "resources": [plural], "verbs": ["bind"], "resourceNames": ["one"]}
    async with editing(bind) as browser:
        for name in ("one", "two"):
            await made(browser.request("POST", roles, role(role_kind, READ, name=name)))
        await made(browser.request("POST", url, binding(kind, role_kind, "one", user="bob"), token="alice"))
        other = await browser.request(
            "POST", url, binding(kind, role_kind, "two", name="more"), token="alice"
        )
        assert other.status == 403


async def test_a_binding_of_a_role_that_is_not_there_is_refused() -> None:
    """A binding without a role could be filled with rights later, so the role is not found."""
    async with editing() as browser:
        answer = await browser.request(
            "POST",
            f"{CLUSTER}/clusterrolebindings",
            binding("ClusterRoleBinding", "ClusterRole", "none"),
            token="alice",
        )
        assert (answer.status, answer.json["message"]) == (404, f'clusterroles.{RBAC} "none" not found')


async def test_subjects_are_changed_only_with_the_rights() -> None:
    """A user who can't grant a role can't add subjects to its binding either, but may change finalizers."""
    async with editing() as browser:
        url = f"{CLUSTER}/clusterrolebindings/admins"
        body = binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", user="root", name="admins")
        await made(browser.request("POST", f"{CLUSTER}/clusterrolebindings", body))
        subjects = binding("ClusterRoleBinding", "ClusterRole", "cluster-admin")["subjects"]
        refused = await browser.request(
            "PATCH", url, {"subjects": subjects}, token="alice", content_type=MERGE
        )
        assert refused.status == 403
        finalizers = {"metadata": {"finalizers": ["example.com/a"]}}
        await made(browser.request("PATCH", url, finalizers, token="alice", content_type=MERGE))


async def test_a_dry_run_is_checked_too() -> None:
    """A dry run tells what the request would be answered."""
    async with editing() as browser:
        url = f"{CLUSTER}/clusterroles?dryRun=All"
        assert (await browser.request("POST", url, role("ClusterRole", READ), token="alice")).status == 403


async def test_an_aggregation_needs_all_rights() -> None:
    """A role that gathers the rules of others can gather anything, so that only an administrator writes it."""
    everything: tuple[Raw, ...] = (
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    )
    gathers = role("ClusterRole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    async with editing() as browser:
        refused = await browser.request("POST", f"{CLUSTER}/clusterroles", gathers, token="alice")
        assert refused.json["message"].endswith(
            "is forbidden: must have cluster-admin privileges to use the aggregationRule"
        )
    async with editing(*everything) as browser:
        await made(browser.request("POST", f"{CLUSTER}/clusterroles", gathers, token="alice"))

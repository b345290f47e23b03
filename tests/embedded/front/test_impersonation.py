"""Requests in the name of another user (`kubectl --as`)."""

from typing import Any

import pytest

from lanloom_embedded.kinds import Raw
from tests.embedded.front.browser import Answer, Browser, browsing

RBAC = "rbac.authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
WHOAMI = f"/apis/{AUTHENTICATION}/v1/selfsubjectreviews"
SECRETS = "/api/v1/namespaces/default/secrets"

Headers = list[tuple[str, str]]


async def ask(
    browser: Browser, method: str, url: str, headers: Headers, body: object = None, token: str = "root"
) -> Answer:
    """A request with headers that may be repeated."""
    scope = browser.scope(method, url, token=token)
    scope["headers"].extend((name.lower().encode(), value.encode()) for name, value in headers)
    answer, task, _ = browser.send(scope, body)
    await task
    return answer


async def whoami(browser: Browser, headers: Headers, token: str = "root") -> dict[str, Any]:
    """The user that a request runs as."""
    answer = await ask(browser, "POST", WHOAMI, headers, {}, token)
    assert answer.status == 201, answer.text
    info: dict[str, Any] = answer.json["status"]["userInfo"]
    return info


async def allow(browser: Browser, *rules: Raw) -> None:
    """Give alice these rights."""
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": list(rules),
    }
    await browser.request("POST", f"/apis/{RBAC}/v1/clusterroles", body)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "alice"}],
    }
    await browser.request("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)


async def let_strangers_ask(browser: Browser) -> None:
    """Let users without credentials ask who they are."""
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "strangers"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:basic-user"},
        "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "system:unauthenticated"}],
    }
    await browser.request("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)


def may(resource: str, *names: str, group: str = "") -> Raw:
    """A rule that allows the impersonation of these."""
    rule: Raw = {"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"]}
    return {**rule, "resourceNames": list(names)} if names else rule


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([], {"username": "root", "groups": ["system:masters", "system:authenticated"]}),
        ([("Impersonate-User", "bob")], {"username": "bob", "groups": ["system:authenticated"]}),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            {"username": "bob", "groups": ["a", "b", "system:authenticated"]},
        ),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:authenticated")],
            {"username": "bob", "groups": ["system:authenticated"]},
        ),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:unauthenticated")],
            {"username": "bob", "groups": ["system:unauthenticated"]},
        ),
        (
            [("Impersonate-User", "system:anonymous")],
            {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
        ),
        (
            [("Impersonate-User", "system:serviceaccount:default:robot")],
            {
                "username": "system:serviceaccount:default:robot",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:default",
                    "system:authenticated",
                ],
            },
        ),
        (
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "u-1"),
                ("Impersonate-Extra-Scopes", "view"),
                ("Impersonate-Extra-Scopes", "edit"),
                ("Impersonate-Extra-Example.com%2fplace", "here"),
            ],
            {
                "username": "bob",
                "uid": "u-1",
                "groups": ["system:authenticated"],
                "extra": {"scopes": ["view", "edit"], "example.com/place": ["here"]},
            },
        ),
    ],
)
async def test_a_request_runs_as_the_user_that_it_names(headers: Headers, user: Raw) -> None:
    """The identity is that of the headers, with the groups that every such user has, and nothing of the requester."""
    async with browsing() as browser:
        await let_strangers_ask(browser)
        found = await whoami(browser, headers)
        assert {name: value for name, value in found.items() if value} == user


async def test_rights_are_those_of_the_other_user() -> None:
    """An administrator who acts as a user without rights is refused what that user is refused."""
    async with browsing() as browser:
        as_bob = [("Impersonate-User", "bob")]
        for method, url in (("GET", SECRETS), ("DELETE", "/api/v1/namespaces/default")):
            answer = await ask(browser, method, url, as_bob)
            assert (answer.status, 'User "bob" cannot' in answer.json["message"]) == (403, True)
        as_root = [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")]
        assert (await ask(browser, "GET", SECRETS, as_root)).status == 200


async def test_can_i_as_somebody_else_asks_about_them() -> None:
    """`kubectl auth can-i --as` is answered for the other user, and an anonymous one may not even ask."""
    async with browsing() as browser:
        url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        spec = {"spec": {"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}}}
        answer = await ask(browser, "POST", url, [("Impersonate-User", "bob")], spec)
        assert answer.json["status"]["allowed"] is False
        assert (
            await ask(browser, "POST", url, [("Impersonate-User", "system:anonymous")], spec)
        ).status == 403


IMPERSONATE_ALL = (
    may("users"),
    may("groups"),
    may("serviceaccounts"),
    may("uids", group=AUTHENTICATION),
    may("userextras/scopes", group=AUTHENTICATION),
)
BOB = ("Impersonate-User", "bob")
EVERYTHING: Headers = [
    BOB,
    ("Impersonate-Group", "friends"),
    ("Impersonate-Uid", "u-1"),
    ("Impersonate-Extra-Scopes", "view"),
]


async def test_the_verb_impersonate_allows_it() -> None:
    """A user with `impersonate` on each part of an identity acts with it."""
    async with browsing() as browser:
        await allow(browser, *IMPERSONATE_ALL)
        assert (await whoami(browser, EVERYTHING, token="alice"))["username"] == "bob"
        robot = [("Impersonate-User", "system:serviceaccount:default:robot")]
        assert (await whoami(browser, robot, token="alice"))["username"].endswith(":robot")


@pytest.mark.parametrize(
    ("rules", "headers", "message"),
    [
        (
            (),
            [BOB],
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            (may("users", "carol"),),
            [BOB],
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            (may("users"), may("groups", "friends")),
            [BOB, ("Impersonate-Group", "friends"), ("Impersonate-Group", "system:masters")],
            'groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
        ),
        (
            (may("users"),),
            [("Impersonate-User", "system:serviceaccount:default:robot")],
            'serviceaccounts "robot" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "default"',
        ),
        (
            (may("users"), may("groups"), may("uids", group=AUTHENTICATION)),
            EVERYTHING,
            'userextras.authentication.k8s.io "view" is forbidden: User "alice" cannot impersonate resource '
            '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
        ),
        (
            (may("users"), may("groups"), may("userextras/scopes", group=AUTHENTICATION)),
            EVERYTHING,
            'uids.authentication.k8s.io "u-1" is forbidden: User "alice" cannot impersonate resource "uids" in '
            'API group "authentication.k8s.io" at the cluster scope',
        ),
    ],
    ids=["nothing", "another name", "masters", "service account", "extra", "uid"],
)
async def test_every_part_of_an_identity_must_be_allowed(
    rules: tuple[Raw, ...], headers: Headers, message: str
) -> None:
    """A part that the requester may not impersonate refuses the request, and names that part."""
    async with browsing() as browser:
        await allow(browser, *rules)
        answer = await ask(browser, "GET", "/version", headers, token="alice")
        assert (answer.status, answer.json["message"]) == (403, message)


@pytest.mark.parametrize("token", ["", "unknown"])
async def test_strangers_impersonate_nobody(token: str) -> None:
    """Headers are no credentials."""
    async with browsing() as browser:
        answer = await ask(browser, "GET", SECRETS, [("Impersonate-User", "root")], token=token)
        assert answer.status == (401 if token else 403)


@pytest.mark.parametrize(
    "header", [("Impersonate-Group", "a"), ("Impersonate-Uid", "a"), ("Impersonate-Extra-Scopes", "a")]
)
async def test_an_identity_needs_a_user(header: tuple[str, str]) -> None:
    """Parts of an identity without a user are a bad request, not the requester's own one."""
    async with browsing() as browser:
        answer = await ask(browser, "GET", SECRETS, [header])
        assert (answer.status, "without Impersonate-User" in answer.json["message"]) == (400, True)


async def test_an_empty_user_is_none() -> None:
    """An empty header of a proxy changes nothing, as in kube-apiserver."""
    async with browsing() as browser:
        assert (await whoami(browser, [("Impersonate-User", "")]))["username"] == "root"


async def test_what_the_other_user_writes_is_theirs() -> None:
    """The check of what is granted goes by the rights of the impersonated user."""
    async with browsing() as browser:
        await allow(browser, {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["create"]})
        body = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "x"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        }
        as_alice = [("Impersonate-User", "alice")]
        assert (await ask(browser, "POST", f"/apis/{RBAC}/v1/clusterroles", as_alice, body)).status == 403

"""Roles and bindings: what they allow, and what they don't."""

import os
from pathlib import Path

import pytest

from lanloom.api.admission import UserInfo
from lanloom_embedded.authz import Attempt, Authorizer
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.front.authentication import (
    TokenFile,
    digest,
    parse_tokens,
    user,
)
from lanloom_embedded.kinds import Raw
from tests.embedded.engine.running import kind_of, running_engine

ROOT = user("root", "", ("system:masters",))


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_lines_are_token_user_uid_and_groups() -> None:
    """A line names a token's user, uid and groups; every user is authenticated."""
    users = parse_tokens('t1,alice,1,"testers,admins"\n\nt2,bob,2\n')
    assert users[digest("t1")].groups == ("testers", "admins", "system:authenticated")
    assert users[digest("t2")].username == "bob"


@pytest.mark.parametrize("text", ["t1,alice", "t1,,1", ",alice,1"])
def test_broken_line_is_named(text: str) -> None:
    """A line without token, user or uid is an error that says which line it is."""
    with pytest.raises(ValueError, match="line 2"):
        parse_tokens("t,bob,2\n" + text)


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A token that is added holds soon, one that is removed no longer does."""
    path, clock = tmp_path / "tokens", Clock()
    path.write_text("t1,alice,1\n")
    tokens = TokenFile(path, {"fixed": ROOT}, clock, pytest.fail)
    assert tokens.find("t1") is not None
    path.write_text("t2,bob,2\n")
    os.utime(path, ns=(1, 1))
    clock.now += 1
    found = tokens.find("t2")
    assert found is not None
    assert found.username == "bob"
    assert tokens.find("t1") is None
    assert tokens.find("fixed") == ROOT


def test_file_that_becomes_unreadable_leaves_the_users_as_they_were(tmp_path: Path) -> None:
    """A broken or missing file is complained about, and those who were let in still are."""
    path, clock, complaints = tmp_path / "tokens", Clock(), list[str]()
    path.write_text("t1,alice,1\n")
    tokens = TokenFile(path, {}, clock, complaints.append)
    assert tokens.find("t1") is not None
    path.write_text("nonsense\n")
    clock.now += 1
    assert tokens.find("t1") is not None
    path.unlink()
    clock.now += 1
    assert tokens.find("t1") is not None
    assert len(complaints) == 2
    assert str(path) in complaints[0]


def test_server_without_a_file_knows_the_fixed_tokens_only() -> None:
    """Without a file only the given tokens hold."""
    tokens = TokenFile(None, {"fixed": ROOT}, Clock(), pytest.fail)
    assert tokens.find("fixed") == ROOT
    assert tokens.find("") is None


RBAC = "rbac.authorization.k8s.io"
ALICE = UserInfo(username="alice", groups=("testers", "system:authenticated"))
ROBOT = UserInfo(username="system:serviceaccount:default:robot")


async def bind(engine: Engine, rules: list[Raw], subject: Raw, place: str = "") -> None:
    """A role and its binding, in the whole cluster or in one namespace."""
    prefix, roles, bindings = (
        ("Cluster", "clusterroles", "clusterrolebindings") if not place else ("", "roles", "rolebindings")
    )
    await engine.create(
        kind_of(engine, roles, RBAC), place, {"metadata": {"name": "r"}, "rules": rules}, Call()
    )
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": "r"},
        "subjects": [subject],
    }
    await engine.create(kind_of(engine, bindings, RBAC), place, body, Call())


def user_subject(name: str) -> Raw:
    """A user as the subject of a binding."""
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def rule(**parts: list[str]) -> Raw:
    """A rule about config maps, but for what is said."""
    return {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], **parts}


def get(**parts: str) -> Attempt:
    """Reading config map `a` in `default`, but for what is said."""
    base = {"verb": "get", "resource": "configmaps", "namespace": "default", "name": "a"}
    return Attempt(**(base | parts))


@pytest.mark.parametrize(
    ("rules", "attempt", "allowed"),
    [
        (rule(), get(), True),
        (rule(), get(verb="list"), False),
        (rule(), get(group="apps"), False),
        (rule(), get(subresource="status"), False),
        (rule(resources=["configmaps/status"]), get(subresource="status"), True),
        (rule(resources=["*/status"]), get(subresource="status"), True),
        (rule(resources=["configmaps/status"]), get(), False),
        (rule(resources=["*"]), get(subresource="status"), True),
        (rule(apiGroups=["*"], verbs=["*"], resources=["*"]), get(verb="delete", group="apps"), True),
        (rule(resourceNames=["a"]), get(), True),
        (rule(resourceNames=["b"]), get(), False),
        (rule(resourceNames=["a"]), get(verb="list", name=""), False),
        ({"nonResourceURLs": ["/healthz"], "verbs": ["get"]}, Attempt(verb="get", path="/healthz"), True),
        ({"nonResourceURLs": ["/api/*"], "verbs": ["get"]}, Attempt(verb="get", path="/api/v1"), True),
        ({"nonResourceURLs": ["/api/*"], "verbs": ["get"]}, Attempt(verb="get", path="/apis"), False),
    ],
)
async def test_rule_allows_exactly_what_it_names(rules: Raw, attempt: Attempt, allowed: bool) -> None:
    """A rule allows its verbs on its resources, names and paths, and nothing else."""
    async with running_engine() as engine:
        authorizer = Authorizer(engine.ledger)
        assert not authorizer.allows(ALICE, attempt)
        await bind(engine, [rules], user_subject("alice"))
        assert authorizer.allows(ALICE, attempt) is allowed


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        (user_subject("alice"), ALICE),
        ({"kind": "Group", "apiGroup": RBAC, "name": "testers"}, ALICE),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "default"}, ROBOT),
    ],
)
async def test_binding_speaks_of_users_groups_and_service_accounts(subject: Raw, who: UserInfo) -> None:
    """A binding gives its role to a user, to the members of a group, or to a service account."""
    async with running_engine() as engine:
        await bind(engine, [rule()], subject)
        authorizer = Authorizer(engine.ledger)
        assert authorizer.allows(who, get())
        assert not authorizer.allows(UserInfo(username="bob"), get())


async def test_role_of_a_namespace_ends_at_its_border() -> None:
    """A RoleBinding allows nothing in other namespaces, nor in all of them."""
    async with running_engine() as engine:
        await bind(engine, [rule(verbs=["*"])], user_subject("alice"), place="default")
        authorizer = Authorizer(engine.ledger)
        assert authorizer.allows(ALICE, get())
        assert not authorizer.allows(ALICE, get(namespace="kube-public"))
        assert not authorizer.allows(ALICE, get(verb="list", namespace="", name=""))


async def test_rights_end_with_their_binding() -> None:
    """A binding that is deleted allows nothing from then on."""
    async with running_engine() as engine:
        authorizer = Authorizer(engine.ledger)
        await bind(engine, [rule()], user_subject("alice"))
        assert authorizer.allows(ALICE, get())
        kind = kind_of(engine, "clusterrolebindings", RBAC)
        await engine.delete(kind, "", "b", DeleteOptions(), Call())
        assert not authorizer.allows(ALICE, get())


async def test_masters_need_no_role() -> None:
    """system:masters may do everything even without any object, so that no user is locked out."""
    async with running_engine() as engine:
        root = UserInfo(username="root", groups=("system:masters",))
        assert Authorizer(engine.ledger).allows(root, get(verb="delete", group="anything"))

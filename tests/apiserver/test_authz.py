"""Roles and bindings: what they allow, and what they don't."""

import pytest

from lanloom.api.admission import UserInfo
from lanloom.apiserver.authz import Attempt, Authorizer
from lanloom.apiserver.engine.calls import Call, DeleteOptions
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.kinds import Raw
from tests.apiserver.engine.world import engine_world, kind_of

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


def user(name: str) -> Raw:
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
    async with engine_world() as engine:
        authorizer = Authorizer(engine.ledger)
        assert not authorizer.allows(ALICE, attempt)
        await bind(engine, [rules], user("alice"))
        assert authorizer.allows(ALICE, attempt) is allowed


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        (user("alice"), ALICE),
        ({"kind": "Group", "apiGroup": RBAC, "name": "testers"}, ALICE),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "default"}, ROBOT),
    ],
)
async def test_binding_speaks_of_users_groups_and_service_accounts(subject: Raw, who: UserInfo) -> None:
    """A binding gives its role to a user, to the members of a group, or to a service account."""
    async with engine_world() as engine:
        await bind(engine, [rule()], subject)
        authorizer = Authorizer(engine.ledger)
        assert authorizer.allows(who, get())
        assert not authorizer.allows(UserInfo(username="bob"), get())


async def test_role_of_a_namespace_ends_at_its_border() -> None:
    """A RoleBinding allows nothing in other namespaces, nor in all of them."""
    async with engine_world() as engine:
        await bind(engine, [rule(verbs=["*"])], user("alice"), place="default")
        authorizer = Authorizer(engine.ledger)
        assert authorizer.allows(ALICE, get())
        assert not authorizer.allows(ALICE, get(namespace="kube-public"))
        assert not authorizer.allows(ALICE, get(verb="list", namespace="", name=""))


async def test_rights_end_with_their_binding() -> None:
    """A binding that is deleted allows nothing from then on."""
    async with engine_world() as engine:
        authorizer = Authorizer(engine.ledger)
        await bind(engine, [rule()], user("alice"))
        assert authorizer.allows(ALICE, get())
        kind = kind_of(engine, "clusterrolebindings", RBAC)
        await engine.delete(kind, "", "b", DeleteOptions(), Call())
        assert not authorizer.allows(ALICE, get())


async def test_masters_need_no_role() -> None:
    """system:masters may do everything even without any object, so that nobody is locked out."""
    async with engine_world() as engine:
        root = UserInfo(username="root", groups=("system:masters",))
        assert Authorizer(engine.ledger).allows(root, get(verb="delete", group="anything"))

"""Who may do what: tokens, roles, and the words of a refusal."""

from typing import Any

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    named,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area

case = Area(__name__)

RBAC = "rbac.authorization.k8s.io"


@case.each({"none": "", "unknown": "nonsense-token"})
def with_a_bad_token(api: Api, token: str) -> None:
    """A request without a token is anonymous, one with an unknown token unauthorised."""
    api.get("configmaps", user=token, expect=-1)
    api.get("/api/v1/nodes", user=token, expect=-1)
    api.get("/apis", user=token, expect=-1)
    api.get("/nonsense", user=token, expect=-1)
    api.get("/healthz", user=token, expect=-1)
    with api.quietly():
        version = api.get("/version", user=token, expect=-1)
    api.note("may know the version", version.status)


REQUESTS = {
    "get": ("GET", "configmaps/a", None),
    "list": ("GET", "configmaps", None),
    "list-everywhere": ("GET", "/api/v1/configmaps", None),
    "create": ("POST", "configmaps", config_map("a")),
    "update": ("PUT", "configmaps/a", config_map("a")),
    "delete": ("DELETE", "configmaps/a", None),
    "deletecollection": ("DELETE", "configmaps", None),
    "custom": ("GET", "widgets/a", None),
    "custom-create": ("POST", "widgets", widget("a")),
    "status": ("PUT", "widgets/a/status", widget("a")),
    "cluster-scoped": ("GET", "nodes", None),
    "path": ("GET", "/metrics", None),
    "unknown-resource": ("GET", "/apis/example.com/v1/nonsense", None),
    "discovery": ("GET", "/apis/example.com/v1", None),
}


@case.each(REQUESTS)
def without_a_role(api: Api, method: str, path: str, body: Raw | None) -> None:
    """The refusal of a user without roles says which verb on which resource is forbidden."""
    api.request(method, path, body=body, user="alice", expect=-1)


@case
def without_a_role_to_watch_or_patch(api: Api) -> None:
    """Watching and patching are verbs of their own."""
    api.get("configmaps", query={"watch": "1", "timeoutSeconds": 1}, user="alice", expect=403)
    api.patch("configmaps/a", {}, user="alice", expect=403)


def rules(
    *verbs: str, resources: tuple[str, ...] = ("configmaps",), group: str = "", **rest: Any
) -> list[Raw]:
    """The rules of a role."""
    return [{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **rest}]


def grant(api: Api, found: list[Raw], *, cluster: bool = False, subject: Raw | None = None) -> None:
    """Give alice a role in the case's namespace, or in the cluster."""
    kind = "ClusterRole" if cluster else "Role"
    name = api.name
    api.post(f"{kind.lower()}s", named(f"{RBAC}/v1", kind, name, rules=found))
    alice = {"kind": "User", "name": "alice", "apiGroup": RBAC}
    binding = named(
        f"{RBAC}/v1",
        f"{kind}Binding",
        name,
        roleRef={"apiGroup": RBAC, "kind": kind, "name": name},
        subjects=[subject or alice],
    )
    api.post(f"{kind.lower()}bindings", binding)


@case
def by_a_role(api: Api) -> None:
    """A role allows its verbs on its resources in its namespace, and nothing else."""
    grant(api, rules("get", "list", "create"))
    api.until("configmaps", lambda answer: answer.status == 200, user="alice")
    api.post("configmaps", config_map("a"), user="alice", expect=201)
    api.get("configmaps/a", user="alice")
    api.delete("configmaps/a", user="alice", expect=403)
    api.get("/api/v1/namespaces/default/configmaps", user="alice", expect=403)
    api.get("secrets", user="alice", expect=403)


@case
def by_a_role_with_names(api: Api) -> None:
    """A role may name the objects that it is about."""
    api.post("configmaps", config_map("mine"))
    grant(api, rules("get", "update", resourceNames=["mine"]))
    api.until("configmaps/mine", lambda answer: answer.status == 200, user="alice")
    api.get("configmaps/other", user="alice", expect=403)
    api.get("configmaps", user="alice", expect=403)


SELECTORS = {
    "its": "metadata.name=mine",
    "its-and-more": "metadata.namespace!=x,metadata.name==mine",
    "another": "metadata.name=other",
    "all-but": "metadata.name!=mine",
    "none": "",
    "broken": "metadata.name",
}


@case.each(SELECTORS)
def by_a_role_with_names_to_list(api: Api, selector: str) -> None:
    """A role that names an object allows a list of it alone, chosen by its name."""
    grant(api, rules("get", "list", "watch", resourceNames=["mine"]))
    api.until("configmaps/mine", lambda answer: answer.status in (200, 404), user="alice")
    api.get("configmaps", user="alice", query={"fieldSelector": selector}, expect=-1)


@case
def by_a_cluster_role(api: Api) -> None:
    """A cluster role that is bound in the cluster allows its verbs in every namespace."""
    grant(api, rules("list", resources=("gadgets",), group="example.com"), cluster=True)
    with api.quietly():
        api.until("gadgets", lambda answer: answer.status == 200, user="alice")
    api.get("gadgets", user="alice", query={"labelSelector": "a=b"})
    api.get("gadgets/x", user="alice", expect=403)


@case
def by_a_group(api: Api) -> None:
    """A role may be given to a group."""
    group = {"kind": "Group", "name": "testers", "apiGroup": RBAC}
    grant(api, rules("list", resources=("secrets",)), subject=group)
    api.until("secrets", lambda answer: answer.status == 200, user="alice")


@case
def of_subresources(api: Api) -> None:
    """A subresource must be allowed by its own name."""
    api.post("widgets", widget("a"))
    grant(api, rules("get", "patch", resources=("widgets",), group="example.com"))
    api.until("widgets/a", lambda answer: answer.status == 200, user="alice")
    api.patch("widgets/a/status", {"status": {"phase": "x"}}, user="alice", expect=403)


@case.each(["get", "delete", "*"])
def asked_by_oneself(api: Api, verb: str) -> None:
    """A SelfSubjectAccessReview tells a user what is allowed."""
    attributes = {"namespace": api.ns, "verb": verb, "resource": "configmaps"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for user in ("admin", "alice"):
        with api.quietly():
            answer = api.post(path, body, user=user)
        api.note(
            f"{user} may {verb}", [answer.status, answer.body["kind"], answer.body["status"].get("allowed")]
        )

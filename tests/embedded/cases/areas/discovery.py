"""Discovery: which kinds there are, and the paths that are none of them."""

from typing import Any

from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Answer

case = Area(__name__)

SERVED = {
    "/api/v1": [
        "configmaps",
        "events",
        "namespaces",
        "namespaces/status",
        "nodes",
        "nodes/status",
        "pods",
        "pods/status",
        "secrets",
        "serviceaccounts",
    ],
    "/apis/coordination.k8s.io/v1": ["leases"],
    "/apis/apiextensions.k8s.io/v1": ["customresourcedefinitions", "customresourcedefinitions/status"],
    "/apis/admissionregistration.k8s.io/v1": [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ],
    "/apis/rbac.authorization.k8s.io/v1": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
    "/apis/authorization.k8s.io/v1": ["selfsubjectaccessreviews"],
}


def shown(api: Api, what: str, answer: Answer, document: Any) -> None:
    """Keep the part of an answer that both servers have in common."""
    api.note(f"{what}: status and type", [answer.status, answer.headers.get("content-type")])
    api.note(what, document)


@case.each({path: (path, names) for path, names in SERVED.items()})
def of_resources(api: Api, path: str, names: list[str]) -> None:
    """A group version lists its resources with verbs, short names, scope and kind."""
    with api.quietly():
        answer = api.get(path)
    rest = {key: value for key, value in answer.body.items() if key != "resources"}
    found = [each for each in answer.body["resources"] if each["name"] in names]
    shown(api, path, answer, {**rest, "resources": sorted(found, key=lambda each: str(each["name"]))})


@case
def of_custom_resources(api: Api) -> None:
    """A custom group is discovered as the built-in ones are."""
    api.get("/apis/example.com/v1")
    api.get("/apis/example.com/v1beta1")
    api.get("/apis/example.com")


@case
def of_the_core_group(api: Api) -> None:
    """/api names the versions of the core group."""
    with api.quietly():
        answer = api.get("/api")
    shown(api, "/api", answer, {**answer.body, "serverAddressByClientCIDRs": None})


@case
def of_groups(api: Api) -> None:
    """/apis lists every group with its versions and the preferred one."""
    with api.quietly():
        answer = api.get("/apis")
    wanted = {"example.com", *(path.split("/")[2] for path in SERVED if path.startswith("/apis/"))}
    groups = [group for group in answer.body["groups"] if group["name"] in wanted]
    for group in groups:
        group["versions"] = [
            each for each in group["versions"] if not _beta_of_a_builtin(each["groupVersion"])
        ]
    shown(api, "/apis", answer, {**answer.body, "groups": sorted(groups, key=lambda each: str(each["name"]))})


def _beta_of_a_builtin(group_version: str) -> bool:
    return "beta" in group_version and not group_version.startswith("example.com/")


@case.each({path: path for path in SERVED if path.startswith("/apis/")})
def of_one_group(api: Api, path: str) -> None:
    """A group can be asked for by its name."""
    with api.quietly():
        answer = api.get(path.rpartition("/")[0])
    body = answer.body
    body["versions"] = [each for each in body["versions"] if not _beta_of_a_builtin(each["groupVersion"])]
    shown(api, path, answer, body)


UNKNOWN = {
    "resource": "/api/v1/nonsense",
    "namespaced-resource": "/api/v1/namespaces/default/nonsense",
    "custom-resource": "/apis/example.com/v1/nonsense",
    "object-of-unknown": "/apis/example.com/v1/nonsense/a",
    "version": "/apis/example.com/v9",
    "resource-of-version": "/apis/example.com/v9/widgets",
    "group": "/apis/nonsense.example.com",
    "group-version": "/apis/nonsense.example.com/v1",
    "resource-of-group": "/apis/nonsense.example.com/v1/things",
    "core-version": "/api/v9",
    "subresource": "/apis/example.com/v1/namespaces/default/widgets/a/nonsense",
    "builtin-subresource": "/api/v1/namespaces/default/configmaps/a/status",
    "namespaced-at-cluster-scope": "/apis/example.com/v1/widgets/a",
    "cluster-scoped-in-namespace": "/apis/example.com/v1/namespaces/default/gadgets",
    "trailing-slash": "/apis/example.com/v1/namespaces/nowhere/widgets/",
    "double-slash": "/apis/example.com//v1/namespaces/nowhere/widgets",
}


@case
def of_no_path_at_all(api: Api) -> None:
    """A path outside of the API is not found."""
    with api.quietly():
        answer = api.get("/nonsense", expect=404)
    api.note("status", answer.status)


@case.each(UNKNOWN)
def of_nothing(api: Api, path: str) -> None:
    """A path that leads nowhere is not found."""
    api.get(path, expect=-1)


METHODS = {
    "post-to-object": ("POST", "configmaps/a"),
    "put-to-list": ("PUT", "configmaps"),
    "patch-to-list": ("PATCH", "configmaps"),
    "unknown": ("FETCH", "configmaps"),
    "post-to-custom-object": ("POST", "widgets/a"),
    "put-to-custom-list": ("PUT", "widgets"),
    "patch-to-custom-list": ("PATCH", "widgets"),
    "unknown-for-custom": ("FETCH", "widgets"),
    "delete-status": ("DELETE", "widgets/a/status"),
    "post-status": ("POST", "widgets/a/status"),
    "post-to-discovery": ("POST", "/api/v1"),
    "options": ("OPTIONS", "configmaps"),
    "head": ("HEAD", "configmaps"),
}


@case.each(METHODS)
def of_methods(api: Api, method: str, path: str) -> None:
    """A method that a path doesn't know is refused."""
    api.request(method, path, body={} if method in ("POST", "PUT", "PATCH") else None, expect=-1)


@case
def of_health(api: Api) -> None:
    """The health endpoints answer ok."""
    for path in ("/healthz", "/livez", "/readyz"):
        api.get(path)


@case
def of_the_version(api: Api) -> None:
    """/version has the fields that clients read."""
    with api.quietly():
        answer = api.get("/version")
    api.note("fields", sorted(answer.body))


@case
def of_openapi(api: Api) -> None:
    """/openapi/v2 describes custom kinds field by field, for kubectl explain and validation."""
    name = "com.example.v1.Widget"
    with api.quietly():
        api.until("/openapi/v2", lambda answer: name in answer.body["definitions"])
        definition = api.get("/openapi/v2").body["definitions"][name]
    api.note("kind", definition["x-kubernetes-group-version-kind"])
    api.note("properties", sorted(definition["properties"]))
    api.note("spec", definition["properties"]["spec"])

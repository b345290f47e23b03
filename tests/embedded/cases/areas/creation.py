"""Creating objects: names, metadata, bodies that are wrong in every way."""

from typing import Any

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    event,
    gadget,
    lease,
    named,
    namespace,
    node,
    pod,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area

case = Area(__name__)

SECRET = named("v1", "Secret", "a", data={"key": "dmFsdWU="}, stringData={"other": "text"})
ROLE = named(
    "rbac.authorization.k8s.io/v1",
    "Role",
    "a",
    rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
)
KINDS = {
    "configmaps": config_map("a"),
    "secrets": SECRET,
    "leases": lease("a"),
    "pods": pod("a"),
    "serviceaccounts": named("v1", "ServiceAccount", "a"),
    "roles": ROLE,
    "widgets": widget("a", {"size": 2}),
}


@case.each({plural: (plural, body) for plural, body in KINDS.items()})
def of_each_namespaced_kind(api: Api, plural: str, body: Raw) -> None:
    """An object of the kind can be created, read, listed and deleted, and is answered with its defaults."""
    api.post(plural, body, expect=201)
    api.get(f"{plural}/a")
    api.get(plural)
    api.delete(f"{plural}/a", query={"gracePeriodSeconds": 0})
    api.get(f"{plural}/a", expect=404)


@case
def of_an_event(api: Api) -> None:
    """An Event can be created, patched with a new count and selected by what it is about."""
    api.post("events", event("a", api.ns), expect=201)
    api.patch("events/a", {"count": 2, "lastTimestamp": "2020-01-02T03:05:05Z"}, "strategic")
    api.get(
        "events", query={"fieldSelector": "involvedObject.kind=Widget,involvedObject.name=w,reason=Tested"}
    )
    api.get("events", query={"fieldSelector": "involvedObject.kind=Gadget"})


@case
def of_an_event_elsewhere(api: Api) -> None:
    """An Event about an object of another namespace is refused."""
    body = event("a", api.ns)
    body["involvedObject"]["namespace"] = "default"
    api.post("events", body, expect=422)


@case.each(
    {"namespaces": ("namespaces", namespace), "nodes": ("nodes", node), "gadgets": ("gadgets", gadget)}
)
def of_each_cluster_scoped_kind(api: Api, plural: str, body: Any) -> None:
    """A cluster-scoped object can be created, read and listed by a label."""
    name = f"{api.name}-x"
    api.post(plural, body(name, labels={"made-by": api.name}), expect=201)
    api.get(f"{plural}/{name}")
    api.get(plural, query={"labelSelector": f"made-by={api.name}"})


@case
def of_a_node_with_status(api: Api) -> None:
    """A Node is created with the status that it is given, as a kubelet registers it."""
    body = node(api.name)
    body["status"] = {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
    api.post("nodes", body, expect=201)
    ready = {"type": "Ready", "status": "True", "reason": "Tested", "message": "fine"}
    api.patch(f"nodes/{api.name}/status", {"status": {"conditions": [ready]}}, "strategic")
    api.delete(f"nodes/{api.name}")


@case
def twice(api: Api) -> None:
    """A second object of the same name is refused as already existing."""
    api.post("configmaps", config_map("a"))
    api.post("configmaps", config_map("a"), expect=409)
    api.post("widgets", widget("a"))
    api.post("widgets", widget("a"), expect=409)


@case.each(["configmaps", "widgets"])
def with_a_generated_name(api: Api, plural: str) -> None:
    """generateName is completed with five random characters."""
    body = {"configmaps": config_map, "widgets": widget}[plural]("", generateName="some-")
    del body["metadata"]["name"]
    first = api.post(plural, body, expect=201)
    second = api.post(plural, body, expect=201)
    api.note("names differ", first.metadata["name"] != second.metadata["name"])


@case
def with_both_names(api: Api) -> None:
    """A name wins over generateName."""
    api.post("configmaps", config_map("a", generateName="some-"), expect=201)


@case.each(["configmaps", "widgets"])
def without_a_name(api: Api, plural: str) -> None:
    """An object with neither name nor generateName is refused."""
    body = {"configmaps": config_map, "widgets": widget}[plural]("")
    del body["metadata"]["name"]
    api.post(plural, body, expect=422)


BAD_NAMES = {
    "upper": "Upper",
    "underscore": "a_b",
    "slash": "a/b",
    "dot": ".",
    "percent": "a%b",
    "leading-dash": "-a",
    "space": "a b",
    "newline": "a\nb",
    "too-long": "a" * 254,
    "not-ascii": "ä",
}


@case.each(BAD_NAMES)
def with_a_bad_name(api: Api, name: str) -> None:
    """A name that is no DNS subdomain is refused."""
    api.post("configmaps", config_map(name), expect=422)
    api.post("widgets", widget(name), expect=422)


@case
def with_a_bad_generated_name(api: Api) -> None:
    """A generateName that can't become a DNS subdomain is refused."""
    with api.quietly():
        body = named("example.com/v1", "Widget", "", metadata={"generateName": "A_"})
        answer = api.post("widgets", body, expect=422)
    api.note("fields", [answer.status, [cause["field"] for cause in answer.body["details"]["causes"]]])


@case.each({"dots": "a.b.c", "longest": "a" * 253, "digits": "0"})
def with_an_unusual_name(api: Api, name: str) -> None:
    """A name may hold dots and digits and be as long as 253 characters."""
    api.post("configmaps", config_map(name), expect=201)
    api.get(f"configmaps/{name}")


@case.each({"dots": "a.b", "too-long": "a" * 64, "upper": "A"})
def of_a_namespace_with_a_bad_name(api: Api, name: str) -> None:
    """A namespace's name must be a DNS label."""
    api.post("namespaces", namespace(name), expect=422)


BAD_LABELS = {
    "bad-key": {"a b": "x"},
    "empty-key": {"": "x"},
    "bad-prefix": {"Bad_/a": "x"},
    "two-slashes": {"a/b/c": "x"},
    "long-key": {"k" * 64: "x"},
    "bad-value": {"a": "x y"},
    "long-value": {"a": "x" * 64},
    "value-ends-in-dash": {"a": "x-"},
}


@case.each({name: (labels,) for name, labels in BAD_LABELS.items()})
def with_a_bad_label(api: Api, labels: dict[str, str]) -> None:
    """A label whose key or value breaks the syntax is refused."""
    api.post("configmaps", config_map("a", labels=labels), expect=422)
    api.post("widgets", widget("a", labels=labels), expect=422)


@case
def with_fine_labels(api: Api) -> None:
    """Labels may have a prefix, an empty value, dots, dashes and underscores."""
    labels = {"example.com/a_b.c-d": "", "x": "A.b_c-D", "1": "2"}
    api.post("widgets", widget("a", labels=labels), expect=201)


@case
def with_a_bad_annotation_key(api: Api) -> None:
    """An annotation's key has the syntax of a label's key, in any case of letters."""
    api.post("widgets", widget("a", annotations={"bad key": "x"}), expect=422)
    api.post("configmaps", config_map("a", annotations={"bad key": "x"}), expect=422)
    api.post("configmaps", config_map("b", annotations={"Example.COM/Key": "any\ntext"}), expect=201)


@case
def with_annotations_that_are_too_large(api: Api) -> None:
    """All annotations together may hold 256 KiB."""
    api.post("configmaps", config_map("a", annotations={"a": "x" * 262144}), expect=422)
    api.post("widgets", widget("a", annotations={"a": "x" * 262144}), expect=422)
    with api.quietly():
        api.post("widgets", widget("b", annotations={"a": "x" * 262143}), expect=201)


@case
def in_a_missing_namespace(api: Api) -> None:
    """An object of a namespace that doesn't exist is refused as not found."""
    api.post("/api/v1/namespaces/no-such-namespace/configmaps", config_map("a"), expect=404)
    api.post("/apis/example.com/v1/namespaces/no-such-namespace/widgets", widget("a"), expect=404)


@case
def with_another_namespace_in_the_body(api: Api) -> None:
    """The namespace of the body must be that of the path."""
    api.post("configmaps", config_map("a", namespace="default"), expect=400)
    api.post("widgets", widget("a", namespace="default"), expect=400)


@case
def with_the_same_namespace_in_the_body(api: Api) -> None:
    """The namespace of the body may repeat that of the path."""
    api.post("configmaps", config_map("a", namespace=api.ns), expect=201)
    api.post("widgets", widget("a", namespace=api.ns), expect=201)


@case
def of_a_namespaced_object_at_cluster_scope(api: Api) -> None:
    """A namespaced object can't be created at the path of all namespaces."""
    api.post("/api/v1/configmaps", config_map("a"), expect=405)
    api.post("/apis/example.com/v1/widgets", widget("a"), expect=404)

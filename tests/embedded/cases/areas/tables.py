"""Other forms of an answer: tables for `kubectl get`, and metadata alone."""

from tests.embedded.cases.kit.objects import (
    config_map,
    event,
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

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OLD_TABLE = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},{OLD_TABLE},application/json"

SPEC = {
    "size": 2,
    "mode": "manual",
    "enabled": True,
    "ports": [{"port": 80}, {"port": 443}],
}


@case
def of_custom_objects(api: Api) -> None:
    """The columns of a custom kind are its printer columns, with the values that their paths name."""
    api.post("widgets", widget("a", SPEC))
    api.post("widgets", widget("b"))
    ready = {
        "status": {"conditions": [{"type": "other", "status": "x"}, {"type": "ready", "status": "True"}]}
    }
    api.patch("widgets/a/status", ready)
    table = api.get("widgets", accept=TABLE)
    size = next(each for each in table.body["columnDefinitions"] if each["name"] == "Size")
    api.note("what it says of its own column", size["description"])
    api.get("widgets/a", accept=TABLE)


@case
def of_custom_objects_without_columns(api: Api) -> None:
    """A kind or version without printer columns shows name and age."""
    api.post("widgets", widget("a"))
    api.get(f"/apis/example.com/v1beta1/namespaces/{api.ns}/widgets", accept=TABLE)


@case.each(["None", "Metadata", "Object"])
def that_include_objects(api: Api, include: str) -> None:
    """The rows hold as much of the object as includeObject says."""
    api.post("widgets", widget("a"))
    api.get("widgets", accept=TABLE, query={"includeObject": include})


@case
def that_include_nonsense(api: Api) -> None:
    """An unknown value of includeObject is refused."""
    api.post("widgets", widget("a"))
    api.get("widgets", accept=TABLE, query={"includeObject": "Nonsense"}, expect=-1)


@case
def as_kubectl_asks(api: Api) -> None:
    """Of several forms that kubectl accepts the first is sent."""
    api.post("widgets", widget("a"))
    api.get("widgets", accept=KUBECTL)
    api.get("widgets", accept=OLD_TABLE)


@case
def in_pages(api: Api) -> None:
    """A table has the list's continue token and what remains."""
    for name in ("a", "b", "c"):
        api.post("widgets", widget(name))
    first = api.get("widgets", accept=TABLE, query={"limit": 2})
    api.get("widgets", accept=TABLE, query={"limit": 2, "continue": first.metadata["continue"]})


@case
def of_nothing(api: Api) -> None:
    """An empty table has its columns."""
    api.get("widgets", accept=TABLE)
    api.get("configmaps", accept=TABLE)


BUILTIN = {
    "configmaps": config_map("a", {"x": "1", "y": "2"}),
    "secrets": named("v1", "Secret", "a", data={"x": "MQ=="}),
    "leases": lease("a"),
    "pods": pod("a"),
    "serviceaccounts": named("v1", "ServiceAccount", "a"),
}


@case.each(BUILTIN.keys())
def of_built_in_kinds(api: Api, plural: str) -> None:
    """Built-in kinds have the columns that kubectl users know."""
    api.post(plural, BUILTIN[plural])
    api.get(plural, accept=TABLE)
    api.get(f"{plural}/a", accept=TABLE)


@case
def of_events(api: Api) -> None:
    """Events show when, what kind, why, about what, and the message."""
    api.post("events", event("a", api.ns))
    api.get("events", accept=TABLE)


@case
def of_cluster_scoped_kinds(api: Api) -> None:
    """Namespaces show their phase, nodes their readiness, roles and version."""
    api.post("nodes", node(api.name, labels={"node-role.kubernetes.io/worker": ""}))
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "nodeInfo": {"kubeletVersion": "v1.20.2", "osImage": "Debian"},
    }
    api.get(f"nodes/{api.name}", accept=TABLE)
    api.patch(f"nodes/{api.name}/status", {"status": status}, "strategic")
    api.get(f"nodes/{api.name}", accept=TABLE)
    api.post("namespaces", namespace(f"{api.name}-x"))
    api.get(f"namespaces/{api.name}-x", accept=TABLE)


@case
def of_definitions(api: Api) -> None:
    """CRDs and webhook configurations have tables as well."""
    api.get("customresourcedefinitions/widgets.example.com", accept=TABLE)
    body = named("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", api.name, webhooks=[])
    api.post("validatingwebhookconfigurations", body)
    api.get(f"validatingwebhookconfigurations/{api.name}", accept=TABLE)


@case
def of_what_is_missing(api: Api) -> None:
    """An error is a Status also for those who accept tables."""
    api.get("widgets/nothing", accept=TABLE, expect=404)
    api.get("widgets/nothing", accept=KUBECTL, expect=404)


@case
def of_a_deletion(api: Api) -> None:
    """A deletion is answered with a Status also to those who accept tables."""
    api.post("widgets", widget("a"), accept=KUBECTL)
    api.delete("widgets/a", accept=KUBECTL)


@case
def with_metadata_alone(api: Api) -> None:
    """Objects and lists may be answered with their metadata alone."""
    api.post("widgets", widget("a", SPEC, labels={"a": "b"}))
    api.post("configmaps", config_map("a"))
    for plural in ("widgets", "configmaps"):
        api.get(f"{plural}/a", accept=METADATA)
        api.get(plural, accept=METADATA_LIST)
        api.get(plural, accept=METADATA, expect=-1)
        api.get(f"{plural}/a", accept=METADATA_LIST, expect=-1)


@case
def with_metadata_alone_after_a_change(api: Api) -> None:
    """A create or patch may be answered with metadata alone."""
    api.post("widgets", widget("a"), accept=METADATA)
    api.patch("widgets/a", {"metadata": {"labels": {"a": "b"}}}, accept=METADATA)

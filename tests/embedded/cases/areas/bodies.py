"""Bodies of requests: media types, wrong types, unknown fields; and the forms of an answer."""

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


@case
def with_a_body_that_is_too_large(api: Api) -> None:
    """A body of more than 3 MiB is refused."""
    api.post("configmaps", config_map("a", {"a": "x" * 3_500_000}), expect=413)


@case
def of_a_large_config_map(api: Api) -> None:
    """A ConfigMap may hold one MiB."""
    api.post("configmaps", config_map("a", {"a": "x" * 1_048_577}), expect=422)


BAD_BODIES = {
    "empty": "",
    "not-json": "{",
    "text": "hello",
    "a-list": "[]",
    "a-number": "1",
    "truncated": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"na',
}


@case.each(BAD_BODIES)
def with_a_body_that_is_no_object(api: Api, body: str) -> None:
    """A body that is no JSON object is refused as a bad request."""
    api.post("configmaps", body, expect=400)
    api.post("widgets", body, expect=400)


BAD_TYPES = {
    "no-kind": {"kind": None},
    "no-version": {"apiVersion": None},
    "wrong-kind": {"kind": "Pod"},
    "wrong-version": {"apiVersion": "v2"},
    "wrong-group": {"apiVersion": "other.example.com/v1"},
    "unknown-kind": {"kind": "Nonsense"},
}


@case.each({name: (changes,) for name, changes in BAD_TYPES.items()})
def with_a_wrong_type(api: Api, changes: dict[str, Any]) -> None:
    """kind and apiVersion of the body must be those of the path; a built-in object may leave them out."""
    for plural, body in (("configmaps", config_map("a")), ("widgets", widget("a"))):
        wrong = {key: value for key, value in {**body, **changes}.items() if value is not None}
        api.post(plural, wrong, expect=-1)


BAD_METADATA = {
    "labels-as-list": {"labels": ["a"]},
    "label-as-number": {"labels": {"a": 1}},
    "annotation-as-object": {"annotations": {"a": {}}},
    "finalizers-as-text": {"finalizers": "a"},
    "name-as-number": {"name": 1},
    "owner-without-uid": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]},
    "bad-finalizer": {"finalizers": ["no domain"]},
    "bare-finalizer": {"finalizers": ["bare"]},
}


@case.each({name: (metadata,) for name, metadata in BAD_METADATA.items()})
def with_bad_metadata(api: Api, metadata: Raw) -> None:
    """Metadata with values of a wrong type or form is refused."""
    for plural, body in (("configmaps", config_map("a")), ("widgets", widget("a"))):
        api.post(plural, {**body, "metadata": {**body["metadata"], **metadata}}, expect=-1)


@case
def with_null_as_body(api: Api) -> None:
    """null is an object without any field for a built-in kind, and no object for a custom one."""
    api.post("configmaps", "null", expect=422)
    api.post("widgets", "null", expect=-1)


@case
def with_metadata_of_the_servers(api: Api) -> None:
    """uid, generation, creationTimestamp and deletionTimestamp of a new object are the server's to set."""
    mine: Raw = {
        "uid": "00000000-0000-0000-0000-000000000001",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/nonsense",
    }
    first = api.post("configmaps", config_map("a", **mine), expect=201)
    second = api.post("widgets", widget("a", **mine), expect=201)
    api.note("uids are new", [each.uid == mine["uid"] for each in (first, second)])


@case
def with_a_resource_version(api: Api) -> None:
    """A new object must not carry a resourceVersion."""
    api.post("configmaps", config_map("a", resourceVersion="5"), expect=500)
    api.post("widgets", widget("a", resourceVersion="5"), expect=500)


@case
def with_unknown_fields(api: Api) -> None:
    """Unknown fields are dropped, at the top and inside metadata and spec."""
    api.post("configmaps", {**config_map("a", nonsense=1), "nonsense": 1}, expect=201)
    api.post("widgets", {**widget("a", {"nonsense": 1}, nonsense=1), "nonsense": 1}, expect=201)


@case
def with_wrong_types_of_fields(api: Api) -> None:
    """A built-in object whose fields have the wrong type is refused as a bad request."""
    api.post("configmaps", {**config_map("a"), "data": {"a": 1}}, expect=400)
    api.post("configmaps", {**config_map("a"), "data": []}, expect=400)
    api.post("secrets", named("v1", "Secret", "a", data={"a": "not base64!"}), expect=400)
    api.post("leases", named("coordination.k8s.io/v1", "Lease", "a", spec={"renewTime": "today"}), expect=400)


@case
def with_bad_values_of_fields(api: Api) -> None:
    """A built-in object is validated beyond its types."""
    api.post("configmaps", config_map("a", {"bad key": "x"}), expect=422)
    api.post("secrets", named("v1", "Secret", "a", data={"bad key": "eA=="}), expect=422)
    body = named("coordination.k8s.io/v1", "Lease", "a", spec={"leaseDurationSeconds": 0})
    api.post("leases", body, expect=422)


@case
def of_a_pod_without_containers(api: Api) -> None:
    """A Pod needs a container with a name and an image."""
    api.post("pods", named("v1", "Pod", "a", spec={}), expect=422)
    api.post("pods", named("v1", "Pod", "a", spec={"containers": [{"name": "main"}]}), expect=-1)


@case.each({"yaml": "application/yaml"})
def with_a_yaml_body(api: Api, media: str) -> None:
    """A body may be YAML."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    api.post("configmaps", text, content_type=media, expect=201)
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 2\n"
    api.post("widgets", text, content_type=media, expect=201)


@case.each({"text": "text/plain", "form": "application/x-www-form-urlencoded", "nonsense": "a"})
def with_an_unknown_media_type(api: Api, media: str) -> None:
    """A body of an unknown media type is refused."""
    api.post("configmaps", config_map("a"), content_type=media, expect=415)
    api.post("widgets", widget("a"), content_type=media, expect=415)


@case
def without_a_media_type(api: Api) -> None:
    """A body without a media type is read as JSON."""
    api.post("configmaps", config_map("a"), content_type="", expect=201)
    api.post("widgets", widget("a"), content_type="application/json; charset=utf-8", expect=201)


@case.each(["text/html", "application/json;as=Nonsense;v=v1;g=meta.k8s.io", "image/png, text/*"])
def with_an_unacceptable_answer(api: Api, accept: str) -> None:
    """A client that accepts no form that can be written is refused."""
    api.get("configmaps", accept=accept, expect=406)
    api.get("widgets", accept=accept, expect=406)


ACCEPTABLE = {
    "anything": "*/*",
    "any-application": "application/*",
    "nothing": "",
    "yaml": "application/yaml",
    "browser": "text/html, application/json;q=0.9, */*;q=0.8",
}


@case.each(ACCEPTABLE)
def with_other_acceptable_answers(api: Api, accept: str) -> None:
    """The answer has the first form that the client accepts and the server can write."""
    api.post("widgets", widget("a"))
    api.get("widgets/a", accept=accept)


@case
def with_dry_run(api: Api) -> None:
    """A dry run answers as if, and changes nothing."""
    api.post("configmaps", config_map("a"), query={"dryRun": "All"}, expect=201)
    api.get("configmaps/a", expect=404)
    api.post("widgets", widget("a"), query={"dryRun": "All"}, expect=201)
    api.get("widgets/a", expect=404)
    api.post("widgets", widget("a", {"size": 99}), query={"dryRun": "All"}, expect=422)
    api.post("widgets", widget("a"), query={"dryRun": "Some"}, expect=422)


@case
def with_pretty_printing(api: Api) -> None:
    """The pretty parameter changes nothing but white space."""
    api.post("widgets", widget("a"), query={"pretty": "true"}, expect=201)
    api.get("widgets/a", query={"pretty": "true"})

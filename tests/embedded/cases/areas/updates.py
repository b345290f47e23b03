"""Replacing objects: optimistic locking, what may not change, generations, the status subresource."""

from collections.abc import Callable
from typing import Any

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    gadget,
    lease,
    named,
    namespace,
    pod,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Answer

case = Area(__name__)

BUILDERS: dict[str, Callable[..., Raw]] = {"configmaps": config_map, "widgets": widget}
CHANGE: dict[str, Raw] = {"configmaps": {"data": {"k": "new"}}, "widgets": {"spec": {"size": 5}}}


def changed(answer: Answer, **changes: Any) -> Raw:
    """The object of an answer with other values; `metadata` is merged."""
    metadata = {**answer.metadata, **changes.pop("metadata", {})}
    return {**answer.body, **changes, "metadata": {k: v for k, v in metadata.items() if v is not None}}


@case.each(BUILDERS.keys())
def with_the_current_version(api: Api, plural: str) -> None:
    """A replacement with the current resourceVersion takes place and gets a new one."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, **CHANGE[plural]))
    api.get(f"{plural}/a")


@case.each(BUILDERS.keys())
def with_an_old_version(api: Api, plural: str) -> None:
    """A replacement with an old resourceVersion is a conflict."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, **CHANGE[plural]))
    api.put(f"{plural}/a", changed(old, metadata={"labels": {"late": "yes"}}), expect=409)
    api.get(f"{plural}/a")


@case.each(BUILDERS.keys())
def without_a_version(api: Api, plural: str) -> None:
    """A replacement without resourceVersion is unconditional for built-in kinds, and refused for custom ones."""
    api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", {**BUILDERS[plural]("a"), **CHANGE[plural]}, expect=-1)
    api.get(f"{plural}/a")


@case.each(BUILDERS.keys())
def with_a_nonsensical_version(api: Api, plural: str) -> None:
    """A resourceVersion that is no number is refused."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, metadata={"resourceVersion": "abc"}), expect=-1)
    api.put(f"{plural}/a", changed(old, metadata={"resourceVersion": "0"}), expect=-1)
    api.put(f"{plural}/a", changed(old, metadata={"resourceVersion": "999999999"}), expect=-1)


@case.each(BUILDERS.keys())
def that_changes_nothing(api: Api, plural: str) -> None:
    """A replacement by the same object leaves the resourceVersion alone."""
    old = api.post(plural, BUILDERS[plural]("a"))
    new = api.put(f"{plural}/a", old.body)
    api.note("same version", new.rv == old.rv)


@case.each(BUILDERS.keys())
def of_the_uid(api: Api, plural: str) -> None:
    """A replacement with another uid is a conflict."""
    old = api.post(plural, BUILDERS[plural]("a"))
    other = "00000000-0000-0000-0000-000000000001"
    api.put(f"{plural}/a", changed(old, metadata={"uid": other}), expect=409)
    api.put(f"{plural}/a", changed(old, metadata={"uid": None}, **CHANGE[plural]))


@case.each(BUILDERS.keys())
def of_server_metadata(api: Api, plural: str) -> None:
    """creationTimestamp, generation and deletionTimestamp keep the server's values."""
    old = api.post(plural, BUILDERS[plural]("a"))
    mine = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}
    api.put(f"{plural}/a", changed(old, metadata=mine), expect=-1)
    api.put(f"{plural}/a", changed(old, metadata={"creationTimestamp": None}), expect=-1)
    api.put(f"{plural}/a", changed(old, metadata={"deletionTimestamp": "2001-01-01T00:00:00Z"}), expect=-1)
    api.get(f"{plural}/a")


@case.each(BUILDERS.keys())
def with_another_name(api: Api, plural: str) -> None:
    """The name of the body must be that of the path."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, metadata={"name": "b"}), expect=400)
    api.put(f"{plural}/a", changed(old, metadata={"name": None}), expect=-1)


@case.each(BUILDERS.keys())
def with_another_namespace(api: Api, plural: str) -> None:
    """The namespace of the body must be that of the path."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, metadata={"namespace": "default"}), expect=400)


@case.each(BUILDERS.keys())
def with_another_kind(api: Api, plural: str) -> None:
    """The type of the body must be that of the path."""
    old = api.post(plural, BUILDERS[plural]("a"))
    api.put(f"{plural}/a", changed(old, kind="Nonsense"), expect=-1)
    api.put(f"{plural}/a", changed(old, apiVersion="nonsense.example.com/v1"), expect=400)


@case
def of_a_missing_object(api: Api) -> None:
    """A replacement creates no custom object, nor a built-in one that must be created first."""
    api.put("configmaps/a", config_map("a"), expect=-1)
    api.put("widgets/a", widget("a"), expect=404)
    api.put("widgets/a", widget("a", resourceVersion="1"), expect=-1)


@case
def of_a_missing_lease(api: Api) -> None:
    """A PUT of a Lease that isn't there creates it, one of a Secret doesn't."""
    api.put("leases/a", lease("a"), expect=-1)
    api.put("secrets/a", named("v1", "Secret", "a"), expect=-1)


@case
def of_an_immutable_config_map(api: Api) -> None:
    """A ConfigMap that is marked immutable keeps its data."""
    old = api.post("configmaps", {**config_map("a"), "immutable": True})
    api.put("configmaps/a", changed(old, data={"k": "new"}), expect=422)
    api.put("configmaps/a", changed(old, metadata={"labels": {"a": "b"}}))


@case
def of_a_secrets_type(api: Api) -> None:
    """A Secret keeps its type."""
    old = api.post("secrets", named("v1", "Secret", "a", type="example.com/one"))
    api.put("secrets/a", changed(old, type="example.com/two"), expect=422)


@case
def of_a_pods_spec(api: Api) -> None:
    """A Pod's spec can't change but for its image and a few other fields."""
    old = api.post("pods", pod("a"))
    api.patch(
        "pods/a", {"spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]}}, "strategic"
    )
    api.patch("pods/a", {"metadata": {"labels": {"a": "b"}}}, "merge")
    api.note("had a version", bool(old.rv))


@case
def of_metadata_alone(api: Api) -> None:
    """A change of labels, annotations or finalizers doesn't count as a new generation."""
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {"metadata": {"labels": {"a": "b"}}})
    api.patch("widgets/a", {"metadata": {"annotations": {"a": "b"}}})
    api.patch("widgets/a", {"metadata": {"finalizers": ["example.com/f"]}})


@case
def of_the_spec(api: Api) -> None:
    """A change of the spec counts as a new generation, one of the status through the object doesn't take place."""
    old = api.post("widgets", {**widget("a"), "status": {"phase": "ignored"}})
    new = api.put("widgets/a", changed(old, spec={"size": 5}, status={"phase": "ignored"}))
    api.put("widgets/a", changed(new, status={"phase": "ignored"}))


@case
def of_a_kind_without_status(api: Api) -> None:
    """Without a status subresource every change but that of metadata counts as a new generation."""
    old = api.post("gadgets", gadget(api.name, {"a": 1}))
    new = api.put(f"gadgets/{api.name}", changed(old, spec={"a": 2}))
    api.put(f"gadgets/{api.name}", changed(new, metadata={"labels": {"a": "b"}}))
    api.get(f"gadgets/{api.name}/status", expect=404)


@case
def of_the_status(api: Api) -> None:
    """The status subresource changes the status alone, and no generation."""
    old = api.post("widgets", widget("a"))
    body = changed(old, spec={"size": 9}, status={"phase": "Fine"}, metadata={"labels": {"a": "b"}})
    new = api.put("widgets/a/status", body)
    api.get("widgets/a/status")
    api.patch("widgets/a/status", {"status": {"seen": 2}, "spec": {"size": 8}})
    api.patch("widgets/a/status", [{"op": "add", "path": "/status/phase", "value": "Better"}], "json")
    api.put("widgets/a/status", changed(old, status={"phase": "Late"}), expect=409)
    api.note("new version", new.rv != old.rv)


@case
def of_the_status_with_errors(api: Api) -> None:
    """The status is validated against its schema, and pruned."""
    old = api.post("widgets", widget("a"))
    api.put("widgets/a/status", changed(old, status={"seen": "many"}), expect=422)
    api.patch("widgets/a/status", {"status": {"nonsense": 1, "phase": "x"}})
    api.patch("widgets/b/status", {"status": {"phase": "x"}}, expect=404)
    api.patch("widgets/a/status", {"metadata": {"annotations": {"through": "status"}}})


@case
def of_the_status_of_a_namespace(api: Api) -> None:
    """A built-in kind's status subresource changes the status alone."""
    name = f"{api.name}-x"
    old = api.post("namespaces", namespace(name))
    api.put(f"namespaces/{name}/status", changed(old, spec={"finalizers": []}))


@case
def of_an_object_that_became_invalid(api: Api) -> None:
    """A replacement that breaks the schema is refused and changes nothing."""
    old = api.post("widgets", widget("a"))
    api.put("widgets/a", changed(old, spec={"size": 99}), expect=422)
    api.get("widgets/a")


@case
def with_dry_run(api: Api) -> None:
    """A dry run of a replacement answers as if, and changes nothing."""
    old = api.post("widgets", widget("a"))
    api.put("widgets/a", changed(old, spec={"size": 7}), query={"dryRun": "All"})
    api.get("widgets/a")


@case
def of_a_lease_by_two_holders(api: Api) -> None:
    """Of two who take a lease over at once, the second is refused."""
    old = api.post("leases", lease("a", "one"))
    api.put("leases/a", {**old.body, "spec": {**old.body["spec"], "holderIdentity": "two"}})
    api.put("leases/a", {**old.body, "spec": {**old.body["spec"], "holderIdentity": "three"}}, expect=409)


@case
def through_another_version(api: Api) -> None:
    """A custom object can be read and replaced in every served version."""
    old = api.post("widgets", widget("a", {"size": 2}))
    path = f"/apis/example.com/v1beta1/namespaces/{api.ns}/widgets"
    api.get(f"{path}/a")
    api.put(f"{path}/a", changed(old, apiVersion="example.com/v1beta1", spec={"size": 4}))
    api.get("widgets/a")
    api.get(path)

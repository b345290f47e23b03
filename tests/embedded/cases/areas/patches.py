"""Patches of every kind: what they change, when they are refused, what they leave alone."""

from typing import Any

from tests.embedded.cases.kit.objects import (
    config_map,
    named,
    node,
    pod,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area

case = Area(__name__)


@case
def merging(api: Api) -> None:
    """A merge patch merges objects, replaces lists and removes what is null."""
    api.post("widgets", widget("a", {"size": 2, "tags": ["x", "y"], "raw": {"a": 1, "b": {"c": 2}}}))
    api.patch("widgets/a", {"spec": {"tags": ["z"], "raw": {"a": None, "b": {"d": 3}}}})
    api.patch("widgets/a", {"spec": {"raw": None, "size": None}})
    api.patch("widgets/a", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    api.patch("widgets/a", {"metadata": {"labels": None}})


@case
def merging_a_config_map(api: Api) -> None:
    """A merge patch works for built-in kinds as for custom ones."""
    api.post("configmaps", config_map("a", {"x": "1", "y": "2"}))
    api.patch("configmaps/a", {"data": {"x": None, "z": "3"}})
    api.patch("configmaps/a", {"data": None})


@case.each(["merge", "json", "strategic"])
def that_change_nothing(api: Api, kind: str) -> None:
    """A patch that changes nothing leaves the resourceVersion alone."""
    old = api.post("configmaps", config_map("a"))
    body: Any = (
        [{"op": "replace", "path": "/data/k", "value": "v"}] if kind == "json" else {"data": {"k": "v"}}
    )
    new = api.patch("configmaps/a", body, kind)
    api.note("same version", new.rv == old.rv)
    if kind != "strategic":
        old = api.post("widgets", widget("a", {"size": 2}))
        body = [{"op": "test", "path": "/spec/size", "value": 2}] if kind == "json" else {"spec": {"size": 2}}
        new = api.patch("widgets/a", body, kind)
        api.note("same version", new.rv == old.rv)


@case
def that_are_empty(api: Api) -> None:
    """An empty patch is answered with the object as it is."""
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {})
    api.patch("widgets/a", [], "json")


OPERATIONS = {
    "add": [{"op": "add", "path": "/spec/raw", "value": {"a": [1, 2]}}],
    "add-into-list": [{"op": "add", "path": "/spec/tags/0", "value": "first"}],
    "append": [{"op": "add", "path": "/spec/tags/-", "value": "last"}],
    "remove": [{"op": "remove", "path": "/spec/tags"}],
    "remove-from-list": [{"op": "remove", "path": "/spec/tags/1"}],
    "replace": [{"op": "replace", "path": "/spec/size", "value": 4}],
    "copy": [{"op": "copy", "from": "/spec/plain", "path": "/spec/note"}],
    "move": [{"op": "move", "from": "/spec/plain", "path": "/spec/note"}],
    "test-then-replace": [
        {"op": "test", "path": "/spec/size", "value": 2},
        {"op": "replace", "path": "/spec/size", "value": 3},
    ],
    "escaped": [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1key", "value": "1"},
    ],
    "whole-labels": [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
}


@case.each({name: (operations,) for name, operations in OPERATIONS.items()})
def by_operations(api: Api, operations: list[Any]) -> None:
    """A JSON patch carries out its operations one after the other."""
    api.post("widgets", widget("a", {"size": 2, "plain": "text", "tags": ["x", "y"]}))
    api.patch("widgets/a", operations, "json")


FAILING = {
    "test-fails": [{"op": "test", "path": "/spec/size", "value": 3}],
    "test-of-nothing": [{"op": "test", "path": "/spec/nothing", "value": 3}],
    "remove-nothing": [{"op": "remove", "path": "/spec/nothing"}],
    "replace-nothing": [{"op": "replace", "path": "/spec/nothing", "value": 1}],
    "replace-below-nothing": [{"op": "replace", "path": "/spec/nothing/at", "value": 1}],
    "add-below-nothing": [{"op": "add", "path": "/spec/nothing/at", "value": 1}],
    "index-too-large": [{"op": "add", "path": "/spec/tags/9", "value": "z"}],
    "unknown-operation": [{"op": "nonsense", "path": "/spec/size", "value": 1}],
    "no-list": {"op": "add", "path": "/spec/size", "value": 1},
    "no-json": "[{",
    "makes-it-invalid": [{"op": "replace", "path": "/spec/size", "value": 99}],
    "changes-the-name": [{"op": "replace", "path": "/metadata/name", "value": "b"}],
    "changes-the-kind": [{"op": "replace", "path": "/kind", "value": "Nonsense"}],
    "changes-the-namespace": [{"op": "replace", "path": "/metadata/namespace", "value": "default"}],
}


@case.each({name: (operations,) for name, operations in FAILING.items()})
def by_operations_that_fail(api: Api, operations: Any) -> None:
    """A JSON patch that can't be carried out, or whose result is wrong, is refused and changes nothing."""
    old = api.post("widgets", widget("a", {"size": 2, "tags": ["x"]}))
    api.patch("widgets/a", operations, "json", expect=-1)
    api.note("unchanged", api.get("widgets/a").rv == old.rv)


BAD_MERGES = {
    "no-json": "{",
    "a-list": [],
    "a-text": '"text"',
    "a-null": "null",
    "wrong-type": {"spec": {"size": "large"}},
    "out-of-range": {"spec": {"size": 99}},
    "name": {"metadata": {"name": "b"}},
    "namespace": {"metadata": {"namespace": "default"}},
    "uid": {"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}},
    "kind": {"kind": "Nonsense"},
    "api-version": {"apiVersion": "example.com/v2"},
    "metadata-null": {"metadata": None},
    "spec-as-text": {"spec": "text"},
    "labels-as-text": {"metadata": {"labels": "text"}},
    "bad-label": {"metadata": {"labels": {"a": "b c"}}},
}


@case.each({name: (patch,) for name, patch in BAD_MERGES.items()})
def by_merging_what_is_wrong(api: Api, patch: Any) -> None:
    """A merge patch that is no object, or whose result is wrong, is refused and changes nothing."""
    old = api.post("widgets", widget("a", {"size": 2}))
    api.patch("widgets/a", patch, expect=-1)
    api.note("unchanged", api.get("widgets/a").rv == old.rv)


@case.each(["no-json", "a-list", "wrong-type", "name", "namespace", "kind"])
def of_config_maps_by_merging_what_is_wrong(api: Api, which: str) -> None:
    """A wrong merge patch of a built-in object is refused and changes nothing."""
    patch = {"data": {"k": 1}} if which == "wrong-type" else BAD_MERGES[which]
    old = api.post("configmaps", config_map("a"))
    api.patch("configmaps/a", patch, expect=-1)
    api.note("unchanged", api.get("configmaps/a").rv == old.rv)


@case
def with_a_version(api: Api) -> None:
    """A patch with a resourceVersion applies to that version alone."""
    for plural, body in (("configmaps", config_map("a")), ("widgets", widget("a"))):
        old = api.post(plural, body)
        labelled = {"metadata": {"resourceVersion": old.rv, "labels": {"a": "1"}}}
        api.patch(f"{plural}/a", labelled)
        api.patch(f"{plural}/a", {"metadata": {"resourceVersion": old.rv, "labels": {"a": "2"}}}, expect=409)
        api.patch(f"{plural}/a", {"metadata": {"resourceVersion": None, "labels": {"a": "3"}}}, expect=-1)


@case
def of_a_missing_object(api: Api) -> None:
    """A patch creates nothing."""
    api.patch("configmaps/a", {"data": {}}, expect=404)
    api.patch("widgets/a", {"spec": {}}, expect=404)
    api.patch("widgets/a", [], "json", expect=404)


@case.each(["application/json", "text/plain", "application/strategic-merge-patch+json", "nonsense"])
def of_custom_objects_with_a_wrong_media_type(api: Api, media: str) -> None:
    """A custom object takes merge and JSON patches only."""
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {"spec": {"size": 1}}, media, expect=415)


@case.each(["application/json", "text/plain"])
def of_config_maps_with_a_wrong_media_type(api: Api, media: str) -> None:
    """A patch must say which kind of patch it is."""
    api.post("configmaps", config_map("a"))
    api.patch("configmaps/a", {"data": {}}, media, expect=415)


@case
def by_server_side_apply(api: Api) -> None:
    """Server-side apply."""
    api.patch(
        "widgets/a",
        widget("a", {"size": 2}),
        "apply",
        query={"fieldManager": "tests", "force": "true"},
        expect=201,
    )


@case
def merging_containers_by_name(api: Api) -> None:
    """A strategic patch merges a Pod's containers by their names."""
    api.post("pods", pod("a"))
    second = {"name": "second", "image": "example.com/other:1"}
    api.patch(
        "pods/a", {"spec": {"containers": [{"name": "main", "image": "example.com/image:3"}]}}, "strategic"
    )
    api.patch("pods/a", {"spec": {"containers": [second]}}, "strategic", expect=422)
    api.patch("pods/a", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, "strategic")


@case
def merging_conditions_by_type(api: Api) -> None:
    """A strategic patch merges conditions by their types and addresses by theirs."""
    api.post("nodes", node(api.name))
    path = f"nodes/{api.name}/status"
    for kind, status in (("Ready", "True"), ("DiskPressure", "False"), ("Ready", "False")):
        api.patch(path, {"status": {"conditions": [{"type": kind, "status": status}]}}, "strategic")
    api.patch(path, {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}, "strategic")
    api.patch(path, {"status": {"addresses": [{"type": "Hostname", "address": "n"}]}}, "strategic")
    api.patch(path, {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}, "strategic")


@case
def merging_finalizers_as_a_set(api: Api) -> None:
    """A strategic patch adds to the finalizers, where a merge patch replaces them."""
    api.post("configmaps", config_map("a", finalizers=["example.com/one"]))
    api.patch("configmaps/a", {"metadata": {"finalizers": ["example.com/two"]}}, "strategic")
    deletion = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
    api.patch("configmaps/a", deletion, "strategic")
    api.patch("configmaps/a", {"metadata": {"finalizers": []}}, "merge")


@case
def merging_owner_references_by_uid(api: Api) -> None:
    """A strategic patch merges owner references by uid."""
    one = {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "00000000-0000-0000-0000-000000000001"}
    two = {**one, "name": "y", "uid": "00000000-0000-0000-0000-000000000002"}
    finalizers = ["example.com/stay"]
    api.post("configmaps", config_map("a", finalizers=finalizers))
    with api.quietly():
        api.patch(
            "configmaps/a", {"metadata": {"ownerReferences": [one]}}, "strategic", query={"dryRun": "All"}
        )
    api.patch("configmaps/a", {"metadata": {"ownerReferences": [one]}}, "strategic", query={"dryRun": "All"})
    api.patch(
        "configmaps/a", {"metadata": {"ownerReferences": [two, one]}}, "strategic", query={"dryRun": "All"}
    )


@case
def with_strategic_directives(api: Api) -> None:
    """A strategic patch knows $patch: replace, $patch: delete and $retainKeys."""
    api.post("configmaps", config_map("a", {"x": "1", "y": "2"}))
    api.patch("configmaps/a", {"data": {"$patch": "replace", "z": "3"}}, "strategic")
    api.patch("configmaps/a", {"data": {"$retainKeys": ["w"], "w": "4"}}, "strategic")
    api.patch("configmaps/a", {"data": {"$patch": "delete"}}, "strategic")


@case.each({"text": '"text"', "no-json": "{", "list": "[]"})
def that_are_strategic_and_wrong(api: Api, body: str) -> None:
    """A strategic patch that is no object is refused."""
    api.post("configmaps", config_map("a"))
    api.patch("configmaps/a", body, "strategic", expect=400)


@case
def with_dry_run(api: Api) -> None:
    """A dry run of a patch answers as if, and changes nothing."""
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {"spec": {"size": 7}}, query={"dryRun": "All"})
    api.get("widgets/a")


@case
def of_a_secret_with_string_data(api: Api) -> None:
    """stringData of a patch lands in data."""
    api.post("secrets", named("v1", "Secret", "a", data={"x": "MQ=="}))
    api.patch("secrets/a", {"stringData": {"y": "2"}})


@case
def with_many_operations(api: Api) -> None:
    """A JSON patch of more than 10,000 operations is refused."""
    api.post("widgets", widget("a"))
    operations = [{"op": "test", "path": "/spec/size", "value": 3}] * 10_001
    api.patch("widgets/a", operations, "json", expect=413)

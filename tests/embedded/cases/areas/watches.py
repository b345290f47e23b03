"""Watches: what starts them, what they say, how they end."""

from typing import Any

from tests.embedded.cases.kit.objects import config_map, gadget, widget
from tests.embedded.cases.kit.script import Api, Watch
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Json

case = Area(__name__)

BUILDERS = {"configmaps": config_map, "widgets": widget}
CHANGE = {"configmaps": {"data": {"k": "new"}}, "widgets": {"spec": {"size": 5}}}


@case.each(BUILDERS.keys())
def from_a_version(api: Api, plural: str) -> None:
    """A watch from a list's version tells of every change after it."""
    start = api.get(plural)
    with api.watch(plural, resourceVersion=start.rv) as watch:
        api.post(plural, BUILDERS[plural]("a"))
        api.patch(f"{plural}/a", CHANGE[plural])
        api.delete(f"{plural}/a")
        watch.take(3)


@case.each(BUILDERS.keys())
def from_the_past(api: Api, plural: str) -> None:
    """A watch from an older version first tells of what happened since."""
    start = api.get(plural)
    api.post(plural, BUILDERS[plural]("a"))
    api.patch(f"{plural}/a", CHANGE[plural])
    with api.watch(plural, resourceVersion=start.rv) as watch:
        watch.take(2)


@case.each({"unset": "", "zero": "0"})
def of_what_is(api: Api, version: str) -> None:
    """A watch from no version, or from 0, begins with the objects that are there."""
    old = api.post("widgets", widget("a"))
    with api.watch("widgets", resourceVersion=version) as watch:
        watch.take(1)
        api.post("widgets", widget("b"))
        events = watch.until("b")
    api.note("first as stored", old.rv != events[-1]["object"]["metadata"]["resourceVersion"])


@case
def of_one_object(api: Api) -> None:
    """A field selector on the name watches one object."""
    start = api.get("widgets")
    with api.watch("widgets", resourceVersion=start.rv, fieldSelector="metadata.name=b") as watch:
        for name in ("a", "b", "c"):
            api.post("widgets", widget(name))
        api.delete("widgets/b")
        watch.take(2)


@case
def of_a_selection(api: Api) -> None:
    """An object that enters a selection is ADDED, one that leaves it DELETED, with its state at that time."""
    start = api.get("widgets")
    with api.watch("widgets", resourceVersion=start.rv, labelSelector="colour=red") as watch:
        api.post("widgets", widget("a", labels={"colour": "blue"}))
        api.patch("widgets/a", {"metadata": {"labels": {"colour": "red"}}})
        api.patch("widgets/a", {"spec": {"size": 9}})
        api.patch("widgets/a", {"metadata": {"labels": {"colour": "green"}}})
        api.patch("widgets/a", {"spec": {"size": 8}})
        api.patch("widgets/a", {"metadata": {"labels": {"colour": "red"}}})
        api.delete("widgets/a")
        watch.take(5)


@case
def of_a_selection_of_config_maps(api: Api) -> None:
    """Selections of built-in objects are watched in the same way."""
    start = api.get("configmaps")
    with api.watch("configmaps", resourceVersion=start.rv, labelSelector="colour=red") as watch:
        api.post("configmaps", config_map("a", labels={"colour": "red"}))
        api.patch("configmaps/a", {"metadata": {"labels": {"colour": None}}})
        watch.take(2)


@case
def of_finalizers(api: Api) -> None:
    """The mark of a deletion is a MODIFIED, the end of it a DELETED with the last state."""
    start = api.get("widgets")
    with api.watch("widgets", resourceVersion=start.rv) as watch:
        api.post("widgets", widget("a", finalizers=["example.com/stay"]))
        api.delete("widgets/a")
        api.patch("widgets/a", {"metadata": {"finalizers": None}})
        watch.take(3)


@case
def of_all_namespaces(api: Api) -> None:
    """A watch at the root of a kind tells of all namespaces."""
    path = "/apis/example.com/v1/widgets"
    selector = f"of={api.name}"
    start = api.get(path, query={"labelSelector": selector})
    with api.watch(path, resourceVersion=start.rv, labelSelector=selector) as watch:
        api.post("widgets", widget("a", labels={"of": api.name}))
        api.post("/apis/example.com/v1/namespaces/default/widgets", widget(api.name, labels={"of": api.name}))
        watch.take(2)


@case
def of_a_cluster_scoped_kind(api: Api) -> None:
    """Cluster-scoped objects are watched as others are."""
    selector = f"metadata.name={api.name}"
    start = api.get("gadgets", query={"fieldSelector": selector})
    with api.watch("gadgets", resourceVersion=start.rv, fieldSelector=selector) as watch:
        api.post("gadgets", gadget(api.name))
        api.delete(f"gadgets/{api.name}")
        watch.take(2)


@case
def of_nothing_new(api: Api) -> None:
    """A change that changes nothing is no event."""
    api.post("widgets", widget("a", {"size": 2}))
    start = api.get("widgets")
    with api.watch("widgets", resourceVersion=start.rv) as watch:
        api.patch("widgets/a", {"spec": {"size": 2}})
        api.patch("widgets/a", {"spec": {"size": 99}}, expect=422)
        api.patch("widgets/a", {"spec": {"size": 5}}, query={"dryRun": "All"})
        api.post("widgets", widget("end"))
        watch.until("end")


@case
def that_end_in_time(api: Api) -> None:
    """The server ends a watch after timeoutSeconds, without an error."""
    start = api.get("widgets")
    with api.watch("widgets", resourceVersion=start.rv, timeoutSeconds="1") as watch:
        watch.rest()


@case.each({"bookmarks": "true"})
def with_bookmarks(api: Api, allowed: str) -> None:
    """A watch with bookmarks ends with one that holds a version to go on from."""
    api.post("widgets", widget("a"))
    start = api.get("widgets")
    query: dict[str, Any] = {
        "resourceVersion": start.rv,
        "allowWatchBookmarks": allowed,
        "timeoutSeconds": "3",
    }
    with api.watch("widgets", **query) as watch, api.quietly():
        found = _bookmarks(watch)
    # kube-apiserver sends them by a clock, and a busy machine may miss the end of a watch.
    for _ in range(10):
        if found:
            break
        with api.quietly(), api.watch("widgets", **query) as watch:
            found = _bookmarks(watch)
    api.note("bookmarks", found[-1:])


def _bookmarks(watch: Watch) -> list[Json]:
    return [event for event in watch.rest(bookmarks=True) if event["type"] == "BOOKMARK"]


@case.each({"text": "abc", "negative": "-1"})
def from_a_bad_version(api: Api, version: str) -> None:
    """A watch from something that is no version is refused."""
    for plural in BUILDERS:
        api.get(plural, query={"watch": "1", "resourceVersion": version, "timeoutSeconds": 1}, expect=-1)


@case
def in_the_old_form(api: Api) -> None:
    """The old watch paths work still."""
    old = api.post("configmaps", config_map("a"))
    api.note("had a version", bool(old.rv))
    with api.watch(f"/api/v1/watch/namespaces/{api.ns}/configmaps", resourceVersion="0") as watch:
        watch.take(1)


@case
def with_a_bad_selector(api: Api) -> None:
    """A watch with a selector that can't be parsed is refused."""
    api.get("widgets", query={"watch": "1", "labelSelector": "a in b", "timeoutSeconds": 1}, expect=400)
    api.get("widgets", query={"watch": "1", "fieldSelector": "spec.x=1", "timeoutSeconds": 1}, expect=400)


@case
def of_a_name_in_the_path(api: Api) -> None:
    """At the path of one object the parameter watch means nothing."""
    api.post("widgets", widget("a"))
    api.get("widgets/a", query={"watch": "true"})


@case
def with_initial_events_asked_for(api: Api) -> None:
    """A watch may begin with the objects that are there, and say when it has sent them all."""
    api.post("widgets", widget("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    api.get("widgets", query={**query, "watch": "true", "timeoutSeconds": 1}, expect=-1)


@case
def as_tables(api: Api) -> None:
    """A watch may send tables: the columns with the first event, then rows alone."""
    start = api.get("widgets")
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with api.watch("widgets", accept=table, resourceVersion=start.rv) as watch:
        api.post("widgets", widget("a"))
        api.patch("widgets/a", {"spec": {"size": 9}})
        watch.take(2)


@case
def as_metadata(api: Api) -> None:
    """A watch may send the metadata of objects alone."""
    start = api.get("widgets")
    metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    with api.watch("widgets", accept=metadata, resourceVersion=start.rv) as watch:
        api.post("widgets", widget("a"))
        watch.take(1)

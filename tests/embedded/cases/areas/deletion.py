"""Deleting: finalizers, preconditions, grace, collections, namespaces; and what the garbage collector does after it."""

from typing import Any

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    gadget,
    namespace,
    owner,
    pod,
    widget,
)
from tests.embedded.cases.kit.script import Api, collector_is_up_to_date
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Answer

case = Area(__name__)

BUILDERS = {"configmaps": config_map, "widgets": widget}
FINALIZER = "example.com/stay"


@case.each(BUILDERS.keys())
def of_an_object(api: Api, plural: str) -> None:
    """A deletion is answered with a Status that names what is gone, and happens once."""
    api.post(plural, BUILDERS[plural]("a"))
    api.delete(f"{plural}/a")
    api.delete(f"{plural}/a", expect=404)
    api.get(f"{plural}/a", expect=404)


@case.each(BUILDERS.keys())
def that_a_finalizer_delays(api: Api, plural: str) -> None:
    """An object with a finalizer is only marked, and goes when the last finalizer is removed."""
    api.post(plural, BUILDERS[plural]("a", finalizers=[FINALIZER, "example.com/other"]))
    api.delete(f"{plural}/a")
    api.get(f"{plural}/a")
    api.delete(f"{plural}/a")
    api.patch(f"{plural}/a", {"metadata": {"finalizers": [FINALIZER]}})
    api.patch(f"{plural}/a", {"metadata": {"finalizers": None}})
    api.get(f"{plural}/a", expect=404)


@case.each(BUILDERS.keys())
def that_is_under_way(api: Api, plural: str) -> None:
    """While an object is being deleted, it takes no new finalizer but other changes, and keeps its mark."""
    old = api.post(plural, BUILDERS[plural]("a", finalizers=[FINALIZER]))
    api.delete(f"{plural}/a")
    api.patch(f"{plural}/a", {"metadata": {"finalizers": [FINALIZER, "example.com/new"]}}, expect=422)
    api.patch(f"{plural}/a", {"metadata": {"labels": {"a": "b"}}})
    api.patch(f"{plural}/a", {"metadata": {"deletionTimestamp": None}}, expect=-1)
    api.post(plural, BUILDERS[plural]("a"), expect=409)
    api.put(f"{plural}/a", {**old.body, "metadata": {"name": "a"}}, expect=-1)
    api.patch(f"{plural}/a", [{"op": "remove", "path": "/metadata/finalizers"}], "json", expect=-1)
    api.get(f"{plural}/a", expect=-1)


@case
def by_an_update_of_finalizers(api: Api) -> None:
    """Removing the last finalizer by a replacement deletes a marked object as well."""
    api.post("widgets", widget("a", finalizers=[FINALIZER]))
    marked = api.delete("widgets/a")
    metadata = {key: value for key, value in marked.metadata.items() if key != "finalizers"}
    api.put("widgets/a", {**marked.body, "metadata": metadata})
    api.get("widgets/a", expect=404)


def options(**values: Any) -> Raw:
    """A DeleteOptions body."""
    return {"kind": "DeleteOptions", "apiVersion": "v1", **values}


@case.each(BUILDERS.keys())
def with_preconditions(api: Api, plural: str) -> None:
    """A deletion may be conditional on the uid and on the resourceVersion."""
    old = api.post(plural, BUILDERS[plural]("a"))
    other = "00000000-0000-0000-0000-000000000001"
    api.delete(f"{plural}/a", options(preconditions={"uid": other}), expect=409)
    api.delete(f"{plural}/a", options(preconditions={"resourceVersion": "1"}), expect=409)
    right = {"uid": old.uid, "resourceVersion": old.rv}
    api.delete(f"{plural}/a", options(preconditions=right))


@case.each(
    {
        "no-json": "{",
        "text": "hello",
        "list": "[]",
        "wrong-kind": '{"kind":"Nonsense","apiVersion":"v1"}',
        "unknown-policy": '{"propagationPolicy":"Nonsense"}',
        "two-policies": '{"propagationPolicy":"Orphan","orphanDependents":true}',
        "negative-grace": '{"gracePeriodSeconds":-1}',
        "grace-as-text": '{"gracePeriodSeconds":"x"}',
        "unknown-dry-run": '{"dryRun":["Some"]}',
        "empty-object": "{}",
    }
)
def with_options(api: Api, body: str) -> None:
    """The options of a deletion are checked before anything is deleted."""
    for plural, make in BUILDERS.items():
        api.post(plural, make("a"))
        api.delete(f"{plural}/a", body, expect=-1)
        api.get(f"{plural}/a", expect=-1)


PARAMETERS = {
    "unknown-policy": "propagationPolicy=Nonsense",
    "background": "propagationPolicy=Background",
    "grace": "gracePeriodSeconds=0",
    "bad-grace": "gracePeriodSeconds=x",
    "dry-run": "dryRun=All",
    "bad-dry-run": "dryRun=Some",
}


@case.each(PARAMETERS)
def with_parameters(api: Api, parameter: str) -> None:
    """The options of a deletion may be parameters of the query instead of a body."""
    name, _, value = parameter.partition("=")
    for plural, make in BUILDERS.items():
        api.post(plural, make("a"))
        api.delete(f"{plural}/a", query={name: value}, expect=-1)
        api.get(f"{plural}/a", expect=-1)


@case.each(PARAMETERS)
def with_parameters_and_a_body(api: Api, parameter: str) -> None:
    """The options of a query count for nothing where there is a body."""
    name, _, value = parameter.partition("=")
    for plural, make in BUILDERS.items():
        api.post(plural, make("a"))
        api.delete(f"{plural}/a", options(), query={name: value}, expect=-1)
        api.get(f"{plural}/a", expect=-1)


@case
def with_dry_run(api: Api) -> None:
    """A dry run of a deletion answers as if, and deletes nothing."""
    api.post("widgets", widget("a"))
    api.delete("widgets/a", query={"dryRun": "All"})
    api.get("widgets/a")
    api.delete("widgets/a", options(dryRun=["All"]))
    api.get("widgets/a")


@case
def of_a_pod(api: Api) -> None:
    """A Pod that no node runs is deleted at once."""
    api.post("pods", pod("a"))
    api.delete("pods/a")
    api.get("pods/a", expect=404)


@case
def of_a_pod_on_a_node(api: Api) -> None:
    """A Pod on a node is marked with its grace period, and goes when it is deleted with none."""
    body = pod("a")
    body["spec"]["nodeName"] = "nowhere"
    api.post("pods", body)
    api.delete("pods/a")
    api.get("pods/a")
    api.delete("pods/a", options(gracePeriodSeconds=0))
    api.get("pods/a", expect=404)


@case
def of_a_collection(api: Api) -> None:
    """A collection is deleted, all of it or what the selectors choose."""
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", "blue")):
        api.post("widgets", widget(name, labels={"colour": colour}))
        api.post("configmaps", config_map(name, labels={"colour": colour}))
    for plural in BUILDERS:
        with api.quietly():
            # The order of the answer's items is that of several deletions at once.
            gone = api.delete(plural, query={"labelSelector": "colour=red"})
        api.note("gone", [gone.status, gone.body["kind"], sorted(gone.names)])
        api.note("left", api.get(plural).names)
        api.delete(plural, query={"fieldSelector": "metadata.name=b"})
        api.delete(plural)
        api.note("left", api.get(plural).names)
        api.delete(plural)


@case
def of_a_collection_with_a_finalizer(api: Api) -> None:
    """Of a collection, objects with finalizers stay, marked."""
    api.post("widgets", widget("a", finalizers=[FINALIZER]))
    api.post("widgets", widget("b"))
    with api.quietly():
        api.delete("widgets")
    api.get("widgets")


@case
def of_all_namespaces_at_once(api: Api) -> None:
    """A collection can't be deleted across namespaces."""
    api.delete("/apis/example.com/v1/widgets", expect=-1)
    api.delete("/api/v1/configmaps", expect=405)
    api.delete("namespaces", expect=405)


def _owned(api: Api, dependants: int = 1, **reference: Any) -> Answer:
    parent = api.post("widgets", widget("parent"))
    reference = owner("example.com/v1", "Widget", "parent", parent.uid, **reference)
    for number in range(dependants):
        api.post("configmaps", config_map(f"child-{number}", ownerReferences=[reference]))
    collector_is_up_to_date(api)
    return parent


@case
def in_the_background(api: Api) -> None:
    """A deletion in the background takes the owner at once and its dependants after it."""
    _owned(api, 2)
    api.delete("widgets/parent", options(propagationPolicy="Background"))
    api.get("widgets/parent", expect=404)
    api.gone("configmaps/child-0")
    api.gone("configmaps/child-1")


@case
def by_default(api: Api) -> None:
    """A custom object's deletion is in the background unless said otherwise."""
    _owned(api)
    api.delete("widgets/parent")
    api.gone("configmaps/child-0")


@case
def in_the_foreground(api: Api) -> None:
    """A deletion in the foreground marks the owner, and takes it after the dependants that block it."""
    _owned(api, blockOwnerDeletion=True)
    api.patch("configmaps/child-0", {"metadata": {"finalizers": [FINALIZER]}})
    api.delete("widgets/parent", options(propagationPolicy="Foreground"))
    api.get("widgets/parent")
    api.until("configmaps/child-0", lambda answer: "deletionTimestamp" in answer.metadata)
    api.patch("configmaps/child-0", {"metadata": {"finalizers": None}})
    api.gone("widgets/parent")
    api.gone("configmaps/child-0")


@case
def orphaning(api: Api) -> None:
    """A deletion that orphans leaves the dependants, without the owner reference."""
    _owned(api)
    api.delete("widgets/parent", options(propagationPolicy="Orphan"))
    api.gone("widgets/parent")
    api.until("configmaps/child-0", lambda answer: "ownerReferences" not in answer.metadata)


@case
def of_one_of_two_owners(api: Api) -> None:
    """A dependant stays while one of its owners lives, and loses the reference to the dead one."""
    one = api.post("widgets", widget("one"))
    two = api.post("widgets", widget("two"))
    both = [owner("example.com/v1", "Widget", each.metadata["name"], each.uid) for each in (one, two)]
    api.post("configmaps", config_map("child", ownerReferences=both))
    collector_is_up_to_date(api)
    api.delete("widgets/one")
    api.until("configmaps/child", lambda answer: len(answer.metadata["ownerReferences"]) == 1)
    api.delete("widgets/two")
    api.gone("configmaps/child")


@case
def of_a_chain(api: Api) -> None:
    """Dependants of dependants go too."""
    parent = api.post("widgets", widget("parent"))
    child = api.post(
        "configmaps",
        config_map("child", ownerReferences=[owner("example.com/v1", "Widget", "parent", parent.uid)]),
    )
    reference = owner("v1", "ConfigMap", "child", child.uid)
    api.post("widgets", widget("grandchild", ownerReferences=[reference]))
    collector_is_up_to_date(api)
    api.delete("widgets/parent")
    api.gone("configmaps/child")
    api.gone("widgets/grandchild")


@case
def of_a_cluster_scoped_owner(api: Api) -> None:
    """A cluster-scoped object may own namespaced ones."""
    parent = api.post("gadgets", gadget(api.name))
    reference = owner("example.com/v1", "Gadget", api.name, parent.uid)
    api.post("configmaps", config_map("child", ownerReferences=[reference]))
    collector_is_up_to_date(api)
    api.delete(f"gadgets/{api.name}")
    api.gone("configmaps/child")


@case
def of_an_owner_that_never_was(api: Api) -> None:
    """An object whose owner doesn't exist is collected."""
    reference = owner("example.com/v1", "Widget", "never", "00000000-0000-0000-0000-000000000009")
    collector_is_up_to_date(api)
    with api.quietly():
        # It may be gone before this is answered in full.
        api.post("configmaps", config_map("child", ownerReferences=[reference]))
    api.gone("configmaps/child")


@case
def of_two_controllers(api: Api) -> None:
    """An object has one controlling owner at most."""
    references = [
        owner("v1", "ConfigMap", name, f"00000000-0000-0000-0000-00000000000{name}", controller=True)
        for name in ("1", "2")
    ]
    api.post("configmaps", config_map("child", ownerReferences=references), expect=422)


@case
def of_a_namespace(api: Api) -> None:
    """A namespace that is deleted becomes Terminating, takes no new objects, and goes with all that is in it."""
    name = f"{api.name}-x"
    api.post("namespaces", namespace(name))
    inside = f"/api/v1/namespaces/{name}/configmaps"
    widgets = f"/apis/example.com/v1/namespaces/{name}/widgets"
    api.post(inside, config_map("a", finalizers=[FINALIZER]))
    api.post(widgets, widget("a"))
    api.delete(f"namespaces/{name}")
    api.post(inside, config_map("b"), expect=403)
    api.gone(f"{widgets}/a")
    api.until(f"{inside}/a", lambda answer: "deletionTimestamp" in answer.metadata)
    with api.quietly():
        api.patch(f"{inside}/a", {"metadata": {"finalizers": None}})
    api.gone(f"namespaces/{name}")
    api.gone(f"{inside}/a")


@case.each(["default", "kube-system"])
def of_a_namespace_that_must_stay(api: Api, name: str) -> None:
    """The namespaces of the system can't be deleted."""
    api.delete(f"namespaces/{name}", expect=403)

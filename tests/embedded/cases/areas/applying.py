"""Server-side apply: whose fields are whose, what is merged, what goes, and what is a conflict."""

from typing import Any

from tests.embedded.cases.kit.objects import config_map, named, widget
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.wire import Json

case = Area(__name__)


def apply(api: Api, path: str, body: Json, manager: str = "one", force: bool = False, **options: Any) -> Any:
    """Apply as a manager."""
    query = {"fieldManager": manager, **({"force": "true"} if force else {})}
    return api.patch(path, body, "apply", query=query, **options)


@case
def the_same_again(api: Api) -> None:
    """The same configuration changes nothing, for any user."""
    apply(api, "widgets/a", widget("a", {"size": 2, "limits": {"a": 1}}))
    apply(api, "widgets/a", widget("a", {"size": 2, "limits": {"a": 1}}))
    apply(api, "widgets/a", widget("a", {"size": 2, "limits": {"a": 1}}), "two")


@case
def what_is_no_longer_asked_for(api: Api) -> None:
    """What a manager no longer applies goes, unless another one applies it too; defaults come back."""
    body = widget("a", {"size": 2, "plain": "x", "limits": {"a": 1, "b": 2}}, labels={"l": "1"})
    apply(api, "widgets/a", body)
    apply(api, "widgets/a", widget("a", {"plain": "x"}), "two")
    apply(api, "widgets/a", widget("a", {"limits": {"a": 1}}))
    apply(api, "widgets/a", widget("a", {"code": "abc"}))
    apply(api, "widgets/a", widget("a", {"code": "abc"}), "two")


@case
def other_values(api: Api) -> None:
    """Another manager's field is a conflict where its value differs, and is taken by force."""
    apply(api, "widgets/a", widget("a", {"size": 2, "plain": "x"}))
    apply(api, "widgets/a", widget("a", {"size": 3, "code": "abc"}), "two", expect=409)
    apply(api, "widgets/a", widget("a", {"size": 3, "plain": "y"}), "two", expect=409)
    apply(api, "widgets/a", widget("a", {"size": 3, "code": "abc"}), "two", force=True)
    apply(api, "widgets/a", widget("a", {"plain": "x"}))
    apply(api, "widgets/a", widget("a", {"size": 4, "plain": "x"}), expect=409)
    apply(api, "widgets/a", widget("a", {"code": "abc"}), "two")


@case
def what_another_write_changed(api: Api) -> None:
    """Who updates a field owns it: an apply that changes it back is a conflict, by force or not."""
    apply(api, "widgets/a", widget("a", {"size": 2, "plain": "x"}))
    api.patch("widgets/a", {"spec": {"size": 5}}, query={"fieldManager": "hand"})
    apply(api, "widgets/a", widget("a", {"size": 5, "plain": "x"}))
    api.patch("widgets/a", {"spec": {"size": 6}}, query={"fieldManager": "hand"})
    apply(api, "widgets/a", widget("a", {"plain": "x"}))
    apply(api, "widgets/a", widget("a", {"size": 2, "plain": "x"}), force=True)
    api.patch("widgets/a", {"metadata": {"labels": {"by": "hand"}}}, query={"fieldManager": "hand"})
    apply(api, "widgets/a", widget("a", {"size": 2}))


@case
def objects_that_others_made(api: Api) -> None:
    """An object that was created otherwise is taken over where the values are the same."""
    made = widget("a", {"size": 2, "plain": "x"})
    api.post("widgets", made, query={"fieldManager": "before-first-apply"})
    apply(api, "widgets/a", widget("a", {"size": 2}))
    apply(api, "widgets/a", widget("a", {"size": 3}), force=True)
    apply(api, "widgets/a", widget("a", {"code": "abc"}), force=True)


@case
def a_status(api: Api) -> None:
    """A status is applied apart from its object, and does not create it."""
    body = {**widget("a", {"size": 2}), "status": {"phase": "x"}}
    apply(api, "widgets/a/status", body, expect=404)
    apply(api, "widgets/a", widget("a", {"size": 2}))
    apply(api, "widgets/a/status", {**body, "status": {"phase": "y", "seen": 1}}, "two")
    apply(api, "widgets/a/status", {**body, "status": {"seen": 1}}, "two")


@case
def a_wrong_request(api: Api) -> None:
    """An apply needs a manager, a name that fits and no managed fields; other patches can't be forced."""
    api.patch("widgets/a", widget("a", {"size": 2}), "apply", expect=422)
    apply(api, "widgets/b", widget("a", {"size": 2}), expect=400)
    apply(api, "widgets/a", widget("a", {"size": 2}))
    taken = {"managedFields": [{"manager": "x", "operation": "Apply", "apiVersion": "example.com/v1"}]}
    apply(api, "widgets/a", widget("a", {"size": 2}, **taken), expect=400)
    api.patch("widgets/a", {"spec": {"size": 2}}, query={"force": "true"}, expect=422)


@case
def a_version(api: Api) -> None:
    """A configuration with a resourceVersion applies to that version alone."""
    old = apply(api, "widgets/a", widget("a", {"size": 2}))
    apply(api, "widgets/a", widget("a", {"size": 3}, resourceVersion=old.rv))
    apply(api, "widgets/a", widget("a", {"size": 4}, resourceVersion=old.rv), expect=409)


@case
def what_is_invalid(api: Api) -> None:
    """What an apply would make of an object must be valid."""
    apply(api, "widgets/a", widget("a", {"size": 200}), expect=422)
    apply(api, "widgets/a", widget("a", {"size": 2}))
    apply(api, "widgets/a", widget("a", {"mode": "other"}), "two", expect=422)


@case
def config_maps(api: Api) -> None:
    """Built-in kinds are applied as custom ones are, key by key."""
    apply(api, "configmaps/a", config_map("a", {"x": "1", "y": "2"}))
    apply(api, "configmaps/a", config_map("a", {"z": "3"}), "two")
    apply(api, "configmaps/a", config_map("a", {"x": "2"}), "two", expect=409)
    apply(api, "configmaps/a", config_map("a", {"y": "2"}))
    api.put("configmaps/a", config_map("a", {"y": "5"}), query={"fieldManager": "hand"})
    apply(api, "configmaps/a", config_map("a", {"y": "2"}), force=True)


@case
def without_a_change(api: Api) -> None:
    """A dry run of an apply changes nothing, and says what would be."""
    dry = {"fieldManager": "one", "dryRun": "All"}
    api.patch("configmaps/a", config_map("a", {"x": "1"}), "apply", query=dry)
    api.get("configmaps/a", expect=404)
    apply(api, "configmaps/a", config_map("a", {"x": "1"}))
    api.patch("configmaps/a", config_map("a", {"x": "2"}), "apply", query=dry)
    api.get("configmaps/a")


@case
def finalizers_and_owners(api: Api) -> None:
    """Finalizers are a set and owners a map by uid: each manager has its own."""
    first = apply(api, "configmaps/a", config_map("a"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": first.body["metadata"]["uid"]}
    owned = {"finalizers": ["example.com/one"], "ownerReferences": [owner]}
    apply(api, "configmaps/b", named("v1", "ConfigMap", "b", metadata=owned))
    apply(
        api,
        "configmaps/b",
        named("v1", "ConfigMap", "b", metadata={"finalizers": ["example.com/two"]}),
        "two",
    )
    apply(api, "configmaps/b", named("v1", "ConfigMap", "b"))
    apply(api, "configmaps/b", named("v1", "ConfigMap", "b"), "two")

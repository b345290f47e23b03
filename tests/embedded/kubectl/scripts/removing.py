"""Removing and waiting: delete with finalizers and owners, wait for what is to come."""

from tests.embedded.cases.kit.objects import (
    config_map,
    named,
    owner,
    widget,
)
from tests.embedded.cases.kit.script import collector_is_up_to_date
from tests.embedded.cases.kit.suite import KUBECTL_REGISTER, Area
from tests.embedded.kubectl.runner import Kubectl

case = Area(__name__, KUBECTL_REGISTER)

RELEASE = {"metadata": {"finalizers": None}}
FINALIZER = "example.com/stay"


@case
def by_delete(k: Kubectl) -> None:
    """kubectl delete removes by name, file, selector and all at once."""
    names = ("a", "b", "c", "d", "e", "f")
    k.make(*(widget(each, labels={"l": each}) for each in names))
    k("delete", "widget", "a")
    k("delete", "widget", "a", code=1)
    k("delete", "widget", "a", "--ignore-not-found")
    k("delete", "-f", k.file("b.yaml", widget("b")))
    k("delete", "widgets", "-l", "l=c")
    k("delete", "widget/d", "--wait=false")
    k("delete", "widgets", "--all")
    k("get", "widgets")


@case
def with_a_finalizer(k: Kubectl) -> None:
    """kubectl delete waits for finalizers, and --wait=false doesn't."""
    k.make(widget("a", finalizers=[FINALIZER]))
    k("delete", "widget", "a", "--wait=false")
    k("delete", "widget", "a", "--timeout=300ms", code=1)
    k.api.patch("widgets/a", RELEASE)
    k("get", "widget", "a", code=1)


@case
def with_a_finalizer_that_goes(k: Kubectl) -> None:
    """kubectl delete ends when the last finalizer is removed."""
    k.make(widget("a", finalizers=[FINALIZER]))
    with k.watching("delete", "widget", "a") as deletion:
        deletion.lines(1)
        k.api.patch("widgets/a", RELEASE)
        k("wait", "--for=delete", "widget/a", "--timeout=100s", code=-1)
    k("get", "widget", "a", code=1)


def owned(k: Kubectl) -> None:
    """A widget that owns a ConfigMap."""
    k.make(widget("parent"))
    uid = k.api.get("widgets/parent").uid
    reference = owner("example.com/v1", "Widget", "parent", uid, blockOwnerDeletion=True)
    k.make(config_map("child", ownerReferences=[reference]))
    collector_is_up_to_date(k.api)


@case.each(["background", "foreground"])
def with_dependants(k: Kubectl, cascade: str) -> None:
    """kubectl delete --cascade takes the dependants too."""
    owned(k)
    k("delete", "widget", "parent", f"--cascade={cascade}")
    k.api.gone("configmaps/child")
    k("get", "widget", "parent", code=1)
    k("get", "configmap", "child", code=1)


@case
def without_dependants(k: Kubectl) -> None:
    """kubectl delete --cascade=orphan leaves the dependants."""
    owned(k)
    k("delete", "widget", "parent", "--cascade=orphan")
    k("get", "configmap", "child", "-o", "name")


@case
def of_a_namespace(k: Kubectl) -> None:
    """kubectl delete namespace waits until all that was in it is gone."""
    name = f"{k.name}-x"
    k("create", "namespace", name)
    k("create", "configmap", "a", "-n", name, "--from-literal=x=1")
    k("delete", "namespace", name, "--timeout=100s")
    k("get", "namespace", name, code=1)


@case
def after_waiting_for_a_condition(k: Kubectl) -> None:
    """kubectl wait ends when a condition is met, or its time is over."""
    k.make(widget("a"))
    k("wait", "--for=condition=ready", "widget/a", "--timeout=300ms", code=1)
    k.api.patch("widgets/a/status", {"status": {"conditions": [{"type": "ready", "status": "True"}]}})
    k("wait", "--for=condition=ready", "widget/a", "--timeout=100s")
    k("wait", "--for=condition=ready=false", "widget/a", "--timeout=300ms", code=1)
    k("wait", "--for=condition=ready", "widget/nothing", "--timeout=1s", code=1)


@case
def after_waiting_for_a_deletion(k: Kubectl) -> None:
    """kubectl wait --for=delete ends when the object is gone."""
    k.make(widget("a", finalizers=[FINALIZER]))
    k("wait", "--for=delete", "widget/a", "--timeout=2s", code=1)
    k.api.delete("widgets/a")
    with k.watching("delete", "widget", "a") as deletion:
        deletion.lines(1)
        k.api.patch("widgets/a", RELEASE)
    k.api.gone("widgets/a")
    k("get", "widget", "a", code=1)


@case
def after_waiting_for_a_value(k: Kubectl) -> None:
    """kubectl wait --for=jsonpath ends when a field has a value (kubectl 1.23 and newer)."""
    k.make(widget("a", {"size": 2}))
    k("wait", "--for=jsonpath={.spec.size}=2", "widget/a", "--timeout=100s", code=-1)
    k("wait", "--for=jsonpath={.spec.size}=3", "widget/a", "--timeout=300ms", code=1)


@case
def of_several_kinds(k: Kubectl) -> None:
    """kubectl delete -f removes all documents of a file."""
    objects = [widget("a"), config_map("b"), named("v1", "Secret", "c")]
    k.make(*objects)
    k("delete", "-f", k.file("all.yaml", *objects))
    k("get", "widgets,configmaps,secrets", "--ignore-not-found")

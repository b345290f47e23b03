"""Changing: create, apply, replace, edit, patch, label, annotate."""

from typing import Any

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    named,
    node,
    pod,
    widget,
)
from tests.embedded.cases.kit.suite import KUBECTL_REGISTER, Area
from tests.embedded.kubectl.runner import Kubectl

case = Area(__name__, KUBECTL_REGISTER)


@case
def by_create(k: Kubectl) -> None:
    """kubectl create makes an object once."""
    k("create", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k("create", "-f", k.file("w.yaml", widget("a", {"size": 2})), code=1)
    k("create", "-f", k.file("w.yaml", widget("b", {"size": 99})), code=1)
    k("create", "configmap", "c", "--from-literal=x=1")
    k("create", "secret", "generic", "s", "--from-literal=x=1")
    k("create", "namespace", f"{k.name}-x")
    k("create", "serviceaccount", "me")


@case
def by_create_with_generated_names(k: Kubectl) -> None:
    """kubectl create completes generateName."""
    body = named("example.com/v1", "Widget", "x", metadata={"generateName": "some-"})
    del body["metadata"]["name"]
    k.quietly("create", "-f", k.file("w.yaml", body))
    k.note("prefixes of names", [name[:-5] for name in k.api.get("widgets").names])


@case
def by_create_of_nonsense(k: Kubectl) -> None:
    """kubectl says what is wrong with a manifest: an unknown kind, a bad name, no YAML."""
    k("create", "-f", "-", stdin=named("example.com/v1", "Nonsense", "a"), code=1)
    k("create", "-f", "-", stdin=named("example.com/v9", "Widget", "a"), code=1)
    k("create", "-f", "-", stdin=widget("A B"), code=1)
    k("create", "-f", "-", stdin="{", code=1)


@case
def by_apply(k: Kubectl) -> None:
    """kubectl apply creates, configures, leaves alone, and removes fields that its manifest lost."""
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 2, "code": "abc"}, labels={"x": "1"})))
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 2, "code": "abc"}, labels={"x": "1"})))
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 4}, labels={"z": "2"})))
    k.show("widgets/a")
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 99})), code=1)
    k("apply", "view-last-applied", "widget", "a")


@case
def by_apply_of_built_in_objects(k: Kubectl) -> None:
    """kubectl apply works for built-in kinds, by strategic patches."""
    k("apply", "-f", k.file("c.yaml", config_map("a", {"x": "1", "y": "2"}, labels={"x": "1"})))
    k("apply", "-f", k.file("c.yaml", config_map("a", {"x": "1", "y": "2"}, labels={"x": "1"})))
    k("apply", "-f", k.file("c.yaml", config_map("a", {"x": "3"})))
    k.show("configmaps/a")
    k("apply", "-f", k.file("p.yaml", pod("a")))
    body = pod("a")
    body["spec"]["containers"][0]["image"] = "example.com/image:2"
    k("apply", "-f", k.file("p.yaml", body))
    k("get", "pod", "a", "-o", "jsonpath={.spec.containers[*].image}")


@case
def by_apply_beside_others(k: Kubectl) -> None:
    """kubectl apply leaves what others have changed."""
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k.api.patch("widgets/a", {"spec": {"note": "theirs"}})
    k.api.patch("widgets/a", {"metadata": {"labels": {"by": "others"}}})
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 3})))
    k.show("widgets/a")


@case
def by_apply_after_create(k: Kubectl) -> None:
    """kubectl apply warns about an object that it didn't create, and takes it over."""
    k("create", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k("apply", "-f", k.file("w.yaml", widget("a", {"size": 3})))
    k.show("widgets/a")


@case
def by_apply_of_several(k: Kubectl) -> None:
    """kubectl apply takes several documents and lists."""
    k("apply", "-f", k.file("all.yaml", widget("a"), config_map("b"), widget("c")))
    items = {"apiVersion": "v1", "kind": "List", "items": [widget("d"), config_map("e")]}
    k("apply", "-f", k.file("list.yaml", items))
    k("get", "widgets,configmaps", "-o", "name")


@case
def by_apply_with_dry_run(k: Kubectl) -> None:
    """kubectl apply --dry-run=server tells what would happen, with the server's defaults and errors."""
    k("apply", "--dry-run=server", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k("get", "widget", "a", code=1)
    k("apply", "--dry-run=server", "-f", k.file("w.yaml", widget("a", {"size": 99})), code=1)
    k("apply", "--dry-run=client", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k.quietly("apply", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k("apply", "--dry-run=server", "-f", k.file("w.yaml", widget("a", {"size": 3})))
    k.show("widgets/a")


@case
def by_apply_with_prune(k: Kubectl) -> None:
    """kubectl apply --prune deletes what the manifest lost."""
    labels = {"app": "x"}
    files = k.file("all.yaml", config_map("a", labels=labels), config_map("b", labels=labels))
    k.quietly("apply", "-f", files)
    k.file("all.yaml", config_map("a", labels=labels))
    # The flag has changed its name: each kubectl knows one of the two.
    for flag in ("--prune-whitelist", "--prune-allowlist"):
        k("apply", "--prune", "-l", "app=x", f"{flag}=core/v1/ConfigMap", "-f", files, code=-1)
    k("get", "configmaps", "-o", "name", "-l", "app=x")


@case
def to_see_the_difference(k: Kubectl) -> None:
    """kubectl diff shows what apply would change, and ends with 1 if there is something."""
    k.quietly("apply", "-f", k.file("w.yaml", widget("a", {"size": 2})))
    k("diff", "-f", k.file("w.yaml", widget("a", {"size": 2})), code=-1)
    k("diff", "-f", k.file("w.yaml", widget("a", {"size": 5})), code=1)


@case
def by_replace(k: Kubectl) -> None:
    """kubectl replace replaces what is there, and with --force recreates it."""
    k("replace", "-f", k.file("w.yaml", widget("a", {"size": 2})), code=1)
    k.make(widget("a", {"size": 2, "note": "x"}))
    k("replace", "-f", k.file("w.yaml", widget("a", {"size": 4})))
    k.show("widgets/a")
    k("replace", "--force", "-f", k.file("w.yaml", widget("a", {"size": 5})))
    k.show("widgets/a")


@case
def by_replace_of_an_old_version(k: Kubectl) -> None:
    """kubectl replace with an old resourceVersion is refused."""
    k.make(config_map("a"))
    old = k.api.get("configmaps/a").body
    k.api.patch("configmaps/a", {"metadata": {"labels": {"x": "y"}}})
    k("replace", "-f", "-", stdin=old, code=1)


@case
def by_edit(k: Kubectl) -> None:
    """kubectl edit sends what the editor changed, and nothing if it changed nothing."""
    k.make(widget("a", {"size": 2}))
    k("edit", "widget", "a", environment={"EDITOR": "sed -i 's/size: 2/size: 6/'"})
    k.show("widgets/a")
    k("edit", "widget", "a", environment={"EDITOR": "true"})
    k.make(config_map("a"))
    k("edit", "configmap", "a", environment={"EDITOR": "sed -i 's/k: v/k: w/'"})
    k.show("configmaps/a")


@case
def by_edit_of_the_status(k: Kubectl) -> None:
    """kubectl edit that makes an object invalid shows the reason and keeps the text."""
    k.make(widget("a", {"size": 2}))
    k("edit", "widget", "a", environment={"EDITOR": "sed -i 's/size: 2/size: 66/'"}, code=1)
    k.show("widgets/a")


PATCHES: dict[str, Any] = {
    "merge": ("widget", "merge", '{"spec":{"size":7,"note":null}}', 0),
    "merge-nothing": ("widget", "merge", '{"spec":{"size":2}}', 0),
    "merge-invalid": ("widget", "merge", '{"spec":{"size":77}}', 1),
    "json": ("widget", "json", '[{"op":"replace","path":"/spec/size","value":7}]', 0),
    "json-test": ("widget", "json", '[{"op":"test","path":"/spec/size","value":7}]', 1),
    "json-missing": ("widget", "json", '[{"op":"remove","path":"/spec/nothing"}]', 1),
    "strategic-custom": ("widget", "strategic", '{"spec":{"size":7}}', 1),
    "strategic": ("configmap", "strategic", '{"data":{"k":null,"new":"1"}}', 0),
    "merge-built-in": ("configmap", "merge", '{"data":{"k":"w"}}', 0),
    "json-built-in": ("configmap", "json", '[{"op":"add","path":"/data/x","value":"y"}]', 0),
    "no-json": ("configmap", "merge", "{nonsense", 1),
}


@case.each(PATCHES)
def by_patch(k: Kubectl, what: str, kind: str, patch: str, code: int) -> None:
    """kubectl patch changes objects by every type of patch that the kind takes."""
    k.make(widget("a", {"size": 2, "note": "x"}), config_map("a"))
    k("patch", what, "a", f"--type={kind}", "-p", patch, code=code)
    k.show(f"{what}s/a")


@case
def by_patch_of_pods(k: Kubectl) -> None:
    """kubectl patch without a type merges a pod's containers by name."""
    k.make(pod("a"))
    patch = '{"spec":{"containers":[{"name":"main","image":"example.com/image:2"}]}}'
    k("patch", "pod", "a", "-p", patch)
    k("get", "pod", "a", "-o", "jsonpath={.spec.containers[*].image}")


@case.each(["widget", "configmap"])
def by_label_and_annotate(k: Kubectl, what: str) -> None:
    """kubectl label and annotate add, refuse to overwrite unless told to, and remove."""
    k.make(widget("a"), config_map("a"))
    k("label", what, "a", "x=1")
    k("label", what, "a", "x=2", code=1)
    k("label", what, "a", "x=2", "--overwrite")
    k("label", what, "a", "x-")
    k("label", what, "a", "bad label=x", code=1)
    k("annotate", what, "a", "note=some text")
    k("annotate", what, "a", "note-")
    k.show(f"{what}s/a")


@case
def of_nodes_by_label(k: Kubectl) -> None:
    """kubectl label, cordon and taint change nodes."""
    k.make(node(k.name))
    k("label", "node", k.name, "zone=a")
    k("cordon", k.name)
    k("taint", "node", k.name, "x=y:NoSchedule")
    k("uncordon", k.name)


@case
def of_definitions(k: Kubectl) -> None:
    """kubectl apply makes a CRD, waits for it, uses it, and deletes it."""
    group = f"{k.name}.example.com"
    from_schema: Raw = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": from_schema}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [version],
    }
    body = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"things.{group}", spec=spec)
    k("apply", "-f", k.file("crd.yaml", body))
    k("wait", "--for=condition=Established", f"crd/things.{group}", "--timeout=100s")
    k.api.until("/apis", lambda answer: group in {each["name"] for each in answer.body["groups"]})
    k.api.until(f"/apis/{group}/v1", lambda answer: answer.status == 200)
    k("apply", "-f", k.file("thing.yaml", named(f"{group}/v1", "Thing", "a", spec={"x": 1})))
    k("get", f"things.{group}")
    k("apply", "-f", k.file("crd.yaml", body))
    k("delete", "-f", k.file("crd.yaml", body), "--timeout=100s")

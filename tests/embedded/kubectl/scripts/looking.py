"""Looking: get in all its forms, describe, explain, and what the cluster offers."""

import re

from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    event,
    lease,
    named,
    node,
    pod,
    widget,
)
from tests.embedded.cases.kit.suite import KUBECTL_REGISTER, Area
from tests.embedded.kubectl.runner import Kubectl

case = Area(__name__, KUBECTL_REGISTER)

SPEC: Raw = {"size": 2, "mode": "manual", "enabled": True, "ports": [{"port": 80}, {"port": 443}]}


def with_widgets(k: Kubectl) -> None:
    """Two widgets, one with labels and a status."""
    first = widget("a", SPEC, labels={"colour": "red", "team": "x"}, annotations={"note": "mine"})
    k.make(first, widget("b"))


OUTPUTS: list[tuple[str, ...]] = [
    (),
    ("-o", "wide"),
    ("-o", "yaml"),
    ("-o", "json"),
    ("-o", "name"),
    ("-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.size};{end}"),
    ("-o", "custom-columns=NAME:.metadata.name,SIZE:.spec.size,NONE:.spec.nothing"),
    ("-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"),
    ("--show-labels",),
    ("-L", "colour"),
    ("--no-headers",),
    ("-l", "colour=red"),
    ("-l", "colour notin (red)"),
    ("--field-selector", "metadata.name=b"),
    ("--sort-by", ".spec.size"),
    ("--show-kind",),
    ("--chunk-size", "1"),
    ("-l", "colour=none"),
]


@case
def at_widgets(k: Kubectl) -> None:
    """kubectl get shows custom objects in every form."""
    with_widgets(k)
    for arguments in OUTPUTS:
        k("get", "widgets", *arguments)
    k("get", "widgets", "--field-selector", "spec.size=2", code=1)


@case
def at_one_widget(k: Kubectl) -> None:
    """kubectl get shows one object by its plural, singular, short and full name."""
    with_widgets(k)
    for name in ("widget", "widgets", "wd", "widgets.example.com", "widgets.v1beta1.example.com", "Widget"):
        k("get", name, "a")
    k("get", "widget/a", "widget/b", "-o", "name")
    k("get", "widget", "a", "nothing", code=1)


@case
def at_all_namespaces(k: Kubectl) -> None:
    """kubectl get -A shows the namespace of each object."""
    with_widgets(k)
    k("get", "widgets", "-A", "-l", "team=x", "--field-selector", f"metadata.namespace={k.ns}")


@case
def at_a_category(k: Kubectl) -> None:
    """kubectl get all shows the kinds of the category."""
    with_widgets(k)
    out = k.quietly("get", "all", "-o", "name")
    k.note("widgets of all", [name for name in out.split() if "widget" in name])


@case
def at_built_in_kinds(k: Kubectl) -> None:
    """kubectl get shows the usual columns of built-in kinds."""
    objects = [
        config_map("a", {"x": "1"}),
        named("v1", "Secret", "a", data={"x": "MQ=="}),
        lease("a"),
        pod("a"),
        event("a", k.ns),
    ]
    k.make(*objects)
    for kind in ("configmap", "secret", "lease", "pod", "events"):
        k("get", kind, "--field-selector", "metadata.name=a")
    k("get", "cm,secret,lease", "a", "-o", "name")
    k("get", "pod", "a", "-o", "wide")


@case
def at_nodes_and_namespaces(k: Kubectl) -> None:
    """kubectl get shows nodes and namespaces."""
    k.make(node(k.name, labels={"case": k.name}))
    k("get", "nodes", "-l", f"case={k.name}")
    k("get", "nodes", "-l", f"case={k.name}", "-o", "wide")
    k("get", "ns", k.ns)


@case
def at_what_is_missing(k: Kubectl) -> None:
    """kubectl get says what it doesn't find: the object, the kind, anything."""
    k("get", "widget", "nothing", code=1)
    k("get", "nonsense", code=1)
    k("get", "widgets")
    k("get", "widget", "nothing", "--ignore-not-found")


@case
def at_changes(k: Kubectl) -> None:
    """kubectl get -w shows what is, then what changes."""
    with_widgets(k)
    with k.watching("get", "widgets", "-w") as watcher:
        watcher.lines(3)
        k.api.patch("widgets/b", {"spec": {"size": 9}})
        watcher.lines(1)
        k.api.delete("widgets/a")
        watcher.lines(1)


@case
def at_changes_of_one(k: Kubectl) -> None:
    """kubectl get -w -o name of one object shows that object alone."""
    with_widgets(k)
    with k.watching("get", "widget", "b", "-w", "-o", "jsonpath={.spec.size}{'\\n'}") as watcher:
        watcher.lines(1)
        k.api.patch("widgets/a", {"spec": {"size": 9}})
        k.api.patch("widgets/b", {"spec": {"size": 8}})
        watcher.line_after(
            lambda count: k.api.patch("widgets/b", {"metadata": {"annotations": {"count": str(count)}}})
        )


@case
def closely_at_a_widget(k: Kubectl) -> None:
    """kubectl describe shows a custom object and its events."""
    with_widgets(k)
    uid = k.api.get("widgets/a").uid
    body = event("a", k.ns)
    body["involvedObject"] |= {"name": "a", "uid": uid}
    k.make(body)
    k("describe", "widget", "a")
    k("describe", "widgets", "-l", "colour=none")
    k("describe", "widget", "nothing", code=1)


@case
def closely_at_built_in_objects(k: Kubectl) -> None:
    """kubectl describe shows built-in objects."""
    k.make(config_map("a", {"x": "one\ntwo"}))
    k.make(pod("a"))
    k("describe", "configmap", "a")
    k("describe", "pod", "a")
    k("describe", "namespace", k.ns)


@case
def closely_at_a_node(k: Kubectl) -> None:
    """kubectl describe node shows its conditions, addresses, pods, lease and events."""
    body = node(k.name, labels={"zone": "a"})
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Tested",
        "message": "fine",
        "lastHeartbeatTime": "2020-01-02T03:04:05Z",
        "lastTransitionTime": "2020-01-02T03:04:05Z",
    }
    body["status"] = {
        "conditions": [ready],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "capacity": {"cpu": "2", "memory": "1Gi", "pods": "10"},
        "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"},
    }
    k.make(body)
    k("describe", "node", k.name)


@case
def closely_at_a_definition(k: Kubectl) -> None:
    """kubectl describe shows a CRD."""
    k("describe", "crd", "gadgets.example.com")


def fields(text: str) -> list[str]:
    """The names of the fields in what explain says: its words differ with the version of OpenAPI behind them."""
    return sorted(re.findall(r"^\s+(\w+)\t", text, re.MULTILINE))


@case
def up(k: Kubectl) -> None:
    """kubectl explain knows the fields of custom kinds, at every depth."""
    for field in ("widgets", "widgets.spec", "wd.spec.nested.deep", "widget.spec.ports", "widget.status"):
        k.note(field, fields(k.quietly("explain", field)))
    k.note("all", fields(k.quietly("explain", "widgets.spec", "--recursive")))
    k.note("port", "<integer>" in k.quietly("explain", "widgets.spec.ports.port"))


@case
def up_nonsense(k: Kubectl) -> None:
    """kubectl explain says that it doesn't know a kind."""
    k("explain", "nonsense", code=1)


@case.each(["vc", "clusternetwork", "clusternetworknodes.network.lanloom.io", "net-attach-def"])
def for_our_kinds(k: Kubectl, name: str) -> None:
    """kubectl get knows Lanloom's kinds by all of their names."""
    k("get", name, "-l", "there=none")


@case
def at_our_resources(k: Kubectl) -> None:
    """kubectl api-resources lists Lanloom's kinds."""
    k("api-resources", "--api-group=network.harvesterhci.io")
    k("api-resources", "--api-group=k8s.cni.cncf.io", "-o", "wide")


@case
def at_the_resources(k: Kubectl) -> None:
    """kubectl api-resources lists the kinds with their short names, versions and scope."""
    k("api-resources", "--api-group=example.com")
    k("api-resources", "--api-group=coordination.k8s.io")
    k("api-resources", "--api-group=example.com", "-o", "wide")
    out = k.quietly("api-resources", "-o", "name")
    wanted = {"configmaps", "nodes", "pods", "events", "customresourcedefinitions.apiextensions.k8s.io"}
    k.note("some of all", sorted(wanted & set(out.split())))


@case
def at_the_versions(k: Kubectl) -> None:
    """kubectl api-versions lists the group versions."""
    out = k.quietly("api-versions")
    wanted = {
        "v1",
        "example.com/v1",
        "example.com/v1beta1",
        "coordination.k8s.io/v1",
        "apiextensions.k8s.io/v1",
    }
    k.note("some of all", [line for line in out.split() if line in wanted])


@case
def at_the_cluster(k: Kubectl) -> None:
    """kubectl version and cluster-info find the server."""
    out = k.quietly("version", "-o", "json")
    k.note("names a server", "serverVersion" in out)
    k("cluster-info")
    k("get", "--raw", "/healthz")


@case
def at_permissions(k: Kubectl) -> None:
    """kubectl auth can-i answers for the administrator."""
    k("auth", "can-i", "create", "widgets")
    k("auth", "can-i", "delete", "nodes", "--all-namespaces")
    k("auth", "can-i", "get", "/healthz", code=-1)

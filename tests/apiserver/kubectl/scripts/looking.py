"""Looking: get in all its forms, describe, explain, and what the cluster offers."""

from tests.apiserver.cases.kit.objects import Raw, config_map, event, lease, named, node, pod, widget
from tests.apiserver.cases.kit.suite import KUBECTL_REGISTER, Area
from tests.apiserver.kubectl.runner import Kubectl

case = Area(__name__, KUBECTL_REGISTER)

SPEC: Raw = {"size": 2, "mode": "manual", "enabled": True, "ports": [{"port": 80}, {"port": 443}]}


def with_widgets(k: Kubectl) -> None:
    """Two widgets, one with labels and a status."""
    first = widget("a", SPEC, labels={"colour": "red", "team": "x"}, annotations={"note": "mine"})
    k.quietly("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [first, widget("b")]})


OUTPUTS = {
    "table": (),
    "wide": ("-o", "wide"),
    "yaml": ("-o", "yaml"),
    "json": ("-o", "json"),
    "name": ("-o", "name"),
    "jsonpath": ("-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.size};{end}"),
    "columns": ("-o", "custom-columns=NAME:.metadata.name,SIZE:.spec.size,NONE:.spec.nothing"),
    "template": ("-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"),
    "labels": ("--show-labels",),
    "label-column": ("-L", "colour"),
    "no-headers": ("--no-headers",),
    "selected": ("-l", "colour=red"),
    "selected-by-set": ("-l", "colour notin (red)"),
    "by-name": ("--field-selector", "metadata.name=b"),
    "by-bad-field": ("--field-selector", "spec.size=2"),
    "sorted": ("--sort-by", ".spec.size"),
    "show-kind": ("--show-kind",),
    "chunks": ("--chunk-size", "1"),
    "nothing": ("-l", "colour=none"),
}


@case.each({name: (arguments,) for name, arguments in OUTPUTS.items()})
def at_widgets(k: Kubectl, arguments: tuple[str, ...]) -> None:
    """kubectl get shows custom objects in every form."""
    with_widgets(k)
    k("get", "widgets", *arguments, code=-1)


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
    k.transcript.append({"step": "widgets of all", "names": [n for n in out.split() if "widget" in n]})


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
    k.quietly("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": objects})
    for kind in ("configmap", "secret", "lease", "pod", "events"):
        k("get", kind, "--field-selector", "metadata.name=a")
    k("get", "cm,secret,lease", "a", "-o", "name")
    k("get", "pod", "a", "-o", "wide")


@case
def at_nodes_and_namespaces(k: Kubectl) -> None:
    """kubectl get shows nodes and namespaces."""
    k.quietly("create", "-f", "-", stdin=node(k.name, labels={"case": k.name}))
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
        k.quietly("patch", "widget", "b", "--type=merge", "-p", '{"spec":{"size":9}}')
        watcher.lines(1)
        k.quietly("delete", "widget", "a", "--wait=false")
        watcher.lines(1)


@case
def at_changes_of_one(k: Kubectl) -> None:
    """kubectl get -w -o name of one object shows that object alone."""
    with_widgets(k)
    with k.watching("get", "widget", "b", "-w", "-o", "jsonpath={.spec.size}{'\\n'}") as watcher:
        watcher.lines(1)
        k.quietly("patch", "widget", "a", "--type=merge", "-p", '{"spec":{"size":9}}')
        k.quietly("patch", "widget", "b", "--type=merge", "-p", '{"spec":{"size":8}}')
        watcher.lines(1)


@case
def closely_at_a_widget(k: Kubectl) -> None:
    """kubectl describe shows a custom object and its events."""
    with_widgets(k)
    uid = k.quietly("get", "widget", "a", "-o", "jsonpath={.metadata.uid}")
    body = event("a", k.ns)
    body["involvedObject"] |= {"name": "a", "uid": uid}
    k.quietly("create", "-f", "-", stdin=body)
    k("describe", "widget", "a")
    k("describe", "widgets", "-l", "colour=none")
    k("describe", "widget", "nothing", code=1)


@case
def closely_at_built_in_objects(k: Kubectl) -> None:
    """kubectl describe shows built-in objects."""
    k.quietly("create", "-f", "-", stdin=config_map("a", {"x": "one\ntwo"}))
    k.quietly("create", "-f", "-", stdin=pod("a"))
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
    k.quietly("create", "-f", "-", stdin=body)
    k("describe", "node", k.name)


@case
def closely_at_a_definition(k: Kubectl) -> None:
    """kubectl describe shows a CRD."""
    k("describe", "crd", "gadgets.example.com")


@case.each(
    ["widgets", "widgets.spec", "widgets.spec.nested.deep", "widgets.spec.ports.port", "widget.status"]
)
def up(k: Kubectl, field: str) -> None:
    """kubectl explain knows the fields of custom kinds."""
    k("explain", field)


OURS = ["clusternetworks", "vlanconfigs.spec.uplink", "vs.status.interfaces", "net-attach-def.spec", "nad"]


@case.each(OURS)
def up_our_kinds(k: Kubectl, field: str) -> None:
    """kubectl explain knows the fields of Lanloom's kinds."""
    k("explain", field, code=-1)


@case.each(["vc", "clusternetwork", "vlanstatuses.network.harvesterhci.io", "net-attach-def"])
def for_our_kinds(k: Kubectl, name: str) -> None:
    """kubectl get knows Lanloom's kinds by all of their names."""
    k("get", name, "-l", "there=none")


@case
def at_our_resources(k: Kubectl) -> None:
    """kubectl api-resources lists Lanloom's kinds."""
    k("api-resources", "--api-group=network.harvesterhci.io")
    k("api-resources", "--api-group=k8s.cni.cncf.io", "-o", "wide")


@case
def up_nonsense(k: Kubectl) -> None:
    """kubectl explain says which field or kind it doesn't know."""
    k("explain", "widgets.spec.nonsense", code=1)
    k("explain", "nonsense", code=1)


@case
def up_recursively(k: Kubectl) -> None:
    """kubectl explain --recursive shows the whole tree of fields."""
    k("explain", "widgets", "--recursive")


@case
def at_the_resources(k: Kubectl) -> None:
    """kubectl api-resources lists the kinds with their short names, versions and scope."""
    k("api-resources", "--api-group=example.com")
    k("api-resources", "--api-group=coordination.k8s.io")
    k("api-resources", "--api-group=example.com", "-o", "wide")
    out = k.quietly("api-resources", "-o", "name")
    wanted = {"configmaps", "nodes", "pods", "events", "customresourcedefinitions.apiextensions.k8s.io"}
    k.transcript.append({"step": "some of all", "names": sorted(wanted & set(out.split()))})


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
    k.transcript.append({"step": "some of all", "names": [line for line in out.split() if line in wanted]})


@case
def at_the_cluster(k: Kubectl) -> None:
    """kubectl version and cluster-info find the server."""
    out = k.quietly("version", "-o", "json")
    k.transcript.append({"step": "version", "names a server": "serverVersion" in out})
    k("cluster-info")
    k("get", "--raw", "/healthz")


@case
def at_permissions(k: Kubectl) -> None:
    """kubectl auth can-i answers for the administrator."""
    k("auth", "can-i", "create", "widgets")
    k("auth", "can-i", "delete", "nodes", "--all-namespaces")
    k("auth", "can-i", "get", "/healthz", code=-1)

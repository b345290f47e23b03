"""Which requests admission webhooks are asked about, and what they get."""

import time
from collections.abc import Mapping
from typing import Any

from tests.embedded.cases.kit.hooks import (
    Hook,
)
from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    gadget,
    named,
    namespace,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.webhooks import (
    CONFIG_MAPS,
    MUTATING,
    VALIDATING,
    WIDGETS,
    allow,
    configure,
    patching,
    ready,
    unless_probing,
    webhook,
)
from tests.embedded.cases.kit.wire import PATIENCE

case = Area(__name__)


@case
def are_asked_about_everything(api: Api) -> None:
    """A review tells the operation, both objects, the user, the kind, the options and whether it is a dry run."""
    hook = ready(api, VALIDATING, allow)
    api.post("widgets", widget("a", {"size": 2}))
    api.patch("widgets/a", {"spec": {"size": 4}})
    api.delete("widgets/a")
    api.received(hook)


@case
def are_asked_about_built_in_objects(api: Api) -> None:
    """Built-in objects are sent complete."""
    hook = api.hook(unless_probing(allow))
    configure(api, VALIDATING, webhook(api, hook.client_config, rules=[CONFIG_MAPS]), sentinel="configmaps")
    hook.take()
    api.post("configmaps", config_map("a"))
    api.put("configmaps/a", config_map("a", {"k": "new"}))
    api.delete("configmaps/a")
    api.received(hook)


@case
def are_asked_again(api: Api) -> None:
    """A webhook that wants it is asked again when a later one changed the object."""
    first, second = (api.hook(unless_probing(allow)), api.hook(unless_probing(_label_once)))
    one = webhook(api, first.client_config, "a", reinvocationPolicy="IfNeeded")
    configure(api, MUTATING, one, webhook(api, second.client_config, "b"))
    first.take()
    api.post("widgets", widget("a"))
    api.note("labels seen", [seen["request"]["object"]["metadata"].get("labels") for seen in first.take()])


def _label_once(request: Raw) -> Mapping[str, Any]:
    if "labels" in request["object"]["metadata"]:
        return {}
    return patching({"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}})(request)


OPERATIONS = {"create": ["CREATE"], "update": ["UPDATE"], "delete": ["DELETE"], "both": ["CREATE", "DELETE"]}


@case.each({name: (operations,) for name, operations in OPERATIONS.items()})
def are_asked_for_their_operations(api: Api, operations: list[str]) -> None:
    """A webhook is asked about the operations of its rules and no other."""
    hook = api.hook(unless_probing(allow))
    configure(
        api, VALIDATING, webhook(api, hook.client_config, rules=[{**WIDGETS, "operations": operations}])
    )
    hook.take()
    api.post("widgets", widget("a"))
    api.put("widgets/a", {**widget("a"), **api.get("widgets/a").body, "spec": {"size": 7}})
    api.delete("widgets/a")
    api.note("asked about", [seen["request"]["operation"] for seen in hook.take()])


RULES = {
    "status": [{**WIDGETS, "resources": ["widgets/status"]}],
    "all-of-group": [{**WIDGETS, "resources": ["*"]}],
    "all-subresources": [{**WIDGETS, "resources": ["widgets/*"]}],
    "everything": [{**WIDGETS, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
    "other-group": [{**WIDGETS, "apiGroups": ["other.example.com"]}],
    "cluster-scope": [{**WIDGETS, "scope": "Cluster"}],
    "namespaced-scope": [{**WIDGETS, "scope": "Namespaced"}],
    "two-rules": [CONFIG_MAPS, WIDGETS],
}


@case.each({name: (rules,) for name, rules in RULES.items()})
def are_asked_for_their_resources(api: Api, rules: list[Raw]) -> None:
    """A webhook is asked about the resources and subresources of its rules and no other."""
    hook = api.hook(unless_probing(allow))
    configure(api, VALIDATING, webhook(api, hook.client_config, rules=rules))
    hook.take()
    api.post("widgets", widget("a"))
    api.patch("widgets/a/status", {"status": {"phase": "x"}})
    asked = [(seen["request"]["operation"], seen["request"].get("subResource", "")) for seen in hook.take()]
    api.note("asked about", asked)


MATCHING = {
    "equivalent": ("Equivalent", "v1beta1"),
    "exact": ("Exact", "v1beta1"),
    "exact-same": ("Exact", "v1"),
}


@case.each(MATCHING)
def are_asked_about_other_versions(api: Api, policy: str, version: str) -> None:
    """By default a webhook is asked also about requests through another version, converted to its own."""
    hook = ready(api, VALIDATING, allow, matchPolicy=policy)
    body = {**widget("a"), "apiVersion": f"example.com/{version}"}
    api.post(f"/apis/example.com/{version}/namespaces/{api.ns}/widgets", body)
    api.received(hook)


SELECTORS: dict[str, Raw] = {
    "labels": {"matchLabels": {"watched": "yes"}},
    "expression": {"matchExpressions": [{"key": "watched", "operator": "Exists"}]},
    "not-in": {"matchExpressions": [{"key": "watched", "operator": "NotIn", "values": ["yes"]}]},
    "empty": {},
}


@case.each({name: (selector,) for name, selector in SELECTORS.items()})
def are_asked_about_objects_with_labels(api: Api, selector: Raw) -> None:
    """objectSelector chooses by the labels of the old or the new object."""
    hook = ready(api, VALIDATING, allow, objectSelector=selector)
    api.post("widgets", widget("a", labels={"watched": "yes"}))
    api.post("widgets", widget("b"))
    api.patch("widgets/a", {"metadata": {"labels": {"watched": None}}})
    # Not "a": kube-apiserver first tries a change on what its cache has, and that may be "a" with its label.
    api.patch("widgets/b", {"metadata": {"labels": {"other": "x"}}})
    api.note("asked", [(seen["request"]["operation"], seen["request"]["name"]) for seen in hook.take()])


@case
def are_asked_about_namespaces_with_labels(api: Api) -> None:
    """namespaceSelector chooses by the labels of the object's namespace; cluster-scoped objects always match."""
    selector = {"matchLabels": {"zone": api.ns}}
    gadgets = {**WIDGETS, "resources": ["widgets", "gadgets"]}
    hook = api.hook(unless_probing(allow))
    chosen = {"matchLabels": {"of": api.ns}}
    labels = {"of": api.ns}
    configure(
        api,
        VALIDATING,
        webhook(api, hook.client_config, rules=[gadgets], namespaceSelector=selector, objectSelector=chosen),
    )
    other = f"{api.name}-zone"
    api.post("namespaces", namespace(other, labels={"zone": api.ns}))
    path = f"/apis/example.com/v1/namespaces/{other}/widgets"
    with api.quietly():
        _until_called(api, hook, path, widget("probe", labels=labels))
    hook.take()
    api.post("widgets", widget("a", labels=labels))
    api.post(path, widget("b", labels=labels))
    api.post("gadgets", gadget(api.name, labels=labels))
    api.note("asked about", [seen["request"]["name"] for seen in hook.take()])


def _until_called(api: Api, hook: Hook, path: str, probe: Raw) -> None:
    # The labels of a new namespace are known to the webhooks' side a moment later.
    deadline = time.monotonic() + PATIENCE
    while not hook.called and time.monotonic() < deadline:
        api.post(path, probe, query={"dryRun": "All"}, expect=-1)


@case
def are_not_asked_about_themselves(api: Api) -> None:
    """Webhook configurations pass no webhook, so that a wrong one can be removed."""
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    hook = api.hook(unless_probing(allow))
    configure(
        api,
        VALIDATING,
        webhook(
            api,
            hook.client_config,
            rules=[everything],
            objectSelector={"matchExpressions": [{"key": "of", "operator": "In", "values": [api.ns]}]},
        ),
    )
    hook.take()
    body = named(
        "admissionregistration.k8s.io/v1", VALIDATING, f"{api.name}-x", metadata={"labels": {"of": api.ns}}
    )
    api.post("validatingwebhookconfigurations", body)
    api.note("asked", hook.called)
    api.delete(f"validatingwebhookconfigurations/{api.name}")

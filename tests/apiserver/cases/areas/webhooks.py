"""Admission webhooks over HTTPS: what they are asked, what their answers do, what happens when they don't answer."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.apiserver.cases.kit.hooks import DEAD_PORT, Hook
from tests.apiserver.cases.kit.objects import Raw, config_map, gadget, named, namespace, widget
from tests.apiserver.cases.kit.script import Api
from tests.apiserver.cases.kit.suite import Area
from tests.apiserver.cases.kit.wire import PATIENCE

case = Area(__name__)

VALIDATING = "ValidatingWebhookConfiguration"
MUTATING = "MutatingWebhookConfiguration"
WIDGETS = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
DEAD = {"url": f"https://127.0.0.1:{DEAD_PORT}/dead"}


def allow(_: Raw) -> Raw:
    """Allow whatever it is."""
    return {}


def patching(*operations: Raw) -> Callable[[Raw], Raw]:
    """Answer with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"patchType": "JSONPatch", "patch": patch}


def unless_probing(handle: Callable[[Raw], Mapping[str, Any]]) -> Callable[[Raw], Mapping[str, Any]]:
    """Leave the probes alone by which a case learns that its configuration is in use."""
    return lambda request: {} if request.get("name") == "probe" else handle(request)


def webhook(api: Api, config: Raw, name: str = "one", **rest: Any) -> Raw:
    """A webhook of the case's namespace; by default it has no side effects and takes widgets."""
    return {
        "name": f"{name}.example.com",
        "clientConfig": config,
        "rules": [WIDGETS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"case": api.ns}},
        **rest,
    }


def configure(api: Api, kind: str, *webhooks: Raw, sentinel: str = "widgets") -> None:
    """Configure webhooks, and wait until the server calls them: a webhook that only sees probes tells."""
    seen = api.hook(allow)
    match = {"matchLabels": {"probe": "yes"}}
    rule = WIDGETS if sentinel == "widgets" else CONFIG_MAPS
    watcher = webhook(api, seen.client_config, "sentinel", objectSelector=match, rules=[rule])
    body = named("admissionregistration.k8s.io/v1", kind, api.name, webhooks=[*webhooks, watcher])
    plural = f"{kind.lower()}s"
    probe = {"widgets": widget, "configmaps": config_map}[sentinel]("probe", labels={"probe": "yes"})
    with api.quietly():
        api.post(plural, body, expect=201)
        deadline = time.monotonic() + PATIENCE
        while not seen.called and time.monotonic() < deadline:
            api.post(sentinel, probe, query={"dryRun": "All"}, expect=-1)
            time.sleep(0.02)


def refusing(**status: Any) -> Callable[[Raw], Raw]:
    """Refuse with this status."""
    return unless_probing(lambda _: {"allowed": False, "status": status} if status else {"allowed": False})


def ready(api: Api, kind: str, handle: Callable[[Raw], Mapping[str, Any]], **rest: Any) -> Hook:
    """One webhook of the kind, in use."""
    hook = api.hook(unless_probing(handle))
    configure(api, kind, webhook(api, hook.client_config, **rest))
    hook.take()
    return hook


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
def may_patch(api: Api) -> None:
    """A mutating webhook's JSON patch is applied before defaults, validation and storage."""
    handle = patching(
        {"op": "add", "path": "/metadata/labels", "value": {"patched": "yes"}},
        {"op": "add", "path": "/spec/code", "value": "patched"},
    )
    ready(api, MUTATING, handle)
    api.post("widgets", widget("a", {"size": 2}), expect=201)
    api.get("widgets/a")


@case
def may_patch_what_becomes_invalid(api: Api) -> None:
    """What a webhook patches in is validated as well."""
    ready(api, MUTATING, patching({"op": "add", "path": "/spec/size", "value": 99}))
    api.post("widgets", widget("a"), expect=422)


@case
def may_patch_in_what_is_unknown(api: Api) -> None:
    """What a webhook patches in is pruned as well."""
    ready(api, MUTATING, patching({"op": "add", "path": "/spec/nonsense", "value": 1}))
    api.post("widgets", widget("a"), expect=201)


@case
def patch_one_after_the_other(api: Api) -> None:
    """Mutating webhooks see what those before them have done."""
    first = api.hook(unless_probing(patching({"op": "add", "path": "/spec/code", "value": "first"})))
    second = api.hook(
        unless_probing(
            lambda request: patching(
                {"op": "add", "path": "/spec/note", "value": f"after {request['object']['spec'].get('code')}"}
            )(request)
        )
    )
    one, two = (webhook(api, hook.client_config, name) for hook, name in ((first, "a"), (second, "b")))
    configure(api, MUTATING, one, two)
    api.post("widgets", widget("a"), expect=201)


@case
def are_asked_again(api: Api) -> None:
    """A webhook that wants it is asked again when a later one changed the object."""
    first, second = (api.hook(unless_probing(allow)), api.hook(unless_probing(_label_once)))
    one = webhook(api, first.client_config, "a", reinvocationPolicy="IfNeeded")
    configure(api, MUTATING, one, webhook(api, second.client_config, "b"))
    first.take()
    api.post("widgets", widget("a"))
    api.note("labels seen", [seen["request"]["object"]["metadata"].get("labels") for seen in first.take()])


def _label_once(request: Raw) -> Raw:
    if "labels" in request["object"]["metadata"]:
        return {}
    return patching({"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}})(request)


BAD_PATCHES = {
    "fails": [{"op": "remove", "path": "/spec/nothing"}],
    "test-fails": [{"op": "test", "path": "/spec/size", "value": 77}],
    "unknown-operation": [{"op": "nonsense", "path": "/spec/size"}],
}


@case.each({name: (operations,) for name, operations in BAD_PATCHES.items()})
def with_a_patch_that_fails(api: Api, operations: list[Raw]) -> None:
    """A webhook's patch that can't be applied is the server's error."""
    ready(api, MUTATING, patching(*operations))
    api.post("widgets", widget("a", {"size": 2}), expect=-1)


STATUSES: dict[str, Raw] = {
    "nothing": {},
    "message": {"message": "The size must be even."},
    "code": {"message": "The size must be even.", "code": 422},
    "reason": {"message": "The size must be even.", "reason": "Invalid", "code": 422},
    "reason-alone": {"reason": "NotThisWay"},
    "bad-code": {"message": "x", "code": 200},
    "details": {"message": "x", "code": 409, "reason": "Conflict", "details": {"name": "y", "kind": "z"}},
    "long": {"message": "line one\nline two: ünïcode"},
}


@case.each({name: (status,) for name, status in STATUSES.items()})
def may_refuse(api: Api, status: Raw) -> None:
    """A refusal is passed on with the webhook's name and message, code and reason."""
    ready(api, VALIDATING, refusing(**status))
    api.post("widgets", widget("a"), expect=-1)
    api.get("widgets/a", expect=404)


@case
def that_mutate_may_refuse(api: Api) -> None:
    """A mutating webhook may refuse too."""
    ready(api, MUTATING, refusing(message="Not this one."))
    api.post("widgets", widget("a"), expect=-1)


@case
def may_refuse_a_deletion(api: Api) -> None:
    """A deletion may be refused, of one object and of a collection."""
    ready(
        api,
        VALIDATING,
        refusing(message="It is in use."),
        rules=[{**WIDGETS, "operations": ["DELETE"]}],
    )
    api.post("widgets", widget("a"))
    api.delete("widgets/a", expect=400)
    api.delete("widgets", expect=400)
    api.get("widgets/a")


@case
def may_warn(api: Api) -> None:
    """A webhook's warnings come as Warning headers."""
    ready(api, VALIDATING, lambda _: {"warnings": ["This is old.", 'Quoted "so" and ü']})
    api.post("widgets", widget("a"))
    api.patch("widgets/a", {"spec": {"size": 2}})


@case
def may_warn_and_refuse(api: Api) -> None:
    """Warnings come with a refusal as well."""
    ready(api, VALIDATING, lambda _: {"allowed": False, "warnings": ["Beware."]})
    api.post("widgets", widget("a"), expect=400)


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
    api.patch("widgets/a", {"metadata": {"labels": {"other": "x"}}})
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


@case.each(["Fail", "Ignore"])
def that_are_dead(api: Api, policy: str) -> None:
    """Whether a webhook that can't be reached refuses is its failure policy."""
    configure(
        api, VALIDATING, webhook(api, DEAD, failurePolicy=policy, objectSelector={"matchLabels": {"a": "b"}})
    )
    api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)
    api.get("widgets/a", expect=-1)


@case.each(["Fail", "Ignore"])
def that_mutate_and_are_dead(api: Api, policy: str) -> None:
    """The failure policy holds for mutating webhooks too."""
    configure(
        api, MUTATING, webhook(api, DEAD, failurePolicy=policy, objectSelector={"matchLabels": {"a": "b"}})
    )
    api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)


@case.each(["Fail", "Ignore"])
def with_an_untrusted_certificate(api: Api, policy: str) -> None:
    """A webhook whose certificate its caBundle doesn't vouch for is as good as dead."""
    hook = api.hook(unless_probing(allow))
    config = {"url": hook.url}
    selector = {"matchLabels": {"a": "b"}}
    configure(api, VALIDATING, webhook(api, config, failurePolicy=policy, objectSelector=selector))
    answer = api.post("widgets", widget("a", labels={"a": "b"}), expect=-1)
    api.note("asked", hook.called)
    api.note("status", answer.status)


BAD_ANSWERS: dict[str, Callable[[Raw], Raw]] = {
    "wrong-uid": lambda _: {"uid": "nonsense"},
    "patch-without-type": lambda _: {"patch": "W10="},
    "type-without-patch": lambda _: {"patchType": "JSONPatch"},
    "unknown-patch-type": lambda _: {"patch": "W10=", "patchType": "Nonsense"},
    "patch-no-json": lambda _: {"patch": "e30=", "patchType": "JSONPatch"},
}


@case.each({name: (handle,) for name, handle in BAD_ANSWERS.items()})
def with_a_bad_answer(api: Api, handle: Callable[[Raw], Raw]) -> None:
    """A review that is answered wrongly is the server's error."""
    ready(api, MUTATING, handle)
    api.post("widgets", widget("a"), expect=-1)


@case.each(["None", "NoneOnDryRun", "Some", "Unknown"])
def that_have_side_effects(api: Api, effects: str) -> None:
    """A webhook with side effects can't be configured in v1, and one without is told of a dry run."""
    hook = api.hook(unless_probing(allow))
    body = webhook(api, hook.client_config, sideEffects=effects)
    if effects in ("Some", "Unknown"):
        configuration = named("admissionregistration.k8s.io/v1", VALIDATING, api.name, webhooks=[body])
        api.post("validatingwebhookconfigurations", configuration, expect=422)
        return
    configure(api, VALIDATING, body)
    hook.take()
    api.post("widgets", widget("a"), query={"dryRun": "All"})
    api.received(hook)


BAD_CONFIGURATIONS: dict[str, Raw] = {
    "no-name": {"name": ""},
    "bare-name": {"name": "short"},
    "http": {"clientConfig": {"url": "http://127.0.0.1/x"}},
    "no-client": {"clientConfig": {}},
    "url-with-query": {"clientConfig": {"url": "https://127.0.0.1/x?a=b"}},
    "no-side-effects": {"sideEffects": None},
    "no-versions": {"admissionReviewVersions": None},
    "unknown-version": {"admissionReviewVersions": ["v9"]},
    "bad-timeout": {"timeoutSeconds": 31},
    "bad-policy": {"failurePolicy": "Nonsense"},
    "bad-match": {"matchPolicy": "Nonsense"},
    "no-operations": {"rules": [{**WIDGETS, "operations": []}]},
    "unknown-operation": {"rules": [{**WIDGETS, "operations": ["READ"]}]},
    "no-resources": {"rules": [{**WIDGETS, "resources": []}]},
    "star-and-more": {"rules": [{**WIDGETS, "resources": ["*", "widgets"]}]},
    "bad-scope": {"rules": [{**WIDGETS, "scope": "Nonsense"}]},
    "bad-selector": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
}


@case.each({name: (changes,) for name, changes in BAD_CONFIGURATIONS.items()})
def that_are_configured_wrongly(api: Api, changes: Raw) -> None:
    """A configuration that breaks a rule is refused."""
    body = {key: value for key, value in {**webhook(api, DEAD), **changes}.items() if value is not None}
    for kind in (VALIDATING, MUTATING):
        configuration = named("admissionregistration.k8s.io/v1", kind, api.name, webhooks=[body])
        api.post(f"{kind.lower()}s", configuration, query={"dryRun": "All"}, expect=-1)


@case
def with_defaults(api: Api) -> None:
    """A configuration is answered with its defaults."""
    least = {
        "name": "one.example.com",
        "clientConfig": DEAD,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    rule = {key: value for key, value in WIDGETS.items() if key != "scope"}
    for kind in (VALIDATING, MUTATING):
        body = named("admissionregistration.k8s.io/v1", kind, api.name, webhooks=[{**least, "rules": [rule]}])
        api.post(f"{kind.lower()}s", body, query={"dryRun": "All"}, expect=201)


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

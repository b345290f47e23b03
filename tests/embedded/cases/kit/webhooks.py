"""Webhook configurations for cases, and how to know that a server uses them."""

import base64
import json
import time
from typing import Any

from tests.embedded.cases.kit.hooks import DEAD_PORT, Handle, Hook
from tests.embedded.cases.kit.objects import (
    Raw,
    config_map,
    named,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.wire import PATIENCE

VALIDATING = "ValidatingWebhookConfiguration"
MUTATING = "MutatingWebhookConfiguration"
WIDGETS = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
DEAD = {"url": f"https://127.0.0.1:{DEAD_PORT}/dead"}


def allow(_: Raw) -> Raw:
    """Allow whatever it is."""
    return {}


def patching(*operations: Raw) -> Handle:
    """Answer with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"patchType": "JSONPatch", "patch": patch}


def unless_probing(handle: Handle) -> Handle:
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
        "timeoutSeconds": 20,
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


def refusing(**status: Any) -> Handle:
    """Refuse with this status."""
    return unless_probing(lambda _: {"allowed": False, "status": status} if status else {"allowed": False})


def ready(api: Api, kind: str, handle: Handle, **rest: Any) -> Hook:
    """One webhook of the kind, in use."""
    hook = api.hook(unless_probing(handle))
    configure(api, kind, webhook(api, hook.client_config, **rest))
    hook.take()
    return hook

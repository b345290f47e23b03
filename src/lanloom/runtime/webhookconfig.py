"""How an API server is told of the webhooks: what it asks about, on what conditions, and what if nobody answers."""

from collections.abc import Callable, Sequence
from typing import Any

from lanloom.runtime.webhooktable import (
    REVIEW_SECONDS,
    Verb,
    Watched,
    Webhook,
    watched,
)

REFERENCES_PATH = "/references"

_VERBS: tuple[Verb, ...] = ("mutate", "validate")


def webhook_configurations(
    table: Sequence[Webhook], client_config: Callable[[str], dict[str, Any]], *, beside: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The mutating and the validating configuration of a table of webhooks.

    `client_config` says how a path (`/mutate`) is reached. Webhooks of Harvester's kinds fail open `beside`
    Harvester's controller, which writes these. A webhook that nothing is to be asked of is left out.
    """
    policy = {"failurePolicy": "Ignore" if beside else "Fail"}
    found: dict[str, list[dict[str, Any]]] = {}
    for verb in _VERBS:
        own, harvesters = (watched(table, verb, harvesters=which) for which in (False, True))
        config = client_config(f"/{verb}")
        webhooks = found[verb] = []
        if own:
            webhooks.append(_webhook(f"{verb}.lanloom.io", _rules(own, statuses=True), config))
        if harvesters:
            rules = _rules(harvesters, statuses=False)
            webhooks.append(_webhook(f"{verb}.harvester.lanloom.io", rules, config) | policy)
    if referring := watched(table, "refer"):
        found["validate"].append(_references_webhook(referring, client_config))
    return (
        _configuration("MutatingWebhookConfiguration", *found["mutate"]),
        _configuration("ValidatingWebhookConfiguration", *found["validate"]),
    )


def installed_configurations() -> tuple[dict[str, Any], dict[str, Any]]:
    """The configurations as they are installed: without the field `webhooks`, which is the manager's.

    Until the manager has filled them in, nothing is checked and nothing is held up. What is applied again does not name
    the field, so neither `kubectl apply` nor a merge takes away what the manager wrote.
    """
    return _installed("MutatingWebhookConfiguration"), _installed("ValidatingWebhookConfiguration")


CONFIGURATION_NAME = "lanloom"

_NETWORKS_ANNOTATIONS = "['k8s.v1.cni.cncf.io/networks', 'v1.multus-cni.io/default-network']"


def _is_there(path: str) -> str:
    """CEL: whether a field is there; KubeVirt lets some be null, of which nothing can be asked then."""
    return f"has({path}) && {path} != null"


def _names_networks(metadata: str, spec: str) -> str:
    """CEL: whether something with this metadata and spec names networks of Multus; never an error."""
    annotations, networks = f"{metadata}.annotations", f"{spec}.networks"
    return (
        f"({_is_there(metadata)} && {_is_there(annotations)}"
        f" && {_NETWORKS_ANNOTATIONS}.exists(key, key in {annotations}))"
        f" || ({_is_there(spec)} && {_is_there(networks)} && {networks}.exists(item, has(item.multus)))"
    )


REFERENCES_CONDITION = (
    f"{_names_networks('object.metadata', 'object.spec')}"
    f" || ({_is_there('object.spec')} && {_is_there('object.spec.template')}"
    f" && ({_names_networks('object.spec.template.metadata', 'object.spec.template.spec')}))"
)
"""CEL: whether a pod, a virtual machine or an instance of one names networks of Multus."""

_TEMPLATES = " && ".join(
    _is_there(path)
    for owner in ("object", "oldObject")
    for path in (f"{owner}.spec", f"{owner}.spec.template")
)
ANEW_CONDITION = (
    f"request.operation != 'UPDATE' || !({_TEMPLATES}) || object.spec.template != oldObject.spec.template"
)
"""CEL: whether something may name other networks than before. Of what is updated only machines are looked at, and what
KubeVirt and people change of those all the time is outside the template: that they run, finalizers, annotations."""


def _references_webhook(referring: Watched, client_config: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The webhook that judges references to networks.

    It must not fail open, because a reference that it has not seen may be to a network that is being deleted. Nor may
    pods and machines that have nothing to do with networks depend on it, nor changes that are about something else. An
    API server before 1.28 knows no `matchConditions`; there it has to fail open (`registration.Registration`).
    """
    conditions = [
        {"name": "names-networks", "expression": REFERENCES_CONDITION},
        {"name": "names-them-anew", "expression": ANEW_CONDITION},
    ]
    webhook = _webhook(
        "references.lanloom.io", _rules(referring, statuses=False), client_config(REFERENCES_PATH)
    )
    return webhook | {"sideEffects": "NoneOnDryRun", "matchConditions": conditions}


def _rules(resources: Watched, *, statuses: bool) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": list(operations),
            "resources": [
                resource.plural,
                *([f"{resource.plural}/status"] if statuses and resource.status else []),
            ],
            "scope": "Namespaced" if resource.namespaced else "Cluster",
        }
        for resource, operations in resources
    ]


def _webhook(name: str, rules: list[dict[str, Any]], client_config: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": REVIEW_SECONDS,
        "rules": rules,
        "clientConfig": client_config,
    }


def _configuration(kind: str, *webhooks: dict[str, Any]) -> dict[str, Any]:
    return _installed(kind) | {"webhooks": list(webhooks)}


def _installed(kind: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": CONFIGURATION_NAME},
    }

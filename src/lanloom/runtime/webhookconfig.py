"""The registration of the webhooks at an API server: what it asks about, on what conditions, and what happens without
an answer.

A webhook with `matchConditions` is registered as one that fails open at first. Only when the API server's answer shows
that it keeps the conditions does the webhook fail closed: an API server that drops them, as those before 1.28 do, would
otherwise refuse all pods whenever no manager answers. A webhook that is only asked less by its condition
(`SAVING`) fails closed with it and without.

The configurations themselves are installed without webhooks (`installed_configurations`), and filled in by a
`Registration`. So the manager needs no right to create webhook configurations, by which it could read and rewrite
everything.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from lanloom.api.clusterranges import ENDPOINT_SLICES, SERVICE_LABEL
from lanloom.api.core import VALIDATING_WEBHOOKS, WebhookConfiguration
from lanloom.api.names import HARVESTER_CONTROLLER, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.ports import Client
from lanloom.runtime.identity import MANAGERS
from lanloom.runtime.webhooktable import REVIEW_SECONDS, Verb, Watched, Webhook, watched

log = structlog.get_logger(__name__)

REFERENCES_PATH = "/references"

CONDITIONS = "matchConditions"
_NOT_HARVESTERS = {
    "name": "not-harvesters-own",
    "expression": f"request.userInfo.username != '{HARVESTER_CONTROLLER}'",
}

SAVING = {
    "name": "not-managers-status",
    "expression": (
        f"request.userInfo.username != '{MANAGERS[0]}'"
        " || !has(request.subResource) || request.subResource != 'status'"
    ),
}
"""The condition that leaves out statuses which the manager's account writes: each would wait for a review by a manager.

Of a deposed manager, the API server refuses them without a review: they are based on versions that are replaced.
"""

_VERBS: tuple[Verb, ...] = ("mutate", "validate")


def webhook_configurations(
    table: Sequence[Webhook], client_config: Callable[[str], dict[str, Any]], *, coexists: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mutating and the validating configuration of a table of webhooks.

    `client_config` says how a path (`/mutate`) is reached. If the manager `coexists` with Harvester's controller,
    webhooks of that one's kinds fail open, and those of kinds that it writes, too, are not asked about its writes: it
    never waits for a manager. A webhook that nothing is to be asked of is left out.
    """
    policy = {"failurePolicy": "Ignore" if coexists else "Fail"}
    found: dict[str, list[dict[str, Any]]] = {}
    for verb in _VERBS:
        own = watched(table, verb, "others") if coexists else watched(table, verb, "others", "both")
        shared = watched(table, verb, "both") if coexists else ()
        harvesters = watched(table, verb, "harvester")
        config = client_config(f"/{verb}")
        statuses = verb != "mutate"  # a write of a status changes nothing else, and no status is filled in
        webhooks = found[verb] = []
        if own:
            webhook = _webhook(f"{verb}.lanloom.io", _rules(own, statuses=statuses), config)
            webhooks.append(webhook | ({CONDITIONS: [SAVING]} if statuses else {}))
        for row in table:
            if row.verb == verb and row.unless:
                rules = _rules(((row.resource, row.operations),), statuses=statuses)
                webhook = _webhook(f"{verb}.{row.resource.plural}.lanloom.io", rules, config)
                webhooks.append(webhook | {"objectSelector": _without_label(row.unless)})
        if shared:
            webhook = _webhook(f"{verb}.shared.lanloom.io", _rules(shared, statuses=statuses), config)
            webhooks.append(webhook | {CONDITIONS: [_NOT_HARVESTERS]})
        if harvesters:
            rules = _rules(harvesters, statuses=False)
            webhooks.append(_webhook(f"{verb}.harvester.lanloom.io", rules, config) | policy)
    if referring := watched(table, "refer", "others"):
        found["validate"].append(_references_webhook(referring, client_config))
    return (
        _configuration("MutatingWebhookConfiguration", *found["mutate"]),
        _configuration("ValidatingWebhookConfiguration", *found["validate"]),
    )


def installed_configurations() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configurations as they are installed: without the field `webhooks`, which is the manager's.

    Until the manager has filled them in, nothing is checked and nothing is held up. What is applied again does not name
    the field, so neither `kubectl apply` nor a merge takes away what the manager wrote.
    """
    return _installed("MutatingWebhookConfiguration"), _installed("ValidatingWebhookConfiguration")


CONFIGURATION_NAME = "lanloom"
SERVICE_NAME = "lanloom-webhook"

_NETWORKS_ANNOTATIONS = "['k8s.v1.cni.cncf.io/networks', 'v1.multus-cni.io/default-network']"


def _is_there(path: str) -> str:
    """Return CEL: whether a field is there. KubeVirt lets some be null."""
    return f"has({path}) && {path} != null"


def _names_networks(metadata: str, spec: str) -> str:
    """Return CEL: whether something with this metadata and spec names networks of Multus; never an error."""
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
    """Return the webhook that judges references to networks.

    It must not fail open, because a reference that it has not seen may be to a network that is being deleted. Nor may
    pods and machines that have nothing to do with networks depend on it, nor changes that are about something else. An
    API server before 1.28 knows no `matchConditions`; there it has to fail open (`Registration`).
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


def _without_label(label: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]}


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


Registered = dict[str, Any]
"""A webhook of a configuration, as the API server has it."""

_NO_CONDITIONS = "the API server has no matchConditions; Kubernetes 1.28 and later have"


class Registration:
    """Register on one API server, whose answers tell it what that server understands.

    What an API server understands is not asked again; a manager that comes to lead makes a new one of these. With
    `embedded` it is Lanloom's own, which has no conditions: no operator can do anything about that.
    """

    def __init__(self, client: Client, *, embedded: bool = False) -> None:
        self._client = client
        self._report = log.debug if embedded else log.warning
        self._drops_conditions = False

    async def apply(self, resource: Resource[WebhookConfiguration], wanted: dict[str, Any]) -> None:
        """Fill a configuration in, and correct what differs in it; a server's own defaults are left alone.

        Raises NotFound with the remedy where there is no such configuration: it is installed, never created here.
        """
        webhooks: list[Registered] = wanted["webhooks"]
        try:
            current = (await self._client.get(resource, CONFIGURATION_NAME)).webhooks
        except NotFound as error:
            raise _missing(resource, error) from error
        # Twice, if the first answer shows that a webhook may fail closed; not endlessly, should another writer insist.
        for _ in range(2):
            expected = self._expected(webhooks, current)
            if expected == list(current):
                return
            patch = {"webhooks": expected}
            current = (await self._client.patch(resource, CONFIGURATION_NAME, patch)).webhooks
            self._learn(webhooks, current)

    def _expected(self, wanted: Sequence[Registered], current: Sequence[Registered]) -> list[Registered]:
        return [self._cautious(webhook, _present(webhook, current)) for webhook in wanted]

    def _cautious(self, webhook: Registered, present: Registered) -> Registered:
        """Return a webhook as it may be now, with what the server added to it as it stands."""
        if CONDITIONS not in webhook or present.get(CONDITIONS) == webhook[CONDITIONS]:
            return present | webhook
        careful = webhook if _fails_closed(webhook) else webhook | {"failurePolicy": "Ignore"}
        if self._drops_conditions:
            careful = {key: value for key, value in careful.items() if key != CONDITIONS}
        return present | careful

    def _learn(self, wanted: Sequence[Registered], answered: Sequence[Registered]) -> None:
        if self._drops_conditions:
            return
        for webhook in wanted:
            if CONDITIONS in webhook and CONDITIONS not in _present(webhook, answered):
                self._drops_conditions = True
                if not _fails_closed(webhook):
                    self._report("webhook-fails-open", webhook=webhook["name"], reason=_NO_CONDITIONS)


def _fails_closed(webhook: Registered) -> bool:
    """Return whether a webhook fails closed on an API server that drops its conditions, too."""
    return bool(webhook[CONDITIONS] == [SAVING])


async def may_register(client: Client) -> bool:
    """Return whether webhooks are registered already, or a replica behind the Service is ready to answer them.

    A webhook that fails closed before a replica answers would refuse all writes. An API server that does not publish
    which replicas are ready (before 1.21), or does not tell the manager (rights of an older version), can't be asked; a
    configuration that is missing is for `Registration` to report. Raises KubeError.
    """
    label = f"{SERVICE_LABEL}={SERVICE_NAME}"
    try:
        slices = await client.list(ENDPOINT_SLICES, LANLOOM_NAMESPACE, labels=label)
        if any(each.conditions.ready is not False for item in slices.items for each in item.endpoints):
            return True
        return bool((await client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)).webhooks)
    except (NotFound, Forbidden):
        return True


def _missing(resource: Resource[Any], error: NotFound) -> NotFound:
    message = (
        f"{resource.kind} {CONFIGURATION_NAME} does not exist, so requests are not validated, and the manager is "
        "not allowed to create it; install it: kubectl apply -f deploy/webhooks.yaml"
    )
    return NotFound(error.code, error.reason, message, error.status)


def _present(webhook: Registered, current: Sequence[Registered]) -> Registered:
    return next((item for item in current if item.get("name") == webhook["name"]), {})

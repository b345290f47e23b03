"""What a webhook configuration must say."""

from tests.embedded.cases.kit.objects import Raw, named, widget
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area
from tests.embedded.cases.kit.webhooks import (
    DEAD,
    MUTATING,
    VALIDATING,
    WIDGETS,
    allow,
    configure,
    unless_probing,
    webhook,
)

case = Area(__name__)


@case.each(["None", "NoneOnDryRun", "Some", "Unknown"])
def that_have_side_effects(api: Api, effects: str) -> None:
    """A webhook with side effects can't be configured in v1, and one without gets dry runs."""
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

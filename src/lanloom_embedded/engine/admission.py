"""The chain of admission: webhook configurations that are stored in the server, asked over a port.

Mutating webhooks are asked one after the other in the order of their configurations' names, each seeing what
the ones before made of the object; validating ones all at once.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from lanloom.api.meta import Key
from lanloom.text import authority
from lanloom_embedded.engine import metadata
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.engine.webhooks import (
    Attributes,
    Hook,
    Outcome,
    WebhookError,
    hooks_of,
    outcome_of,
    rejection,
    review_of,
)
from lanloom_embedded.kinds import (
    NAMESPACES,
    GroupPlural,
    Raw,
    ServedKind,
)

MUTATING = GroupPlural("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING = GroupPlural("admissionregistration.k8s.io", "validatingwebhookconfigurations")
SERVICES = GroupPlural("", "services")
ENDPOINTS = GroupPlural("", "endpoints")

HTTPS_PORT = 443
"""The port of a Service that a webhook listens at if its configuration has none."""


class WebhookCaller(Protocol):
    """Sends a review to a webhook."""

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """Return the AdmissionReview that came back. `webhook` is one of a configuration. Raises WebhookError."""
        ...


class NoWebhooks:
    """A caller for servers without registered webhooks."""

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """Raise WebhookError."""
        raise WebhookError("this server calls no webhooks")


class _Match(NamedTuple):
    """A webhook to ask, and the kind in the version in which it sees the object."""

    hook: Hook
    review_kind: ServedKind


class Admission:
    """Asks the webhooks that match a request."""

    def __init__(
        self, ledger: Ledger, registry: Registry, caller: WebhookCaller, new_uid: Callable[[], str]
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._caller = caller
        self._new_uid = new_uid
        self._hooks: dict[GroupPlural, tuple[Hook, ...]] = {}
        for resource in (MUTATING, VALIDATING):
            self._read(resource)
        ledger.listen(self._on_change)

    async def mutate(self, attributes: Attributes, call: Call, decode: Callable[[Raw], Any]) -> Raw | None:
        """Return the object as the mutating webhooks leave it; `decode` prunes and fills in what they add."""
        obj = attributes.object
        if not call.webhooks:
            return obj
        results: list[tuple[_Match, Raw | None]] = []
        for match in self._matching(MUTATING, attributes):
            obj = await self._mutate_once(match, attributes, obj, call, decode)
            results.append((match, obj))
        for match, result in results:
            if match.hook.reinvoke and result != obj:
                obj = await self._mutate_once(match, attributes, obj, call, decode)
        return obj

    async def validate(self, attributes: Attributes, call: Call) -> None:
        """Raise the refusal of the first validating webhook that refuses."""
        matches = self._matching(VALIDATING, attributes) if call.webhooks else []
        if not matches:
            return
        calls = (self._call(match, attributes, attributes.object, call) for match in matches)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _mutate_once(
        self, match: _Match, attributes: Attributes, obj: Raw | None, call: Call, decode: Callable[[Raw], Any]
    ) -> Raw | None:
        outcome = await self._call(match, attributes, obj, call)
        if outcome is None or outcome.patch is None or obj is None:
            return obj
        patched = match.hook.apply(outcome.patch, {**obj, "apiVersion": match.review_kind.api_version})
        patched["apiVersion"] = attributes.kind.api_version
        patched["metadata"] = metadata.clean(patched.get("metadata"), attributes.kind.kind)
        decode(patched)
        return patched

    async def _call(
        self, match: _Match, attributes: Attributes, obj: Raw | None, call: Call
    ) -> Outcome | None:
        """Return the webhook's answer; None when it failed and that is to be ignored."""
        hook = match.hook
        hook.check_dry_run(call.dry_run)
        uid = self._new_uid()
        try:
            async with asyncio.timeout(hook.timeout):
                review = review_of(attributes, match.review_kind, obj, call, uid)
                answer = await self._caller.call(_routed(self._ledger, hook.webhook), review)
            outcome = outcome_of(answer, uid)
        except (WebhookError, TimeoutError) as error:
            if hook.fail_open:
                return None
            raise hook.failed(str(error) or "context deadline exceeded") from None
        call.warnings.add(outcome.warnings)
        if not outcome.allowed:
            raise rejection(hook.name, outcome.status)
        return outcome

    def _matching(self, resource: GroupPlural, attributes: Attributes) -> list[_Match]:
        hooks = self._hooks[resource]
        if not hooks or attributes.kind.key in self._hooks:
            # A server whose webhooks refuse every webhook configuration could not be repaired.
            return []
        labels = self._namespace_labels(attributes)
        versions = self._registry.versions(attributes.kind.key)
        seen = ((hook, hook.review_kind(attributes, versions)) for hook in hooks)
        return [
            _Match(hook, kind) for hook, kind in seen if kind is not None and hook.selects(attributes, labels)
        ]

    def _namespace_labels(self, attributes: Attributes) -> Mapping[str, str] | None:
        if attributes.kind.key == NAMESPACES:
            shown: Raw = attributes.object or attributes.old or {}
            return shown.get("metadata", {}).get("labels") or {}
        if not attributes.namespace:
            return None
        namespace = self._ledger.latest(NAMESPACES, Key("", attributes.namespace))
        return namespace.labels if namespace is not None else {}

    def _on_change(self, change: Change) -> None:
        if change.resource in self._hooks:
            self._read(change.resource)

    def _read(self, resource: GroupPlural) -> None:
        states = self._ledger.table(resource).select("")
        self._hooks[resource] = tuple(hook for state in states for hook in hooks_of(state.raw()))


def _routed(ledger: Ledger, webhook: Raw) -> Raw:
    """Return a webhook with the URL of its Service's first address, in addition to the Service that names its
    certificate.

    As in a kube-apiserver that routes to endpoints (`--enable-aggregator-routing`), it is an address of the Service's
    Endpoints. A Service without any is called by its DNS name.
    """
    config = webhook.get("clientConfig") or {}
    service = config.get("service")
    if not service:
        return webhook
    authority = _authority(ledger, service)
    if authority is None:
        return webhook
    path = str(service.get("path") or "/").lstrip("/")
    return {**webhook, "clientConfig": {**config, "url": f"https://{authority}/{path}"}}


def _authority(ledger: Ledger, reference: Raw) -> str | None:
    key = Key(reference.get("namespace", ""), reference.get("name", ""))
    service, endpoints = (ledger.latest(resource, key) for resource in (SERVICES, ENDPOINTS))
    if service is None or endpoints is None:
        return None
    wanted = reference.get("port") or HTTPS_PORT
    ports = (service.raw().get("spec") or {}).get("ports") or ()
    names = {port.get("name", "") for port in ports if port.get("port") == wanted}
    for subset in endpoints.raw().get("subsets") or ():
        found = [port["port"] for port in subset.get("ports") or () if port.get("name", "") in names]
        for address in subset.get("addresses") or () if found else ():
            return authority(address["ip"], found[0])
    return None

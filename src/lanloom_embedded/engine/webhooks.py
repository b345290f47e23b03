"""One webhook of a configuration: what it matches, what it is asked, and how its answer is read.

Pure; `admission` does the asking. The words of refusals and failures are the real server's.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.runtime.https import errors
from lanloom.runtime.https.errors import StatusError
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.patches import json_patch
from lanloom_embedded.selectors import LabelSelector, Operator, Requirement

REVIEW_VERSION = "admission.k8s.io/v1"

_INVALID = "received invalid webhook response"
_OPERATORS: dict[str, Operator] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class WebhookError(Exception):
    """A webhook gave no answer that can be used; the message says why."""


class Attributes(Struct, frozen=True, kw_only=True):
    """The attributes of an admission request. `old` is None on CREATE, `object` on DELETE."""

    kind: ServedKind
    operation: str
    namespace: str
    name: str
    subresource: str = ""
    object: Raw | None = None
    old: Raw | None = None
    options: Raw = {}


class Outcome(Struct, frozen=True, kw_only=True):
    """The answer of a webhook."""

    allowed: bool
    status: Raw = {}
    patch: list[Raw] | None = None
    warnings: tuple[str, ...] = ()


class Hook(Struct, frozen=True):
    """One webhook as it stands in its configuration."""

    webhook: Raw

    @property
    def name(self) -> str:
        """The webhook's own name."""
        return str(self.webhook.get("name", ""))

    @property
    def timeout(self) -> float:
        """Seconds until the webhook counts as failed."""
        return float(self.webhook.get("timeoutSeconds") or 10)

    @property
    def fail_open(self) -> bool:
        """Whether a failed webhook lets the request pass."""
        return bool(self.webhook.get("failurePolicy", "Fail") == "Ignore")

    @property
    def reinvoke(self) -> bool:
        """Whether the webhook wants to see what later ones changed."""
        return bool(self.webhook.get("reinvocationPolicy") == "IfNeeded")

    def review_kind(self, attributes: Attributes, versions: Sequence[ServedKind]) -> ServedKind | None:
        """Return the kind in the version that the rules ask for: the request's own if they do, or else another one.

        None if no rule matches. `versions` are all that are served of the resource.
        """
        rules = self.webhook.get("rules") or ()
        candidates = [attributes.kind]
        if self.webhook.get("matchPolicy", "Equivalent") == "Equivalent":
            candidates += versions
        for kind in candidates:
            if any(_rule_matches(rule, attributes, kind.version) for rule in rules):
                return kind
        return None

    def selects(self, attributes: Attributes, namespace_labels: Mapping[str, str] | None) -> bool:
        """Return whether the selectors match. `namespace_labels` is None for objects outside of namespaces."""
        if namespace_labels is not None and not _selects(self.webhook, "namespaceSelector", namespace_labels):
            return False
        shown = [obj for obj in (attributes.object, attributes.old) if obj is not None]
        return any(
            _selects(self.webhook, "objectSelector", obj.get("metadata", {}).get("labels") or {})
            for obj in shown
        )

    def check_dry_run(self, dry_run: bool) -> None:
        """Raise BadRequest if this is a dry run and the webhook might do something."""
        if dry_run and self.webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            message = f"admission webhook {json.dumps(self.name)} does not support dry run"
            raise errors.BadRequest(message)

    def failed(self, why: str) -> StatusError:
        """Return the refusal because the webhook gave no answer."""
        return errors.internal(f"failed calling webhook {json.dumps(self.name)}: {why}")

    def apply(self, patch: list[Raw], obj: Raw) -> Raw:
        """Return the object with the webhook's patch. Raises InternalError if it doesn't fit."""
        try:
            patched = json_patch(obj, patch)
        except StatusError as error:
            raise errors.internal(error.message) from None
        if not isinstance(patched, dict):
            raise errors.internal(
                f"admission webhook {json.dumps(self.name)} replaced the object by a scalar"
            )
        return patched


def hooks_of(configuration: Raw) -> tuple[Hook, ...]:
    """Return the webhooks of a configuration, in its order."""
    return tuple(Hook(webhook) for webhook in configuration.get("webhooks") or ())


def review_of(attributes: Attributes, review_kind: ServedKind, obj: Raw | None, call: Call, uid: str) -> Raw:
    """Return the AdmissionReview that is sent; `review_kind` is the kind in the version that the webhook asks for."""
    options = {**attributes.options, "dryRun": ["All"]} if call.dry_run else attributes.options
    request: Raw = {
        "uid": uid,
        "kind": _kind(review_kind),
        "resource": _resource(review_kind),
        "requestKind": _kind(attributes.kind),
        "requestResource": _resource(attributes.kind),
        "operation": attributes.operation,
        "userInfo": msgspec.to_builtins(call.user),
        "object": converted(obj, review_kind),
        "oldObject": converted(attributes.old, review_kind),
        "dryRun": call.dry_run,
        "options": options or None,
    }
    optional = {
        "name": attributes.name,
        "namespace": attributes.namespace,
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
    }
    request |= {name: value for name, value in optional.items() if value}
    return {"kind": "AdmissionReview", "apiVersion": REVIEW_VERSION, "request": request}


def _kind(kind: ServedKind) -> Raw:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ServedKind) -> Raw:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def converted(obj: Raw | None, kind: ServedKind) -> Raw | None:
    """Return an object in another version: without conversion webhooks only its apiVersion differs."""
    return None if obj is None else {**obj, "apiVersion": kind.api_version}


def outcome_of(answer: Raw, uid: str) -> Outcome:
    """Read the AdmissionReview that came back. Raises WebhookError."""
    response = answer.get("response")
    if not isinstance(response, dict):
        raise WebhookError("webhook response did not set response")
    if answer.get("apiVersion") != REVIEW_VERSION or answer.get("kind") != "AdmissionReview":
        got = f"{answer.get('apiVersion')}, Kind={answer.get('kind')}"
        raise WebhookError(f"expected webhook response of {REVIEW_VERSION}, Kind=AdmissionReview, got {got}")
    if response.get("uid") != uid:
        raise WebhookError(f'{_INVALID}: expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return Outcome(
        allowed=bool(response.get("allowed")),
        status=response.get("status") or {},
        patch=_patch_of(response),
        warnings=tuple(str(each) for each in response.get("warnings") or ()),
    )


def rejection(name: str, status: Raw) -> StatusError:
    """Return the refusal of a webhook, with the code and reason that it chose."""
    denied = f"admission webhook {json.dumps(name)} denied the request"
    if status.get("message"):
        message = f"{denied}: {status['message']}"
    elif status.get("reason"):
        message = f"{denied}: {status['reason']}"
    else:
        message = f"{denied} without explanation"
    code = int(status.get("code") or 0)
    return StatusError(
        message,
        code=code if code >= 400 else 400,
        reason=str(status.get("reason", "")),
        details=status.get("details"),
    )


def _patch_of(response: Raw) -> list[Raw] | None:
    encoded = response.get("patch")
    if not encoded and response.get("patchType"):
        raise WebhookError(f"{_INVALID}: webhook returned response.patchType but not response.patch")
    if not encoded:
        return None
    if not response.get("patchType"):
        raise WebhookError(f"{_INVALID}: webhook returned response.patch but not response.patchType")
    if response["patchType"] != "JSONPatch":
        raise WebhookError(f'invalid value of webhook response.patchType: "{response["patchType"]}"')
    try:
        return msgspec.json.decode(base64.b64decode(encoded), type=list[dict[str, Any]])
    except (binascii.Error, msgspec.DecodeError) as error:
        raise WebhookError(f"the webhook's patch can't be read: {error}") from None


def _rule_matches(rule: Raw, attributes: Attributes, version: str) -> bool:
    # What tells most rules apart comes first: this is asked for each rule of each webhook at each write.
    return (
        _in(rule.get("apiGroups"), attributes.kind.group)
        and any(_resource_matches(each, attributes) for each in rule.get("resources") or ())
        and _in(rule.get("operations"), attributes.operation)
        and _in(rule.get("apiVersions"), version)
        and _in_scope(rule.get("scope") or "*", attributes)
    )


def _in_scope(scope: str, attributes: Attributes) -> bool:
    namespaced = bool(attributes.namespace) and str(attributes.kind.key) != "namespaces"
    return scope == "*" or (scope == "Namespaced") == namespaced


def _in(allowed: Sequence[str] | None, value: str) -> bool:
    return allowed is not None and ("*" in allowed or value in allowed)


def _resource_matches(pattern: str, attributes: Attributes) -> bool:
    resource, _, subresource = pattern.partition("/")
    return resource in ("*", attributes.kind.plural) and (
        subresource == attributes.subresource or (subresource == "*")
    )


def _selects(webhook: Raw, field: str, labels: Mapping[str, str]) -> bool:
    selector = webhook.get(field)
    return not selector or _selector(selector).matches(labels)


def _selector(selector: Raw) -> LabelSelector:
    wanted = [
        Requirement(key, "=", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for each in selector.get("matchExpressions") or ():
        operator = _OPERATORS[each["operator"]]
        wanted.append(Requirement(each["key"], operator, frozenset(each.get("values") or ())))
    return LabelSelector(tuple(wanted))

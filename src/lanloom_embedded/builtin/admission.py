"""Rules of webhook configurations, and of what they select: label selectors, and patterns of resources."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from lanloom.runtime.https.fields import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from lanloom_embedded.kinds import Raw
from lanloom_embedded.syntax import label_value, qualified_name, subdomain


def check_label_selector(selector: Raw, path: str) -> Iterator[FieldError]:
    """Yield the labels that must match, and the expressions."""
    for key, value in (selector.get("matchLabels") or {}).items():
        for problem in qualified_name(key):
            yield invalid(f"{path}.matchLabels", key, problem)
        for problem in label_value(value):
            yield invalid(f"{path}.matchLabels", value, problem)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _check_expression(expression, f"{path}.matchExpressions[{index}]")


def _check_expression(expression: Raw, path: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator not in ("Exists", "DoesNotExist"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif values:
        yield forbidden(
            f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    for problem in qualified_name(expression.get("key", "")):
        yield invalid(f"{path}.key", expression.get("key", ""), problem)


def check_resources(patterns: Sequence[str], path: str) -> Iterator[FieldError]:
    """Check patterns: `pods`, `pods/status`, `pods/*`, `*/status`, `*` and `*/*`, none of which repeats another."""
    if not patterns:
        yield required(path)
    for index, pattern in enumerate(patterns):
        resource, _, subresource = pattern.partition("/")
        for wide in (f"{resource}/*", f"*/{subresource}") if subresource else ():
            if wide in patterns[:index]:
                yield invalid(
                    f"{path}[{index}]", pattern, f"if '{wide}' is present, must not specify {pattern}"
                )
        if not pattern:
            yield required(f"{path}[{index}]")
    if len(patterns) > 1 and "*/*" in patterns:
        yield invalid(path, list(patterns), "if '*/*' is present, must not specify other resources")
    if "*" in patterns and any("/" not in each and each != "*" for each in patterns):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, list(patterns), text)


_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ENUMERATIONS = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": _SIDE_EFFECTS,
}
_LISTS = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}


def check_webhooks(obj: Raw, _: Raw | None) -> Iterator[FieldError]:
    """Yield every webhook of a configuration, and that their names differ."""
    names: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        yield from _check_webhook(webhook, path)
        if webhook["name"] in names:
            yield FieldError("FieldValueDuplicate", f"{path}.name", webhook["name"])
        names.add(webhook["name"])


def _check_webhook(webhook: Raw, path: str) -> Iterator[FieldError]:
    yield from _check_name(webhook["name"], f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from _check_rule(rule, f"{path}.rules[{index}]")
    for name, allowed in _ENUMERATIONS.items():
        if name in webhook and webhook[name] not in allowed:
            yield not_supported(f"{path}.{name}", webhook[name], allowed)
    if "sideEffects" not in webhook:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    for name in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(webhook.get(name) or {}, f"{path}.{name}")
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, text)
    yield from _check_versions(
        webhook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions"
    )
    yield from _check_client(webhook["clientConfig"], f"{path}.clientConfig")


def _check_name(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif errors := subdomain(name):
        yield invalid(path, name, ",".join(errors))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _check_versions(versions: list[str], path: str) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
    elif not set(versions) & set(_REVIEW_VERSIONS):
        yield invalid(path, list(versions), f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _check_rule(rule: Raw, path: str) -> Iterator[FieldError]:
    for name, what in _LISTS.items():
        given = rule.get(name) or []
        if not given:
            yield required(f"{path}.{name}")
        if len(given) > 1 and "*" in given:
            text = f"if '*' is present, must not specify other {what}"
            yield invalid(f"{path}.{name}", list(given), text)
    yield from check_resources(rule.get("resources") or [], f"{path}.resources")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    if rule.get("scope", "*") not in ("*", "Cluster", "Namespaced"):
        yield not_supported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _check_client(client: Raw, path: str) -> Iterator[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _check_url(url, f"{path}.url")
    elif service is not None:
        yield from _check_service(service, f"{path}.service")


def _check_url(text: str, path: str) -> Iterator[FieldError]:
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not url.netloc:
        yield invalid(path, url.netloc, f"host must be provided{_URL_FORM}")
    if "@" in url.netloc:
        yield invalid(path, url.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _check_service(service: Raw, path: str) -> Iterator[FieldError]:
    if not service["name"]:
        yield required(f"{path}.name", "service name is required")
    if not service["namespace"]:
        yield required(f"{path}.namespace", "service namespace is required")
    if not 1 <= service.get("port", 443) <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", service["port"], text)
    if not (service.get("path") or "/").startswith("/"):
        yield invalid(f"{path}.path", service["path"], "must start with a '/'")

"""The syntax of names, labels and finalizers, with Kubernetes' explanations of what is wrong with a text.

Each function returns explanations, none when the text is good. They are used on every object that is
written, so the patterns are compiled once.
"""

import re

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_NAME_RE = re.compile(_NAME)
_VALUE_RE = re.compile(f"({_NAME})?")
_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_DNS_1035_RE = re.compile(_DNS_1035)
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_VALUE_RULE = f"a valid label must be an empty string or {_NAME_RULE.removeprefix('must ')}"
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_CONFIG_KEY_RULE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"


def qualified_name(text: str) -> list[str]:
    """Return a key of a label or an annotation, or a finalizer: `[domain/]name`."""
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    if "/" in name:
        rule = _broken("a valid label key " + _NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
        return [f"{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    found: list[str] = []
    if slash:
        found += [f"prefix part {each}" for each in (subdomain(prefix) if prefix else ["must be non-empty"])]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {_longer(63, 'bytes')}")
    if not _NAME_RE.fullmatch(name):
        found.append("name part " + _broken(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc"))
    return found


def label_value(text: str) -> list[str]:
    """Return a value of a label."""
    found = [_longer(63, "bytes")] if len(text) > 63 else []
    if not _VALUE_RE.fullmatch(text):
        found.append(_broken(_VALUE_RULE, f"({_NAME})?", "MyValue", "my_value", "12345"))
    return found


def dns_label(text: str) -> list[str]:
    """Return a name of a namespace, and other names of at most 63 characters without dots (RFC 1123)."""
    found = [_longer(63)] if len(text) > 63 else []
    if not _LABEL_RE.fullmatch(text) and _SUBDOMAIN_RE.fullmatch(text):
        found.append("must not contain dots")
    elif not _LABEL_RE.fullmatch(text):
        found.append(_broken(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return found


def dns_1035_label(text: str) -> list[str]:
    """Return a name as of a Service or of a CRD's plural: a label that starts with a letter."""
    found = [_longer(63)] if len(text) > 63 else []
    if not _DNS_1035_RE.fullmatch(text):
        found.append(_broken(_DNS_1035_RULE, _DNS_1035, "my-name", "abc-123"))
    return found


def subdomain(text: str) -> list[str]:
    """Return a name of most objects: labels with dots between them, at most 253 characters (RFC 1123)."""
    found = [_longer(253)] if len(text) > 253 else []
    if not _SUBDOMAIN_RE.fullmatch(text):
        found.append(_broken(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return found


def path_segment(text: str) -> list[str]:
    """Return a name of an RBAC object: anything that can stand between two slashes of a URL."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in text]


def config_key(text: str) -> list[str]:
    """Return a key of a ConfigMap's or a Secret's data, which may become the name of a file."""
    found = [_longer(253)] if len(text) > 253 else []
    if not _CONFIG_KEY_RE.fullmatch(text):
        found.append(_broken(_CONFIG_KEY_RULE, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        found.append(f"must not be '{text}'")
    elif text.startswith(".."):
        found.append("must not start with '..'")
    return found


def _longer(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _broken(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"

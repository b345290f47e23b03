"""Rules of what a webhook configuration selects: label selectors, and patterns of resources."""

from collections.abc import Iterator, Sequence

from lanloom.apiserver.fields import FieldError, forbidden, invalid, required
from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.syntax import label_value, qualified_name


def check_label_selector(selector: Raw, path: str) -> Iterator[FieldError]:
    """The labels that must match, and the expressions."""
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
    """Patterns as `pods`, `pods/status`, `pods/*`, `*/status`, `*` and `*/*`, none of which repeats another."""
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

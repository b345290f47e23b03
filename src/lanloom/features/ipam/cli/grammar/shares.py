"""The options that say who takes addresses of a network, how many, which by force, and for how long."""

from lanloom.features.ipam.rules.shares import EVERY, SetShares, check_kind, check_namespace, parse_period
from lanloom.refusals import Malformed
from lanloom.text import quote

_DIGITS = 19
"""A number of fewer digits fits into the 64 bits that the API has for it."""


def shares_steps(
    namespaces: str | None, quota: str | None, force_namespaces: str | None, sticky_for: str | None
) -> list[SetShares]:
    """Parse the options: names or `*` of namespaces, `name=value` or none of the others. Raises Malformed."""
    step = SetShares(
        namespaces=_namespaces("--namespaces", namespaces),
        quota=_quota(quota),
        force_namespaces=_namespaces("--force-namespaces", force_namespaces),
        sticky_for=_periods(sticky_for),
    )
    return [] if step == SetShares() else [step]


def _namespaces(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        check_namespace(option, name)
    return () if EVERY in names else names


def _periods(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = [item.partition("=") for item in text.split(",")] if text != "none" else []
    for kind, _, period in pairs:
        check_kind("--sticky-for", kind)
        parse_period(f"--sticky-for: {kind}", period)
    return {kind: period for kind, _, period in pairs}


def _quota(text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    found: dict[str, int] = {}
    for item in text.split(",") if text != "none" else ():
        name, _, number = item.partition("=")
        check_namespace("--quota", name)
        if not (number.isascii() and number.isdigit() and len(number) < _DIGITS):
            raise Malformed(
                f"--quota: {quote(item)} has no number of addresses; write {name}=100, *=100 for every other "
                "namespace, or none for no quota"
            )
        if name in found:
            raise Malformed(f"--quota: {name} is named twice; name it once")
        found[name] = int(number)
    return found

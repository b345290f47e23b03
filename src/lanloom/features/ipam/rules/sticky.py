"""Addresses that belong to a name: `spec.stickyFor` of a network, and the annotation `sticky-for` of a pod.

A NIC of a name outlives its pod or machine. The next one of that name has the same NIC, and so the same addresses; if
none comes for the period, the NIC is deleted. Only names that come again are of use: those of StatefulSets' pods, of
pods without a controller, and of virtual machines.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import find_address, format_address, parse_range
from lanloom.refusals import Malformed
from lanloom.text import quote

STATEFUL_SET = "StatefulSet"
KINDS = (STATEFUL_SET, "Pod", "VirtualMachine")
"""Whose names come again: a StatefulSet's pods, a pod without a controller, a virtual machine."""

LONGEST = 366 * 86400
"""Seconds that an address is kept without an owner, at most."""

_PERIOD = re.compile(r"([1-9][0-9]{0,8}|0)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ORDINAL = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})")


def parse_period(field: str, text: str) -> int:
    """Return the seconds that a text such as 90s, 30m, 12h or 7d means. Raises Malformed, which begins with the field.

    0s means that addresses are not kept.
    """
    match = _PERIOD.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else -1
    if not 0 <= seconds <= LONGEST:
        raise Malformed(
            f"{field}: {quote(text)} is not a period; write a number with s, m, h or d, such as 12h, up to 366d"
        )
    return seconds


def check_kind(field: str, kind: str) -> None:
    """Raise Malformed for a kind whose names do not come again."""
    if kind not in KINDS:
        raise Malformed(
            f"{field}: {quote(kind)} has no names that come again; choose from {', '.join(KINDS)}"
        )


def check_sticky(sticky_for: Mapping[str, str]) -> None:
    """Raise Malformed, which begins with the field."""
    for kind, period in sticky_for.items():
        check_kind("spec.stickyFor", kind)
        parse_period(f"spec.stickyFor.{kind}", period)


def kept_for(sticky_for: Mapping[str, str], asked: str | None, kind: str) -> str:
    """Return how long addresses of an owner's name are kept, as text; empty for not at all.

    `asked` is the annotation of the pod, which goes before the network's option. Raises Malformed.
    """
    text = sticky_for.get(kind, "") if asked is None or kind not in KINDS else asked
    return text if text and parse_period("sticky-for", text) else ""


class Ordinal(Struct, frozen=True):
    """The StatefulSet that a pod's name is made of, and the pod's number there."""

    stateful_set: str
    number: int


def ordinal_of(pod: str) -> Ordinal | None:
    """Return the parts of a pod's name; None for a name that no StatefulSet makes."""
    match = _ORDINAL.fullmatch(pod)
    return Ordinal(match[1], int(match[2])) if match else None


def is_list_of_ordinals(text: str) -> bool:
    """Return whether an entry is a range `first-last`, of which each pod of a StatefulSet gets its own address."""
    first, dash, last = text.partition("-")
    return bool(dash) and find_address(first) is not None and find_address(last) is not None


def address_of_ordinal(text: str, pod: str) -> str:
    """Return the address of a range that belongs to a pod: the first one for ordinal 0. Raises Malformed."""
    range_, ordinal = parse_range(text), ordinal_of(pod)
    if ordinal is None:
        raise Malformed(
            f"{text} is a list by ordinal, but pod {pod} has none; use it in the template of a StatefulSet"
        )
    if ordinal.number >= range_.size:
        raise Malformed(
            f"{text} has no address for ordinal {ordinal.number} of {ordinal.stateful_set}; add more addresses"
        )
    return format_address(range_.first + ordinal.number)


def resolved(wanted: Sequence[str], pod: str) -> tuple[str, ...]:
    """Return requests with the pod's own address for each list by ordinal. Raises Malformed."""
    return tuple(address_of_ordinal(text, pod) if is_list_of_ordinals(text) else text for text in wanted)

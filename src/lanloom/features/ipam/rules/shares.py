"""Who takes addresses of a network: which namespaces, how many each, which of them by force, and for how long.

A network that states neither `spec.namespaces` nor `spec.quota` serves every namespace without a limit. What a NIC has
it keeps: the rules apply to addresses that it does not have yet, so that a namespace that lost a network can still give
addresses back. In a namespace that `spec.forceNamespaces` does not admit, `force` of a NIC counts for nothing.

Refusals:

Denied
├── NamespaceNotAllowed  the network does not serve the namespace
└── QuotaExceeded        the namespace has as many addresses of the network as it may have

Addresses belong to a name by `spec.stickyFor` of a network, or the annotation `sticky-for` of a pod. A NIC of a name
outlives its pod or machine. The next one of that name has the same NIC, and so the same addresses; if none comes for
the period, the NIC is deleted. Only names that come again are of use: those of StatefulSets' pods, of pods without a
controller, and of virtual machines.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from lanloom.features.ipam.rules.addresses import find_address
from lanloom.features.ipam.rules.model import Network
from lanloom.refusals import Denied, Malformed, title_for
from lanloom.text import quote

EVERY = "*"
"""Stands for every namespace; in a quota, for every one that it does not name."""

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

STATEFUL_SET = "StatefulSet"
KINDS = (STATEFUL_SET, "Pod", "VirtualMachine")
"""Whose names come again: a StatefulSet's pods, a pod without a controller, a virtual machine."""

LONGEST = 366 * 86400
"""Seconds that an address is kept without an owner, at most."""

_PERIOD = re.compile(r"([1-9][0-9]{0,8}|0)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ORDINAL = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})")


class NamespaceNotAllowed(Denied):
    """The network does not serve the namespace."""


class QuotaExceeded(Denied):
    """The namespace has as many addresses of the network as it may have."""


def namespace_of(nic: str) -> str:
    """Return the namespace of a NIC's key (`namespace/name`)."""
    return nic.rpartition("/")[0]


def nic_title(reader: str, nic: str) -> str:
    """Name a NIC in a message for users of another NIC's namespace; both are keys."""
    namespace, _, name = nic.rpartition("/")
    return title_for(namespace_of(reader), "NIC", namespace, name)


def serves(network: Network, namespace: str) -> bool:
    """Return whether NICs of a namespace may take addresses of a network."""
    return _admits(network.namespaces, namespace)


def may_force(network: Network, namespace: str) -> bool:
    """Return whether NICs of a namespace may take reserved addresses of a network by force."""
    return _admits(network.force_namespaces, namespace)


def _admits(allowed: Collection[str], namespace: str) -> bool:
    return not allowed or EVERY in allowed or namespace in allowed


def reserved_remedy(network: Network, namespace: str, insist: str) -> str:
    """Say what helps a NIC of a namespace that wants a reserved address; `insist` is how force is stated."""
    return f"choose another one, or {insist if may_force(network, namespace) else ask_for_force(network, namespace)}"


def ask_for_force(network: Network, namespace: str) -> str:
    """Say how a namespace comes to take reserved addresses of a network."""
    return f"ask an administrator to add {namespace} to spec.forceNamespaces of Network {network.id}"


def limit_of(quota: Mapping[str, int], namespace: str) -> int | None:
    """Return how many addresses a namespace may have by a quota; None for any number."""
    return quota.get(namespace, quota.get(EVERY))


def check_served(network: Network, namespace: str) -> None:
    """Raise NamespaceNotAllowed. The message does not name the namespaces that the network does serve."""
    if not serves(network, namespace):
        raise NamespaceNotAllowed(not_served(network, namespace))


def not_served(network: Network, namespace: str) -> str:
    """Describe why a namespace gets no addresses of a network, and what can be done."""
    return (
        f"network {network.name} gives no addresses to namespace {namespace}; use another network, "
        f"or ask an administrator to add {namespace} to spec.namespaces of Network {network.id}"
    )


def check_quota(network: Network, namespace: str, used: int, more: int) -> None:
    """Raise QuotaExceeded where a namespace that has `used` addresses of a network may not have `more` of them."""
    limit = limit_of(network.quota, namespace)
    if limit is not None and more > 0 and used + more > limit:
        raise QuotaExceeded(
            f"the quota of namespace {namespace} in network {network.name} is exceeded: requested {more}, used {used}, "
            f"limit {limit}; release addresses, or ask an administrator to raise spec.quota of Network {network.id}"
        )


def check_shares(network: Network) -> None:
    """Raise Malformed, which begins with the field."""
    for field, names in (("namespaces", network.namespaces), ("forceNamespaces", network.force_namespaces)):
        for index, name in enumerate(names):
            check_namespace(f"spec.{field}[{index}]", name)
    for name in network.quota:
        check_namespace("spec.quota", name)


def check_namespace(field: str, name: str) -> None:
    """Raise Malformed for what is neither the name of a namespace nor `*`."""
    if name != EVERY and not _NAMESPACE.fullmatch(name):
        raise Malformed(
            f"{field}: {quote(name)} is not the name of a namespace; use lower-case letters, digits and dashes, "
            f"or {EVERY} for every namespace"
        )


class SetShares(Struct, frozen=True, kw_only=True):
    """Other namespaces, another quota, or other periods of sticky addresses; None for the same as before."""

    namespaces: tuple[str, ...] | None = None
    quota: Mapping[str, int] | None = None
    force_namespaces: tuple[str, ...] | None = None
    sticky_for: Mapping[str, str] | None = None


def set_shares(network: Network, step: SetShares) -> Network:
    """Set which namespaces a network serves and how, how many addresses each may have, and how long they are kept."""
    return replace(network, **{name: value for name, value in asdict(step).items() if value is not None})


def with_shares_of(network: Network, there: Network) -> Network:
    """Return a network whose addresses are taken as those of the other."""
    return set_shares(
        network, SetShares(**{name: getattr(there, name) for name in SetShares.__struct_fields__})
    )


def used_by_namespace(owned: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return how many addresses each namespace has; `owned` are keys of NICs with how many each has."""
    used: Counter[str] = Counter()
    for nic, count in owned:
        used[namespace_of(nic)] += count
    return used


Share = tuple[str, int, int | None]
"""A namespace, how many addresses it has, and how many it may have; None for any number."""


def shares(network: Network, used: Mapping[str, int]) -> Iterator[Share]:
    """Return each namespace that has addresses, or that the network names, with how many it has and its limit."""
    named = {*network.namespaces, *network.quota} - {EVERY}
    having = {name for name, count in used.items() if count}
    for name in sorted(having | named):
        yield name, used.get(name, 0), limit_of(network.quota, name)


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

"""Which namespaces take addresses of a network, and how many each: `spec.namespaces` and `spec.quota`.

A network that states neither serves every namespace without a limit. What a NIC has it keeps: the rules apply to
addresses that it does not have yet, so that a namespace that lost a network can still give addresses back.

Refusals:

Denied
├── NamespaceNotAllowed  the network does not serve the namespace
└── QuotaExceeded        the namespace has as many addresses of the network as it may have
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.ipam.rules.model import Network
from lanloom.refusals import Denied, Malformed, title_for
from lanloom.text import quote

EVERY = "*"
"""Stands for every namespace; in a quota, for every one that it does not name."""

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


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
    allowed = network.namespaces
    return not allowed or EVERY in allowed or namespace in allowed


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
    for index, name in enumerate(network.namespaces):
        check_namespace(f"spec.namespaces[{index}]", name)
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
    sticky_for: Mapping[str, str] | None = None


def set_shares(network: Network, step: SetShares) -> Network:
    """Set which namespaces a network serves, how many addresses each may have, and how long they are kept."""
    return replace(
        network,
        namespaces=network.namespaces if step.namespaces is None else step.namespaces,
        quota=network.quota if step.quota is None else step.quota,
        sticky_for=network.sticky_for if step.sticky_for is None else step.sticky_for,
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

"""The kinds that Lanloom knows, and the words by which people mean an object of one."""

import re
from typing import Any

from msgspec import Struct

from lanloom.api import (
    clusternetworknode,
    core,
    dummy,
    harvester,
    ipam,
    kubevirt,
    multus,
    workloads,
)
from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.text import quote

KINDS: tuple[Resource[Any], ...] = (
    dummy.DUMMY_CLUSTER_NETWORKS,
    multus.NADS,
    ipam.NETWORKS,
    ipam.NICS,
    harvester.CLUSTER_NETWORKS,
    harvester.VLAN_CONFIGS,
    harvester.VLAN_STATUSES,
    clusternetworknode.CLUSTER_NETWORK_NODES,
    kubevirt.VIRTUAL_MACHINES,
    kubevirt.VIRTUAL_MACHINE_INSTANCES,
    core.PODS,
    core.NAMESPACES,
    core.NODES,
    core.CONFIG_MAPS,
    core.SECRETS,
    core.LEASES,
    core.CRDS,
    core.MUTATING_WEBHOOKS,
    core.VALIDATING_WEBHOOKS,
    workloads.DAEMON_SETS,
    workloads.DEPLOYMENTS,
    workloads.STATEFUL_SETS,
    workloads.REPLICA_SETS,
    workloads.JOBS,
    workloads.CRON_JOBS,
)

_MORE_WORDS = {
    multus.NADS.full_name: ("nad", "nads"),
    workloads.DEPLOYMENTS.full_name: ("deploy",),
    workloads.STATEFUL_SETS.full_name: ("sts",),
    workloads.REPLICA_SETS.full_name: ("rs",),
    workloads.CRON_JOBS.full_name: ("cj",),
}
"""What everybody says and the resource does not."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Misnamed(Exception):
    """The words name no object; the message says what would."""


class Target(Struct, frozen=True):
    """The object that is meant."""

    resource: Resource[Any]
    key: Key


def words_of(resource: Resource[Any]) -> tuple[str, ...]:
    """The words for a kind in lower case, those that people use most first."""
    more = _MORE_WORDS.get(resource.full_name, ())
    group = f".{resource.group}" if resource.group else ""
    names = (*resource.short_names, *more, resource.singular, resource.plural)
    return tuple(dict.fromkeys((*names, f"{resource.singular}{group}", resource.full_name)))


def kinds_of(beginning: str) -> tuple[str, ...]:
    """A word for each kind that some beginning of a word can mean: the first of its words that begins so."""
    found = (
        next((word for word in words_of(resource) if word.startswith(beginning)), "") for resource in KINDS
    )
    return tuple(sorted(filter(None, found)))


def find_kind(word: str) -> Resource[Any]:
    """The kind that a word means, in any case. Raises Misnamed."""
    for resource in KINDS:
        if word.lower() in words_of(resource):
            return resource
    known = ", ".join(_title(resource) for resource in KINDS)
    raise Misnamed(f"Lanloom knows no kind {quote(word)}; it knows {known}")


def find_target(text: str, namespace: str) -> Target:
    """What `KIND/NAME` or `KIND/NAMESPACE/NAME` means. `namespace` holds where none is given. Raises Misnamed."""
    word, *rest = text.split("/")
    if not 1 <= len(rest) <= 2 or not all(rest):
        raise Misnamed(f"{quote(text)} is no object; write KIND/NAME, or KIND/NAMESPACE/NAME")
    resource, name = find_kind(word), rest[-1]
    given = rest[0] if len(rest) == 2 else ""
    if given and not resource.namespaced:
        raise Misnamed(f"a {resource.kind} is in no namespace; write {word}/{name}")
    space = (given or namespace) if resource.namespaced else ""
    for part in (space, name):
        if part and not _NAME.fullmatch(part):
            raise Misnamed(f"{quote(part)} is no name of an object")
    return Target(resource, Key(space, name))


def _title(resource: Resource[Any]) -> str:
    return f"{resource.kind} ({words_of(resource)[0]})"

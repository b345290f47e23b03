"""Which namespaces an administrator trusts with node addresses: lists on a ClusterNetwork.

They say whose NADs may change the nodes:

    network.harvesterhci.io/node-address-namespaces: '["infra", "storage"]'

Node addresses, and the routes and DNS servers next to them, are those of every node, though a NAD belongs to one
namespace. An administrator of the cluster decides which namespaces are trusted with them. An annotation that is absent
restricts no namespace. An empty list leaves the permission to no namespace.
"""

import json
import re

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.l3 import L3, AnnotationError, Routing
from lanloom.api.l3annotations import l3_of
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.vlan.reader import ClusterReader
from lanloom.refusals import Denied
from lanloom.text import listed, quote

LISTS = (names.NODE_ADDRESS_NAMESPACES, names.NODE_ROUTING_NAMESPACES)


def check_namespace(namespace: str, value: L3, before: L3 | None, network: ClusterNetwork) -> None:
    """Check that networks of a namespace may have the node addresses `value`, having had those of `before`.

    What a network has it keeps, and can give back, whichever namespaces are trusted by now.
    """
    if before is None or _addressing(value) != _addressing(before):
        _check_list(namespace, names.NODE_ADDRESS_NAMESPACES, "node addresses", network)
    routing, old = value.routing, before.routing if before is not None else Routing()
    routes = {*routing.routes, *routing.routes6} - {*old.routes, *old.routes6}
    servers = {*routing.dns, *routing.dns6} - {*old.dns, *old.dns6}
    if routes or servers:
        what = " and ".join(name for name, some in (("routes", routes), ("DNS servers", servers)) if some)
        _check_list(namespace, names.NODE_ROUTING_NAMESPACES, f"{what} of nodes", network)


def _addressing(value: L3) -> tuple[object, ...]:
    """Return the node addresses without routes and DNS servers."""
    routing = value.routing
    return (
        value.vid,
        value.modes,
        value.subnet6,
        value.addresses,
        value.addresses6,
        value.source,
        routing.gateway,
        routing.gateway6,
    )


def _check_list(namespace: str, field: str, what: str, network: ClusterNetwork) -> None:
    name = network.metadata.name
    allowed = list_of(field, what, network, name)
    if allowed is None or namespace in allowed:
        return
    raise Denied(
        f"metadata.namespace is {quote(namespace)}, and ClusterNetwork {name} allows {what} only to the namespaces of "
        f"its annotation {field} ({listed(allowed) or 'none'}); ask its administrator to add the namespace"
    )


def list_of(field: str, what: str, network: ClusterNetwork | None, name: str) -> tuple[str, ...] | None:
    """Return the namespaces that a ClusterNetwork of that name admits to something; None where it has no such list.

    Raises Denied for an invalid one.
    """
    try:
        return parse_namespaces(field, network.metadata.annotations.get(field) if network else None)
    except AnnotationError as error:
        raise Denied(
            f"ClusterNetwork {name} has an invalid list of namespaces for {what}: {error}; ask its administrator to "
            "correct it"
        ) from None


def outsiders(network: ClusterNetwork, reader: ClusterReader) -> tuple[str, ...]:
    """Return warnings of networks that keep what their namespaces may no longer ask for. Raises AnnotationError."""
    warnings = []
    for field in LISTS:
        allowed = parse_namespaces(field, network.metadata.annotations.get(field))
        if allowed is None:
            continue
        kept = sorted(
            str(nad.metadata.key)
            for nad in reader.nads_of(network.metadata.name)
            if nad.metadata.namespace not in allowed and _has(nad, field)
        )
        if kept:
            warnings.append(
                f"{field} does not list the namespaces of {listed(kept)}; their existing objects stay unchanged "
                "until they are changed or deleted"
            )
    return tuple(warnings)


def _has(nad: NetworkAttachmentDefinition, field: str) -> bool:
    try:
        value = l3_of(nad)
    except AnnotationError:
        return False
    if value is None:
        return False
    routing = value.routing
    routed = routing.routes or routing.routes6 or routing.dns or routing.dns6
    return field == names.NODE_ADDRESS_NAMESPACES or bool(routed)


NAMESPACES_MAX = 64 * 1024
"""Longest list in characters, a quarter of what Kubernetes allows for all annotations of an object."""

_EXAMPLE = '["infra", "storage"]'
_NAMESPACE = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)


def parse_namespaces(field: str, text: str | None) -> tuple[str, ...] | None:
    """Return the namespaces of a list, ordered by name; None for an absent annotation. Raises AnnotationError."""
    if text is None:
        return None
    if len(text) > NAMESPACES_MAX:
        raise AnnotationError(field, f"has {len(text)} characters; at most {NAMESPACES_MAX} are allowed")
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        raise AnnotationError(field, f"is not valid JSON; it must be a list such as {_EXAMPLE}") from None
    if not isinstance(items, list):
        raise AnnotationError(field, f"must be a JSON list of namespaces, such as {_EXAMPLE}")
    found: set[str] = set()
    for item in items:
        if not isinstance(item, str) or not _NAMESPACE.fullmatch(item):
            raise AnnotationError(field, f"has the item {quote(item)}, which is not the name of a namespace")
        if item in found:
            raise AnnotationError(field, f"names namespace {quote(item)} twice")
        found.add(item)
    return tuple(sorted(found))

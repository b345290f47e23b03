"""What of an object matters to isolated networks: a change of anything else wakes nobody."""

from collections.abc import Callable
from typing import Any, TypeVar

from lanloom.api.core import Node
from lanloom.api.dummy import ADMITTED, DRIFTED, DummyClusterNetwork
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.ipam import Network
from lanloom.api.meta import Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.dummy.manager.informers import nads_of
from lanloom.dummy.rules.acknowledged import READY
from lanloom.kube.conditions import find

T = TypeVar("T", bound=Object)


def is_same(matter: Callable[[T], Any], old: T | None, new: T | None) -> bool:
    """Whether an object was there before and is, and what matters of it did not change."""
    return old is not None and new is not None and matter(old) == matter(new)


def waits_for_users(dcn: DummyClusterNetwork) -> bool:
    """Whether the end of its users changes anything for a network."""
    return dcn.metadata.is_leaving or find(dcn.status.conditions, DRIFTED) is not None


def step_of(dcn: DummyClusterNetwork) -> tuple[Any, ...]:
    """What of a network people say, and how far it is."""
    meta, status = dcn.metadata, dcn.status
    said = [(item.type, item.status, item.reason) for item in status.conditions]
    return meta.uid, meta.deletion_timestamp, meta.finalizers, dcn.spec, status.phase, said, status.resources


def claim_of(dcn: DummyClusterNetwork) -> tuple[Any, ...]:
    """What of a network matters to others."""
    return dcn.metadata.uid, dcn.spec, nads_of(dcn)


def matter_of(nad: NetworkAttachmentDefinition) -> tuple[Any, ...]:
    """What of a NAD matters besides the requests that were admitted."""
    meta = nad.metadata
    said = {key: value for key, value in meta.annotations.items() if key != ADMITTED}
    return meta.uid, meta.deletion_timestamp, meta.finalizers, meta.labels, said, nad.spec


def substance_of(item: Network | ClusterNetwork) -> tuple[Any, ...]:
    """What of an object is not its status."""
    meta = item.metadata
    spec = item.spec if isinstance(item, Network) else None
    return meta.uid, meta.deletion_timestamp, meta.finalizers, meta.labels, meta.annotations, spec


def face_of(node: Node) -> tuple[Any, ...]:
    """What of a node matters to isolated networks."""
    ready = find(node.status.conditions, READY)
    since = (ready.status, ready.last_transition_time) if ready is not None else None
    return node.metadata.uid, node.metadata.deletion_timestamp, since, node.spec, node.status.addresses

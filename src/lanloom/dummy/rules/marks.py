"""By what the objects are known that were made for a DummyClusterNetwork."""

from collections.abc import Iterable
from typing import Any

from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL, DummyClusterNetwork, DummyResource
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS
from lanloom.dummy.rules.model import Settings

Raw = dict[str, Any]


def marks(name: str, uid: str) -> Raw:
    """The label and the annotation, as members of an object's metadata."""
    return {"labels": {UID_LABEL: uid}, "annotations": {NAME_ANNOTATION: name}}


def owner_of(item: Object) -> str:
    """The uid of the DummyClusterNetwork that an object was made for; empty for anything else."""
    return item.metadata.labels.get(UID_LABEL, "")


def is_ours(metadata: ObjectMeta, uid: str) -> bool:
    """Whether an object was made for the DummyClusterNetwork of that uid. Everything else is somebody else's."""
    return bool(uid) and metadata.labels.get(UID_LABEL) == uid


def is_foreign(metadata: ObjectMeta, dcn: DummyClusterNetwork) -> bool:
    """Whether an object is somebody else's: neither marked as the network's nor known to its status by the uid.

    Whoever takes the mark off by force takes the object off the network, but its users are still there.
    """
    made = {item.uid for item in dcn.status.resources}
    return not is_ours(metadata, dcn.metadata.uid) and metadata.uid not in made


def daemon_set_places(settings: Settings, recorded: Iterable[DummyResource]) -> frozenset[str]:
    """The namespaces of a network's DaemonSets: where they are made, and where they were made as the status says.

    Elsewhere the label means nothing. Whoever may make DaemonSets in a namespace of his own could else keep a network
    from going by one, and acknowledge by its pods in the name of nodes that have not.
    """
    were = (item.namespace for item in recorded if item.kind == DAEMON_SETS.kind)
    return frozenset({LANLOOM_NAMESPACE, settings.namespace, *were})

"""By what the objects are known that were made for a DummyClusterNetwork."""

from typing import Any

from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.meta import ObjectMeta

Raw = dict[str, Any]


def marks(name: str, uid: str) -> Raw:
    """The label and the annotation, as members of an object's metadata."""
    return {"labels": {UID_LABEL: uid}, "annotations": {NAME_ANNOTATION: name}}


def is_ours(metadata: ObjectMeta, uid: str) -> bool:
    """Whether an object was made for the DummyClusterNetwork of that uid. Everything else is somebody else's."""
    return bool(uid) and metadata.labels.get(UID_LABEL) == uid

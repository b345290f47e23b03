"""A short way of writing schemas, and the parts that many built-in kinds share.

Lists say how strategic merge patches treat them (see `lanloom_embedded.patches`); kubectl
reads the same from OpenAPI. Descriptions are what `kubectl explain` shows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lanloom_embedded.kinds import Raw


def text(description: str = "", **more: Any) -> Raw:
    """A string."""
    return _typed("string", description, more)


def integer(description: str = "", **more: Any) -> Raw:
    """A whole number."""
    return _typed("integer", description, {"format": "int64", **more})


def small(description: str = "", **more: Any) -> Raw:
    """A whole number of 32 bits."""
    return _typed("integer", description, {"format": "int32", **more})


def flag(description: str = "", **more: Any) -> Raw:
    """A boolean."""
    return _typed("boolean", description, more)


def time(description: str = "") -> Raw:
    """An RFC 3339 time, or null."""
    return _typed("string", description, {"format": "date-time", "nullable": True})


def int_or_string(description: str = "", **more: Any) -> Raw:
    """A number, or a text as `25%`."""
    return {"x-kubernetes-int-or-string": True, "description": description, **more}


def values(description: str = "", items: Raw | None = None, **more: Any) -> Raw:
    """A list, of strings if nothing else is said, that a patch replaces as a whole."""
    return _typed("array", description, {"items": items or text(), **more})


def value_set(description: str = "") -> Raw:
    """A list of strings into which a patch merges its own."""
    return values(description) | {"x-kubernetes-patch-strategy": "merge"}


def keyed(description: str, key: str, items: Raw) -> Raw:
    """A list of objects into which a patch merges its own by a key."""
    merge = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key}
    return values(description, items) | merge


def mapping(description: str = "", items: Raw | None = None, **more: Any) -> Raw:
    """An object with any keys, whose values are strings if nothing else is said."""
    return _typed("object", description, {"additionalProperties": items or text(), **more})


def record(description: str, fields: Mapping[str, Raw], *, required: Sequence[str] = (), **more: Any) -> Raw:
    """An object with these fields and no others."""
    needed = {"required": list(required)} if required else {}
    return _typed("object", description, {"properties": dict(fields), **needed, **more})


def anything(description: str = "", **more: Any) -> Raw:
    """An object that is kept as it is."""
    return _typed("object", description, {"x-kubernetes-preserve-unknown-fields": True, **more})


def _typed(kind: str, description: str, more: Mapping[str, Any]) -> Raw:
    described = {"description": description} if description else {}
    return {"type": kind, **described, **more}


OWNER_REFERENCE = record(
    "An object that owns this one. When all owners are gone, this object is deleted.",
    {
        "apiVersion": text("API version of the owner."),
        "kind": text("Kind of the owner."),
        "name": text("Name of the owner."),
        "uid": text("UID of the owner."),
        "controller": flag("Whether the owner is the controller of this object."),
        "blockOwnerDeletion": flag("Whether a foreground deletion of the owner waits for this object."),
    },
    required=("apiVersion", "kind", "name", "uid"),
)

_MANAGED_FIELDS = record(
    "The fields that one manager set in one way.",
    {
        "manager": text("Who set them."),
        "operation": text("Apply or Update."),
        "apiVersion": text("Version of the kind in which the fields are named."),
        "time": time("When they were last set."),
        "fieldsType": text("The form of fieldsV1."),
        "fieldsV1": anything("The fields."),
        "subresource": text("The part of the object through which they were set."),
    },
)

OBJECT_META = record(
    "What every object carries: names, labels, versions and ownership.",
    {
        "name": text("Name of the object, unique among objects of its kind in its namespace."),
        "generateName": text("Prefix from which the server makes a name if none is given."),
        "namespace": text("Namespace of the object, empty for cluster-scoped ones."),
        "uid": text("Unique over space and time; set by the server."),
        "resourceVersion": text("Version of the object's content; an update with an older one is refused."),
        "generation": integer("Counts the changes of what is wanted; set by the server."),
        "creationTimestamp": time("When the object was created; set by the server."),
        "deletionTimestamp": time("When its deletion was asked for; set by the server."),
        "deletionGracePeriodSeconds": integer("Seconds for which the object may end gracefully."),
        "labels": mapping("Keys and values by which objects are selected."),
        "annotations": mapping("Keys and values that say more about the object."),
        "finalizers": value_set("Who must agree before the object is removed."),
        "ownerReferences": keyed("Objects that own this one.", "uid", OWNER_REFERENCE),
        "managedFields": values("Who set which fields; not kept by this server.", _MANAGED_FIELDS),
        "selfLink": text("No longer used."),
    },
)

LABEL_SELECTOR = record(
    "Selects objects by their labels. An empty selector selects everything.",
    {
        "matchLabels": mapping("Labels that must have these values."),
        "matchExpressions": values(
            "Requirements that must all be met.",
            record(
                "A requirement on one label.",
                {
                    "key": text("The label."),
                    "operator": text("In, NotIn, Exists or DoesNotExist."),
                    "values": values("Values for In and NotIn."),
                },
                required=("key", "operator"),
            ),
        ),
    },
)

OBJECT_REFERENCE = record(
    "A reference to an object.",
    {
        "apiVersion": text("API version of the object."),
        "kind": text("Kind of the object."),
        "namespace": text("Namespace of the object."),
        "name": text("Name of the object."),
        "uid": text("UID of the object."),
        "resourceVersion": text("Version of the object that is meant."),
        "fieldPath": text("Part of the object that is meant."),
    },
)


def conditions(times: Sequence[str] = ("lastTransitionTime",)) -> Raw:
    """Conditions of a status, merged by their type."""
    return keyed(
        "Observations of the object's state.",
        "type",
        record(
            "One observation.",
            {
                "type": text("What is observed."),
                "status": text("True, False or Unknown."),
                "reason": text("Why, in one CamelCase word."),
                "message": text("Why, for people."),
                "observedGeneration": integer("Generation that was observed."),
                **{name: time("When it was last so.") for name in times},
            },
            required=("type", "status"),
        ),
    )


def kind(description: str, fields: Mapping[str, Raw], *, required: Sequence[str] = ()) -> Raw:
    """The schema of a whole object."""
    common = {
        "apiVersion": text("Group and version of this form of the object."),
        "kind": text("Kind of the object."),
        "metadata": OBJECT_META,
    }
    return record(description, common | dict(fields), required=required)

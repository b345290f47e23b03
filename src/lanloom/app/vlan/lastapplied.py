"""The object that `kubectl apply` leaves: what is there, the file, and the file that was applied before it, merged.

kubectl computes the patch itself (k8s.io/apimachinery, jsonmergepatch.CreateThreeWayJSONMergePatch), so its result
can be foreseen without a server. Built-in kinds, whose lists kubectl merges by key, are not for this module.
"""

import json
from collections.abc import Mapping
from typing import Any

from lanloom.kube.mergediff import merge, merge_diff

Raw = dict[str, Any]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_SETTABLE = ("labels", "annotations", "finalizers", "ownerReferences")
"""What a file may set in an object's metadata, besides its name."""


def three_way(live: Raw, manifest: Raw, last: Raw) -> Raw:
    """Merge three forms of an object as `kubectl apply` merges custom resources.

    What the manifest holds is set, maps key by key and lists as a whole. What `last` holds and the manifest lacks is
    deleted: a whole map where the manifest lacks the map. `null` in the manifest deletes as well, unless `last` holds
    the same `null`: kubectl compares both files, and sees no difference.
    """
    additions = _additions(merge_diff(live, manifest))
    deletions = _deletions(merge_diff(last, manifest))
    patch: Raw = merge(deletions, additions)
    found: Raw = merge(live, patch)
    return found


def applied(live: Raw, manifest: Raw) -> Raw:
    """Return the object that `kubectl apply` of a manifest makes of `live`, whose annotation holds the one before."""
    return three_way(live, configuration(manifest), last_applied(live))


def last_applied(live: Raw) -> Raw:
    """Return what was applied last; empty if nothing was, or if the annotation can't be read."""
    text = _map(_map(live.get("metadata")).get("annotations")).get(LAST_APPLIED, "{}")
    try:
        return configuration(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return configuration({})


def configuration(manifest: object) -> Raw:
    """Return what of a manifest counts. It always has annotations, as kubectl writes its own among them."""
    body = {key: value for key, value in _map(manifest).items() if key not in ("status", "metadata")}
    metadata = _map(_map(manifest).get("metadata"))
    settable = {key: metadata[key] for key in _SETTABLE if key in metadata}
    annotations = dict(_map(settable.get("annotations")))
    annotations.pop(LAST_APPLIED, None)
    return body | {"metadata": settable | {"annotations": annotations}}


def _additions(patch: Raw) -> Raw:
    """Return a patch without its deletions. An empty map is a value; one that is left empty is not."""
    kept: Raw = {}
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            if inner := _additions(value):
                kept[key] = inner
        elif value is not None:
            kept[key] = value
    return kept


def _deletions(patch: Raw) -> Raw:
    """Return a patch's deletions alone."""
    kept: Raw = {}
    for key, value in patch.items():
        if value is None:
            kept[key] = None
        elif isinstance(value, dict) and (inner := _deletions(value)):
            kept[key] = inner
    return kept


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

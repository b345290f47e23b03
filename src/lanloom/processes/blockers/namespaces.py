"""What keeps a namespace: the objects in it that do not go, and kinds that can't be listed."""

from collections.abc import Iterable

from lanloom.api.core import Namespace
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.meta import Object
from lanloom.runtime.blockers.finalizers import whose
from lanloom.runtime.blockers.model import Obstacle

_WHOSE = "Kubernetes' namespace controller"
_SERVED = "See whether the API services that it names answer: kubectl get apiservices."
_FAILURES = {
    "NamespaceDeletionDiscoveryFailure": _SERVED,
    "NamespaceDeletionGroupVersionParsingFailure": _SERVED,
    "NamespaceDeletionContentFailure": "See to what refuses the deletion, and why: a webhook, or an API "
    "service that does not answer.",
}


def namespace_obstacles(namespace: Namespace, objects: Iterable[tuple[str, Object]]) -> tuple[Obstacle, ...]:
    """What keeps a namespace whose deletion was asked for. `objects` are those in it, with their kinds."""
    kept = tuple(sorted(f"{kind} {item.metadata.key}{_keepers(item)}" for kind, item in objects))
    told = {item.type: item.message for item in namespace.status.conditions if item.status == "True"}
    found = []
    if kept:
        found.append(
            Obstacle(
                what="what is in it",
                whose=_WHOSE,
                why="there are objects in it",
                waits_for=kept,
                remedy="Ask of each: lanloom why-not-deleted KIND/NAMESPACE/NAME.",
            )
        )
    elif told.get("NamespaceContentRemaining") or told.get("NamespaceFinalizersRemaining"):
        texts = (told.get("NamespaceContentRemaining"), told.get("NamespaceFinalizersRemaining"))
        found.append(
            Obstacle(
                what="what is in it",
                whose=_WHOSE,
                why="there are objects in it of kinds that Lanloom does not know",
                waits_for=tuple(text for text in texts if text),
                remedy="See to these objects.",
            )
        )
    found += [
        Obstacle(
            what=kind,
            whose=_WHOSE,
            why=told[kind],
            remedy=remedy,
        )
        for kind, remedy in _FAILURES.items()
        if kind in told
    ]
    return tuple(found)


def _keepers(item: Object) -> str:
    """Who keeps an object, after its name. What was made for an isolated network goes with that alone."""
    meta = item.metadata
    kept = [f"{each}, {whose(each)}" for each in meta.finalizers]
    if UID_LABEL in meta.labels and NAME_ANNOTATION in meta.annotations:
        name = meta.annotations[NAME_ANNOTATION]
        kept.append(f"it goes with DummyClusterNetwork {name}: kubectl delete dcn {name}")
    return f" ({'; '.join(kept)})" if kept else ""

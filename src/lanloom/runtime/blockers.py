"""What blocks a deletion: a feature's questions about its kinds, their answers, and the controllers behind finalizers.

A finalizer says by its name alone which controller has work left before an object goes. Those of Kubernetes are in its
documentation of finalizers and garbage collection; those of KubeVirt, Rancher and Harvester are what these projects put
on the kinds of Lanloom's features.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.names import HARVESTER_FINALIZERS
from lanloom.api.resource import Resource
from lanloom.kube.ports import Reader

MANAGER = "Lanloom's manager"


class Blocker(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that blocks the deletion of an object, or would block it.

    `what` is a finalizer or another cause; `whose` names the controller in charge. `why` is a clause with what it waits
    for, `waits_for` lists that one by one, and `remedy` is what an operator does about it.
    """

    what: str
    whose: str
    why: str
    waits_for: tuple[str, ...] = ()
    remedy: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    """A user of a network: the object that an operator must change or delete.

    `title` names it with what refers to the network in its place; `nodes` are those on which it runs with it.
    """

    kind: str
    namespace: str
    name: str
    title: str
    nodes: tuple[str, ...] = ()


class Answer(NamedTuple):
    """What blocks the deletion of an object, facts worth knowing that block nothing, and who uses it."""

    blockers: tuple[Blocker, ...] = ()
    notes: tuple[str, ...] = ()
    users: tuple[Usage, ...] = ()


async def _nothing(_client: Reader, _item: Any) -> Answer:
    return Answer()


class DeletionQuestion(Struct, frozen=True, kw_only=True):
    """What a feature knows of the deletion of a kind; several features may know something of the same kind.

    `finalizer` is the feature's own, which `ask` explains; those of others are explained by their names. `ask` raises
    KubeError. `kinds` are what its answer is made of, besides the object.
    """

    resource: Resource[Any]
    finalizer: str = ""
    ask: Callable[[Reader, Any], Awaitable[Answer]] = _nothing
    kinds: tuple[Resource[Any], ...] = ()


async def ask_all(client: Reader, questions: Iterable[DeletionQuestion], item: Object) -> Answer:
    """Return what features know of the deletion of an object, as one answer. Raises KubeError."""
    answers = [await question.ask(client, item) for question in questions]
    return Answer(
        tuple(blocker for answer in answers for blocker in answer.blockers),
        tuple(note for answer in answers for note in answer.notes),
        tuple(user for answer in answers for user in answer.users),
    )


def of_others(questions: Iterable[DeletionQuestion], item: Object) -> list[Blocker]:
    """Return a blocker for each finalizer that no feature explains."""
    own = {question.finalizer for question in questions}
    return [foreign(name) for name in item.metadata.finalizers if name not in own]


_GARBAGE = "Kubernetes' garbage collector"
_KNOWN = {
    "foregroundDeletion": (_GARBAGE, "the objects that it owns are deleted first (--cascade=foreground)"),
    "orphan": (_GARBAGE, "the objects that it owns are released first (--cascade=orphan)"),
}
_FAMILIES = (
    ("kubevirt.io", "KubeVirt"),
    ("harvesterhci.io", "Harvester"),
    ("cattle.io", "a controller of Rancher or Harvester"),
    ("longhorn.io", "Longhorn"),
    ("kubernetes.io", "a controller of Kubernetes"),
    ("k8s.io", "a controller of Kubernetes"),
)


def foreign(finalizer: str) -> Blocker:
    """Explain a finalizer that is not the feature's own, as far as its name tells."""
    if finalizer.startswith(HARVESTER_FINALIZERS):
        return _harvesters(finalizer)
    owner, why = _KNOWN.get(finalizer) or (
        _owner(finalizer),
        "its controller has not finished, and the finalizer does not state its task",
    )
    return Blocker(what=f"finalizer {finalizer}", whose=owner, why=why, remedy=_remedy(owner))


def _harvesters(finalizer: str) -> Blocker:
    return Blocker(
        what=f"finalizer {finalizer}",
        whose="Harvester's network controller",
        why="its controller or agents have not finished, or are gone",
        remedy="Check that the controller runs in harvester-system, and read its log for the object. If it was "
        "removed for good, run lanloom harvester adopt, which removes its finalizers.",
    )


def _owner(finalizer: str) -> str:
    domain = finalizer.partition("/")[0].lower()
    for suffix, owner in _FAMILIES:
        if domain == suffix or domain.endswith(f".{suffix}"):
            return f"probably {owner}"
    return f"probably a controller of {domain}" if "." in domain else "unknown"


def _remedy(owner: str) -> str:
    controller = (
        "the controller that added the finalizer" if owner == "unknown" else owner.removeprefix("probably ")
    )
    return (
        f"Check that {controller} runs, and read its log for the object. Do not remove the finalizer manually "
        "unless its controller is uninstalled: the resources that it was to release remain."
    )

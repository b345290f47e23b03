"""The table of webhooks: which function of a feature answers for which resource and operations.

Everything follows from these rows: what is dispatched where (`TableAdmission`), what the API server is to ask about
(`webhookconfig`), and under which resources reviews are counted.

**Deletion is no way around a rule**, of whatever kind: an object that waits for its finalizers may still be used, and
its finalizers may wait for exactly those users. So its webhooks judge it as if it were not being deleted: the features
do not see that it is. Only what lets it go passes:

- An update that changes nothing but its finalizers, whatever is in it, and from any user. Nothing is filled in. So
  an object that is invalid, that can't be read, whose owner is gone, or whose namespace is being deleted can go.
- Another request to delete it: that was granted before. It still gets the warnings.

No annotation or label keeps an object from going, so there is none to remove. What may be written of a living object
without a look, such as an annotation that forces the deletion, may be written in deletion, too. An agent of a node does
not take part in deletions: its writes are always judged.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Raw, Unreadable, Verdict, refusal
from lanloom.api.harvester import GROUP as HARVESTER_GROUP
from lanloom.api.multus import NADS
from lanloom.api.names import HARVESTER_CONTROLLER
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError
from lanloom.refusals import Malformed, Refusal
from lanloom.runtime.identity import is_agent

Verb = Literal["mutate", "validate", "refer"]
"""`mutate` fills in, `validate` judges an object, `refer` judges whether something may refer to networks."""

WRITTEN = ("CREATE", "UPDATE")
EVERY = (*WRITTEN, "DELETE")

REVIEW_SECONDS = 10
"""Seconds for which the API server waits for an answer: Kubernetes' own default."""

Watched = tuple[tuple[Resource[Any], tuple[str, ...]], ...]
"""Resources and the operations on them that a webhook is to see."""


class Webhook(NamedTuple):
    """A row of the table. `function` is called with the feature's admission and the request.

    For `mutate` it returns a Verdict, for the other verbs an awaitable of warnings; it raises a refusal. What can't be
    read stays as it is, and `validate` says what is wrong with it. `validate` sees the status subresource of kinds that
    are not Harvester's, too. Objects with the label `unless` are not sent, so that Lanloom's
    own don't wait for it: `validate` must refuse one in which something is left to fill in.
    """

    verb: Verb
    resource: Resource[Any]
    operations: tuple[str, ...]
    function: Callable[[Any, AdmissionRequest], Any]
    unless: str = ""


Writer = Literal["others", "both", "harvester"]
"""The writers of a kind where Harvester's controller runs: others alone, that controller, too, or above all that
controller.
"""


def writer_of(resource: Resource[Any]) -> Writer:
    """Return who writes a kind: its webhooks must not hold up Harvester's controller, whichever feature has them."""
    if resource.group == HARVESTER_GROUP:
        return "harvester"
    return "both" if resource == NADS else "others"


def is_harvesters_own(request: AdmissionRequest) -> bool:
    """Return whether Harvester's controller writes what it manages, which it may beyond what users may."""
    kinds = ((HARVESTER_GROUP, None), (NADS.group, NADS.plural))
    resource = request.resource
    managed = any(resource.group == group and plural in (None, resource.resource) for group, plural in kinds)
    return managed and request.user_info.username == HARVESTER_CONTROLLER


class TableAdmission:
    """Answer requests by a table; a request that has no row is allowed unchanged."""

    def __init__(self, table: Iterable[Webhook]) -> None:
        self._functions = {
            (row.verb, row.resource.group, row.resource.plural, operation): row.function
            for row in table
            for operation in row.operations
        }

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Return defaults as a JSON patch."""
        function = self._find("mutate", request)
        try:
            verdict: Verdict = function(self, as_living(request)) if function is not None else Verdict()
        except (Malformed, Unreadable):
            return Verdict()
        return verdict

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allow the request, or refuse it with the reason."""
        return await self._decide("validate", request)

    async def refer(self, request: AdmissionRequest) -> Verdict:
        """Return whether a machine or a pod may refer to the networks that it names."""
        return await self._decide("refer", request)

    async def _decide(self, verb: Verb, request: AdmissionRequest) -> Verdict:
        function = self._find(verb, request)
        if function is None:
            return Verdict()
        verdict = await verdict_of(function(self, as_living(request)))
        return verdict if verdict.allowed or not is_granted(request) else Verdict()

    def _find(self, verb: Verb, request: AdmissionRequest) -> Callable[[Any, AdmissionRequest], Any] | None:
        if only_releases(request) or is_harvesters_own(request):
            return None
        resource = request.resource
        return self._functions.get((verb, resource.group, resource.resource, request.operation))


_DELETION = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds"})
"""Metadata that says that an object is being deleted."""

_SERVERS = _DELETION | {"managedFields", "resourceVersion", "generation"}
"""Metadata that the API server writes by itself."""


def is_deleting(request: AdmissionRequest) -> bool:
    """Return whether the object of a request is being deleted already, by the API server's own state of it."""
    return bool(_metadata(request.old_object).get("deletionTimestamp"))


def only_releases(request: AdmissionRequest) -> bool:
    """Return whether an update of an object that is being deleted changes nothing but its finalizers.

    Compared are the objects as they were sent: one that can't be read is released, too.
    """
    if request.operation != "UPDATE" or request.sub_resource or not is_deleting(request):
        return False
    return not is_agent(request.user_info) and _released(request.object) == _released(request.old_object)


def is_granted(request: AdmissionRequest) -> bool:
    """Return whether a request asks for a deletion once more, after the API server has granted it."""
    return request.operation == "DELETE" and is_deleting(request) and not is_agent(request.user_info)


def as_living(request: AdmissionRequest) -> AdmissionRequest:
    """Return the request without any sign in its objects that they are being deleted."""
    if not any(_DELETION & _metadata(item).keys() for item in (request.object, request.old_object)):
        return request
    return replace(request, object=_living(request.object), old_object=_living(request.old_object))


def _living(item: Raw | None) -> Raw | None:
    return None if item is None else item | {"metadata": _without(item, _DELETION)}


def _released(item: Raw | None) -> Raw | None:
    return None if item is None else item | {"metadata": _without(item, _SERVERS | {"finalizers"})}


def _without(item: Raw, fields: frozenset[str]) -> Raw:
    return {key: value for key, value in _metadata(item).items() if key not in fields}


def _metadata(item: Raw | None) -> Raw:
    """Return the metadata of an object; none for what has none that can be read."""
    found = item.get("metadata") if item is not None else None
    return found if isinstance(found, dict) else {}


async def verdict_of(validation: Awaitable[tuple[str, ...]]) -> Verdict:
    """Return the verdict of a validation that returns warnings or raises a refusal.

    A request that can't be validated is refused, too.
    """
    try:
        return Verdict(warnings=await validation)
    except (Refusal, Unreadable) as refused:
        return refusal(refused)
    except KubeError as error:
        return refusal(f"the request can't be validated now because {error}; try again")


def watched(table: Iterable[Webhook], verb: Verb, *writers: Writer) -> Watched:
    """Return the resources and operations of a verb, of kinds that these write, except of rows with `unless`."""
    return tuple(
        (row.resource, row.operations)
        for row in table
        if row.verb == verb and not row.unless and writer_of(row.resource) in writers
    )

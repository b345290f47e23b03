"""The table of webhooks: which function of a feature answers for which resource and operations.

Everything follows from these rows: what is dispatched where (`TableAdmission`), what the API server is told to ask
about (`webhookconfig`), and under which resources reviews are counted.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, NamedTuple

from lanloom.api.admission import AdmissionRequest, Unreadable, Verdict, refusal
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError
from lanloom.refusals import Refusal

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

    It returns a Verdict for `mutate`, an awaitable of one for the other verbs. `harvesters` marks a kind of Harvester:
    its webhook fails open beside Harvester's controller, which writes these. `mutate` and `validate` see the status
    subresource of other kinds, too.
    """

    verb: Verb
    resource: Resource[Any]
    operations: tuple[str, ...]
    function: Callable[[Any, AdmissionRequest], Any]
    harvesters: bool = False


class TableAdmission:
    """Answers requests by a table; a request that has no row is allowed unchanged."""

    def __init__(self, table: Iterable[Webhook]) -> None:
        self._functions = {
            (row.verb, row.resource.group, row.resource.plural, operation): row.function
            for row in table
            for operation in row.operations
        }

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Defaults as a JSON patch."""
        function = self._find("mutate", request)
        verdict: Verdict = function(self, request) if function is not None else Verdict()
        return verdict

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allow or refuses, with the reason."""
        return await self._decide("validate", request)

    async def refer(self, request: AdmissionRequest) -> Verdict:
        """Return whether a machine or a pod may refer to the networks that it names."""
        return await self._decide("refer", request)

    async def _decide(self, verb: Verb, request: AdmissionRequest) -> Verdict:
        function = self._find(verb, request)
        verdict: Verdict = await function(self, request) if function is not None else Verdict()
        return verdict

    def _find(self, verb: Verb, request: AdmissionRequest) -> Callable[[Any, AdmissionRequest], Any] | None:
        resource = request.resource
        return self._functions.get((verb, resource.group, resource.resource, request.operation))


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


def watched(table: Iterable[Webhook], verb: Verb, *, harvesters: bool = False) -> Watched:
    """Return the resources and operations of a verb: Harvester's kinds, or the others."""
    return tuple(
        (row.resource, row.operations) for row in table if row.verb == verb and row.harvesters == harvesters
    )

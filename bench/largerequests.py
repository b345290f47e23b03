"""What many agents asked of a server, in a few figures."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.largeagent import Asked
from bench.largecluster import Raw
from lanloom.kube.http import NO_ANSWER

TOO_MANY = "429"


def figures(asked: Sequence[Asked], agents: int) -> Raw:
    """Return how many requests so many agents made: each, all in the busiest second, refused and by their kinds."""
    return {
        "of each": len(asked) / agents,
        "in the busiest second": busiest(request.began for request in asked),
        "answers in the busiest second": busiest(
            request.ended for request in asked if request.code != NO_ANSWER
        ),
        "slowest s": max((request.ended - request.began for request in asked), default=0.0),
        "too many": sum(request.code == TOO_MANY for request in asked),
        "by kind": dict(Counter(_kind(request) for request in asked).most_common()),
    }


def busiest(times: Iterable[float]) -> int:
    """Return how many fall into the busiest second, whenever that begins."""
    first, most, ordered = 0, 0, sorted(times)
    for last, time in enumerate(ordered):
        while ordered[first] <= time - 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most


def watched_again(asked: Sequence[Asked], since: float) -> float:
    """Return when an agent watched all that it had watched before `since`; infinite if it does not."""
    watches = [request for request in asked if request.verb == "watch" and request.code == "200"]
    again: dict[str, float] = {}
    for request in watches:
        if request.began >= since:
            again[request.resource] = request.ended
    before = {request.resource for request in watches if request.began < since}
    return max((again.get(resource, math.inf) for resource in before), default=since)


def _kind(request: Asked) -> str:
    return f"{request.verb} {request.resource} {request.code}"

"""What holds of the conditions of every kind that Lanloom writes, whatever they say."""

from collections.abc import Iterator
from typing import Any

from lanloom.api.meta import Condition
from lanloom.api.resource import Resource
from lanloom.kube.conditions import STALLED, find
from lanloom.kube.ports import Client


async def stale(client: Client, *kinds: Resource[Any]) -> list[str]:
    """Return the conditions that do not speak of the present generation, though all is quiet.

    One of a kind without a status subresource names none, as its generation counts the status, too.
    """
    found: list[str] = []
    for kind in kinds:
        for item in (await client.list(kind)).items:
            meta = item.metadata
            wanted = meta.generation if kind.status else 0
            found += [f"{kind.kind} {meta.key}: {text}" for text in _faults(item.status.conditions, wanted)]
    return found


def _faults(conditions: tuple[Condition, ...], wanted: int) -> Iterator[str]:
    for item in conditions:
        if item.observed_generation != wanted:
            yield f"{item.type} speaks of generation {item.observed_generation}, not {wanted}"
    ready = find(conditions, "Ready")
    if find(conditions, STALLED) is not None and (ready is None or ready.status != "False"):
        yield "it is stalled, and ready"

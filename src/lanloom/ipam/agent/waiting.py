"""Waits for one NIC, by a watch of that object alone: a node needs to know nothing of all the others."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import Random

from lanloom.api.ipam import NICS, Nic
from lanloom.api.meta import Key
from lanloom.ipam.answers import answer
from lanloom.kube.backoff import backoff
from lanloom.kube.errors import Gone, ServerError, TransportError
from lanloom.kube.ports import Client


async def until(client: Client, key: Key, good: Callable[[Nic | None], bool], rng: Random) -> Nic | None:
    """The first state of a NIC (None: there is none) that is good. A server that is away is asked again, for ever.

    Raises other errors of the API; give it a time limit.
    """
    failures = 0
    while True:
        try:
            async with aclosing(_states(client, key)) as states:
                async for nic in states:
                    failures = 0
                    if good(nic):
                        return nic
        except Gone:
            pass
        except (TransportError, ServerError):
            failures += 1
            await asyncio.sleep(backoff(failures, rng, first=0.2, cap=5.0))


async def _states(client: Client, key: Key) -> AsyncGenerator[Nic | None, None]:
    """The NIC as it is now, then after each change, until the watch ends."""
    fields = f"metadata.name={key.name}"
    listing = await client.list(NICS, key.namespace, fields=fields)
    yield listing.items[0] if listing.items else None
    events = client.watch(NICS, key.namespace, resource_version=listing.resource_version, fields=fields)
    async with aclosing(events) as stream:
        async for event in stream:
            if event.type != "BOOKMARK":
                yield None if event.type == "DELETED" else event.object


def answered(nic: Nic | None) -> bool:
    """Whether the allocator has looked at what the NIC asks for now; also where the NIC is gone."""
    return nic is None or answer(nic) != ""


def allocated(nic: Nic) -> bool:
    """Whether the NIC has what it asks for now."""
    return answer(nic) == "True"

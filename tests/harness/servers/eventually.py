"""Waiting for what a real server and its clients bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, NotFound, ServerError
from lanloom.kube.http import HttpClient
from tests.harness.waiting import Looks

T = TypeVar("T")


async def eventually(
    read: Callable[[], Awaitable[T]], holds: Callable[[Any], bool], seconds: float = 60.0
) -> T:
    """What `read` gives once it holds, if it does within `seconds`.

    NotFound, Forbidden, an error of a server that does too much (ServerError), and a missing field (LookupError, or
    ValueError for the one item of a list) count as not yet. The last of them is the cause of the TimeoutError.
    """
    looks = Looks(not_yet=(NotFound, Forbidden, ServerError, LookupError, ValueError), longest=0.1)
    try:
        async with asyncio.timeout(seconds):
            while True:
                with looks.look():
                    value = await read()
                    if holds(value):
                        return value
                await asyncio.sleep(looks.pause())
    except TimeoutError as late:
        raise late from looks.failure


LATE = "context deadline exceeded"


class PatientClient(HttpClient):
    """A client that asks again when a webhook did not answer in time, as it may on a machine that does too much."""

    async def _bytes(self, *arguments: Any, **named: Any) -> bytes:
        for _ in range(10):
            try:
                return await super()._bytes(*arguments, **named)
            except ServerError as error:
                if "failed calling webhook" not in str(error) or LATE not in str(error):
                    raise
        return await super()._bytes(*arguments, **named)


OWNED = {"owner": {"kind": "Instance", "name": "asked"}}
BAD = {"subnets": [{"cidr": "192.0.2.0/24", "gateway": "198.51.100.1"}]}


async def reviewed(client: HttpClient) -> None:
    """Wait until the server asks a manager that answers, about what is to be filled in and what is to be judged.

    A server learns of webhooks a moment after they are registered. Until then it asks none, or goes on asking the
    manager of the test before; and it learns of those that fill in and those that judge one by one.
    """

    async def are_asked() -> bool:
        with suppress(ServerError):
            filled_in = (await _try(client, NICS, OWNED))["metadata"].get("finalizers")
            try:
                await _try(client, NETWORKS, BAD)
            except Forbidden:
                return bool(filled_in)
        return False

    await eventually(are_asked, bool)


async def _try(client: HttpClient, resource: Resource[Any], spec: dict[str, Any]) -> dict[str, Any]:
    """What would become of an object with that spec."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "asked"},
        "spec": spec,
    }
    path = resource.path("default" if resource.namespaced else "")
    return await client.request("POST", path, body, query={"dryRun": "All"})

"""A server of one lease, and clients that reach it slowly, late or not at all.

A request travels, acts and travels back on its own: a client that gives up does not take back what it sent, so that
writes may land long after their sender has gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import msgspec

from lanloom.api.core import Lease
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom_embedded.patches import merge_patch


class LeaseServer:
    """Holds at most one Lease, with optimistic locking."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self._version = 0

    def get(self) -> Lease:
        """The lease as it is."""
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return msgspec.convert(self.lease, Lease)

    def create(self, body: Mapping[str, Any]) -> Lease:
        """Creates it."""
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is a lease")
        return self._store(dict(body))

    def patch(self, patch: Mapping[str, Any]) -> Lease:
        """Patches it if the patch was made for its version."""
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the lease has changed")
        return self._store(merge_patch(self.lease, dict(patch)))

    def steal(self, holder: str) -> None:
        """Gives the lease to another holder, as an administrator can."""
        assert self.lease is not None
        self._store(merge_patch(self.lease, {"spec": {"holderIdentity": holder}}))

    def _store(self, body: dict[str, Any]) -> Lease:
        self._version += 1
        self.lease = body | {"metadata": body["metadata"] | {"resourceVersion": str(self._version)}}
        return self.get()


class FaultyClient:
    """Reaches a LeaseServer. `partitioned` until further notice, or with `trouble` (0 to 1) of every kind.

    `answer_after` are seconds that pass between the effect of a request and its answer.
    """

    def __init__(self, server: LeaseServer, rng: Random) -> None:
        self._server = server
        self._rng = rng
        self._flying: set[asyncio.Task[Lease]] = set()
        self.partitioned = False
        self.trouble = 0.0
        self.answer_after = 0.0

    def list(self, *_arguments: Any, **_options: Any) -> Any:
        """Not what an election needs."""
        raise NotImplementedError

    watch = delete = json_patch = list

    async def get(self, resource: Any, name: str, namespace: str = "") -> Any:
        """As the port says."""
        return await self._send(self._server.get)

    async def create(self, resource: Any, body: Any, namespace: str = "") -> Any:
        """As the port says."""
        return await self._send(lambda: self._server.create(body))

    async def patch(
        self,
        resource: Any,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Any:
        """As the port says."""
        return await self._send(lambda: self._server.patch(patch))

    def _send(self, act: Callable[[], Lease]) -> Awaitable[Lease]:
        task = asyncio.create_task(self._travel(act))
        self._flying.add(task)
        task.add_done_callback(self._landed)
        return asyncio.shield(task)

    def _landed(self, task: asyncio.Task[Lease]) -> None:
        self._flying.discard(task)
        if not task.cancelled():
            task.exception()  # no task may be left to read it

    async def _travel(self, act: Callable[[], Lease]) -> Lease:
        await asyncio.sleep(self._delay())
        self._fail_sometimes()
        result = act()
        await asyncio.sleep(self._delay() + self.answer_after)
        self._fail_sometimes()
        return result

    def _delay(self) -> float:
        if self._rng.random() < self.trouble / 2:
            return self._rng.uniform(0, 30)
        return self._rng.uniform(0, 0.05)

    def _fail_sometimes(self) -> None:
        if self.partitioned:
            raise TransportError("partitioned")
        if self._rng.random() < self.trouble / 2:
            raise self._rng.choice(_FAILURES)


_FAILURES: tuple[KubeError, ...] = (
    TransportError("connection reset"),
    ServerError(500, "InternalError", "overloaded"),
)

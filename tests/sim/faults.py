"""Ports with faults: the network, the API server and the host as they are on a bad day, drawn from a seed.

`Faults.on` switches the bad day off; the ports then work as the ones that they wrap.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from random import Random
from typing import Any, TypeVar

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import (
    Conflict,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.ports import Client, WatchEvent
from lanloom.node.errors import LinkError, NetworkManagerError, ProfileError
from lanloom.node.ports import (
    Connection,
    Host,
    Links,
    LinkState,
    LinkStep,
    NetworkManager,
    Profiles,
    Records,
)
from tests.harness.interceptor import WRITES, Interceptor, Request
from tests.sim.processes import Life

T = TypeVar("T", bound=Object)
R = TypeVar("R")

_IDLE_SECONDS = 90.0
"""After so long the kit gives up a silent watch."""

_CUSTOM = {
    "network.harvesterhci.io",
    "network.harvester.io",
    "ipam.lanloom.io",
    "lan.k8slan.io",
    "lan.lanloom.io",
    "kubevirt.io",
    "k8s.cni.cncf.io",
}
"""Groups of custom resources, which an API server that starts does not know for a moment."""


class Faults:
    """What goes wrong, and how often. `share` scales all probabilities.

    `partitioned` are the callers who can't reach the API server, and `away` is true while none can. `cut` are
    conditions under which a caller can't: those of hosts that a change cuts off.
    """

    def __init__(self, rng: Random, share: float = 1.0) -> None:
        self.on = True
        self.partitioned: set[str] = set()
        self.away = False
        self.cut: dict[str, Callable[[], bool]] = {}
        self.on_write: Callable[[str, Request], object] = lambda _caller, _request: None
        self._rng = rng
        self._share = share

    def strikes(self, probability: float) -> bool:
        """Whether a fault of this probability happens now."""
        return self.on and self._rng.random() < probability * self._share

    async def pause(self) -> None:
        """The time that a message takes: usually some milliseconds, now and then seconds."""
        if not self.on:
            return
        seconds = self._rng.expovariate(1 / 3.0) if self.strikes(0.03) else self._rng.random() * 0.02
        await asyncio.sleep(seconds)

    def unreachable(self, caller: str) -> bool:
        """Whether nothing gets from the caller to the API server, or back."""
        cut = self.cut.get(caller)
        return self.away or caller in self.partitioned or (cut is not None and cut())

    def before(self, caller: str) -> None:
        """Raises for a request that never gets through, or that the server refuses to handle now."""
        if self.unreachable(caller):
            raise TransportError("no route to the API server")
        if self.strikes(0.02):
            raise self._rng.choice((TransportError("connection reset"), _unavailable()))

    def after(self, caller: str) -> None:
        """Raises for an answer that gets lost: the request had its effect."""
        if self.unreachable(caller) or self.strikes(0.02):
            raise TransportError("connection reset")


class FaultyClient(Interceptor):
    """A process's client. Requests run in the server's own tasks: they go on when the caller dies."""

    def __init__(self, inner: Client, faults: Faults, life: Life, caller: str) -> None:
        super().__init__(inner)
        self._faults = faults
        self._life = life
        self._caller = caller

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch that is late, torn off, silent, or refused because its version is too old."""
        await self._pass()
        if self._faults.strikes(0.05):
            raise Gone(410, "Expired", "too old resource version")
        self._faults.before(self._caller)
        async with aclosing(begin()) as stream:
            async for event in stream:
                await self._deliver()
                if self._faults.strikes(0.02):
                    return
                yield event

    async def send(self, request: Request) -> Any:
        """Make a request, or meet a fault: pages of a list expire, another client was faster, messages get lost."""
        if request.verb == "list" and self._faults.strikes(0.03):
            raise Gone(410, "Expired", "the continue token is too old")
        if request.names_version and self._faults.strikes(0.05):
            raise Conflict(409, "Conflict", "the object has been modified")
        if request.verb in WRITES:
            self._faults.on_write(self._caller, request)
        await self._pass()
        self._faults.before(self._caller)
        if request.resource.group in _CUSTOM and self._faults.strikes(0.01):
            raise NotFound(404, "NotFound", "404 page not found")
        task = asyncio.create_task(super().send(request))
        task.add_done_callback(retrieve)
        result = await asyncio.shield(task)
        await self._pass()
        self._faults.after(self._caller)
        return result

    async def _pass(self) -> None:
        self._life.check()
        await self._faults.pause()
        self._life.check()

    async def _deliver(self) -> None:
        """The way of an event to the watcher."""
        await self._pass()
        if self._faults.strikes(0.01):
            await asyncio.sleep(_IDLE_SECONDS)
            raise TransportError("the watch was silent for too long")
        self._faults.after(self._caller)


def faulty_host(host: Host, faults: Faults, life: Life) -> Host:
    """A process's view of its host."""
    return Host(
        host.name,
        _FaultyLinks(host.links, faults, life),
        _FaultyProfiles(host.profiles, faults, life),
        _FaultyNetworkManager(host.network_manager, faults, life),
        state=_FaultyRecords(host.state, life),
        runtime=_FaultyRecords(host.runtime, life),
    )


def faulty_records(records: Records, life: Life) -> Records:
    """A process's view of records that outlive it."""
    return _FaultyRecords(records, life)


async def _watched(changes: AsyncGenerator[None, None], life: Life) -> AsyncGenerator[None, None]:
    life.check()
    async with aclosing(changes) as stream:
        async for _ in stream:
            life.check()
            yield None


class _FaultyLinks:
    def __init__(self, inner: Links, faults: Faults, life: Life) -> None:
        self._inner = inner
        self._faults = faults
        self._life = life

    async def dump(self) -> LinkState:
        return await _local(self._inner.dump(), self._life)

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        for step in steps:
            self._life.check()
            if self._faults.strikes(0.02):
                raise LinkError(f"{type(step).__name__}: Device or resource busy")
            await _local(self._inner.apply((step,)), self._life)

    def changes(self) -> AsyncGenerator[None, None]:
        return _watched(self._inner.changes(), self._life)


class _FaultyProfiles:
    def __init__(self, inner: Profiles, faults: Faults, life: Life) -> None:
        self._inner = inner
        self._faults = faults
        self._life = life

    async def read(self) -> Mapping[str, bytes]:
        return await _local(self._inner.read(), self._life)

    async def write(self, name: str, content: bytes) -> None:
        self._life.check()
        self._fail(name)
        await _local(self._inner.write(name, content), self._life)

    async def remove(self, name: str) -> None:
        self._life.check()
        self._fail(name)
        await _local(self._inner.remove(name), self._life)

    def changes(self) -> AsyncGenerator[None, None]:
        return _watched(self._inner.changes(), self._life)

    def _fail(self, name: str) -> None:
        if self._faults.strikes(0.05):
            raise ProfileError(f"{name}: No space left on device")


class _FaultyRecords:
    def __init__(self, inner: Records, life: Life) -> None:
        self._inner = inner
        self._life = life

    async def read(self, name: str) -> bytes | None:
        return await _local(self._inner.read(name), self._life)

    async def write(self, name: str, content: bytes) -> None:
        self._life.check()
        await _local(self._inner.write(name, content), self._life)

    async def remove(self, name: str) -> None:
        self._life.check()
        await _local(self._inner.remove(name), self._life)

    async def names(self) -> tuple[str, ...]:
        return await _local(self._inner.names(), self._life)


class _FaultyNetworkManager:
    def __init__(self, inner: NetworkManager, faults: Faults, life: Life) -> None:
        self._inner = inner
        self._faults = faults
        self._life = life

    async def version(self) -> str:
        return await _local(self._inner.version(), self._life)

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        return await _local(self._inner.connections(uuids), self._life)

    async def load(self, names: tuple[str, ...]) -> None:
        self._fail()
        await _local(self._inner.load(names), self._life)

    async def activate(self, uuid: str) -> None:
        self._fail()
        await _local(self._inner.activate(uuid), self._life)

    async def deactivate(self, uuid: str) -> None:
        self._fail()
        await _local(self._inner.deactivate(uuid), self._life)

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        self._fail()
        await _local(self._inner.reapply(uuid, restore=restore), self._life)

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        self._fail()
        await _local(self._inner.leave_alone(links), self._life)

    def changes(self) -> AsyncGenerator[None, None]:
        return _watched(self._inner.changes(), self._life)

    def _fail(self) -> None:
        self._life.check()
        if self._faults.strikes(0.03):
            raise NetworkManagerError("the D-Bus call timed out")


async def _local(request: Awaitable[R], life: Life) -> R:
    result = await request
    life.check()
    return result


def _unavailable() -> KubeError:
    return ServerError(503, "ServiceUnavailable", "the server is currently unable to handle the request")


def retrieve(task: "asyncio.Task[Any]") -> None:
    """Takes note of a task's error, which its caller may be too dead to do."""
    if not task.cancelled():
        task.exception()

"""A host's ports with an eye on them: what is asked of them is counted, and whether NetworkManager answers is known.

Wrapped around the adapters here, so that neither the features nor the adapters know of metrics.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager

from msgspec.structs import replace

from lanloom.node.errors import LinkError, NetworkManagerError, NetworkManagerMissing
from lanloom.node.ports import (
    Connection,
    Host,
    Links,
    LinkState,
    LinkStep,
    NetworkManager,
    Profiles,
)
from lanloom.processes.agentmetrics import AgentMetrics


class ObservedLinks:
    """Counts looks, steps and refusals. A group of steps counts when all of it was carried out."""

    def __init__(self, links: Links, metrics: AgentMetrics) -> None:
        self._links = links
        self._metrics = metrics

    async def dump(self) -> LinkState:
        """As the port says."""
        self._metrics.dumped()
        try:
            return await self._links.dump()
        except LinkError:
            self._metrics.refused()
            raise

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """As the port says."""
        try:
            await self._links.apply(steps)
        except LinkError:
            self._metrics.refused()
            raise
        for step in steps:
            self._metrics.stepped(type(step).__name__)

    def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        return self._links.changes()


class ObservedProfiles:
    """Counts what is written and removed."""

    def __init__(self, profiles: Profiles, metrics: AgentMetrics) -> None:
        self._profiles = profiles
        self._metrics = metrics

    async def read(self) -> Mapping[str, bytes]:
        """As the port says."""
        return await self._profiles.read()

    async def write(self, name: str, content: bytes) -> None:
        """As the port says."""
        await self._profiles.write(name, content)
        self._metrics.written("write")

    async def remove(self, name: str) -> None:
        """As the port says."""
        await self._profiles.remove(name)
        self._metrics.written("remove")

    def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        return self._profiles.changes()


class ObservedNetworkManager:
    """Counts what is asked for, and remembers whether there was an answer."""

    def __init__(self, manager: NetworkManager, metrics: AgentMetrics) -> None:
        self._manager = manager
        self._metrics = metrics

    async def version(self) -> str:
        """As the port says."""
        with self._noted():
            return await self._manager.version()

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """As the port says."""
        with self._noted():
            return await self._manager.connections(uuids)

    async def load(self, names: tuple[str, ...]) -> None:
        """As the port says."""
        with self._noted("load"):
            await self._manager.load(names)

    async def activate(self, uuid: str) -> None:
        """As the port says."""
        with self._noted("activate"):
            await self._manager.activate(uuid)

    async def deactivate(self, uuid: str) -> None:
        """As the port says."""
        with self._noted("deactivate"):
            await self._manager.deactivate(uuid)

    async def reapply(self, uuid: str) -> None:
        """As the port says."""
        with self._noted("reapply"):
            await self._manager.reapply(uuid)

    async def changes(self) -> AsyncGenerator[None, None]:
        """As the port says. Whether it answers is asked first, because the first change may be long in coming."""
        await self.version()
        async with aclosing(self._manager.changes()) as changes:
            async for _ in changes:
                yield

    @contextmanager
    def _noted(self, verb: str = "") -> Iterator[None]:
        try:
            yield
        except NetworkManagerMissing as error:
            self._metrics.network_manager_fault = str(error)
            raise
        except NetworkManagerError:
            self._metrics.network_manager_fault = ""
            raise
        self._metrics.network_manager_fault = ""
        if verb:
            self._metrics.asked(verb)


def observed(host: Host, metrics: AgentMetrics) -> Host:
    """The host, with what is asked of it counted in `metrics`."""
    return replace(
        host,
        links=ObservedLinks(host.links, metrics),
        profiles=ObservedProfiles(host.profiles, metrics),
        network_manager=ObservedNetworkManager(host.network_manager, metrics),
    )

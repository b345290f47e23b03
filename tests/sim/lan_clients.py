"""What is taken away from managers and agents by tests that look for harm, and how agents of other versions write."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace

from lanloom.api.core import LEASES
from lanloom.api.lan import LAN_NODES
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.lan.rights import RIGHTS
from lanloom.kube.errors import Forbidden
from lanloom.kube.ports import Client, Listing, WatchEvent
from lanloom.node.ports import Host
from tests.harness.interceptor import Interceptor, Request
from tests.sim.dummy_clients import Protections

T = TypeVar("T", bound=Object)

USED = ("lans", "lannodes", NADS.plural, "nodes", "pods", "virtualmachines", LEASES.plural)
"""The kinds of which stories have objects."""

VERSIONS = ("this", "older", "newer")

_KNOWN_BEFORE = ("namespace", "name", "uid", "vni", "port", "address", "ready", "uplink")
"""What agents of an earlier version would report of a LAN."""


class LanProtections(Protections, frozen=True, kw_only=True):
    """What else keeps a pod from losing its LAN.

    `disk`: what an agent records outlives it. `nodes`: a LAN waits for the nodes that report it. `ends`: what joins a
    LAN to a VLAN ends in time without its agent. `alone`: no node joins a LAN to a VLAN that may be at another one.
    """

    disk: bool = True
    nodes: bool = True
    ends: bool = True
    alone: bool = True


ALL_OF_THEM = LanProtections()


class VersionedClient(Interceptor):
    """An agent's client; reports go out as another version of it would write them."""

    def __init__(self, inner: Any, version: str) -> None:
        super().__init__(inner)
        self._version = version

    async def send(self, request: Request) -> Any:
        if request.merges and request.resource.kind == LAN_NODES.kind and self._version != "this":
            status = request.body.get("status", {})
            if status.get("lans"):
                lans = [self._entry(entry) for entry in status["lans"]]
                request = request._replace(body={**request.body, "status": {**status, "lans": lans}})
        return await super().send(request)

    def _entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        if self._version == "older":
            spokes = [{"name": spoke["name"], "mode": spoke["mode"]} for spoke in entry.get("spokes", ())]
            return {key: value for key, value in entry.items() if key in _KNOWN_BEFORE} | {"spokes": spokes}
        spokes = [{**spoke, "lanes": 2} for spoke in entry.get("spokes", ())]
        return {**entry, "spokes": spokes, "encryption": {"keys": ["k1"]}, "zone": None}


class AgentClient(Interceptor):
    """An agent's client, which has the rights of an agent and no others, as far as the kinds of stories go."""

    async def send(self, request: Request) -> Any:
        resource = request.resource
        if resource.plural in USED and not any(
            resource.group in rule["apiGroups"]
            and resource.plural in rule["resources"]
            and request.verb in rule["verbs"]
            for rule in _RULES
        ):
            raise Forbidden(403, "Forbidden", f"an agent may not {request.verb} {resource.plural}")
        return await super().send(request)


_RULES = (*RIGHTS.agent.cluster, *chain(*RIGHTS.agent.namespaces.values()))


class EmptyListClient(Interceptor):
    """A client to which lists of one kind are empty."""

    def __init__(self, inner: Client, kind: Resource[Any]) -> None:
        super().__init__(inner)
        self._kind = kind

    async def send(self, request: Request) -> Any:
        found = await super().send(request)
        listed = request.verb == "list" and request.resource.kind == self._kind.kind
        return replace(found, readable=()) if listed else found


class FrugalClient(Interceptor):
    """A client to which kinds that no story has are always empty: asking the server would only take time."""

    async def send(self, request: Request) -> Any:
        unused = request.verb == "list" and request.resource.plural not in USED
        return Listing((), "1") if unused else await super().send(request)

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        if resource.plural not in USED:
            await asyncio.Event().wait()
        async with aclosing(begin()) as stream:
            async for event in stream:
                yield event


class _Forgetful:
    """Records that are gone with the process that wrote them."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    async def read(self, name: str) -> bytes | None:
        return self._contents.get(name)

    async def write(self, name: str, content: bytes) -> None:
        self._contents[name] = content

    async def remove(self, name: str) -> None:
        self._contents.pop(name, None)

    async def names(self) -> tuple[str, ...]:
        return tuple(self._contents)


def forgetful(host: Host) -> Host:
    """The same host with a disk that keeps nothing."""
    return replace(host, state=_Forgetful())

"""Reviews of references at once: what they answer, what they ask the API server, and what is noted."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from lanloom.api.dummy import ADMITTED, DRAINING
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.kube.errors import TransportError
from lanloom.nads.guard import reservations_of
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import (
    Present,
    admission_of,
    first_storage,
    leaving,
    nad,
    network,
    server,
    with_uids,
)
from tests.harness.virtual import run

OURS: tuple[Present, ...] = ((DCNS, network()), (NADS, nad(of="red")))
GOING: tuple[Present, ...] = (
    (DCNS, leaving(network())),
    (NADS, nad(of="red", marks={DRAINING: "2026-01-01T00:00:00Z"})),
)


class Watched(LocalClient):
    """A client that counts what is asked, and can be broken."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.asked: list[str] = []
        self.broken = False

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        self._note("get", resource)
        return await super().get(resource, name, namespace)

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Any:
        """As the port says."""
        self._note("patch", resource)
        return await super().patch(resource, name, patch, namespace, subresource=subresource)

    def _note(self, verb: str, resource: Resource[Any]) -> None:
        self.asked.append(f"{verb} {resource.kind}")
        if self.broken:
            raise TransportError("connection refused")


class Reviewed:
    """What came of some reviews."""

    def __init__(self, messages: list[str], asked: list[str], notes: list[tuple[str, int, str]]) -> None:
        self.messages = messages
        self.asked = asked
        self.notes = notes


def reviewed(
    *reviews: Any, present: tuple[Present, ...] = OURS, seen: Any = None, broken: bool = False
) -> Reviewed:
    """Reviews that come at once."""
    storage = first_storage()

    async def ask() -> Reviewed:
        real, uids = await server(present, copy.deepcopy(storage))
        watched = real if seen is None else (await server(seen, copy.deepcopy(storage)))[0]
        client, tasks = Watched(real), list["asyncio.Task[None]"]()
        admission = await admission_of(client, LocalClient(watched), tasks)
        client.broken = broken
        verdicts = await asyncio.gather(
            *(admission.refer(with_uids(uids, item, type(item))) for item in reviews)
        )
        asked, client.broken = list(client.asked), False
        found = (await LocalClient(real).list(NADS)).items
        for task in tasks:
            task.cancel()
        notes = [(note.uid, note.version, note.title) for item in found for note in reservations_of(item)]
        return Reviewed([verdict.message for verdict in verdicts], asked, notes)

    return run(ask())


def annotated(text: str) -> NetworkAttachmentDefinition:
    """A NAD with these notes."""
    body = nad(of="red", marks={ADMITTED: text})
    return msgspec.convert(body, NetworkAttachmentDefinition)

"""Whether a machine or a pod may refer to the networks that it names.

Pods and machines are everybody's, so a request is looked at without asking the API server as long as it names no NAD of
an isolated network, nor one that is not known. What concerns none is allowed whatever is the matter with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Unreadable, Verdict, new_of, old_of, refusal
from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.dummy.admission.makers import makers_of
from lanloom.dummy.admission.notes import Notes, TooMany
from lanloom.dummy.admission.world import World
from lanloom.dummy.rules.admit_references import (
    going,
    is_closed,
    is_isolated,
    is_restart,
    meant,
    new_references,
    title_of,
)
from lanloom.dummy.rules.admitted import REQUEST_SECONDS, Admitted
from lanloom.dummy.rules.errors import Refused
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client

NOTE_SECONDS = 3.0
"""Until all notes must be written. The API server waits for 5 seconds; then it might allow what was not noted."""

_NEVER_SEEN = 2**62
"""Instead of a resourceVersion that is no number: then no other one is newer."""

_TITLE_MAX = 120
"""Of a title in a note: names may be four times as long, and notes must not be."""

_KINDS: dict[str, Resource[Any]] = {
    item.plural: item for item in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)
}


class References:
    """Judges references, and notes those that it allows. `now` is in seconds since the epoch."""

    def __init__(self, client: Client, world: World, *, now: Callable[[], float]) -> None:
        self._client = client
        self._world = world
        self._now = now
        self._notes = Notes(client, world, now=now)

    async def judge(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses. What was allowed is noted, unless it is a dry run."""
        kind = _KINDS.get(request.resource.resource)
        if kind is None:
            return Verdict()
        try:
            new, old = new_of(kind, request), old_of(kind, request)
        except Unreadable:
            return Verdict()  # the API server's schema, or KubeVirt, has to say so
        if new is None or new.metadata.is_leaving:
            return Verdict()
        new = _placed(new, request)
        until = asyncio.get_running_loop().time() + NOTE_SECONDS
        try:
            for reference, nad in self._meant(new_references(new, old)):
                await self._judge(request, new, old, reference, nad, until)
        except Refused as refused:
            return refusal(refused)
        return Verdict()

    def _meant(self, references: Sequence[Key]) -> list[tuple[Key, Key]]:
        """With each reference the NADs of isolated networks that it may mean, as far as is known without asking."""
        if not references:
            return []
        claimed = dict.fromkeys(item.spec.nad for item in self._world.networks())
        return [
            (reference, key)
            for reference in references
            for key in meant(reference, claimed)
            if (nad := self._world.nad(key)) is None or is_isolated(nad) or key in claimed
        ]

    async def _judge(
        self,
        request: AdmissionRequest,
        new: Object,
        old: Object | None,
        reference: Key,
        key: Key,
        until: float,
    ) -> None:
        """Raises Refused, at the loop's time `until` at the latest."""
        try:
            async with asyncio.timeout_at(until):
                nad = await self._noted(request, new, old, key)
                if not _refuses(nad):
                    return
                if is_restart(await makers_of(self._client, new), nad):
                    nad = await self._noted(request, new, old, key, for_users=True)
                    if not _refuses(nad, for_users=True):
                        return
        except (KubeError, TimeoutError) as error:
            why = str(error) or "the API server does not answer in time"
            raise Refused(
                f"{title_of(new)}: whether NetworkAttachmentDefinition {key} can be used can't be told now, because "
                f"{why}; try again"
            ) from None
        except TooMany:
            raise Refused(
                f"{title_of(new)}: too many requests refer to NetworkAttachmentDefinition {key} at once; "
                "try again in a minute"
            ) from None
        raise Refused(going(new, reference, nad))

    async def _noted(
        self, request: AdmissionRequest, new: Object, old: Object | None, key: Key, *, for_users: bool = False
    ) -> NetworkAttachmentDefinition | None:
        if request.dry_run:
            return await self._notes.look(key)
        item = Admitted(
            (old or new).metadata.uid or request.uid,
            old.metadata.version or _NEVER_SEEN if old is not None else 0,
            self._now() + REQUEST_SECONDS,
            title_of(new)[:_TITLE_MAX],
            new.metadata.namespace,
        )
        return await self._notes.write(key, item, for_users=for_users)


def _refuses(
    nad: NetworkAttachmentDefinition | None, *, for_users: bool = False
) -> TypeGuard[NetworkAttachmentDefinition]:
    return nad is not None and is_isolated(nad) and is_closed(nad, for_users=for_users)


def _placed(item: Object, request: AdmissionRequest) -> Object:
    """The object in its namespace: on creation only the request may name it."""
    if item.metadata.namespace:
        return item
    return replace(item, metadata=replace(item.metadata, namespace=request.namespace))

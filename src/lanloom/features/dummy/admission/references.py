"""Whether a machine or a pod may refer to the networks that it names.

Pods and machines are everybody's, so a request is judged without asking the API server as long as it names no NAD of an
isolated network, nor one that is not known. What concerns none is allowed, however wrong it is otherwise.

An object whose controller already uses the network is no new user. Only kinds of controllers that are known to create
such objects count, and each has to be there by its uid: anybody may write owner references into what he creates.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from lanloom.api.admission import (
    AdmissionRequest,
    Unreadable,
    Verdict,
    new_of,
    old_of,
    refusal,
)
from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachineInstance
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Job,
    ReplicaSet,
)
from lanloom.features.dummy.admission.reservations import Reservations, TooManyReservations
from lanloom.features.dummy.manager.reader import StoreReader
from lanloom.features.dummy.rules.admit_references import (
    REQUEST_SECONDS,
    Reservation,
    going,
    is_closed,
    is_isolated,
    is_restart,
    meant,
    new_references,
    title_of,
)
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.refusals import Denied
from lanloom.runtime.webhooktable import REVIEW_SECONDS

_CONTROLLERS: Mapping[type[Object], tuple[Resource[Any], ...]] = {
    Pod: (VIRTUAL_MACHINE_INSTANCES, REPLICA_SETS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, JOBS),
    VirtualMachineInstance: (VIRTUAL_MACHINES,),
    ReplicaSet: (DEPLOYMENTS,),
    Job: (CRON_JOBS,),
}


async def controller_owners(client: Client, item: Object) -> tuple[Object, ...]:
    """Who makes an object, and who makes him; none if one of them is not there, or goes. Raises KubeError."""
    owners: list[Object] = []
    while (found := _controller(item)) is not None:
        resource, key, uid = found
        owner = await get_or_none(client, resource, key)
        if owner is None or owner.metadata.uid != uid or owner.metadata.is_deleting:
            return ()
        owners.append(owner)
        item = owner
    return tuple(owners)


def _controller(item: Object) -> tuple[Resource[Any], Key, str] | None:
    """The controller of an object, if it is of a kind that makes such objects."""
    for owner in item.metadata.owner_references:
        for resource in _CONTROLLERS.get(type(item), ()) if owner.controller else ():
            if (owner.kind, owner.api_version.partition("/")[0]) == (resource.kind, resource.group):
                return resource, Key(item.metadata.namespace, owner.name), owner.uid
    return None


NOTE_SECONDS = REVIEW_SECONDS * 0.6
"""Until all notes must be written: later the API server no longer waits, and might allow what was not noted."""

_NEVER_SEEN = 2**62
"""Instead of a resourceVersion that is no number: then no other one is newer."""

_TITLE_MAX = 120
"""Of a title in a note: names may be four times as long, and notes must not be."""

_KINDS: dict[str, Resource[Any]] = {
    item.plural: item for item in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)
}


class References:
    """Judges references, and notes those that it allows. `now` is in seconds since the epoch."""

    def __init__(self, client: Client, reader: StoreReader, *, now: Callable[[], float]) -> None:
        self._client = client
        self._reader = reader
        self._now = now
        self._reservations = Reservations(client, reader, now=now)

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses. What was allowed is noted, unless it is a dry run."""
        kind = _KINDS.get(request.resource.resource)
        if kind is None:
            return Verdict()
        try:
            new, old = new_of(kind, request), old_of(kind, request)
        except Unreadable:
            return Verdict()  # the API server's schema, or KubeVirt, has to say so
        if new is None or new.metadata.is_deleting:
            return Verdict()
        new = _placed(new, request)
        until = asyncio.get_running_loop().time() + NOTE_SECONDS
        try:
            for reference, nad in self._candidates(new_references(new, old)):
                await self._validate(request, new, old, reference, nad, until)
        except Denied as refused:
            return refusal(refused)
        return Verdict()

    def _candidates(self, references: Sequence[Key]) -> list[tuple[Key, Key]]:
        """With each reference the NADs of isolated networks that it may mean, as far as is known without asking."""
        if not references:
            return []
        claimed = dict.fromkeys(item.spec.nad for item in self._reader.networks())
        return [
            (reference, key)
            for reference in references
            for key in meant(reference, claimed)
            if (nad := self._reader.nad(key)) is None or is_isolated(nad) or key in claimed
        ]

    async def _validate(
        self,
        request: AdmissionRequest,
        new: Object,
        old: Object | None,
        reference: Key,
        key: Key,
        until: float,
    ) -> None:
        """Raises Denied, at the loop's time `until` at the latest."""
        try:
            async with asyncio.timeout_at(until):
                nad = await self._reserve(request, new, old, key)
                if not _refuses(nad):
                    return
                if is_restart(await controller_owners(self._client, new), nad):
                    nad = await self._reserve(request, new, old, key, for_users=True)
                    if not _refuses(nad, for_users=True):
                        return
        except (KubeError, TimeoutError) as error:
            why = str(error) or "the API server does not answer in time"
            raise Denied(
                f"{title_of(new)}: the use of NetworkAttachmentDefinition {key} can't be validated now because "
                f"{why}; try again"
            ) from None
        except TooManyReservations:
            raise Denied(
                f"{title_of(new)}: too many requests refer to NetworkAttachmentDefinition {key} at once; "
                "try again in a minute"
            ) from None
        raise Denied(going(new, reference, nad))

    async def _reserve(
        self, request: AdmissionRequest, new: Object, old: Object | None, key: Key, *, for_users: bool = False
    ) -> NetworkAttachmentDefinition | None:
        if request.dry_run:
            return await self._reservations.get_live(key)
        item = Reservation(
            (old or new).metadata.uid or request.uid,
            old.metadata.version or _NEVER_SEEN if old is not None else 0,
            self._now() + REQUEST_SECONDS,
            title_of(new)[:_TITLE_MAX],
            new.metadata.namespace,
        )
        return await self._reservations.write(key, item, for_users=for_users)


def _refuses(
    nad: NetworkAttachmentDefinition | None, *, for_users: bool = False
) -> TypeGuard[NetworkAttachmentDefinition]:
    return nad is not None and is_isolated(nad) and is_closed(nad, for_users=for_users)


def _placed(item: Object, request: AdmissionRequest) -> Object:
    """The object in its namespace: on creation only the request may name it."""
    if item.metadata.namespace:
        return item
    return replace(item, metadata=replace(item.metadata, namespace=request.namespace))

"""Whether a machine or a pod may refer to the networks that it names, and the record of those that may.

Pods and machines are of all tenants, so a request is judged without asking the API server as long as it names no NAD of
an isolated network, nor one that is not known. What concerns none is allowed, however wrong it is otherwise.

An object whose controller already uses the network is no new user. Only kinds of controllers that are known to create
such objects count, and each has to be there by its uid: any user may write owner references into objects that they
create.

An allowed request is recorded on the NADs before it is answered. Requests that arrive while a write is under way go
into the next. A write is based on the version of the NAD that was judged. So no new user is written onto a NAD that was
marked as draining meanwhile, and the controller that marks it finds everything that was written before. Users of a
draining NAD are recorded, too, with the objects that they create: the NAD is deleted only in the version for which no
user was found.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from msgspec.structs import replace

from lanloom.api.admission import (
    AdmissionRequest,
    Unreadable,
    new_of,
    old_of,
)
from lanloom.api.core import PODS, Pod
from lanloom.api.dummy import ADMITTED
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachineInstance
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
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
from lanloom.kube.errors import Conflict, KubeError, NotFound
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.nads.guard import (
    REQUEST_SECONDS,
    Reservation,
    VersionOf,
    draining_text,
    excluded,
    is_closed,
    is_crowded,
    is_isolated,
    is_restart,
    meant,
    new_references,
    title_of,
    with_reservations,
)
from lanloom.refusals import Denied
from lanloom.runtime.ports import NadClaims
from lanloom.runtime.webhooktable import REVIEW_SECONDS, WRITTEN, TableAdmission, Webhook

_SIZE_MAX = 200_000
"""Kubernetes takes 256 KiB of annotations at the most."""


class TooManyReservations(Exception):
    """More requests refer to the NAD at once than can be written down, all in all or of one namespace."""


class _Waiting(NamedTuple):
    request: Reservation
    answer: "asyncio.Future[NetworkAttachmentDefinition | None]"


class _Queue(NamedTuple):
    nad: Key
    for_users: bool

    def takes(self, nad: NetworkAttachmentDefinition) -> bool:
        """Return whether requests of this queue may be noted on the NAD."""
        return is_isolated(nad) and not is_closed(nad, for_users=self.for_users)


NadOf = Callable[[Key], NetworkAttachmentDefinition | None]
"""A NAD as the watches have brought it; None if they have not."""


class Reservations:
    """The notes of one replica. `now` is in seconds since the epoch."""

    def __init__(self, client: Client, nad_of: NadOf, seen: VersionOf, *, now: Callable[[], float]) -> None:
        self._client = client
        self._nad_of = nad_of
        self._seen = seen
        self._now = now
        self._waiting: defaultdict[_Queue, list[_Waiting]] = defaultdict(list)
        self._writers: dict[_Queue, asyncio.Task[None]] = {}
        self._written: dict[Key, NetworkAttachmentDefinition] = {}

    async def write(
        self, key: Key, request: Reservation, *, for_users: bool = False
    ) -> NetworkAttachmentDefinition | None:
        """Return the NAD with the note on it.

        It is as it was if it is no isolated network's, or closed, or not there. Raises KubeError, TooMany.
        """
        queue = _Queue(key, for_users)
        if self._is_crowded(queue, request.namespace):
            raise TooManyReservations
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting[queue].append(waiting)
        if queue not in self._writers:
            self._writers[queue] = asyncio.create_task(self._work(queue))
        return await waiting.answer

    async def get_live(self, key: Key) -> NetworkAttachmentDefinition | None:
        """Return the NAD as the API server has it now. Raises KubeError."""
        try:
            return await self._client.get(NADS, key.name, key.namespace)
        except NotFound as error:
            if not error.is_of(key.name):
                raise
            return None

    async def _work(self, queue: _Queue) -> None:
        while batch := self._waiting.pop(queue, None):
            try:
                found = await self._write(queue, batch)
            except Exception as error:
                for item in batch:
                    if not item.answer.done():
                        item.answer.set_exception(error)
            else:
                for item in batch:
                    if not item.answer.done():
                        item.answer.set_result(found)
        del self._writers[queue]

    async def _write(self, queue: _Queue, batch: Sequence[_Waiting]) -> NetworkAttachmentDefinition | None:
        """Go on until the NAD was not changed by others in between, or no request waits any more."""
        key, nad = queue.nad, self._known(queue.nad)
        requests = [item.request for item in batch]
        while not all(item.answer.done() for item in batch):
            if nad is None or not queue.takes(nad):
                nad = await self.get_live(key)
                if nad is None or not queue.takes(nad):
                    return nad
            text = with_reservations(nad, requests, self._seen, self._now())
            if len(text) > _SIZE_MAX:
                raise TooManyReservations
            metadata = {
                "resourceVersion": nad.metadata.resource_version,
                "annotations": {ADMITTED: text},
            }
            try:
                written = await self._client.patch(NADS, key.name, {"metadata": metadata}, key.namespace)
            except Conflict:
                nad = None
            except NotFound as error:
                if not error.is_of(key.name):
                    raise
                return None
            else:
                self._written[key] = written
                return written
        return None

    def _is_crowded(self, queue: _Queue, namespace: str) -> bool:
        nad = self._known(queue.nad)
        if nad is None or not is_isolated(nad):
            return False
        waiting = sum(item.request.namespace == namespace for item in self._waiting.get(queue, ()))
        return is_crowded(nad, namespace, waiting, self._seen, self._now())

    def _known(self, key: Key) -> NetworkAttachmentDefinition | None:
        """Return the newest state that is known without asking."""
        stored, written = self._nad_of(key), self._written.get(key)
        if written is None or (stored is not None and stored.metadata.version >= written.metadata.version):
            self._written.pop(key, None)
            return stored
        return written


_CONTROLLERS: Mapping[type[Object], tuple[Resource[Any], ...]] = {
    Pod: (VIRTUAL_MACHINE_INSTANCES, REPLICA_SETS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, JOBS),
    VirtualMachineInstance: (VIRTUAL_MACHINES,),
    ReplicaSet: (DEPLOYMENTS,),
    Job: (CRON_JOBS,),
}


async def controller_owners(client: Client, item: Object) -> tuple[Object, ...]:
    """Return an object's chain of controllers; none if one of them is gone or being deleted. Raises KubeError."""
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
    """Return the controller of an object, if it is of a kind that makes such objects."""
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
    item.plural: item for item in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS, NETWORK_SWAPS)
}


class ReferenceAdmission(TableAdmission):
    """Validate references, and record those that are allowed. `now` is in seconds since the epoch.

    `seen` returns the newest version of an object that the watches have brought. `claims` returns those of networks,
    None where no feature has any.
    """

    def __init__(
        self,
        client: Client,
        nad_of: NadOf,
        seen: VersionOf,
        claims: Callable[[], NadClaims | None],
        *,
        now: Callable[[], float],
    ) -> None:
        super().__init__(WEBHOOKS)
        self._client = client
        self._nad_of = nad_of
        self._claims = claims
        self._now = now
        self._reservations = Reservations(client, nad_of, seen, now=now)

    async def validate_reference(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse that a machine, a pod or a swap refers to the networks that it names.

        What was allowed is noted, unless it is a dry run.
        """
        kind = _KINDS.get(request.resource.resource)
        if kind is None:
            return ()
        try:
            new, old = new_of(kind, request), old_of(kind, request)
        except Unreadable:
            return ()  # the API server's schema, or KubeVirt, has to say so
        if new is None:
            return ()
        new = _placed(new, request)
        until = asyncio.get_running_loop().time() + NOTE_SECONDS
        for reference, nad in self._candidates(new_references(new, old)):
            await self._validate(request, new, old, reference, nad, until)
        return ()

    def _candidates(self, references: Sequence[Key]) -> list[tuple[Key, Key]]:
        """Return each reference with the NADs that it may mean and that are guarded, claimed or limited.

        Those are meant that the stores know.
        """
        if not references:
            return []
        claims = self._claims()
        claimed = claims.claimed() if claims is not None else ()
        return [
            (reference, key)
            for reference in references
            for key in meant(reference, claimed)
            if (nad := self._nad_of(key)) is None
            or is_isolated(nad)
            or key in claimed
            or (claims is not None and claims.is_limited(key))
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
        """Raise Denied, at the loop's time `until` at the latest."""
        try:
            async with asyncio.timeout_at(until):
                await self._check_admitted(new, reference, key)
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
        raise Denied(draining_text(new, reference, nad))

    async def _check_admitted(self, new: Object, reference: Key, key: Key) -> None:
        """Raise Denied where the network is not for the object's namespace.

        What was let in before, and what such a machine makes, stays.
        """
        claims = self._claims()
        why = await claims.exclusion(key, new.metadata.namespace) if claims is not None else ""
        if not why:
            return
        nad = await self._reservations.get_live(key)
        if nad is not None and not is_restart(await controller_owners(self._client, new), nad):
            raise Denied(excluded(new, reference, why))

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
    """Return the object in its namespace: on creation only the request may name it."""
    if item.metadata.namespace:
        return item
    return replace(item, metadata=replace(item.metadata, namespace=request.namespace))


WEBHOOKS = (
    # A user who moves a running machine's NIC refers to both networks; a swap is no pod that others wait for.
    Webhook("validate", NETWORK_SWAPS, ("CREATE",), ReferenceAdmission.validate_reference),
    Webhook("refer", VIRTUAL_MACHINES, WRITTEN, ReferenceAdmission.validate_reference),
    Webhook("refer", VIRTUAL_MACHINE_INSTANCES, ("CREATE",), ReferenceAdmission.validate_reference),
    Webhook("refer", PODS, ("CREATE",), ReferenceAdmission.validate_reference),
)
"""What the API server asks about."""

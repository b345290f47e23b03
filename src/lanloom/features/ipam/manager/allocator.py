"""Give addresses of one network at a time to its NICs. Nothing else does; docs/architecture.md says why it is safe.

The order of the writes is part of that: the take-over before the list that the allocation state is built from; a grant
in the network, on the version that was known, before the status of a NIC, on the version that was known before the
grant.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

from lanloom.api.ipam import (
    ALLOCATED,
    NAME_UNIQUE,
    NETWORKS,
    NICS,
    UNIQUE,
    Grant,
    Network,
    NetworkStatus,
    Nic,
    NicStatus,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.manager.allocation import AllocationState
from lanloom.features.ipam.manager.decisions import (
    OWNED_TWICE,
    Write,
    decide,
    grant_of,
    status_after,
    touched,
)
from lanloom.features.ipam.manager.networkstatus import (
    PoolView,
    pool_events,
    pool_views,
    status_of,
)
from lanloom.features.ipam.manager.term import AllocatorTerm, NetworkAllocation
from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.rules.others import UNSHARED
from lanloom.features.ipam.wirereader import WireReader
from lanloom.kube.conditions import find
from lanloom.kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
)
from lanloom.kube.events import EventQueue, Recorder, reference
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents
from lanloom.kube.refusals import Failing
from lanloom.refusals import title_for

SPACING_SECONDS = 1.0
"""How far apart writes of a network's status are at the least, unless addresses are granted or its spec was changed.

Who changed it looks at once what came of it, and addresses come and go by the thousand.
"""

PEER_SECONDS = 0.5
"""How soon a network is looked at again whose wire has another one that is not taken over yet."""

BATCH = 256
"""So many NICs at the most are settled by one grant: the network's object has to carry it."""


_AT_ONCE = 16

REPORTED_AT_ONCE = 32
"""Where more NICs than this are written at once, no Events report what they got: it would be twice the writes."""


class NicWriter:
    """Write the statuses of NICs, many at once, and record Events of what they got or were refused.

    Each is written on the version of the NIC that is given: a retry on a newer one would get round the fence.
    """

    def __init__(self, client: Client, recorder: Recorder, events: EventQueue) -> None:
        self._statuses = StatusWriter(client)
        self._events = events
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._failing: Failing[Key] = Failing()
        self._refusals = RefusalEvents(recorder, lambda about: about)

    async def write_all(
        self,
        writes: Sequence[tuple[Nic, NicStatus]],
        allocation: NetworkAllocation | None = None,
        state: AllocationState | None = None,
    ) -> list[KubeError]:
        """Write each, and take the answers in to the state. The caller repeats what could not be written."""
        quiet = len(writes) > REPORTED_AT_ONCE

        async def write(nic: Nic, status: NicStatus) -> KubeError | None:
            async with self._slots:
                try:
                    await self._write_one(nic, status, allocation, state)
                except NotFound as error:
                    if not error.is_of(nic.metadata.name):
                        return error
                    if state is not None:
                        state.remove(str(nic.metadata.key), nic.metadata.uid)
                except KubeError as error:
                    await self._report_refusal(nic, error)
                    return error
                else:
                    self._failing.end(nic.metadata.key)
                    self._record_events(nic, status, quiet)
            return None

        outcomes = await asyncio.gather(*(write(nic, status) for nic, status in writes))
        return [error for error in outcomes if error is not None]

    async def _report_refusal(self, nic: Nic, error: KubeError) -> None:
        """Tell of a status that the API server does not take: the status itself can't."""
        if self._failing.is_refused(nic.metadata.key, error) and isinstance(error, ApiError):
            await self._refusals.refused(reference(NICS, nic), error)

    async def _write_one(
        self,
        nic: Nic,
        status: NicStatus,
        allocation: NetworkAllocation | None,
        state: AllocationState | None,
    ) -> None:
        meta = nic.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": struct_diff(nic.status, status),
        }
        try:
            answer = await self._statuses.patch(NICS, meta.name, body, meta.namespace)
        except Conflict:
            if allocation is not None and state is not None:
                await allocation.reread_nic(state, str(meta.key), meta.uid)
            raise
        if state is not None:
            state.observe_answer(nic, answer)

    def _record_events(self, nic: Nic, status: NicStatus, quiet: bool) -> None:
        about = reference(NICS, nic)
        before, after = (find(item.conditions, ALLOCATED) for item in (nic.status, status))
        if after is not None and after.status == "False":
            if before is None or (before.reason, before.message) != (after.reason, after.message):
                self._events.event(about, "Warning", after.reason, after.message)
        elif (
            not quiet
            and after is not None
            and (status.ips, status.network) != (nic.status.ips, nic.status.network)
        ):
            self._events.event(about, "Normal", after.reason, after.message)
        conflict = find(status.conditions, UNIQUE)
        if conflict is not None and conflict != find(nic.status.conditions, UNIQUE):
            self._events.event(about, "Warning", conflict.reason, conflict.message)


class NetworkAllocator:
    """Look after the networks of a term. `now` gives seconds since the epoch, `wires` who else has addresses.

    `on_release` is called with the name of a network whose wires have addresses again that it held for a NIC in vain.
    """

    def __init__(
        self,
        term: AllocatorTerm,
        writer: NicWriter,
        events: EventQueue,
        now: Callable[[], float],
        wires: WireReader | None = None,
        on_release: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._term = term
        self._wires = wires
        self._on_release = on_release
        self._writer = writer
        self._events = events
        self._now = now
        self._written: dict[str, float] = {}

    async def reconcile(self, network: Network) -> float | None:
        """Give a network's NICs what they need; in how many seconds to do so again, if that is known."""
        name = network.metadata.name
        try:
            return await self._reconcile(name, network)
        except Conflict:
            await self._term.reread(name)  # so that the next try does not build on what is known to be old
            raise
        except NotFound as error:
            if not error.is_of(name):
                # The server may have just started; to try again is all that there is to do.
                raise ServerError(error.code, error.reason, f"Nics are not served now: {error}") from None
            self._term.forget(name)
            return SPACING_SECONDS
        except KubeError:
            raise
        except Exception:
            # The state may have been left in disorder; the next one is built afresh.
            self._term.forget(name)
            raise

    async def _reconcile(self, name: str, network: Network) -> float | None:
        allocation = self._term.allocation(name)
        state = allocation.current(network)
        if state is None:
            if (wait := allocation.retake_in()) > 0:
                return wait
            state = await self._take_over(network)
        state.observe_network(await allocation.ensure_finalizer(state.network))
        waits = [await allocation.confirm(state)]
        fresh, whole = self._connect(state)
        writes = self._decide(state) if whole else []
        if not whole:
            waits.append(PEER_SECONDS)
        await self._grant(allocation, state, writes)
        statuses = [(item.nic, item.status) for item in writes]
        failures = await self._writer.write_all(statuses, allocation, state)
        self._record_meetings(state, fresh)
        waits.append(await self._report(allocation, state))
        if failures:
            raise failures[0]
        if len(writes) == BATCH:
            return 0.0
        return min((wait for wait in waits if wait is not None), default=None)

    async def _take_over(self, network: Network) -> AllocationState:
        """Take a network over. One that no NIC asks for addresses gets the status that it will have by the same write.

        Most networks are such when they are created. What the list of NICs says otherwise is reported as ever.
        """
        name, allocator = network.metadata.name, network.status.allocator
        if allocator.epoch or network.status.grants or self._term.has_nics(name):
            return await self._term.take_over(network)
        foreseen = AllocationState(network, (), 0)
        self._connect(foreseen)
        views, status = self._status(foreseen, ())
        state = await self._term.take_over(network, status)
        self._record_events(state, views, network.status)
        return state

    def _connect(self, state: AllocationState) -> tuple[frozenset[Address], bool]:
        """Bring what others have into the ledger, as it is now.

        Return what a NIC and others have since the last time, and whether all networks on its wires are taken over.
        """
        sharing = self._wires.sharing(state.name) if self._wires is not None else UNSHARED
        peers = tuple(map(self._term.state_of, sharing.peers))
        known = tuple(peer for peer in peers if peer is not None)
        return state.connect(sharing, known), len(known) == len(peers)

    def _record_meetings(self, state: AllocationState, fresh: Iterable[Address]) -> None:
        """Record an Event of the NAD or node that has an address which a NIC has as well."""
        for address in sorted(fresh):
            holder, nic = state.sharing.held.get(address), state.owner_of(address)
            if holder is None or nic is None or self._wires is None or not state.meetings_of(nic):
                continue
            about = self._wires.about(holder)
            if about is not None:
                title = title_for(about.namespace, NICS.kind, *nic.metadata.key)
                message = (
                    f"{format_address(address)} is {holder.what}, and {title} has it of Network {state.name}; "
                    "give one of the two another address"
                )
                self._events.event(about, "Warning", OWNED_TWICE, message)

    def _decide(self, state: AllocationState) -> list[Write]:
        """Compute the writes of NICs that need something; their new addresses are held in the ledger."""
        writes: list[Write] = []
        for nic in state.due():
            write = self._decide_one(state, nic)
            if write is not None:
                writes.append(write)
            if len(writes) == BATCH:
                break
        return writes

    def _decide_one(self, state: AllocationState, nic: Nic) -> Write | None:
        decision = decide(state.ledger, nic, state.held(nic), state.defect, state.closed)
        key, now = str(nic.metadata.key), self._now()
        status = status_after(
            decision,
            state.name,
            self._term.epoch_of,
            state.conflicts_of(key),
            now,
            meetings=state.meetings_of(nic),
            not_served=state.not_served(nic),
        )
        if decision.ips is None:
            state.refuse(nic)
        if status == nic.status and state.is_granted(key):
            status = touched(status, now)  # so that no write of what was granted can come after it
        gives = decision.ips is not None and not set(decision.ips) <= set(state.owned(nic))
        if not gives and decision.operation is not None:
            decision.operation.abort()
        return Write(decision, status, gives) if gives or status != nic.status else None

    async def _grant(
        self, allocation: NetworkAllocation, state: AllocationState, writes: Sequence[Write]
    ) -> None:
        """Write down which NIC is about to get what. Raises Conflict if the network changed or is another's now."""
        giving = [item for item in writes if item.gives]
        if not giving:
            return
        grants = state.grants()
        for item in giving:
            key = str(item.nic.metadata.key)
            grants[key] = grant_of(item, grants.get(key))
            state.expect_write(item.nic)
        views, status = self._status(state, grants.values())
        before, network = state.network.status, None
        try:
            network = await self._write(allocation, state, status)
        finally:
            for item in giving:
                if item.decision.operation is not None:
                    item.decision.operation.abort()
            if network is not None:
                state.observe_network(network)
            # A NIC that left meanwhile gets nothing: what was about to be its own was refused to others.
            if not all(set(item.decision.ips or ()) <= set(state.held(item.nic)) for item in giving):
                state.requeue_refused()
                self._on_release(state.name)
        self._record_events(state, views, before)

    async def _report(self, allocation: NetworkAllocation, state: AllocationState) -> float | None:
        """Write the network's status if it changed; or return in how many seconds that may be done."""
        if state.network.metadata.is_deleting and state.is_free:
            await allocation.remove_finalizer(state.network)
            return None
        views, status = self._status(state, state.grants().values())
        if status == state.network.status:
            return None
        wait = self._written.get(state.name, -math.inf) + SPACING_SECONDS - asyncio.get_running_loop().time()
        changed = status.observed_generation != state.network.status.observed_generation
        if wait > 0 and not changed:
            return wait
        before = state.network.status
        state.observe_network(await self._write(allocation, state, status))
        self._record_events(state, views, before)
        return None

    def _status(
        self, state: AllocationState, grants: Iterable[Grant]
    ) -> tuple[tuple[PoolView, ...], NetworkStatus]:
        views = pool_views(state.ledger, state.levels)
        status = status_of(
            state.network,
            state.ledger.network.subnets,
            views,
            problem=state.problem,
            nics=state.size,
            grants=grants,
            conflicts=state.conflicts(),
            sharing=state.sharing,
            namesakes=self._wires.namesakes(state.network) if self._wires is not None else (),
            now=self._now(),
        )
        return views, status

    async def _write(
        self, allocation: NetworkAllocation, state: AllocationState, status: NetworkStatus
    ) -> Network:
        patch = struct_diff(state.network.status, status)
        self._written[state.name] = asyncio.get_running_loop().time()
        return await allocation.write_status(state.network, patch)

    def _record_events(
        self, state: AllocationState, views: Sequence[PoolView], before: NetworkStatus
    ) -> None:
        """Record Events of pools that got fuller or emptier, and of addresses and names that two have."""
        events = pool_events(state.name, views, state.levels)
        state.levels = {view.pool.range: view.level for view in views}
        about = reference(NETWORKS, state.network)
        self._events.record(about, events)
        for kind in (UNIQUE, NAME_UNIQUE):
            conflict = find(state.network.status.conditions, kind)
            if conflict is not None and conflict != find(before.conditions, kind):
                self._events.event(about, "Warning", conflict.reason, conflict.message)

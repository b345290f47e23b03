"""The spokes of this node for kubelet and CNI programs: the port `SpokesPort` on the reconciler of LANs.

A request is a change of the record, saved first, and one look at its LAN: what the record says is built, or taken
away. So a request that is repeated, or follows a death or a reboot, ends in the same state.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog
from msgspec.structs import replace

from lanloom.api.lan import LAN
from lanloom.api.meta import Key
from lanloom.features.lan.agent.kernel import LanKernel
from lanloom.features.lan.agent.ports import Attached, Attachment, Device, MtuRefused, SpokeError
from lanloom.features.lan.agent.reconciler import LanReconciler
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.users import RemoteUsers
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.mtus import own_mtu
from lanloom.features.lan.rules.nads import names_of
from lanloom.features.lan.rules.observed import PodLink, SeenLan
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord, choose_index, pod_beside, refused
from lanloom.node.errors import NodeError
from lanloom.node.linkvalues import check_mac, check_name

log = structlog.get_logger(__name__)

T = TypeVar("T")

STARTING = "the agent has not read its records yet; try again in a moment"

ATTEMPTS, PAUSE_SECONDS = 4, 0.25
"""How often what the kernel refused is tried before a request fails: a namespace that was deleted goes a moment later,
and its VNI is taken until then."""


class Spokes:
    """The port. `woken` receives the uid of a LAN that should be looked at again."""

    def __init__(
        self,
        reconciler: LanReconciler,
        kernel: LanKernel,
        records: LanRecords,
        view: ClusterView,
        *,
        now: Callable[[], float],
        elsewhere: RemoteUsers,
        woken: Callable[[str], None] = lambda _uid: None,
    ) -> None:
        self._reconciler = reconciler
        self._kernel = kernel
        self._records = records
        self._view = view
        self._now = now
        self._elsewhere = elsewhere
        self._woken = woken
        self._handlers: list[Callable[[], None]] = []
        self._chosen: dict[str, int] = {}
        self._under_way: Counter[tuple[str, str, str]] = Counter()
        self._loaded = False
        view.on_lan(lambda _uid: self._notify())

    def ready(self) -> None:
        """Tell that the records have been read."""
        self._loaded = True
        self._notify()

    def devices(self) -> Mapping[str, Device]:
        """Implement the port."""
        return self._view.devices()

    def on_change(self, handler: Callable[[], None]) -> None:
        """Implement the port."""
        self._handlers.append(handler)

    def unready(self) -> str:
        """Implement the port."""
        return "" if self._loaded else STARTING

    async def allocate(self, device: Device) -> str:
        """Implement the port."""
        uid = self._lan_of(device)
        self._view.follow_nodes()

        async def work() -> str:
            async with self._placed(uid, device) as (record, place):
                if place.attached and not await self._reconciler.is_there(place):
                    place = place.free()
                place = replace(place, allocated=self._now())
                await self._reconciler.begin(self._view.lan(uid), record, device.id, place)
            await self._built(uid, device)
            return self._kernel.tap_path(place.index) if place.index else ""

        return await self._explained(device.id, uid, work)

    async def attach(self, attachment: Attachment) -> Attached:
        """Implement the port."""
        device = attachment.device
        _check(attachment)
        uid = self._lan_of(device)
        self._view.follow_nodes()  # they are known, mostly, when the LAN is confirmed

        async def work() -> Attached:
            try:
                return await self._attach(uid, attachment)
            finally:
                self._under_way -= Counter([key])

        key = (uid, attachment.container, attachment.interface)
        self._under_way[key] += 1
        return await self._explained(device.id, uid, work)

    async def _attach(self, uid: str, attachment: Attachment) -> Attached:
        device = attachment.device
        if not await self._kernel.is_namespace(attachment.netns):
            raise SpokeError(f"can't attach {device.id}: there is no network namespace {attachment.netns}")
        lan = await self._confirm(uid, attachment)
        async with self._placed(uid, device) as (record, place):
            if not _is_of(place, attachment) and (
                why := refused(lan or record, device.spoke, attachment.pod)
            ):
                raise SpokeError(why)
            other_mode = record.place(device.other_mode.id) if record is not None else None
            await self._check_free(place, attachment)
            if other_mode is not None and other_mode.container != attachment.container:
                await self._check_free(other_mode, attachment)
            await self._elsewhere.check(attachment)
            wanted = _taken(place, attachment)
            await self._reconciler.begin(self._view.lan(uid), record, device.id, wanted)
        seen = await self._built(uid, device)
        await self._check_fits(uid, wanted)
        end = _end(seen, attachment)
        return Attached(end.mac, end.mtu)

    async def _confirm(self, uid: str, attachment: Attachment) -> LAN | None:
        """Return the LAN as it is now, else as a watch brought it; None for one that only the record knows.

        Raise SpokeError where it is gone. After a boot, the record may be of one that went meanwhile.
        """
        lan, record = self._view.lan(uid), self._records.by_uid.get(uid)
        if lan is not None:
            key, carried = lan.metadata.key, bool(record and any(place.attached for place in record.places))
        elif record is not None:
            key, carried = Key(record.namespace, record.name), True
        else:
            return None
        is_reported = lan is None and self._view.is_synced
        return (
            await self._elsewhere.confirm(key, uid, attachment, carried=carried, is_reported=is_reported)
            or lan
        )

    async def detach(self, container: str, interface: str) -> None:
        """Implement the port."""
        key = (container, interface)
        found = {uid for uid, place in self._attached() if (place.container, place.interface) == key}
        # One that is being attached has no record yet: its caller may have given up, but it comes.
        found |= {uid for uid, *rest in self._under_way if tuple(rest) == key}
        for uid in sorted(found):
            await self._end(uid, container, interface)

    async def check(self, attachment: Attachment) -> None:
        """Implement the port."""
        device = attachment.device
        uid, place = next(
            ((uid, place) for uid, place in self._attached() if place.id == device.id), ("", None)
        )
        if place is None or not _is_of(place, attachment):
            raise SpokeError(
                f"{device.id} is not attached to {attachment.interface} of the container {attachment.container}"
            )

        async def work() -> None:
            seen, steps = await self._reconciler.missing(uid, device.id)
            end = _end(seen, attachment)
            if lost := [each for each in attachment.addresses if each not in end.addresses]:
                raise SpokeError(
                    f"{device.id}: the interface {attachment.interface} has lost the address {', '.join(lost)}"
                )
            if steps:
                raise SpokeError(f"{device.id}: not as it should be: {steps[0].title}", again=True)

        await self._explained(device.id, uid, work)

    async def collect(self, valid: Collection[tuple[str, str]], network: str) -> None:
        """Implement the port."""
        failures = []
        for uid, place in self._attached():
            if place.network == network and (place.container, place.interface) not in valid:
                try:
                    await self._end(uid, place.container, place.interface)
                except SpokeError as error:
                    failures.append(str(error))
        if failures:
            raise SpokeError("; ".join(failures), again=True)

    def _notify(self) -> None:
        for handler in self._handlers:
            handler()

    def _attached(self) -> tuple[tuple[str, SpokeRecord], ...]:
        return tuple(
            (uid, place)
            for uid, record in self._records.by_uid.items()
            for place in record.places
            if place.attached
        )

    def _lan_of(self, device: Device) -> str:
        """Return the uid of the LAN that has a spoke, by the cluster or by what this node carries.

        Raises SpokeError.
        """
        if not self._loaded:
            raise SpokeError(STARTING, again=True)
        if (lan := self._view.lan_of(device.spoke)) is not None:
            return lan.metadata.uid
        for uid, record in self._records.by_uid.items():
            if record.built and record.place(device.id) is not None and not self._is_succeeded(record):
                return uid
        raise SpokeError(
            f"no LAN has the spoke {device.spoke}; add it to spec.spokes of one",
            again=not self._view.is_synced,
        )

    def _is_succeeded(self, record: LanRecord) -> bool:
        """Return whether a LAN is gone, and another one of its name is there, which has not the spoke."""
        successor = self._view.named(record.namespace, record.name)
        return successor is not None and successor.metadata.uid != record.uid

    @asynccontextmanager
    async def _placed(self, uid: str, device: Device) -> AsyncIterator[tuple[LanRecord | None, SpokeRecord]]:
        """Provide the record and the place of a device, with an index that is its own until the place is saved."""
        record = self._records.by_uid.get(uid)
        place = record.place(device.id) if record is not None else None
        if place is None:
            place = SpokeRecord(spoke=device.spoke, mode=device.mode)
        if device.mode == "veth" or place.index:
            yield record, place
            return
        try:
            yield record, replace(place, index=await self._choose_index(device))
        finally:
            self._chosen.pop(device.id, None)

    async def _choose_index(self, device: Device) -> int:
        # A LAN that was created again: kubelet may have given the device's path to a container already.
        if index := self._records.index_of(device.id) or self._chosen.get(device.id, 0):
            return index
        occupied: set[int] = set()
        while True:
            index = choose_index(device.id, self._records.taken, self._chosen.values(), occupied)
            self._chosen[device.id] = index
            if await self._kernel.is_free(index):
                return index
            occupied.add(index)

    async def _check_free(self, place: SpokeRecord, attachment: Attachment) -> None:
        if not place.attached or _is_of(place, attachment):
            return
        if await self._reconciler.is_there(place):
            raise SpokeError(
                f"the spoke {place.spoke} is used by {pod_beside(place.pod, attachment.pod) or place.container} on "
                "this node; a spoke takes one pod or one machine, so delete that one, or take another spoke",
                again=True,
            )

    async def _check_fits(self, uid: str, place: SpokeRecord) -> None:
        """Raise MtuRefused for a place that asks for more than fits on every node; it is free again then."""
        record, state = self._records.by_uid[uid], self._reconciler.state(uid)
        budget = state.budget if state is not None else None
        asked = own_mtu(record, place) or record.options.mtu
        fault = budget.fault(asked, record.options.mtu) if budget is not None else ""
        if not fault:
            return
        await self._records.save(record.with_place(place.free()))
        await self._reconciler.reconcile(uid, ())
        raise MtuRefused(f"mtu: the spoke {place.spoke} of {record.title} asks for {asked}, and {fault}")

    async def _built(self, uid: str, device: Device) -> SeenLan:
        """Return the LAN with this device, after some attempts.

        Raises NodeError, and SpokeError without an underlay.
        """
        for attempt in range(ATTEMPTS):
            try:
                seen = await self._reconciler.reconcile(uid, (device.id,))
                break
            except NodeError:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
        state = self._reconciler.state(uid)
        if state is not None and state.own.problem:
            raise SpokeError(f"can't attach {device.id}: {state.own.problem}", again=True)
        return seen

    async def _end(self, uid: str, container: str, interface: str) -> None:
        """End one attachment: when this returns it is recorded; what the kernel refuses is tried again later."""

        async def work() -> None:
            record = self._records.by_uid.get(uid)
            for place in record.places if record is not None else ():
                if record is not None and (place.container, place.interface) == (container, interface):
                    record = record.with_place(place.free())
            if record is None:
                return
            await self._records.save(record)
            try:
                await self._reconciler.reconcile(uid, ())
            except NodeError as error:
                log.warning("lan-detach-unfinished", lan=record.title, pod=container, error=str(error))

        await self._explained(f"{interface} of {container}", uid, work)

    async def _explained(self, title: str, uid: str, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._reconciler.exclusive(uid, work)
        except NodeError as error:
            raise SpokeError(f"{title}: {error}", again=True) from error
        finally:
            self._woken(uid)


def _is_of(place: SpokeRecord, attachment: Attachment) -> bool:
    """Return whether a place is that of an attachment already."""
    return (place.container, place.interface) == (attachment.container, attachment.interface)


def _taken(place: SpokeRecord, attachment: Attachment) -> SpokeRecord:
    """Return the place as a pod has it."""
    return replace(
        place,
        allocated=0.0,
        container=attachment.container,
        netns=attachment.netns,
        netns_cookie=0,
        interface=attachment.interface,
        pod=attachment.pod,
        network=attachment.network,
        mac=attachment.mac,
        mtu=attachment.mtu,
        addresses=attachment.addresses,
        routes=attachment.routes,
        bridged=attachment.bridged,
    )


def _check(attachment: Attachment) -> None:
    """Raise SpokeError for what can't be an interface of a pod."""
    try:
        check_name("can't attach", attachment.interface)
        check_mac("can't attach", attachment.mac)
    except NodeError as error:
        raise SpokeError(f"{attachment.device.id}: {error}") from error
    if not attachment.container or not attachment.netns.startswith("/"):
        raise SpokeError(
            f"{attachment.device.id}: a container id and the path of its network namespace are needed"
        )


def _end(seen: SeenLan, attachment: Attachment) -> PodLink:
    """Return the pod's interface. Raises SpokeError that says what is missing."""
    device = attachment.device
    end = seen.ends.get(device.id)
    if end is None:
        raise SpokeError(f"{device.id}: the interface {attachment.interface} is not in the pod's namespace")
    if end.name not in names_of(attachment.interface):
        raise SpokeError(
            f"{device.id}: the pod's interface is called {end.name} and not {attachment.interface}"
        )
    return end

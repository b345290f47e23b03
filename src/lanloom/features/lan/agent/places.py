"""Places at LANs for ports of running machines that another feature brings: the port `LanPlaces` on the reconciler.

A port that comes was made by another CNI plugin, and keeps its other end in the machine's pod. While it is under way
its place is `in_transit`: the LAN is built, and leaves the place alone. When it has come it is the LAN's port like any
other, and is made again if it is deleted. A process that died in between finds the place in the record, and goes on.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from lanloom.api.lan import Mode
from lanloom.features.lan.agent.ports import VETH, Attachment, Device, SpokeError
from lanloom.features.lan.agent.reconciler import LanReconciler
from lanloom.features.lan.agent.records import LanRecords
from lanloom.features.lan.agent.users import RemoteUsers
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.record import LanRecord, SpokeRecord, pod_beside, record_of, refused
from lanloom.node.errors import LinkError, NodeError
from lanloom.node.namespaces import DIRECTORY
from lanloom.runtime.ports import LanPlace, PodNic

T = TypeVar("T")


class SpokePlaces:
    """The port. `woken` receives the uid of a LAN that should be looked at; `unready` says why none may change."""

    def __init__(
        self,
        reconciler: LanReconciler,
        records: LanRecords,
        view: ClusterView,
        elsewhere: RemoteUsers,
        *,
        node: str,
        woken: Callable[[str], None],
        unready: Callable[[], str] = lambda: "",
    ) -> None:
        self._reconciler = reconciler
        self._records = records
        self._view = view
        self._elsewhere = elsewhere
        self._node = node
        self._woken = woken
        self._unready = unready

    def find(self, spoke: str) -> LanPlace:
        """Implement the port."""
        uid, record = self._record(spoke)
        state = self._reconciler.state(uid)
        mtu = state.own.mtu if state is not None else 0
        return LanPlace(str(DIRECTORY / record.ns), record.bridge, Device(spoke, VETH).id, mtu)

    def pod_at(self, spoke: str, mode: Mode) -> str:
        """Implement the port."""
        _, record = self._record(spoke)
        place = record.place(Device(spoke, mode).id)
        return place.pod if place is not None and place.attached else ""

    async def relocate(
        self, nic: PodNic, leave: str, enter: str, move: Callable[[LanPlace | None], Awaitable[T]]
    ) -> T:
        """Implement the port."""
        if why := self._unready():
            raise LinkError(why)
        uids = {spoke: self._record(spoke)[0] for spoke in (leave, enter) if spoke and self._is_known(spoke)}
        if enter and enter not in uids:
            self._record(enter)  # which says why not

        async def work() -> T:
            place = await self._expect(uids[enter], enter, nic) if enter else None
            if leave in uids:
                await self._mark(uids[leave], leave, nic, in_transit=True)
            result = await move(place)
            if leave in uids:
                await self._free(uids[leave], leave, nic)
            if enter:
                await self._mark(uids[enter], enter, nic, in_transit=False)
                await self._secured(uids[enter])
            return result

        try:
            return await self._alone(sorted(set(uids.values())), work)
        finally:
            for uid in uids.values():
                self._woken(uid)

    async def _alone(self, uids: list[str], work: Callable[[], Awaitable[T]]) -> T:
        """Run while nothing else works at any of the LANs; always in the same order, so that none waits for another."""
        if not uids:
            return await work()
        return await self._reconciler.exclusive(uids[0], lambda: self._alone(uids[1:], work))

    async def _expect(self, uid: str, spoke: str, nic: PodNic) -> LanPlace:
        """Record that a port comes, and build its LAN."""
        device, record = Device(spoke, VETH), self._records.by_uid.get(uid)
        found, other_mode = (
            record.place(each.id) if record is not None else None for each in (device, device.other_mode)
        )
        for place in (found, other_mode):
            if place is not None and place.attached and not _is_of(place, nic):
                raise LinkError(
                    f"the spoke {spoke} is used by {pod_beside(place.pod, nic.pod) or place.container} on this node; "
                    "a spoke takes one pod or one machine, so delete that one, or take another spoke"
                )
        is_new = found is None or not _is_of(found, nic)
        if is_new and (why := refused(self._view.lan(uid) or record, spoke, nic.pod)):
            raise LinkError(why)
        try:
            await self._elsewhere.check(_attachment(device, nic))
        except SpokeError as error:
            raise LinkError(str(error)) from error
        if is_new or (found is not None and found.in_transit):
            await self._reconciler.begin(self._view.lan(uid), record, device.id, _expected(spoke, nic))
        await self._reconciler.reconcile(uid, ())
        return self.find(spoke)

    async def _secured(self, uid: str) -> None:
        """Give a port that has come the options of its spoke at once; what fails is tried again by the reconciler."""
        with suppress(NodeError):
            await self._reconciler.reconcile(uid, ())

    async def _mark(self, uid: str, spoke: str, nic: PodNic, *, in_transit: bool) -> None:
        record = self._records.by_uid.get(uid)
        place = record.place(Device(spoke, VETH).id) if record is not None else None
        if record is not None and place is not None and _is_of(place, nic):
            await self._records.save(record.with_place(replace(place, in_transit=in_transit)))

    async def _free(self, uid: str, spoke: str, nic: PodNic) -> None:
        record = self._records.by_uid.get(uid)
        place = record.place(Device(spoke, VETH).id) if record is not None else None
        if record is not None and place is not None and _is_of(place, nic):
            await self._records.save(record.with_place(place.free()))

    def _is_known(self, spoke: str) -> bool:
        return self._view.lan_of(spoke) is not None or any(
            record.place(Device(spoke, VETH).id) is not None for record in self._records.by_uid.values()
        )

    def _record(self, spoke: str) -> tuple[str, LanRecord]:
        """Return the LAN that has a spoke, by the cluster or by what this node carries. Raises LinkError."""
        lan = self._view.lan_of(spoke)
        if lan is not None:
            uid = lan.metadata.uid
            return uid, self._records.by_uid.get(uid) or record_of(lan, self._node)
        for uid, record in self._records.by_uid.items():
            if record.place(Device(spoke, VETH).id) is not None:
                return uid, record
        raise LinkError(f"no LAN has the spoke {spoke}; add it to spec.spokes of one")


def _is_of(place: SpokeRecord, nic: PodNic) -> bool:
    """Return whether a place is that of this NIC: brought before, or attached by CNI."""
    return place.attached and (place.netns, place.interface) == (nic.netns, nic.interface)


def _expected(spoke: str, nic: PodNic) -> SpokeRecord:
    """Return the place of a port that comes. The runtime does not know of it: its container is the pod's uid."""
    return SpokeRecord(
        spoke=spoke,
        mode=VETH,
        container=nic.uid,
        netns=nic.netns,
        interface=nic.interface,
        pod=nic.pod,
        mac=nic.mac,
        bridged=True,
        in_transit=True,
    )


def _attachment(device: Device, nic: PodNic) -> Attachment:
    return Attachment(
        device=device,
        container=nic.uid,
        netns=nic.netns,
        interface=nic.interface,
        pod=nic.pod,
        mac=nic.mac,
        bridged=True,
    )

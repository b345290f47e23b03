"""Moves the port of a swap to where the swap's phase wants it, whatever was done before, and by which process.

Each look begins with the kernel: which port it is, and where. A record is written before the port is touched, so that
it can be brought back whatever becomes of the NADs, and by another process. A move is verified by another look; one
that fails is taken back at once, before the manager decides what to do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.lan import MultusReport
from lanloom.api.liveupdate import FORWARD, NetworkSwap
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.liveupdate.agent.kernel import FoundPort, PortKernel
from lanloom.features.liveupdate.agent.multus import unknown
from lanloom.features.liveupdate.agent.records import MoveRecord, MoveRecords
from lanloom.features.liveupdate.rules.announcement import frames
from lanloom.features.liveupdate.rules.isolation import against_move
from lanloom.features.liveupdate.rules.launcher import (
    UnreadableStatus,
    attached_of,
    links_in,
    mac_of,
    pod_interface,
    reported_ips,
)
from lanloom.features.liveupdate.rules.nadtargets import (
    BridgeTarget,
    LanSpoke,
    NadTarget,
    UnmovableNad,
    against_pair,
    target_of,
)
from lanloom.features.liveupdate.rules.port import (
    PodIdentity,
    PortBinding,
    PortConflict,
    goal_in,
    goal_on,
    host_name,
    is_bound,
)
from lanloom.node.errors import LinkError, NodeError
from lanloom.runtime.ports import LanPlace, LanPlaces, PodNic

log = structlog.get_logger(__name__)

ATTEMPTS, PAUSE_SECONDS = 3, 0.05
"""How often a move is made and verified: another program of the node may touch a link as it comes."""


class SwapView(NamedTuple):
    """What the API server knows of a swap: the launcher pod, the machine, and the NADs that are there."""

    swap: NetworkSwap
    pod: Pod
    machine: VirtualMachineInstance
    source: NetworkAttachmentDefinition | None
    target: NetworkAttachmentDefinition | None


class Outcome(NamedTuple):
    """Where a port is after a look: its NAD (`namespace/name`, empty for neither of the two), and what went wrong.

    `gap` is the milliseconds for which a move left it without a network, 0 where it was there already. `moved` is true
    also for the move of an agent that may have died before it announced the machine: how long it took is not known.
    """

    link: str = ""
    nad: str = ""
    error: str = ""
    final: bool = False
    gap: float = 0.0
    moved: bool = False


class Mover:
    """Move one port at a time. `lans` is None where no feature of this agent keeps LANs.

    `multus` reads the configuration of Multus, by which nothing moves that Multus would not attach.
    """

    def __init__(
        self,
        kernel: PortKernel,
        records: MoveRecords,
        lans: Callable[[], LanPlaces | None],
        multus: Callable[[], Awaitable[MultusReport | None]] = unknown,
    ) -> None:
        self._multus = multus
        self._kernel = kernel
        self._records = records
        self._lans = lans
        self._one = asyncio.Lock()
        self._announced: dict[str, str] = {}

    async def bring(self, scene: SwapView) -> Outcome:
        """Bring the port to where the phase wants it. Raises RecordError where nothing may be begun."""
        async with self._one:
            try:
                return await (
                    self._forward(scene) if scene.swap.status.phase in FORWARD else self._back(scene)
                )
            except PortConflict as error:
                return Outcome(error=str(error), final=error.final)
            except (UnmovableNad, UnreadableStatus) as error:
                return Outcome(error=str(error), final=True)
            except NodeError as error:
                return Outcome(error=str(error))

    async def announce(self, scene: SwapView) -> None:
        """Tell the network again where the machine is; it may have missed the first time. Raises nothing."""
        try:
            identity = identity_of(scene)
            await self._send(scene, await self._kernel.find(identity, await self._hint(scene)))
        except (NodeError, PortConflict, UnreadableStatus) as error:
            log.info("swap-not-announced", swap=str(scene.swap.metadata.key), error=str(error))

    async def forget(self, uid: str) -> None:
        """Forget the record of a swap that needs none any more. Raises RecordError."""
        self._announced.pop(uid, None)
        await self._records.forget(uid)

    async def _forward(self, scene: SwapView) -> Outcome:
        swap, identity = scene.swap, identity_of(scene)
        record = await self._records.read(swap.metadata.uid)
        begun = record is not None
        if record is None:
            await self._check_isolation(swap)
        target = _place(scene.target, swap.spec.target)
        found = await self._find(identity, record)
        binding = await self._kernel.inspect(found)
        if record is None:
            source = _place(scene.source, swap.spec.source)
            await self._check_source(source, binding, identity)
            await self._check_guard(swap, source, target, binding)
            record = _record(scene, found, binding, source, target)
        goal = await self._goal(target, binding, record, identity)
        await self._records.write(record)
        nic = _nic(scene, identity, found)
        try:
            gap = await self._relocate(found, nic, record.leaves, record.enters, goal, binding)
        except (NodeError, PortConflict) as error:
            return await self._taken_back(scene, found, nic, record, str(error))
        return await self._arrived(scene, found, Outcome(goal.link, swap.spec.to, gap=gap), begun)

    async def _find(self, identity: PodIdentity, record: MoveRecord | None) -> FoundPort:
        """Return the NIC of a move. Raises PortConflict for another NIC, which has its name since it was unplugged."""
        found = await self._kernel.find(identity, record.netns if record is not None else "")
        if record is not None and record.nic not in (0, found.nic):
            raise PortConflict(
                f"the NIC of {identity.interface} of Pod {identity.title} was unplugged during its move; the one that "
                "has its name now stays where it is"
            )
        return found

    async def _check_isolation(self, swap: NetworkSwap) -> None:
        """Raise PortConflict for a move to a NAD that Multus on this node would attach no pod of the machine to."""
        if why := against_move(await self._multus(), swap.metadata.namespace, swap.spec.target):
            raise PortConflict(why)

    async def _taken_back(
        self, scene: SwapView, found: FoundPort, nic: PodNic, record: MoveRecord, why: str
    ) -> Outcome:
        """Return a move that failed half-way.

        The machine gets its old network at once; the manager decides what comes next.
        """
        log.warning("swap-move-failed", swap=str(scene.swap.metadata.key), error=why)
        try:
            await self._relocate(found, nic, record.enters, record.leaves, record.before)
        except (NodeError, PortConflict) as error:
            return Outcome(record.before.link, error=f"{why}; and it could not be brought back: {error}")
        await self._send(scene, found)
        return Outcome(record.before.link, scene.swap.spec.from_, error=why, final=True)

    async def _back(self, scene: SwapView) -> Outcome:
        swap, identity = scene.swap, identity_of(scene)
        record = await self._records.read(swap.metadata.uid)
        found = await self._find(identity, record)
        binding = await self._kernel.inspect(found)
        begun = record is not None
        if record is None:
            record = await self._unrecorded(scene, found, binding, identity)
            if record is None:
                return Outcome(binding.link, swap.spec.from_)
        nic = _nic(scene, identity, found)
        try:
            gap = await self._relocate(found, nic, record.enters, record.leaves, record.before, binding)
        except (NodeError, PortConflict) as error:
            return await self._stayed(scene, found, nic, record, binding, str(error))
        return await self._arrived(scene, found, Outcome(record.before.link, swap.spec.from_, gap=gap), begun)

    async def _arrived(self, scene: SwapView, found: FoundPort, outcome: Outcome, begun: bool) -> Outcome:
        """Tell the network where the machine is, if it was moved by this agent or by one that may have died then.

        `begun` says that there was a record of the move.
        """
        uid = scene.swap.metadata.uid
        if not outcome.gap and (not begun or self._announced.get(uid) == outcome.nad):
            return outcome
        await self._send(scene, found)
        self._announced[uid] = outcome.nad
        return outcome._replace(moved=True)

    async def _stayed(
        self,
        scene: SwapView,
        found: FoundPort,
        nic: PodNic,
        record: MoveRecord,
        binding: PortBinding,
        why: str,
    ) -> Outcome:
        """Leave a port that can't be brought back where it is: a wrong network is better than none."""
        if not binding.bridge:
            return Outcome(binding.link, error=why)
        try:
            await self._relocate(found, nic, record.leaves, record.enters, binding)
        except (NodeError, PortConflict) as error:
            return Outcome(binding.link, error=f"{why}; and then: {error}")
        await self._send(scene, found)
        return Outcome(binding.link, scene.swap.spec.to, error=why)

    async def _unrecorded(
        self, scene: SwapView, found: FoundPort, binding: PortBinding, identity: PodIdentity
    ) -> MoveRecord | None:
        """Return the record of a move that has none: nothing was begun, or the record was lost and the port moved.

        None where the port is where it was; else the record as the NADs give it. Raises PortConflict.
        """
        source = _place(scene.source, scene.swap.spec.source)
        home = await self._binding_of(source, binding.link if not binding.ns else host_name(identity))
        if _is_at(binding, home):
            return None
        target = _place(scene.target, scene.swap.spec.target)
        if not _is_at(binding, await self._binding_of(target, binding.link)):
            raise PortConflict(
                f"the port is on {binding.title}, neither where it was nor where it was to be; restart the machine"
            )
        return _record(scene, found, home, source, target)

    async def _binding_of(self, place: NadTarget, link: str) -> PortBinding:
        if isinstance(place, LanSpoke):
            found = self._places().find(place.spoke)
            return goal_in(found.ns, found.bridge, found.link, found.mtu)
        return goal_on(place, await self._kernel.bridge(place.bridge), link)

    async def _relocate(
        self,
        found: FoundPort,
        nic: PodNic,
        leaves: str,
        enters: str,
        goal: PortBinding,
        seen: PortBinding | None = None,
    ) -> float:
        """Move and verify, with the LANs on both sides; the milliseconds without a network, 0 where nothing moved.

        `seen` is where the port was at a look just before. A LAN works after that, so with one there is another look.
        """

        async def move(place: LanPlace | None) -> float:
            wanted = goal_in(place.ns, place.bridge, place.link, place.mtu) if place is not None else goal
            binding = seen
            if binding is None or leaves or enters:
                binding = await self._kernel.inspect(found)
            if is_bound(binding, wanted):
                return 0.0
            gap = 0.0
            for _ in range(ATTEMPTS):
                gap += await self._kernel.move(found, wanted)
                binding = await self._kernel.inspect(found)
                if is_bound(binding, wanted):
                    break
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                state = "" if binding.up else " (down)"
                raise LinkError(
                    f"after the move {binding.link}{state} is on {binding.title}, and not as it should be on "
                    f"{wanted.title}"
                )
            log.info(
                "swap-moved",
                pod=nic.pod,
                interface=nic.interface,
                to=wanted.title,
                milliseconds=round(gap, 1),
            )
            return gap

        if not leaves and not enters:
            return await move(None)
        return await self._places().relocate(nic, leaves, enters, move)

    async def _goal(
        self, place: NadTarget, binding: PortBinding, record: MoveRecord, identity: PodIdentity
    ) -> PortBinding:
        own = (
            binding.link
            if not binding.ns
            else record.before.link
            if not record.before.ns
            else host_name(identity)
        )
        return await self._binding_of(place, own)

    async def _check_source(self, source: NadTarget, binding: PortBinding, identity: PodIdentity) -> None:
        """Refuse a port that is elsewhere than its NAD puts it: another program moved it, so it stays there."""
        wanted = await self._binding_of(source, binding.link)
        if not _is_at(binding, wanted):
            raise PortConflict(
                f"the port of {identity.interface} of Pod {identity.title} is on {binding.title}; its NAD "
                f"puts it on {wanted.title}, so another program moved it; restart the machine"
            )

    async def _check_guard(
        self, swap: NetworkSwap, source: NadTarget, target: NadTarget, binding: PortBinding
    ) -> None:
        """Raise PortConflict where the rules of a NAD that wants macspoofchk would not be there after the move."""
        if why := against_pair(source, target):
            raise PortConflict(f"NetworkAttachmentDefinitions {swap.spec.from_} and {swap.spec.to}: {why}")
        wanted = isinstance(target, BridgeTarget) and target.macspoofchk
        if wanted and not await self._kernel.guards(binding.link):
            raise PortConflict(
                f"no rule of macspoofchk names the port {binding.link}, although its NAD has spec.config.macspoofchk; "
                "restart the machine"
            )

    def _places(self) -> LanPlaces:
        found = self._lans()
        if found is None:
            raise PortConflict(
                "this agent keeps no LANs; run the features lan and liveupdate in one agent (--feature)"
            )
        return found

    async def _hint(self, scene: SwapView) -> str:
        record = await self._records.read(scene.swap.metadata.uid)
        return record.netns if record is not None else ""

    async def _send(self, scene: SwapView, found: FoundPort) -> None:
        swap, machine = scene.swap, scene.machine
        if mac := mac_of(scene.pod, machine, swap.spec.network):
            own = swap.status.addresses if swap.status.phase in FORWARD else ()
            await self._kernel.send(found, frames(mac, own or reported_ips(machine, swap.spec.network)))


def identity_of(scene: SwapView) -> PodIdentity:
    """Return by what the pod's namespace is known. Raises UnreadableStatus."""
    pod, machine = scene.pod, scene.machine
    interface = pod_interface(machine, scene.swap.spec.network)
    attached_of(pod, interface)
    addresses = {item.ip for item in pod.status.pod_ips} | {pod.status.pod_ip}
    return PodIdentity(
        title=str(pod.metadata.key),
        uid=pod.metadata.uid,
        interface=interface,
        addresses=frozenset(addresses - {""}),
        macs=links_in(pod, machine),
    )


def _place(nad: NetworkAttachmentDefinition | None, key: Key) -> NadTarget:
    if nad is None:
        raise UnmovableNad(f"NetworkAttachmentDefinition {key} does not exist; create it, or name another")
    return target_of(nad)


def _record(
    scene: SwapView, found: FoundPort, binding: PortBinding, source: NadTarget, target: NadTarget
) -> MoveRecord:
    return MoveRecord(
        uid=scene.swap.metadata.uid,
        pod=scene.pod.metadata.uid,
        netns=found.netns,
        nic=found.nic,
        before=binding,
        leaves=source.spoke if isinstance(source, LanSpoke) else "",
        enters=target.spoke if isinstance(target, LanSpoke) else "",
    )


def _nic(scene: SwapView, identity: PodIdentity, found: FoundPort) -> PodNic:
    mac = mac_of(scene.pod, scene.machine, scene.swap.spec.network)
    return PodNic(identity.title, identity.uid, found.netns, identity.interface, mac)


def _is_at(binding: PortBinding, goal: PortBinding) -> bool:
    """Return whether a port is on that bridge and in that VLAN, whatever its flags and its tagged ids are."""
    return (binding.ns, binding.bridge, _pvid(binding)) == (goal.ns, goal.bridge, _pvid(goal))


def _pvid(binding: PortBinding) -> int:
    return next((item.first for item in binding.entries if item.pvid), 0)

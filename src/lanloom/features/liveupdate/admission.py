"""The webhooks of NetworkSwaps and of machines' networks: turn admission requests into typed values and ask the rules.

Who may create a swap of a machine may give the machine another network, with the manager's hands: the right to create
NetworkSwaps in a namespace is worth that of changing its VirtualMachines, and no role of Lanloom's gives it to users.
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Unreadable, UserInfo, new_of, old_of
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.moving import read_findings
from lanloom.features.liveupdate.rules.admit import (
    changed_networks,
    check,
    check_change,
    check_deletion,
    check_isolation,
    check_only,
    check_report,
    edit_warnings,
    forbidden_networks,
    title_of,
)
from lanloom.features.liveupdate.rules.mode import Mode, mode_of
from lanloom.features.liveupdate.rules.move import MoveRequest
from lanloom.features.liveupdate.rules.preflight import Findings, target_problem
from lanloom.features.liveupdate.rules.strategy import policy_of
from lanloom.features.liveupdate.views import read_machine
from lanloom.kube.errors import KubeError
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import cached_then_live, get_or_none, list_or_empty, recheck
from lanloom.kube.ports import Client
from lanloom.refusals import Denied
from lanloom.runtime.identity import NodeOfPod, agent_node
from lanloom.runtime.webhooktable import EVERY, WRITTEN, TableAdmission, Webhook

IsManager = Callable[[UserInfo], Awaitable[bool]]
"""Whether a manager asks."""


class LiveUpdateAdmission(TableAdmission):
    """Answer admission requests about NetworkSwaps, and about networks that machines name."""

    def __init__(
        self,
        client: Client,
        swaps: Informer[NetworkSwap],
        is_manager: IsManager,
        node_of_pod: NodeOfPod,
        in_flight: InFlight,
        isolation: NamespaceIsolation = NO_ISOLATION,
        *,
        refuse_edits: bool = False,
    ) -> None:
        super().__init__(WEBHOOKS)
        self._refuse_edits = refuse_edits
        self._isolation = isolation
        self._client = client
        self._swaps = swaps
        self._is_manager = is_manager
        self._node_of_pod = node_of_pod
        self._in_flight = in_flight
        in_flight.follow(NETWORK_SWAPS, swaps)

    async def validate_swap(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse what is written of a NetworkSwap."""
        try:
            await self._validate(request)
        except KubeError as error:
            raise Denied(f"the swaps of the NIC can't be read now because {error}; try again") from error
        return ()

    async def validate_machine(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Refuse an edit that adds a network which namespace isolation forbids; warn where a machine begins with one.

        Multus judges the pods of machines that start. The manager gives a machine a former network back after a move
        that failed.

        Of a running machine, the preflight of an edit is reported as a warning, or by option as a refusal: alongside
        KubeVirt, a condition would come too late.
        """
        try:
            new, old = new_of(VIRTUAL_MACHINES, request), old_of(VIRTUAL_MACHINES, request)
        except Unreadable:
            return ()  # the API server's schema, or KubeVirt, has to say so
        if new is None:
            return ()
        problems = forbidden_networks(new, old, request.namespace, self._isolation)
        if old is None:
            return problems
        if problems:
            if not await self._is_manager(request.user_info):
                raise Denied("; ".join(problems))
            return ()
        warnings = await self._warnings(new, old, request)
        if warnings and self._refuse_edits:
            raise Denied(
                f"{'; '.join(warnings)}. The manager refuses such edits (--live-update-edits=refuse)"
            )
        return warnings

    async def _warnings(
        self, new: VirtualMachine, old: VirtualMachine, request: AdmissionRequest
    ) -> tuple[str, ...]:
        """Return what the owner of a running machine should know; nothing where that can't be read now."""
        changed = changed_networks(new, old, request.namespace)
        if not changed or await self._is_manager(request.user_info):
            return ()
        key, client = Key(request.namespace, new.metadata.name), self._client
        try:
            instance = await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, key)
            if instance is None or not instance.is_running:
                return ()
            mode = mode_of(await list_or_empty(client, KUBEVIRTS))
            asked = [MoveRequest(machine=key, nic=nic, to=nad) for nic, nad in changed.items()]
            found = {wish.nic: await self._preflight(wish, mode) for wish in asked}
        except (KubeError, Denied):
            return ()
        return tuple(edit_warnings(f"VirtualMachine {key}", instance, mode, policy_of(new), found))

    async def _preflight(self, wish: MoveRequest, mode: Mode) -> Findings:
        """Return the preflight of an edit. Where another NAD needs a restart anyway, only the NAD counts."""
        if mode.name != "restart":
            return await read_findings(self._client, await read_machine(self._client, wish.machine), wish)
        problem = target_problem(await get_or_none(self._client, NADS, wish.to), wish.to)
        return Findings(both=(problem,)) if problem else Findings()

    async def _validate(self, request: AdmissionRequest) -> None:
        new, old = new_of(NETWORK_SWAPS, request), old_of(NETWORK_SWAPS, request)
        if new is None:
            if old is not None and not await self._is_manager(request.user_info):
                check_deletion(old)
            return
        if request.sub_resource:
            await self._check_status(new, old, request.user_info)
        elif old is not None:
            check_change(new.spec, old)
        else:
            await self._check_new(_placed(new, request), request)

    async def _check_status(self, new: NetworkSwap, old: NetworkSwap | None, user: UserInfo) -> None:
        node = agent_node(user, self._node_of_pod)
        if node is not None:
            check_report(new, old, node)
        elif not await self._is_manager(user):
            raise Denied(f"{title_of(new)}: status is written by Lanloom only")

    async def _check_new(self, swap: NetworkSwap, request: AdmissionRequest) -> None:
        check(swap)
        check_isolation(swap, self._isolation)
        stored = tuple(self._swaps.store.items())
        await recheck(
            lambda swaps: check_only(swap, (*swaps, *self._in_flight.of(NETWORK_SWAPS))),
            cached_then_live(
                stored, lambda: list_or_empty(self._client, NETWORK_SWAPS, swap.metadata.namespace)
            ),
        )
        self._in_flight.add(NETWORK_SWAPS, request, swap, None)


def _placed(swap: NetworkSwap, request: AdmissionRequest) -> NetworkSwap:
    """Return the swap in its namespace: on creation only the request may name it."""
    if swap.metadata.namespace:
        return swap
    return replace(swap, metadata=replace(swap.metadata, namespace=request.namespace))


WEBHOOKS: tuple[Webhook, ...] = (
    Webhook("validate", NETWORK_SWAPS, EVERY, LiveUpdateAdmission.validate_swap),
    Webhook("refer", VIRTUAL_MACHINES, WRITTEN, LiveUpdateAdmission.validate_machine),
)
"""What the API server asks about."""

"""The webhooks' side of address management: the same rules as the command line's, on objects that users write.

`networks` and `nics` validate what users write and fill in what they left out, `nads` the routes of pods.

Who may write what is decided here: statuses only managers, and NICs only the agent of the node that their pod or
machine runs on. Statuses say which NIC owns which address, and the allocator goes by nothing else. A compromised agent
can neither take addresses from others nor give some away. Where a machine runs is read live each time, and so is a pod
that the watch has not brought yet: the object was made a moment ago.
"""

from collections.abc import AsyncIterator, Callable

from msgspec.structs import replace

from lanloom.api.admission import (
    AdmissionRequest,
    Unreadable,
    UserInfo,
    Verdict,
    new_of,
    old_of,
)
from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import NETWORKS, NICS, NODE_LABEL, STICKY_FOR, Network, Nic
from lanloom.api.kubevirt import (
    LAUNCHER_LABELS,
    VIRTUAL_MACHINE_INSTANCES,
    instance_of,
    machine_uid_of,
)
from lanloom.api.lan import LANS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.ipam.admission.nads import (
    check_lan_wires,
    check_nad_wires,
    check_network_wires,
    nad_faults,
)
from lanloom.features.ipam.admission.networks import (
    check_names_in_flight,
    check_network_change,
    network_defaults,
)
from lanloom.features.ipam.admission.nics import check_nic_change, nic_defaults
from lanloom.features.ipam.admission.owners import (
    PodOf,
    check_owner_is_there,
    check_owner_kind,
    find_pod,
)
from lanloom.features.ipam.reader import CachedContext
from lanloom.features.ipam.wirereader import Wires
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.nads.faults import check_faults
from lanloom.refusals import Denied
from lanloom.runtime.identity import Managers
from lanloom.runtime.webhooktable import EVERY, WRITTEN, TableAdmission, Webhook
from lanloom.text import quote

AgentOf = Callable[[UserInfo], str | None]
"""The node whose agent a user is: None for any other user, empty for an agent of no known node."""

STATUS = "status"


class IpamAdmission(TableAdmission):
    """Answer admission requests about networks and NICs.

    `cached` is the manager's view of a network; `user` is the username that this manager
    authenticates as, empty if that is not known. `wires` tells which networks share a wire or a name, `pods` what its
    watch of pods has brought, and `in_flight` the networks and NADs that it has not brought yet.
    """

    def __init__(
        self,
        client: Client,
        cached: CachedContext,
        agent_of: AgentOf,
        user: str = "",
        wires: Wires | None = None,
        pods: PodOf = lambda _: None,
        in_flight: InFlight | None = None,
    ) -> None:
        super().__init__(WEBHOOKS)
        self._pods = pods
        self._wires = wires
        self._in_flight = in_flight or InFlight()
        self._client = client
        self._cached = cached
        self._agent_of = agent_of
        self._managers = Managers(client, user)

    def default_network(self, request: AdmissionRequest) -> Verdict:
        """Fill in what a network leaves out."""
        new = new_of(NETWORKS, request)
        if request.sub_resource or new is None:
            return Verdict()
        return network_defaults(new, old_of(NETWORKS, request))

    def default_nic(self, request: AdmissionRequest) -> Verdict:
        """Fill in what a NIC leaves out."""
        new = new_of(NICS, request)
        return Verdict() if request.sub_resource or new is None else nic_defaults(new)

    async def validate_nad(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse the routes of a NAD."""
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return ()  # the webhook of VLANs says what is wrong
        warnings = check_faults(new, old, nad_faults) if new is not None else ()
        if self._wires is not None:
            warnings += await check_nad_wires(self._client, self._wires, self._in_flight, new, old)
        if new is not None:
            self._in_flight.add(NADS, request, new, old)
        return warnings

    async def validate_lan(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse a LAN that brings networks together."""
        if request.sub_resource or self._wires is None:
            return ()
        try:
            new, old = new_of(LANS, request), old_of(LANS, request)
        except Unreadable:
            return ()  # the webhook of LANs says what is wrong
        return await check_lan_wires(self._client, self._wires, self._in_flight, new, old)

    async def validate_network(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse changes of a network."""
        new, old = new_of(NETWORKS, request), old_of(NETWORKS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Network {new.metadata.name}")
            check_network_status(new, old)
            return ()
        warnings = await check_network_change(self._client, self._wires, new, old)
        if self._wires is not None:
            warnings += await check_network_wires(self._client, self._wires, self._in_flight, new, old)
        if new is not None:
            check_names_in_flight(self._in_flight, new, old)
            self._in_flight.add(NETWORKS, request, new, old)
        return warnings

    async def validate_nic(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Allow or refuse changes of a NIC."""
        new, old = new_of(NICS, request), old_of(NICS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Nic {new.metadata.key}")
            await check_nic_status(self._client, self._cached, new, old)
            return ()
        node = self._agent_of(request.user_info)
        if node is not None:
            await check_agent(self._client, self._pods, node, new, old)
        by_manager = node is None and await self._managers.include(request.user_info)
        warnings = await check_nic_change(self._client, self._cached, new, old, by_manager=by_manager)
        if node is None and new is not None:
            if not by_manager:
                check_owner_kind(new, old)
            await check_owner_is_there(self._client, self._pods, new, old)
        return warnings


WEBHOOKS = (
    Webhook("mutate", NETWORKS, WRITTEN, IpamAdmission.default_network),
    Webhook("mutate", NICS, ("CREATE",), IpamAdmission.default_nic, unless=NODE_LABEL),
    Webhook("validate", NETWORKS, EVERY, IpamAdmission.validate_network),
    Webhook("validate", NICS, EVERY, IpamAdmission.validate_nic),
    Webhook("validate", NADS, EVERY, IpamAdmission.validate_nad),
    Webhook("validate", LANS, WRITTEN, IpamAdmission.validate_lan),
)
"""The resources that the webhooks review, with the status subresources."""


def check_network_status(new: Network, old: Network | None) -> None:
    """Check that a network's epoch does not go back. Raises Denied."""
    before = old.status.allocator.epoch if old is not None else 0
    if new.status.allocator.epoch < before:
        raise Denied(
            f"Network {new.metadata.name}: status.allocator.epoch is {before} and can't decrease; "
            "read the object again"
        )


async def check_nic_status(client: Client, cached: CachedContext, new: Nic, old: Nic | None) -> None:
    """Check that no allocator that is known to be deposed writes addresses. Raises Denied, KubeError.

    The versions that writes are based on keep addresses apart already, so the watch's word is enough here.
    """
    name = new.status.network
    if not name or (old is not None and old.status == new.status):
        return
    network = cached(name, new.metadata.namespace, (), "").network
    network = network or await get_or_none(client, NETWORKS, Key("", name))
    if network is None:
        return  # gone, and no allocator gives its addresses away
    present = network.status.allocator
    if new.status.epoch < present.epoch:
        raise Denied(
            f"Nic {new.metadata.key}: status.epoch is {new.status.epoch}, but {present.holder or 'another manager'} "
            f"now allocates the addresses of Network {name}, with epoch {present.epoch}"
        )


async def check_user(managers: Managers, user: UserInfo, title: str) -> None:
    """Raise Denied for a user that is no manager."""
    if not await managers.include(user):
        raise Denied(f"{title}: status is written by Lanloom's manager only; change the spec instead")


async def check_agent(client: Client, pods: PodOf, node: str, new: Nic | None, old: Nic | None) -> None:
    """Raise Denied, and KubeError if the pods can't be read. `node` is the agent's own, empty for an unknown one."""
    nic = new or old
    if nic is None:
        return
    verb = "delete" if new is None else "create" if old is None else "update"
    title = f"can't {verb} Nic {nic.metadata.key} because"
    if old is None and not (_refers_to_owner(nic) or (nic.is_sticky and not nic.metadata.owner_references)):
        raise Denied(
            f"{title} an agent must name its owner with the uid, in spec.owner and as an owner reference, "
            f"or by its name alone with annotation {STICKY_FOR}"
        )
    if new is not None and new.spec.force:
        raise Denied(f"{title} an agent is not allowed to request reserved addresses; omit spec.force")
    if new is not None and old is not None and _protected(new) != _protected(old):
        raise Denied(f"{title} an agent is allowed to change only the requested network and addresses")
    if new is None and await _has_left(client, nic):
        return
    if not node or not await _runs_on(client, pods, nic, node):
        raise Denied(
            f'{title} {nic.spec.owner.kind} {quote(nic.spec.owner.name)} does not run on node "{node}", '
            "whose agent is allowed to write only NICs of workloads on that node"
        )


def _protected(nic: Nic) -> tuple[object, ...]:
    """Return the fields of a NIC that an agent may not change."""
    meta = nic.metadata
    return replace(nic.spec, network="", ips=(), release=()), meta.finalizers, meta.owner_references


def _refers_to_owner(nic: Nic) -> bool:
    uid = nic.spec.owner.uid
    return uid != "" and any(item.uid == uid for item in nic.metadata.owner_references)


async def _has_left(client: Client, nic: Nic) -> bool:
    """Return whether the NIC was of a pod that is gone or has ended: it has no owner, and nothing is lost with it.

    The NIC of a name is not: its addresses are kept for the next pod.
    """
    if nic.spec.owner.kind != PODS.kind or not nic.spec.owner.uid:
        return False
    pod = await get_or_none(client, PODS, Key(nic.metadata.namespace, nic.spec.owner.name))
    return pod is None or pod.metadata.uid != nic.spec.owner.uid or pod.has_ended


async def _runs_on(client: Client, pods: PodOf, nic: Nic, node: str) -> bool:
    is_machine = nic.spec.owner.kind == "VirtualMachine"
    async for pod in _machine_pods(client, nic) if is_machine else _own_pod(client, pods, nic):
        if pod.spec.node_name == node and not pod.has_ended:
            return True
    return False


async def _own_pod(client: Client, pods: PodOf, nic: Nic) -> AsyncIterator[Pod]:
    if nic.spec.owner.kind == PODS.kind:
        pod = await find_pod(client, pods, nic)
        if pod is not None and nic.spec.owner.uid in ("", pod.metadata.uid):
            yield pod


async def _machine_pods(client: Client, nic: Nic) -> AsyncIterator[Pod]:
    """Yield the pods in which the instance of that machine runs, or that instance if it has no machine."""
    namespace, owner = nic.metadata.namespace, nic.spec.owner
    instance = await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, Key(namespace, owner.name))
    if instance is None or owner.uid not in ("", instance.metadata.uid, machine_uid_of(instance)):
        return
    for pod in (await client.list(PODS, namespace, labels=LAUNCHER_LABELS)).items:
        if instance_of(pod) == (owner.name, instance.metadata.uid):
            yield pod

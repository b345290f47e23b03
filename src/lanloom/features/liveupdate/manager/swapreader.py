"""What is known of a swap: by the watches, or by a live read. A phase is entered only by a live read.

Watches lag: a machine that is not in a store may have started a moment ago. Objects that decide are therefore read from
the API server before a swap enters another phase; as long as it stays in one, the stores do.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    CREATED_BY,
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    nad_of,
)
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import FINAL, NetworkSwap
from lanloom.api.meta import Key, Object, is_label_value
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.manager.informers import BY_MACHINE, SwapInformers
from lanloom.features.liveupdate.rules.holds import is_held
from lanloom.features.liveupdate.rules.launcher import (
    UnreadableStatus,
    attached_of,
    from_text,
    interface_of,
    launcher_of,
    nic_of,
    pod_interface,
    reported_result,
    result_on,
)
from lanloom.features.liveupdate.rules.mode import Mode, mode_of
from lanloom.features.liveupdate.rules.networks import mtu_of
from lanloom.features.liveupdate.rules.phases import Claim, SwapInputs
from lanloom.features.liveupdate.rules.preflight import Facts, check, forbidden
from lanloom.features.liveupdate.rules.start import RESTART_REQUIRED
from lanloom.features.liveupdate.rules.updates import MACHINE_LABEL
from lanloom.kube.conditions import is_true
from lanloom.kube.lookup import get_or_none, list_or_empty
from lanloom.kube.ports import Client
from lanloom.kube.store import MutationCache

T = TypeVar("T", bound=Object)


class Objects(Struct, frozen=True, kw_only=True):
    """The objects of a swap at one moment. `pods` are those in which instances of its machine run."""

    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None
    pods: tuple[Pod, ...] = ()
    migrations: tuple[VirtualMachineInstanceMigration, ...] = ()
    source: NetworkAttachmentDefinition | None = None
    target: NetworkAttachmentDefinition | None = None
    mode: Mode | None = None

    @property
    def launcher(self) -> Pod | None:
        """The pod in which the instance runs now."""
        return launcher_of(self.instance, self.pods) if self.instance is not None else None


class SwapReader:
    """Read swaps. `now` is in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        informers: SwapInformers,
        *,
        now: Callable[[], float],
        isolation: NamespaceIsolation = NO_ISOLATION,
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._isolation = isolation

    def swaps(self) -> MutationCache[NetworkSwap]:
        """Return the swaps with what their owner writes."""
        return self._informers.swaps.mutations()

    def stored(self, swap: NetworkSwap) -> Objects:
        """Return the objects of a swap as the watches have brought them."""
        informers, key = self._informers, _machine_key(swap)
        return Objects(
            machine=informers.machines.store.get(key),
            instance=informers.instances.store.get(key),
            pods=informers.pods.store.by(BY_MACHINE, str(key)),
            migrations=informers.migrations.store.by(BY_MACHINE, str(key)),
            source=informers.nads.store.get(swap.spec.source),
            target=informers.nads.store.get(swap.spec.target),
            mode=mode_of(informers.kubevirts.store.items()),
        )

    async def live(self, swap: NetworkSwap) -> Objects:
        """Return the same as the API server has it now. Raises KubeError."""
        key, client = _machine_key(swap), self._client
        known = self.stored(swap)
        return Objects(
            machine=await get_or_none(client, VIRTUAL_MACHINES, key),
            instance=await get_or_none(client, VIRTUAL_MACHINE_INSTANCES, key),
            pods=await self._list(PODS, key.namespace, f"{CREATED_BY}={swap.spec.uid}", known.pods),
            migrations=await self._list(
                MIGRATIONS, key.namespace, f"{MACHINE_LABEL}={key.name}", known.migrations
            ),
            source=await get_or_none(client, NADS, swap.spec.source),
            target=await get_or_none(client, NADS, swap.spec.target),
            mode=mode_of(await list_or_empty(client, KUBEVIRTS)),
        )

    async def _list(
        self, resource: Resource[T], namespace: str, labels: str, known: tuple[T, ...]
    ) -> tuple[T, ...]:
        """Return the objects with the label that KubeVirt gives them, and those that are `known` without it."""
        value = labels.partition("=")[2]
        found = (
            await list_or_empty(self._client, resource, namespace, labels=labels)
            if is_label_value(value)
            else ()
        )
        keys = {item.metadata.key for item in found}
        others = [
            await get_or_none(self._client, resource, item.metadata.key)
            for item in known
            if item.metadata.key not in keys
        ]
        return (*found, *(item for item in others if item is not None))

    def result(self, swap: NetworkSwap, objects: Objects) -> dict[str, Any]:
        """Return what network-status is to say of the new network."""
        networks = self._informers.networks.seen_from(swap.metadata.namespace)
        former, mtu = from_text(swap.status.former_result), mtu_of(objects.target, networks)
        return result_on(objects.target, swap.status.addresses, mtu, former)

    def inputs(
        self,
        swap: NetworkSwap,
        objects: Objects,
        *,
        claim: Claim,
        refused: str = "",
        allocates: bool = False,
    ) -> SwapInputs:
        """Return all that is known of a swap. `allocates` says that swaps get addresses."""
        pod, machine = objects.launcher, _own_machine(swap, objects)
        migrating = _migrating(objects)
        facts = Facts(
            title=f"VirtualMachineInstance {_machine_key(swap)}",
            network=swap.spec.network,
            leaves=swap.spec.source,
            enters=swap.spec.target,
            machine=objects.instance,
            pod=pod,
            pods=objects.pods,
            source=objects.source,
            target=objects.target,
            migrating=migrating,
            networks=self._informers.networks.seen_from(swap.metadata.namespace),
            mode=objects.mode,
            isolation=self._isolation,
            force=swap.spec.force,
            until_restart=swap.spec.until_restart,
            allocates=allocates and swap.status.phase != "",
        )
        return SwapInputs(
            swap=swap,
            machine=objects.instance,
            pod=pod.metadata.name if pod is not None else "",
            pod_uid=_uid_on(swap, objects),
            reported=_reported(swap, objects),
            attached=_attached(swap, objects),
            named=named_in(machine, swap.spec.network),
            link=link_in(machine, swap.spec.network),
            guest_link=_guest_link(objects.instance, swap.spec.network),
            with_kubevirt=objects.mode is not None and objects.mode.name != "full",
            asked=_asked(objects.instance, swap.spec.network),
            restart_due=machine is not None and is_true(machine.status.conditions, RESTART_REQUIRED),
            held=objects.instance is not None and is_held(objects.instance, swap.metadata.uid),
            findings=check(facts),
            claim=claim,
            migrating=migrating,
            conflicting=self._conflicting_swap(swap),
            refused=refused,
            forbidden=forbidden(facts),
            snapshot=machine.status.snapshot_in_progress if machine is not None else "",
            now=self._now(),
        )

    def of_machine(self, key: Key) -> tuple[NetworkSwap, ...]:
        """Return the swaps of an instance that have not ended."""
        found = self._informers.swaps.store.by(BY_MACHINE, str(key))
        return tuple(swap for swap in found if swap.status.phase not in FINAL)

    def is_moved_by_another(self, swap: NetworkSwap) -> bool:
        """Return whether another swap of the same NIC has not ended."""
        return any(self._others(swap))

    def _conflicting_swap(self, swap: NetworkSwap) -> str:
        """Return an older swap of the same NIC that has not ended."""
        mine = _order(swap)
        return next((other.metadata.name for other in self._others(swap) if _order(other) < mine), "")

    def _others(self, swap: NetworkSwap) -> Iterator[NetworkSwap]:
        for other in self.of_machine(_machine_key(swap)):
            if other.metadata.uid != swap.metadata.uid and other.spec.network == swap.spec.network:
                yield other


def _own_machine(swap: NetworkSwap, objects: Objects) -> VirtualMachine | None:
    """Return the VirtualMachine whose NIC moves; None where it is gone, and another one has its name by now."""
    machine, asked = objects.machine, swap.metadata.creation_timestamp
    made = machine.metadata.creation_timestamp if machine is not None else None
    is_later = made is not None and asked is not None and made > asked  # RFC 3339 in UTC sorts as text
    return None if is_later else machine


def _migrating(objects: Objects) -> str:
    """Return what migrates the machine: a request that has not ended, or a migration without one."""
    instance = objects.instance
    names = sorted(item.metadata.name for item in objects.migrations if not item.is_final)
    state = instance.status.migration_state if instance is not None else None
    if not names and state is not None and state.target_pod and not state.completed and not state.failed:
        return f"to {state.target_node or 'another node'}"
    return names[0] if names else ""


def named_in(machine: VirtualMachine | None, network: str) -> Key | None:
    """Return the NAD that a VirtualMachine names for a network; None where it names none."""
    template = machine.spec.template if machine is not None else None
    nic = nic_of(template.spec, network) if template is not None else None
    if machine is None or nic is None or nic.multus is None:
        return None
    return nad_of(nic.multus, machine.metadata.namespace)


def _asked(instance: VirtualMachineInstance | None, network: str) -> Key | None:
    """Return the NAD that an instance names for a network."""
    nic = nic_of(instance.spec, network) if instance is not None else None
    if instance is None or nic is None or nic.multus is None:
        return None
    return nad_of(nic.multus, instance.metadata.namespace)


def link_in(machine: VirtualMachine | None, network: str) -> str | None:
    """Return the state of a NIC in a VirtualMachine's template; None where it has no such NIC."""
    template = machine.spec.template if machine is not None else None
    interface = interface_of(template.spec, network) if template is not None else None
    return interface.state if interface is not None else None


def _guest_link(instance: VirtualMachineInstance | None, network: str) -> str:
    reported = instance.status.interfaces if instance is not None else ()
    return next((item.link_state for item in reported if item.name == network), "")


def _uid_on(swap: NetworkSwap, objects: Objects) -> str:
    """Return the uid of the pod whose port the swap moves; empty where it is gone.

    A pod that the machine has left for another node counts as gone: it ends, and its port with it.
    """
    pod = objects.launcher
    if swap.status.pod_uid == "" or (pod is not None and pod.metadata.uid == swap.status.pod_uid):
        return pod.metadata.uid if pod is not None else ""
    if pod is not None:
        return ""
    # Two pods of the machine on one node, or none that is certain: as long as the pod is there, the port is.
    present = {item.metadata.uid for item in objects.pods if not item.has_ended}
    return swap.status.pod_uid if swap.status.pod_uid in present else ""


def attached_in(pod: Pod, instance: VirtualMachineInstance, network: str) -> Key | None:
    """Return the NAD of a network as Multus tells it in the launcher pod; None where that can't be read."""
    try:
        return attached_of(pod, pod_interface(instance, network)).nad
    except UnreadableStatus:
        return None


def _attached(swap: NetworkSwap, objects: Objects) -> Key | None:
    pod, instance = objects.launcher, objects.instance
    return attached_in(pod, instance, swap.spec.network) if pod is not None and instance is not None else None


def _reported(swap: NetworkSwap, objects: Objects) -> str:
    """Return what network-status tells of the network of the NIC; empty where that can't be read."""
    pod, instance = objects.launcher, objects.instance
    if pod is None or instance is None:
        return ""
    try:
        return reported_result(pod, pod_interface(instance, swap.spec.network))
    except UnreadableStatus:
        return ""


def _machine_key(swap: NetworkSwap) -> Key:
    return Key(swap.metadata.namespace, swap.spec.machine)


def _order(swap: NetworkSwap) -> tuple[Any, ...]:
    """Put swaps that began before those that wait, then order by age."""
    waits = swap.status.phase in ("", "Pending")
    return waits, swap.metadata.creation_timestamp or "", swap.metadata.uid

"""What must hold of machines and their networks: at every write, and when all is quiet.

A port has one owner: the swap that moves it, or the migration that leaves it behind. A machine keeps its network as
long as no user has unplugged it: a port that stands on no bridge, or that Multus plugs again under it, is a network
lost. What others begin at the same moment can't be prevented: what was there when a manager looked counts against it.
"""

from collections.abc import Callable, Iterator

from lanloom.api.kubevirt import (
    MIGRATIONS,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceSpec,
    instance_of,
    nad_of,
    pod_interface_name,
)
from lanloom.api.liveupdate import FINAL, NETWORK_SWAPS, QUIET, NetworkSwap
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NETWORK_STATUS, interfaces_of
from lanloom.kube.conditions import find
from lanloom_lab.kubevirt.updater import NO_MIGRATION
from tests.sim.vm_state import PLACE, State

ACTIVE = frozenset({"Syncing", "Moving", "Recording", "UntilRestart", "Reverting"})
"""The phases of a swap in which a port may be moved."""

AWAY_SECONDS = 20.0
"""How long a port may stand on no bridge: a node without its agent keeps one that long, and no longer."""


class Verifier:
    """Looks at every write, in the order in which they are committed."""

    def __init__(
        self, state: State, note: Callable[[str], None], now: Callable[[], float], *, companion: bool
    ) -> None:
        self._state = state
        self.companion = companion
        self._note = note
        self._now = now
        self._since: dict[str, float] = {}
        self.harm: list[str] = []
        self.succeeded = self.reverted = self.migrated = self.evicted = 0
        state.listeners.append(self._see)

    def complain(self, text: str) -> None:
        """Something that must never be."""
        self.harm.append(text)
        self._note(f"HARM: {text}")

    def _see(self, plural: str, before: Object | None, after: Object | None) -> None:
        if plural == NETWORK_SWAPS.plural and isinstance(after, NetworkSwap):
            self._take_swap(before if isinstance(before, NetworkSwap) else None, after)
        elif plural == MIGRATIONS.plural and isinstance(after, VirtualMachineInstanceMigration):
            self._take_migration(before, after)

    def _take_swap(self, old: NetworkSwap | None, new: NetworkSwap) -> None:
        phase = new.status.phase
        if old is not None and old.status.phase == phase:
            return
        self._note(f"  swap {_title(new)} is {phase or 'new'}: {new.status.message}"[:220])
        if old is not None and old.status.phase in FINAL:
            self.complain(f"swap {_title(new)} was {old.status.phase}, and is {phase}")
        if phase in ACTIVE:
            self._since.setdefault(new.metadata.uid, self._now())
            for other in self.active(new.spec.uid):
                if other.metadata.uid != new.metadata.uid and other.spec.network == new.spec.network:
                    self.complain(f"swaps {_title(new)} and {_title(other)} own one port")
        if phase == "Succeeded":
            self.succeeded += 1
            self._judge_end(new, new.spec.target)
            self._judge_success(new)
        elif phase == "Reverted":
            self.reverted += 1
            if new.status.started_at:
                self._judge_end(new, new.spec.source)

    def _judge_end(self, swap: NetworkSwap, nad: Key) -> None:
        """Where a swap says that it ended, port and network-status are, if the pod is still there."""
        pod = next(
            (item for item in self._state.pods.values() if item.metadata.uid == swap.status.pod_uid), None
        )
        instance = self._state.instances.get(Key(swap.metadata.namespace, swap.spec.machine))
        if pod is None or instance is None or instance.status.node_name != pod.spec.node_name:
            return
        interface = pod_interface_name(swap.spec.network)
        port = self._state.ports.get((pod.metadata.uid, interface))
        if port is not None and not self._state.is_on(port, nad):
            self.complain(
                f"swap {_title(swap)} is {swap.status.phase}, and the port is on {port.binding.title}"
            )
        told = interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, "")).get(interface)
        if told is not None and told != str(nad):
            self.complain(f"swap {_title(swap)} is {swap.status.phase}, and network-status says {told}")

    def _judge_success(self, swap: NetworkSwap) -> None:
        """Alongside KubeVirt, no swap succeeds of which the instance knows nothing, though its machine does."""
        key = Key(swap.metadata.namespace, swap.spec.machine)
        vm, vmi = self._state.machines.get(key), self._state.instances.get(key)
        if not self.companion or vm is None or vmi is None or vmi.metadata.uid != swap.spec.uid:
            return
        template = vm.spec.template
        assert template is not None
        wanted = named(template.spec, swap.spec.network, key.namespace)
        if wanted == swap.spec.target and named(vmi.spec, swap.spec.network, key.namespace) != wanted:
            self.complain(f"swap {_title(swap)} is Succeeded, and the instance is not to be there")

    def updates(self, key: Key, what: str) -> None:
        """KubeVirt's workload updater migrates or evicts a machine: needlessly, if a swap alone is the reason."""
        vmi = self._state.instances[key]
        self._note(f"  {what} of {key.name} by the workload updater")
        self.evicted += what == "eviction"
        pods = (item for item in self._state.pods_of(vmi.metadata.uid))
        pod = next((item for item in pods if item.spec.node_name == vmi.status.node_name), None)
        if pod is None:
            return
        told = interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, ""))
        other = [
            item.name
            for item in vmi.spec.networks
            if item.multus is not None
            and told.get(pod_interface_name(item.name), "") != str(nad_of(item.multus, key.namespace))
        ]
        if other and all(self._is_by_swap(vmi, pod.metadata.uid, name) for name in other):
            self.complain(f"needless {what} of {key.name}: {', '.join(other)} moved in place")

    def _is_by_swap(self, vmi: VirtualMachineInstance, pod: str, network: str) -> bool:
        wanted = named(vmi.spec, network, PLACE)
        if any(
            wanted in (swap.spec.source, swap.spec.target)
            for swap in self.active(vmi.metadata.uid)
            if swap.spec.network == network
        ):
            return True
        port = self._state.ports.get((pod, pod_interface_name(network)))
        return port is not None and wanted in self._state.nads and self._state.is_on(port, wanted)

    def _take_migration(self, old: Object | None, new: VirtualMachineInstanceMigration) -> None:
        before = old.status.phase if isinstance(old, VirtualMachineInstanceMigration) else None
        if before == new.status.phase:
            return
        self._since.setdefault(new.metadata.name, self._now())
        self._note(f"  migration {new.metadata.name} of {new.spec.vmi_name} is {new.status.phase or 'new'}")
        self.migrated += new.status.phase == "Succeeded"

    def begins_swap(self, key: Key, looked: float) -> None:
        """A manager lets a swap move its port; it has looked at the machine then."""
        swap = self._state.swaps.get(key)
        if swap is None:
            return
        for name in self.migrating(swap.spec.machine):
            if self._since[name] < looked:
                self.complain(f"swap {_title(swap)} begins beside the migration {name}")

    def begins_migration(self, machine: str, looked: float) -> None:
        """A manager requests a migration; it has looked at the machine then."""
        instance = next((item for key, item in self._state.instances.items() if key.name == machine), None)
        for swap in self.active(instance.metadata.uid) if instance is not None else ():
            if self._since[swap.metadata.uid] < looked:
                self.complain(f"a migration of {machine} is requested beside the swap {_title(swap)}")

    def active(self, uid: str) -> list[NetworkSwap]:
        """The swaps of an instance that may move a port now."""
        swaps = self._state.swaps.values()
        return [item for item in swaps if item.spec.uid == uid and item.status.phase in ACTIVE]

    def migrating(self, machine: str) -> list[str]:
        """The migrations of a machine that are not over."""
        found = self._state.migrations.values()
        return sorted(
            item.metadata.name for item in found if item.spec.vmi_name == machine and not item.is_final
        )


def named(spec: VirtualMachineInstanceSpec, network: str, namespace: str) -> Key | None:
    """Return the NAD that a machine or an instance names for a network."""
    multus = next((item.multus for item in spec.networks if item.name == network), None)
    return nad_of(multus, namespace) if multus is not None else None


def _title(swap: NetworkSwap) -> str:
    spec = swap.spec
    return f"{swap.metadata.name} ({spec.machine}/{spec.network} {spec.from_} → {spec.to})"


def complaints(state: State, reasons: Callable[[Key], str]) -> Iterator[str]:
    """Everything that is not as it should be when all is quiet.

    `reasons` tells what was reported about why a machine is not where it is wanted; empty for nothing.
    """
    for swap in state.swaps.values():
        if swap.status.phase not in QUIET:
            yield f"swap {_title(swap)} is still {swap.status.phase or 'new'}: {swap.status.message}"
        elif not swap.status.message:
            yield f"swap {_title(swap)} is {swap.status.phase}, and nobody says why"
    for migration in state.migrations.values():
        if not migration.is_final and not _is_stuck(state, Key(PLACE, migration.spec.vmi_name)):
            yield f"migration {migration.metadata.name} is still {migration.status.phase or 'new'}"
    for key, vm in state.machines.items():
        vmi = state.instances.get(key)
        if vmi is None or vmi.status.phase != "Running":
            if not reasons(key) and all(nad in state.nads for nad in _nads(vm)):
                yield f"{key} does not run"
            continue
        yield from _machine_complaints(state, vm, vmi, reasons)


def _is_stuck(state: State, key: Key) -> bool:
    """Whether a machine is to be on a network that is not there: KubeVirt migrates it endlessly then."""
    vm = state.machines.get(key)
    return vm is not None and any(nad not in state.nads for nad in _nads(vm))


def _nads(vm: VirtualMachine) -> list[Key]:
    template = vm.spec.template
    networks = template.spec.networks if template is not None else ()
    return [nad_of(item.multus, vm.metadata.namespace) for item in networks if item.multus is not None]


def _machine_complaints(
    state: State, vm: VirtualMachine, vmi: VirtualMachineInstance, reasons: Callable[[Key], str]
) -> Iterator[str]:
    key, template = vm.metadata.key, vm.spec.template
    assert template is not None
    pods = [pod for pod in state.pods_of(vmi.metadata.uid) if pod.spec.node_name == vmi.status.node_name]
    if len(pods) != 1 or (len(state.pods_of(vmi.metadata.uid)) != 1 and not _is_stuck(state, key)):
        yield f"{key} runs in {len(pods)} pods of {len(state.pods_of(vmi.metadata.uid))}"
        return
    held = _until_restart(state, vmi)
    if NO_MIGRATION in vmi.metadata.annotations and not held:
        yield f"{key} is kept from KubeVirt's workload updater, and nothing moves any more"
    told = interfaces_of(pods[0].metadata.annotations.get(NETWORK_STATUS, ""))
    asked = {item.name: item.multus for item in vmi.spec.networks}
    absent = {item.name for item in template.spec.interfaces if item.state == "absent"}
    for item in template.spec.networks:
        interface = pod_interface_name(item.name)
        port = state.ports.get((pods[0].metadata.uid, interface))
        found = told.get(interface)
        if port is not None and not state.is_on(port, held.get(item.name) or _key(found)):
            yield f"{key}: the port of {item.name} is on {port.binding.title}, and network-status says {found}"
        if item.multus is None or item.name in absent:
            continue
        wanted = nad_of(item.multus, key.namespace)
        multus = asked.get(item.name)
        instance = nad_of(multus, key.namespace) if multus is not None else None
        if (str(wanted), str(wanted)) != (str(instance), found) and not reasons(key):
            yield f"{key}: {item.name} is to be on {wanted}, the instance says {instance}, and it is on {found}"


def _until_restart(state: State, vmi: VirtualMachineInstance) -> dict[str, Key]:
    """The networks of an instance on which only a swap says that they are."""
    found = (item for item in state.swaps.values() if item.spec.uid == vmi.metadata.uid)
    return {item.spec.network: item.spec.target for item in found if item.status.phase == "UntilRestart"}


def _key(title: str | None) -> Key | None:
    place, _, name = (title or "").partition("/")
    return Key(place, name) if name else None


def reason_of(vm: VirtualMachine, vmi: VirtualMachineInstance | None, types: tuple[str, ...]) -> str:
    """What conditions say about why a machine is not where it is wanted: the first that is not well."""
    conditions = (*vm.status.conditions, *(vmi.status.conditions if vmi is not None else ()))
    for type in types:
        condition = find(conditions, type)
        bad = "True" if type == "RestartRequired" else "False"
        if condition is not None and condition.status == bad and condition.message:
            return f"{type} {condition.status} {condition.reason}: {condition.message}"
    return ""


def owner_of(state: State, pod_uid: str) -> str:
    """The machine of a pod."""
    pod = next((item for item in state.pods.values() if item.metadata.uid == pod_uid), None)
    return instance_of(pod)[0] if pod is not None else ""

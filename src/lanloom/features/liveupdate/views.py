"""Running machines and their networks as people and programs are shown them, from what the API server says now."""

import asyncio
from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.core import PODS
from lanloom.api.kubevirt import (
    LAUNCHER_LABELS,
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VmInterface,
    VmNic,
)
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import NETWORK_SWAPS, POLICY, NetworkSwap
from lanloom.api.meta import Condition, Key
from lanloom.cli.details import EventView
from lanloom.features.liveupdate.machines import Machine, Objects, machines_of, wanted_nad
from lanloom.features.liveupdate.rules.evaluation import Evaluation, evaluate
from lanloom.features.liveupdate.rules.mode import Mode, mode_of
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT, WAITS
from lanloom.kube.conditions import find
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied
from lanloom.text import listed, quote

MIGRATABLE, RESTART_REQUIRED, MIGRATION_REQUIRED = "LiveMigratable", "RestartRequired", "MigrationRequired"

POD_NETWORK = "pod network"
"""What is shown in place of a NAD for a NIC on the pods' own network."""

_WELL = frozenset({"Ready", "Stopped"})


class NicView(Struct, frozen=True, kw_only=True):
    """A NIC: the NADs that it is to have, that its instance asks for, and that it is attached to, as `namespace/name`.

    The pods' own network is `POD_NETWORK`. `wanted` is empty for a NIC that is to go, the others where nothing is there
    or known yet.
    """

    name: str
    binding: str = ""
    mac: str = ""
    interface: str = ""
    wanted: str = ""
    instance: str = ""
    observed: str = ""
    state: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether it is where it is to be."""
        return self.wanted == self.instance == self.observed


class SwapView(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A move in place. `gap` is how long the port had no network, in milliseconds; 0 if it is not known."""

    name: str
    network: str
    from_: str
    to: str
    phase: str
    message: str = ""
    gap: float = 0.0
    created: str = ""


class MigrationView(Struct, frozen=True, kw_only=True):
    """A move to another node."""

    name: str
    phase: str
    source: str = ""
    target: str = ""
    created: str = ""


class MachineView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine. `state` is one word, `message` says why, with the remedy; `since` is RFC 3339, empty if not known.

    `migratable` is None for a machine that does not tell. `conditions` are those of machine and instance, each once.
    """

    namespace: str
    name: str
    uid: str
    state: str
    message: str = ""
    since: str = ""
    node: str = ""
    policy: str = "migrate"
    migratable: bool | None = None
    nics: tuple[NicView, ...] = ()
    swaps: tuple[SwapView, ...] = ()
    migrations: tuple[MigrationView, ...] = ()
    conditions: tuple[Condition, ...] = ()
    events: tuple[EventView, ...] = ()
    instance_uid: str = ""

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to wait for and nothing to be done."""
        return self.state in _WELL


async def read_objects(client: Reader, namespace: str = "") -> Objects:
    """Read all machines of a namespace, or of all. Raises KubeError, and Denied where KubeVirt is not installed."""
    try:
        machines = (await client.list(VIRTUAL_MACHINES, namespace)).items
    except NotFound:
        raise Denied(
            "the API server does not serve VirtualMachines (kubevirt.io/v1), so there are no machines to move; "
            "install KubeVirt"
        ) from None
    instances, pods, migrations, swaps = await asyncio.gather(
        list_or_empty(client, VIRTUAL_MACHINE_INSTANCES, namespace),
        list_or_empty(client, PODS, namespace, labels=LAUNCHER_LABELS),
        list_or_empty(client, MIGRATIONS, namespace),
        list_or_empty(client, NETWORK_SWAPS, namespace),
    )
    return Objects(machines=machines, instances=instances, pods=pods, migrations=migrations, swaps=swaps)


async def read_machine(client: Reader, key: Key) -> Machine:
    """Read one machine. Raises KubeError, and Denied for a name that no machine of the namespace has."""
    return choose(key, {item.key: item for item in machines_of(await read_objects(client, key.namespace))})


def choose(key: Key, machines: Mapping[Key, Machine]) -> Machine:
    """Return the machine of that key. Raises Denied with the names that there are."""
    if key in machines:
        return machines[key]
    names = [item.name for item in sorted(machines)]
    there = f"there are {listed(names)}" if names else "there is none"
    raise Denied(f"there is no machine {quote(key.name)} in namespace {key.namespace}; {there}")


def view_of(machine: Machine) -> MachineView:
    """Return one machine as it is shown."""
    vm, vmi = machine.vm, machine.vmi
    nics, unreadable = _nics(machine)
    state, message = _state(machine, nics)
    if unreadable and state == "Waiting":
        state, message = "Unreadable", unreadable
    top = vm if vm is not None else vmi
    can = find(vmi.status.conditions, MIGRATABLE) if vmi is not None else None
    return MachineView(
        namespace=machine.key.namespace,
        name=machine.key.name,
        uid=top.metadata.uid if top is not None else "",
        state=state,
        message=message,
        since=_since(machine, state),
        node=vmi.status.node_name if vmi is not None else "",
        policy=top.metadata.annotations.get(POLICY, "migrate") if top is not None else "migrate",
        migratable=can.status == "True" if can is not None else None,
        nics=nics,
        swaps=tuple(map(_swap, machine.swaps)),
        migrations=tuple(_migration(item, machine) for item in machine.migrations),
        conditions=_conditions(vm, vmi),
        instance_uid=vmi.metadata.uid if vmi is not None else "",
    )


def _conditions(vm: VirtualMachine | None, vmi: VirtualMachineInstance | None) -> tuple[Condition, ...]:
    """Return those of the machine and of its instance, of which KubeVirt shows most on the machine as well."""
    own = vmi.status.conditions if vmi is not None else ()
    types = {item.type for item in own}
    return (
        *(item for item in (vm.status.conditions if vm is not None else ()) if item.type not in types),
        *own,
    )


async def read_mode(client: Reader) -> Mode | None:
    """Return who changes networks of running machines; None for who may not read that. Raises KubeError."""
    try:
        return mode_of(await list_or_empty(client, KUBEVIRTS))
    except Forbidden:
        return None


def _state(machine: Machine, nics: tuple[NicView, ...]) -> tuple[str, str]:
    """Return the word for how a machine is, and why."""
    vm, vmi = machine.vm, machine.vmi
    if vmi is None:
        return "Stopped", "its networks apply when it starts"
    if vmi.metadata.is_deleting or vmi.has_ended:
        return "Stopping", "the networks of the machine apply at its next start"
    if vmi.status.phase != "Running":
        return vmi.status.phase or "Pending", "the instance does not run yet; KubeVirt's Events say why"
    if machine.swap is not None:
        return "Swapping", _swapping(machine.swap)
    if machine.migration is not None:
        return "Migrating", _migrating(machine, machine.migration)
    held = [item for item in map(machine.until_restart, (nic.name for nic in nics)) if item is not None]
    if held:
        return "UntilRestart", f"{held[0].status.message} (NetworkSwap {held[0].metadata.name})"
    restart = find(vm.status.conditions, RESTART_REQUIRED) if vm is not None else None
    if restart is not None and restart.status == "True":
        current = find(vmi.status.conditions, NETWORKS_CURRENT)
        about = f". {current.message}" if current is not None and current.status == "False" else ""
        return "RestartRequired", f"{restart.message}; restart the machine{about}"
    waiting = [item for item in nics if not item.is_settled]
    return ("Waiting", _waiting(machine, waiting)) if waiting else ("Ready", "")


def _since(machine: Machine, state: str) -> str:
    """Return since when a machine is not well, by the object that says so; empty where none does."""
    vmi = machine.vmi
    if vmi is None:
        return ""
    if state == "Stopping":
        return vmi.metadata.deletion_timestamp or ""
    if vmi.status.phase != "Running":
        return vmi.metadata.creation_timestamp or ""
    if move := machine.swap or machine.migration:
        return move.metadata.creation_timestamp or ""
    if state == "UntilRestart":
        held = (item for item in machine.swaps if item.status.phase == state)
        return min((item.status.phase_since for item in held), default="")
    if state == RESTART_REQUIRED:
        return _time_of(find(machine.vm.status.conditions, state) if machine.vm is not None else None)
    if state in ("Waiting", "Unreadable"):
        current = find(vmi.status.conditions, NETWORKS_CURRENT)
        if current is not None and current.status == "False":
            return _time_of(current)
        required = find(vmi.status.conditions, MIGRATION_REQUIRED)
        return _time_of(required if required is not None and required.status == "True" else None)
    return ""


def _time_of(condition: Condition | None) -> str:
    return condition.last_transition_time if condition is not None else ""


def _swapping(swap: NetworkSwap) -> str:
    spec, status = swap.spec, swap.status
    about = f"NIC {spec.network} from {spec.from_} to {spec.to}: {status.phase or 'Pending'}"
    port = status.port
    why = status.message or (port.error if port is not None else "")
    return f"{about}: {why}" if why else about


def _migrating(machine: Machine, migration: VirtualMachineInstanceMigration) -> str:
    """Return how far a migration is, and what it waits for, as the manager reports it."""
    view = _migration(migration, machine)
    where = f" to {view.target}" if view.target else ""
    current = find(machine.vmi.status.conditions, NETWORKS_CURRENT) if machine.vmi is not None else None
    said = current.message if current is not None and current.status == "False" else ""
    why = said.partition(f"{view.name}{WAITS}")[2]
    if not why and current is not None and current.reason == "PreflightFailed":
        why = said
    return f"{view.name}{where}: {view.phase or 'Pending'}" + (f"; {why}" if why else "")


def _waiting(machine: Machine, nics: Iterable[NicView]) -> str:
    """Return what the first NIC waits for, and the reason if one is given."""
    nic = next(iter(nics))
    vmi = machine.vmi
    current = find(vmi.status.conditions, NETWORKS_CURRENT) if vmi is not None else None
    if current is not None and current.status == "False":
        return f"{current.reason}: {current.message}"
    said = find(vmi.status.conditions, MIGRATION_REQUIRED) if vmi is not None else None
    if not nic.wanted:
        what = f"NIC {nic.name} is to be unplugged from {nic.observed or nic.instance}"
    else:
        what = f"NIC {nic.name} is to be on {nic.wanted}, and is on {nic.observed or 'no network yet'}"
    if POD_NETWORK in (nic.wanted, nic.observed):
        return f"{what}; restart the machine"
    if said is not None and said.status == "True":
        return f"{what}; a migration is required ({said.reason})"
    return f"{what}; no migration was requested yet"


def _nics(machine: Machine) -> tuple[tuple[NicView, ...], str]:
    """Return the NICs, those of the machine first, and why they are unknown, empty if they are known."""
    vmi = machine.vmi
    found = evaluate(vmi, machine.pod) if vmi is not None else Evaluation()
    wanted = {item.name: item for item in machine.wanted}
    asked = {item.name: item for item in vmi.spec.networks} if vmi is not None else {}
    names = dict.fromkeys((*wanted, *asked))
    nics = (
        _nic(machine, name, wanted.get(name), asked.get(name), found.observed.get(name, "")) for name in names
    )
    return tuple(nics), found.error


def _nic(machine: Machine, name: str, wanted: VmNic | None, asked: VmNic | None, observed: str) -> NicView:
    own, vm, vmi = machine.key.namespace, machine.vm, machine.vmi
    template = vm.spec.template if vm is not None else None
    planned = _interface(template.spec.interfaces if template is not None else (), name)
    actual = _interface(vmi.spec.interfaces if vmi is not None else (), name)
    interface = planned or actual or VmInterface()
    status = next((item for item in vmi.status.interfaces if item.name == name), None) if vmi else None
    if (held := machine.until_restart(name)) is not None:
        observed = held.spec.to
    return NicView(
        name=name,
        binding=_binding(interface),
        mac=(status.mac if status is not None else "") or interface.mac_address,
        interface=status.pod_interface_name if status is not None else "",
        wanted=_title(wanted, own) if interface.state != "absent" else "",
        instance=_title(asked, own) if actual is None or actual.state != "absent" else "",
        observed=observed or (POD_NETWORK if asked is not None and asked.multus is None else ""),
        state=interface.state,
    )


def _interface(interfaces: Iterable[VmInterface], name: str) -> VmInterface | None:
    return next((item for item in interfaces if item.name == name), None)


def _binding(interface: VmInterface) -> str:
    if interface.binding is not None:
        return str(interface.binding.get("name", "plugin"))
    names = ("bridge", "sriov", "masquerade")
    return next((name for name in names if getattr(interface, name) is not None), "")


def _title(network: VmNic | None, own: str) -> str:
    if network is None:
        return ""
    nad = wanted_nad(network, own)
    return str(nad) if nad is not None else POD_NETWORK


def _swap(swap: NetworkSwap) -> SwapView:
    spec, status = swap.spec, swap.status
    return SwapView(
        name=swap.metadata.name,
        network=spec.network,
        from_=spec.from_,
        to=spec.to,
        phase=status.phase or "Pending",
        message=status.message or (status.port.error if status.port is not None else ""),
        gap=status.port.gap_milliseconds if status.port is not None else 0.0,
        created=swap.metadata.creation_timestamp or "",
    )


def _migration(item: VirtualMachineInstanceMigration, machine: Machine) -> MigrationView:
    """Return a migration; the instance says of the last one from where to where."""
    state = machine.vmi.status.migration_state if machine.vmi is not None else None
    mine = state is not None and state.migration_uid == item.metadata.uid
    return MigrationView(
        name=item.metadata.name,
        phase=item.status.phase or "Pending",
        source=state.source_node if state is not None and mine else "",
        target=state.target_node if state is not None and mine else "",
        created=item.metadata.creation_timestamp or "",
    )

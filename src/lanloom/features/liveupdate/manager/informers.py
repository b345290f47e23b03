"""What is watched for live update, and by what it is looked up: networks, swaps, and machines with all of theirs."""

from collections.abc import Iterator

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, PODS, Node, Pod
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork
from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    instance_of,
    machine_uid_of,
)
from lanloom.api.kubevirtconfig import KUBEVIRTS, KubeVirt
from lanloom.api.lan import LAN, LAN_NODES, LANS, LANNode
from lanloom.api.liveupdate import ACTIVE, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import strip_pod
from lanloom.features.liveupdate.rules.conditions import MIGRATION_REQUIRED
from lanloom.features.liveupdate.rules.launcher import launcher_of
from lanloom.features.liveupdate.rules.networks import Networks, marked_bridges, with_uplinks
from lanloom.kube.conditions import is_true
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView

BY_NAMESPACE = "machine-namespace"
"""NICs by their namespace."""

BY_MACHINE = "swap-machine"
"""Swaps, launcher pods and migrations by the instance that they are about, as `namespace/name`."""

BY_STATE = "live-update-state"
"""Machines and migrations by what the updater has to do with them: NEEDED, UNFINISHED."""

NEEDED, UNFINISHED = "needed", "unfinished"


class NetworkInformers(InformerView, frozen=True):
    """Informers by which a preflight decides."""

    reports: Informer[ClusterNetworkNode]
    lans: Informer[LAN]
    lan_nodes: Informer[LANNode]
    cluster_networks: Informer[ClusterNetwork]
    pools: Informer[Network]
    nics: Informer[Nic]
    nodes: Informer[Node]

    def seen_from(self, namespace: str) -> Networks:
        """Return what carries networks, for a machine of that namespace."""
        return Networks(
            reports=self.reports.store.items(),
            lans=self.lans.store.items(),
            lan_nodes=self.lan_nodes.store.items(),
            cluster_networks=with_uplinks(self.cluster_networks.store.items()),
            pools=self.pools.store.items(),
            nics=self.nics.store.by(BY_NAMESPACE, namespace),
            marked=marked_bridges(self.nodes.store.items()),
        )


def network_informers(informers: Informers) -> NetworkInformers:
    """Return the informers, with their index."""
    return NetworkInformers(
        reports=informers.get(CLUSTER_NETWORK_NODES),
        lans=informers.get(LANS, optional=True),
        lan_nodes=informers.get(LAN_NODES, optional=True),
        cluster_networks=informers.get(CLUSTER_NETWORKS),
        pools=informers.get(NETWORKS),
        nics=informers.get(NICS, indexes={BY_NAMESPACE: lambda item: (item.metadata.namespace,)}),
        nodes=informers.get(NODES),
    )


class SwapInformers(InformerView, frozen=True):
    """The informers by which swaps are decided."""

    networks: NetworkInformers
    swaps: Informer[NetworkSwap]
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    migrations: Informer[VirtualMachineInstanceMigration]
    pods: Informer[Pod]
    nads: Informer[NetworkAttachmentDefinition]
    kubevirts: Informer[KubeVirt]


def swap_informers(informers: Informers) -> SwapInformers:
    """Return the informers, with their indexes."""
    return SwapInformers(
        networks=network_informers(informers),
        swaps=informers.get(NETWORK_SWAPS, optional=True, indexes={BY_MACHINE: _machine_of}),
        machines=informers.get(VIRTUAL_MACHINES, optional=True),
        instances=informers.get(VIRTUAL_MACHINE_INSTANCES, optional=True),
        migrations=informers.get(
            MIGRATIONS,
            optional=True,
            indexes={BY_MACHINE: lambda item: (f"{item.metadata.namespace}/{item.spec.vmi_name}",)},
        ),
        pods=informers.get(PODS, transform=strip_pod, indexes={BY_MACHINE: _instance_of}),
        nads=informers.get(NADS),
        kubevirts=informers.get(KUBEVIRTS, optional=True),
    )


class MachineInformers(SwapInformers, frozen=True):
    """The same with the nodes, and what belongs to a machine."""

    nodes: Informer[Node]

    def owner_of(self, machine: VirtualMachineInstance) -> VirtualMachine | None:
        """Return the VirtualMachine that an instance belongs to."""
        found = self.machines.store.get(machine.metadata.key)
        return found if found is not None and found.metadata.uid == machine_uid_of(machine) else None

    def launcher_of(self, machine: VirtualMachineInstance) -> Pod | None:
        """Return the launcher pod in which an instance runs now."""
        return launcher_of(machine, self.pods_of(machine))

    def pods_of(self, machine: VirtualMachineInstance) -> tuple[Pod, ...]:
        """Return the pods in which an instance runs, ran, or is to run."""
        return self.pods.store.by(BY_MACHINE, str(machine.metadata.key))

    def migrations_of(self, key: Key) -> tuple[VirtualMachineInstanceMigration, ...]:
        """Return all migrations of a machine."""
        return self.migrations.store.by(BY_MACHINE, str(key))

    def swaps_of(self, machine: VirtualMachineInstance) -> tuple[NetworkSwap, ...]:
        """Return all swaps of an instance."""
        meta = machine.metadata
        found = self.swaps.store.by(BY_MACHINE, str(meta.key))
        return tuple(item for item in found if item.spec.uid in ("", meta.uid))

    def is_swapping(self, machine: VirtualMachineInstance) -> bool:
        """Return whether a swap owns a port of an instance."""
        return any(item.status.phase in ACTIVE for item in self.swaps_of(machine))


def machine_informers(informers: Informers, swaps: SwapInformers) -> MachineInformers:
    """Return the informers with their indexes; those of swaps are the same."""
    informers.get(VIRTUAL_MACHINE_INSTANCES, indexes={BY_STATE: _needed}, optional=True)
    informers.get(MIGRATIONS, indexes={BY_STATE: _unfinished}, optional=True)
    return MachineInformers(
        networks=swaps.networks,
        machines=swaps.machines,
        instances=swaps.instances,
        migrations=swaps.migrations,
        swaps=swaps.swaps,
        pods=swaps.pods,
        nads=swaps.nads,
        nodes=informers.get(NODES),
        kubevirts=swaps.kubevirts,
    )


def machine_of(migration: VirtualMachineInstanceMigration) -> Key:
    """Return the machine that a migration is for."""
    return Key(migration.metadata.namespace, migration.spec.vmi_name)


def _needed(machine: VirtualMachineInstance) -> Iterator[str]:
    if is_true(machine.status.conditions, MIGRATION_REQUIRED) and not machine.has_ended:
        yield NEEDED


def _unfinished(migration: VirtualMachineInstanceMigration) -> Iterator[str]:
    if not migration.is_final:
        yield UNFINISHED


def _machine_of(swap: NetworkSwap) -> tuple[str, ...]:
    return (f"{swap.metadata.namespace}/{swap.spec.machine}",)


def _instance_of(pod: Pod) -> tuple[str, ...]:
    name, _ = instance_of(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()

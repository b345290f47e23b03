"""The controllers of live update, and what wakes them.

A change wakes the machine that it concerns, and the updater when something changes that it decides by. Most changes of
running machines (heartbeats of guests) concern neither.
"""

import random
from collections.abc import Callable
from typing import Any

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node, Pod
from lanloom.api.dummy import DRAINING
from lanloom.api.ipam import Network
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    instance_of,
)
from lanloom.api.lan import LANNode
from lanloom.api.liveupdate import POLICY, NetworkSwap
from lanloom.api.meta import Key
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS, NetworkAttachmentDefinition
from lanloom.features.liveupdate.manager.context import MachineContext, Modes
from lanloom.features.liveupdate.manager.informers import MachineInformers, machine_of
from lanloom.features.liveupdate.manager.machines import Machines
from lanloom.features.liveupdate.manager.restarts import Restarts
from lanloom.features.liveupdate.manager.updater import Updater
from lanloom.features.liveupdate.manager.writer import MachineWriter
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.features.liveupdate.settings import Observer as ActionObserver
from lanloom.kube.conditions import find
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.informer import changed, present
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents, referring

_ALL = "all"
"""The only key of the updater."""

SPACING_SECONDS = 1.0
"""Between two looks at a machine because of what controllers write.

While there are two leaders, one of which sees less than the other, they undo each other's writes. Without a pause they
would do so as fast as the API server answers.
"""


def edit_key(machine: VirtualMachine) -> tuple[Any, ...]:
    """Return what users change of a VirtualMachine."""
    meta = machine.metadata
    return meta.uid, meta.generation, meta.is_deleting, meta.annotations.get(POLICY), machine.spec


def owner_key(machine: VirtualMachine) -> tuple[Any, ...]:
    """Return what of a VirtualMachine matters here."""
    return edit_key(machine), machine.status.conditions


def instance_key(machine: VirtualMachineInstance) -> tuple[Any, ...]:
    """Return what of an instance matters here."""
    meta, status = machine.metadata, machine.status
    return (
        meta.uid,
        meta.is_deleting,
        machine.spec,
        status.phase,
        status.node_name,
        status.interfaces,
        status.conditions,
        status.migration_state,
    )


def pod_key(pod: Pod) -> tuple[Any, ...]:
    """Return what of a launcher pod matters here."""
    annotations = pod.metadata.annotations
    return (
        pod.metadata.uid,
        pod.spec.node_name,
        pod.has_ended,
        annotations.get(NETWORK_STATUS),
        annotations.get(MULTUS_NETWORKS),
    )


def migration_key(migration: VirtualMachineInstanceMigration) -> tuple[Any, ...]:
    """Return what of a migration matters here."""
    return migration.metadata.uid, migration.metadata.is_deleting, migration.status.phase


def swap_key(swap: NetworkSwap) -> tuple[Any, ...]:
    """Return what of a swap matters here."""
    return swap.metadata.uid, swap.status.phase, swap.status.message


def nad_key(nad: NetworkAttachmentDefinition) -> tuple[Any, ...]:
    """Return what of a NAD matters here."""
    meta = nad.metadata
    return meta.uid, meta.is_deleting, DRAINING in meta.annotations, nad.spec, meta.labels


def report_key(report: ClusterNetworkNode) -> tuple[Any, ...]:
    """Return what of a node's report about a cluster network matters here."""
    return report.status.conditions, report.status.vlan_ids


def spokes_key(node: LANNode) -> tuple[Any, ...]:
    """Return what of a node's report about LANs matters here: who has which spoke."""
    return tuple((item.name, item.pod) for lan in node.status.lans for item in lan.spokes)


def pools_key(network: Network) -> tuple[Any, ...]:
    """Return what of a network of addresses matters here."""
    return network.metadata.is_deleting, network.spec, network.status.pools


def node_key(node: Node) -> tuple[Any, ...]:
    """Return what of a node matters here."""
    ready = find(node.status.conditions, "Ready")
    status = ready.status if ready is not None else ""
    return node.metadata.uid, node.metadata.labels, node.spec.unschedulable, status


class LiveUpdateManager:
    """The controllers. They run on the leader only; the informers run on every replica."""

    def __init__(
        self,
        client: Client,
        informers: MachineInformers,
        recorder: Recorder,
        settings: LiveUpdateSettings,
        *,
        now: Callable[[], float],
        rng: random.Random,
        act: ActionObserver = lambda _action: None,
        observe: Observer[Any] | None = None,
    ) -> None:
        self._informers = informers
        self.modes = Modes(client, informers.kubevirts)
        writer = MachineWriter(client, informers.instances)
        context = MachineContext(client, informers, self.modes, writer, recorder, settings, act, now)
        machines = Machines(context)
        updater = Updater(context, machines)
        restarts = Restarts(context)
        self._waiting = machines.blocked
        controllers = self._controllers = ControllerSet(informers.all, rng=rng, observe=observe)
        self._machines: Controller[Key] = controllers.add(
            "liveupdate", machines.reconcile, workers=4, spacing=SPACING_SECONDS, refusals=machines
        )
        self._updater: Controller[str] = controllers.add("liveupdate-migrations", updater.reconcile)
        self._restarts: Controller[Key] = controllers.add(
            "liveupdate-restarts",
            restarts.reconcile,
            workers=2,
            spacing=SPACING_SECONDS,
            refusals=RefusalEvents(recorder, referring(VIRTUAL_MACHINES, informers.machines.store)),
        )
        self._listen(informers)
        self.modes.on_change(self.enqueue_all)

    def _listen(self, informers: MachineInformers) -> None:
        """Register handlers for the relevant changes of each kind."""
        informers.machines.on_change(self._machine_changed, changed(owner_key))
        informers.instances.on_change(self._instance_changed, changed(instance_key))
        informers.pods.on_change(self._pod_changed, changed(pod_key))
        informers.migrations.on_change(self._migration_changed, changed(migration_key))
        informers.swaps.on_change(self._swap_changed, changed(swap_key))
        informers.nads.on_change(self._networks_changed, changed(nad_key))
        networks = informers.networks
        networks.reports.on_change(self._networks_changed, changed(report_key))
        networks.lans.on_change(self._networks_changed, changed(lambda item: item.spec))
        networks.lan_nodes.on_change(self._networks_changed, changed(spokes_key))
        networks.pools.on_change(self._networks_changed, changed(pools_key))
        networks.nics.on_change(self._networks_changed, changed(lambda item: item.status.ips))
        informers.nodes.on_change(self._networks_changed, changed(node_key))

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The queues and workers, to be looked at."""
        return self._controllers.all

    async def run(self) -> None:
        """Run until cancelled."""
        await self._controllers.run(self.enqueue_all)

    def enqueue_all(self) -> None:
        """Look at every machine, and at all migrations."""
        keys = {item.metadata.key for item in self._informers.machines.store.items()}
        keys |= {item.metadata.key for item in self._informers.instances.store.items()}
        for key in sorted(keys):
            self._machines.enqueue(key)
            self._restarts.enqueue(key)
        self._updater.enqueue(_ALL)

    def _machine_changed(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        """Take an edit up at once; conditions are written by controllers."""
        is_edit = changed(edit_key)(old, new)
        for item in present(old, new):
            for controller in (self._machines, self._restarts):
                wake = controller.enqueue if is_edit else controller.enqueue_spaced
                wake(item.metadata.key)

    def _instance_changed(
        self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None
    ) -> None:
        for item in present(old, new):
            self._machines.enqueue_spaced(item.metadata.key)
            self._restarts.enqueue_spaced(item.metadata.key)
        self._updater.enqueue(_ALL)

    def _swap_changed(self, old: NetworkSwap | None, new: NetworkSwap | None) -> None:
        for item in present(old, new):
            self._machines.enqueue_spaced(Key(item.metadata.namespace, item.spec.machine))
        self._updater.enqueue(_ALL)

    def _networks_changed(self, _old: object, _new: object) -> None:
        """Look again at machines that wait for a network or a node."""
        for key in self._waiting:
            self._machines.enqueue_spaced(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for item in present(old, new):
            name, uid = instance_of(item)
            if uid:
                self._machines.enqueue_spaced(Key(item.metadata.namespace, name))

    def _migration_changed(
        self, old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None
    ) -> None:
        for item in present(old, new):
            self._machines.enqueue_spaced(machine_of(item))
        self._updater.enqueue(_ALL)

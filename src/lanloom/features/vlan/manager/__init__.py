"""The manager's part of VLAN networks: derives what the agents read, and sums up what they report.

`build` composes controllers and webhooks. `controllers` are what wakes a reconcile, and keep the labels of NADs;
`networks` reconciles one ClusterNetwork at a time, and `views` remember what follows from objects until these change.
"""

from collections.abc import Callable, Iterable
from functools import partial

from lanloom.api.core import PODS
from lanloom.api.harvester import VlanConfig
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.workloads import strip_pod
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.informers import VlanInformers, vlan_informers
from lanloom.features.vlan.live import follow
from lanloom.features.vlan.manager.complaints import unreported
from lanloom.features.vlan.manager.controllers import VlanManager
from lanloom.features.vlan.reader import store_reader, vm_informer
from lanloom.features.vlan.rules.admit.nads import nad_faults
from lanloom.features.vlan.rules.admit.uplinks import cluster_network_faults, vlan_config_faults
from lanloom.nads.manager import NAD_USERS
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import pod_node
from lanloom.runtime.ports import HARVESTER_RUNS, LAN_UPLINKS, NODE_POOLS


def build(context: ManagerContext) -> ManagerPart:
    """Build controllers and webhooks. The setting is the management VLAN id where no agent tells it, 0 for unknown."""
    shared = context.informers
    informers = vlan_informers(shared)
    manager = VlanManager(
        context.client,
        informers,
        context.recorder,
        now=context.now,
        rng=context.rng,
        pools=context.find(NODE_POOLS),
        observe=context.observe,
    )
    machines = shared.get(VIRTUAL_MACHINES, optional=True)
    reader = store_reader(informers, vm_informer(shared), machines, context.setting("vlan", 0))
    node_of_pod = partial(pod_node, shared.get(PODS, transform=strip_pod).store)
    coexisting = manager.detector.coexists
    context.provide(HARVESTER_RUNS, coexisting)
    admission = VlanAdmission(
        context.client,
        reader,
        node_of_pod,
        coexisting,
        follow(context.in_flight, informers),
        context.find(NAD_USERS),
    )
    context.provide(LAN_UPLINKS, admission.check_lan_uplink)
    _follow_invalid(context, informers, coexisting)
    context.metrics["vlan"].show(informers.cluster_networks, informers.statuses)
    return ManagerPart(
        run=manager.run,
        controllers=manager.controllers,
        admission=admission,
    )


def _follow_invalid(
    context: ManagerContext, informers: VlanInformers, coexisting: Callable[[], bool]
) -> None:
    """Report objects that came past the webhooks. Alongside Harvester's controller, VlanConfigs are its own."""

    def config_faults(config: VlanConfig) -> Iterable[str]:
        return () if coexisting() else vlan_config_faults(config)

    def network_faults(nad: NetworkAttachmentDefinition) -> Iterable[str]:
        known = informers.cluster_networks.store.get(Key("", cluster_network_of(nad))) is not None
        return unreported(nad_faults(nad), nad) if known else nad_faults(nad)

    context.invalid.follow(informers.nads, network_faults)
    context.invalid.follow(informers.configs, config_faults)
    context.invalid.follow(informers.cluster_networks, cluster_network_faults)

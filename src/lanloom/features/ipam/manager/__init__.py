"""The manager's side of address management: the one allocator of each network, and the owners of NICs.

`controllers` says when each network is reconciled. `allocator` is the only place that gives addresses away. `term` has
the networks that this process has taken over, and writes their objects; `allocation` is the allocation state of one.
Pure rules: `decisions` (which addresses a NIC gets, and its status), `networkstatus` (how full pools are).

`owners` keeps the addresses of a NIC while its owner lives, and gives them back afterwards; `evidence` has its rules.
"""

import asyncio
from functools import partial

from lanloom.api.core import ObjectReference
from lanloom.api.ipam import NETWORKS
from lanloom.api.multus import NADS
from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.admission.nads import nad_faults
from lanloom.features.ipam.admission.networks import kept_faults
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.evidence import owner_informers
from lanloom.features.ipam.manager.owners import OwnerController
from lanloom.features.ipam.nodes import MachineNics, NodePools
from lanloom.features.ipam.reader import AddressReader, ipam_informers
from lanloom.features.ipam.wirereader import WireReader, wire_informers
from lanloom.kube.refusalreports import RefusalEvents
from lanloom.nads.faults import texts_of
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.identity import agent_node, pod_node
from lanloom.runtime.ports import MACHINE_ADDRESSES, NODE_POOLS


def _nad(key: str) -> ObjectReference:
    """Return the reference to the NAD of nodes that need addresses, which IPAM itself does not follow."""
    namespace, _, name = key.rpartition("/")
    return ObjectReference(api_version=NADS.api_version, kind=NADS.kind, namespace=namespace, name=name)


def build(context: ManagerContext) -> ManagerPart:
    """Build controllers and webhooks; provide addresses for nodes."""
    client, rng, observe = context.client, context.rng, context.observe
    informers, owners = ipam_informers(context.informers), owner_informers(context.informers)
    on_wires = wire_informers(context.informers)
    wires = WireReader(on_wires)
    metrics = context.metrics["ipam"]
    node_pools = NodePools(
        client,
        informers.nics,
        informers.networks,
        rng=rng,
        observe=observe,
        refusals=RefusalEvents(context.recorder, _nad),
    )
    context.provide(NODE_POOLS, node_pools)
    context.provide(MACHINE_ADDRESSES, MachineNics(client))
    manager = IpamManager(
        client,
        informers,
        context.recorder,
        identity=context.identity,
        now=context.now,
        rng=rng,
        observe=observe,
        wires=wires,
    )
    nic_owners = OwnerController(
        client,
        informers.nics,
        owners,
        context.recorder,
        now=context.now,
        rng=rng,
        observe=observe,
        leaked=metrics.leaked,
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(node_pools.run())
            group.create_task(manager.run())
            group.create_task(nic_owners.run())

    agent_of = partial(agent_node, node_of_pod=partial(pod_node, owners.pods.store))
    metrics.show(informers.networks, informers.nics)
    context.in_flight.follow(NETWORKS, informers.networks)
    context.in_flight.follow(NADS, on_wires.nads)
    context.invalid.follow(informers.networks, kept_faults)
    context.invalid.follow(on_wires.nads, texts_of(nad_faults))
    return ManagerPart(
        run=run,
        controllers=(*manager.controllers, *node_pools.controllers, *nic_owners.controllers),
        admission=IpamAdmission(
            client,
            AddressReader(informers).context,
            agent_of,
            context.user,
            wires,
            owners.pods.store.get,
            context.in_flight,
        ),
    )

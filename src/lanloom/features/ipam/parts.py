"""All of address management that runs in a manager's process."""

import asyncio
import uuid
from functools import partial

from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.admission.addresses import AddressReader
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.evidence import owner_informers
from lanloom.features.ipam.manager.informers import ipam_informers
from lanloom.features.ipam.manager.owners import OwnerController
from lanloom.features.ipam.nodes import NodePools
from lanloom.runtime.context import NODE_POOLS, ManagerContext, ManagerPart
from lanloom.runtime.identity import agent_node, pod_node


def build(context: ManagerContext) -> ManagerPart:
    """Controllers and webhooks; provides addresses for nodes."""
    client, rng, observe = context.client, context.rng, context.observe
    informers, owners = ipam_informers(context.informers), owner_informers(context.informers)
    metrics = context.metrics["ipam"]
    node_pools = NodePools(client, informers.nics, informers.networks, rng=rng, observe=observe)
    context.provide(NODE_POOLS, node_pools)
    manager = IpamManager(
        client,
        informers,
        context.recorder,
        identity=context.identity,
        now=context.now,
        rng=rng,
        observe=observe,
    )
    nic_owners = OwnerController(
        client,
        informers.nics,
        owners,
        context.recorder,
        rng=rng,
        observe=observe,
        leaked=metrics.leaked,
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(node_pools.run())
            group.create_task(manager.run())
            group.create_task(nic_owners.run())

    def new_uuid() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))

    agent_of = partial(agent_node, node_of_pod=partial(pod_node, owners.pods.store))
    metrics.show(informers.networks, informers.nics)
    return ManagerPart(
        run=run,
        controllers=(*manager.controllers, *node_pools.controllers, *nic_owners.controllers),
        admission=IpamAdmission(client, AddressReader(informers).context, agent_of, new_uuid, context.user),
    )

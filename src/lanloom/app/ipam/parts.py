"""All of address management that runs in a manager's process, put together from what the process has already."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.app.common import Common
from lanloom.ipam.admission import IpamAdmission
from lanloom.ipam.admission.admission import AgentOf
from lanloom.ipam.manager import IpamManager, ipam_informers
from lanloom.ipam.nodes import NodePools
from lanloom.ipam.owners import OwnerController, owner_informers
from lanloom.ipam.worlds import StoreWorld
from lanloom.kube.informer import Informer


class IpamParts:
    """Watches, controllers, and what the webhooks answer. `leaked` is told of each NIC whose owner left it behind."""

    def __init__(
        self, common: Common, instances: Informer[VirtualMachineInstance], leaked: Callable[[], None]
    ) -> None:
        self._common = common
        client, rng, observe = common.client, common.rng, common.observe
        self.informers = ipam_informers(client, rng)
        self.owners = owner_informers(client, instances, rng)
        self.own_informers: tuple[Informer[Any], ...] = (
            *self.informers.all(),
            self.owners.pods,
            self.owners.machines,
        )
        self.node_pools = NodePools(
            client, self.informers.nics, self.informers.networks, rng=rng, observe=observe
        )
        self._manager = IpamManager(
            client,
            self.informers,
            common.recorder,
            identity=common.identity,
            now=common.now,
            rng=rng,
            observe=observe,
        )
        self._nic_owners = OwnerController(
            client, self.informers.nics, self.owners, common.recorder, rng=rng, observe=observe, leaked=leaked
        )
        self.controllers = (
            *self._manager.controllers,
            *self.node_pools.controllers,
            *self._nic_owners.controllers,
        )

    def admission(self, agent_of: AgentOf, user: str) -> IpamAdmission:
        """What the webhooks answer. `agent_of` tells the node of an agent; `user` is as whom this manager writes."""
        world = StoreWorld(self.informers)
        return IpamAdmission(self._common.client, world, agent_of, self._new_uuid, user)

    async def run(self) -> None:
        """What only the leader does, until cancelled; `node_pools` runs apart, before what tells it of claims."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._manager.run())
            group.create_task(self._nic_owners.run())

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._common.rng.getrandbits(128), version=4))

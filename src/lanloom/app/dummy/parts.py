"""All of isolated networks that runs in a manager's process, put together from what the process has already."""

import asyncio
from typing import Any

from msgspec import Struct

from lanloom.api.core import Node, Pod
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.ipam import Network
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.app.common import Common
from lanloom.app.dummy.default import DefaultNetwork
from lanloom.app.dummy.settings import DummySettings
from lanloom.dummy.admission import DummyAdmission, StoreWorld
from lanloom.dummy.admission.admission import IsManager
from lanloom.dummy.manager import DummyManager, dummy_informers
from lanloom.dummy.rules.given import Given
from lanloom.dummy.users import Users, user_informers
from lanloom.kube.informer import Informer


class Shared(Struct, frozen=True, kw_only=True):
    """What other features follow as well."""

    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    pods: Informer[Pod]
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    networks: Informer[Network]
    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]


class DummyParts:
    """Settings, watches, controllers, the network that is there by itself, and what the webhooks answer.

    `given` is what flags and environment say.
    """

    def __init__(self, common: Common, shared: Shared, given: Given) -> None:
        self._common = common
        client, rng, now = common.client, common.rng, common.now
        self.settings = DummySettings(client, shared.pods, identity=common.identity, given=given, rng=rng)
        self.informers = dummy_informers(
            client,
            shared.nads,
            shared.nodes,
            shared.pods,
            rng,
            networks=shared.networks,
            cluster_networks=shared.cluster_networks,
            configs=shared.configs,
        )
        using = user_informers(
            client, rng, machines=shared.machines, instances=shared.instances, pods=shared.pods
        )
        self.users = Users(using, now)
        self.own_informers: tuple[Informer[Any], ...] = (
            self.informers.dcns,
            self.informers.daemon_sets,
            *using.makers,
            self.settings.informer,
        )
        self.manager = DummyManager(
            client,
            self.informers,
            self.users,
            common.recorder,
            self.settings.current,
            now=now,
            rng=rng,
            observe=common.observe,
        )
        self.settings.on_change(self.manager.look_at_all)
        self._default = DefaultNetwork(client, self.settings, rng=rng)

    def admission(self, is_manager: IsManager) -> DummyAdmission:
        """What the webhooks answer; `is_manager` tells a manager from anybody else."""
        world = StoreWorld(self.informers, self.users, self.settings.current)
        return DummyAdmission(self._common.client, world, is_manager, now=self._common.now)

    async def run(self) -> None:
        """What only the leader does, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.manager.run())
            group.create_task(self._default.run())
            group.create_task(self.settings.run(self._common.recorder))

"""The programs of Harvester's networks: manager, webhook and an agent on each node. Lab and simulations run them.

Each runs until cancelled, with nothing kept but objects and links: it can be ended between any two lines.
"""

import asyncio
from random import Random
from typing import Any

from lanloom.api.core import MUTATING_WEBHOOKS, NODES, VALIDATING_WEBHOOKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.ports import Client
from lanloom.kube.store import Store
from lanloom_lab.harvester.agent import Agent
from lanloom_lab.harvester.links import NodeLinks
from lanloom_lab.harvester.manager import Manager
from lanloom_lab.harvester.objects import HOST_NETWORKS, Raw
from lanloom_lab.harvester.webhook import Objects, answer, configurations
from lanloom_lab.harvester.wrangler import Wrangler


async def run_manager(client: Client, rng: Random) -> None:
    """Run the manager. Raises KubeError where it can't start."""
    wrangler = Wrangler(client, rng)
    manager = Manager(wrangler)
    await manager.initialize()
    await wrangler.run()


async def run_agent(client: Client, node: str, links: NodeLinks, rng: Random) -> None:
    """Run the agent of a node. Raises KubeError where it can't start."""
    wrangler = Wrangler(client, rng)
    agent = Agent(wrangler, node, links)
    await agent.initialize()
    await wrangler.run()


class Webhook:
    """The webhook: `answer` reviews while `run` follows the objects that it knows."""

    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._wrangler = Wrangler(client, rng)
        self._stores: dict[str, Store[Any]] = {}
        kinds: tuple[Resource[Any], ...] = (
            NODES,
            CLUSTER_NETWORKS,
            VLAN_CONFIGS,
            VLAN_STATUSES,
            NADS,
            HOST_NETWORKS,
        )
        for kind in kinds:
            self._stores[kind.plural] = self._wrangler.store(kind)

    async def run(self, url: str, authority: bytes = b"") -> None:
        """Register the configurations, which stay when it ends, and follow the objects. Raises KubeError."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wrangler.run())
            await self._wrangler.synced()
            await register(self._client, url, authority)

    def answer(self, path: str, review: Raw) -> Raw:
        """Return the answer to a review."""
        return answer(path, review, self._objects())

    def _objects(self) -> Objects:
        def of(kind: Resource[Any]) -> tuple[Any, ...]:
            return tuple(sorted(self._stores[kind.plural].items(), key=_key))

        return Objects(
            nodes=of(NODES),
            networks=of(CLUSTER_NETWORKS),
            configs=of(VLAN_CONFIGS),
            statuses=of(VLAN_STATUSES),
            nads=of(NADS),
            hosts=of(HOST_NETWORKS),
        )


def _key(item: Object) -> tuple[str, str]:
    return item.metadata.key


async def register(client: Client, url: str, authority: bytes) -> None:
    """Write both configurations, over those of an earlier process. Raises KubeError."""
    kinds: tuple[Resource[Any], ...] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    for kind, body in zip(kinds, configurations(url, authority), strict=True):
        try:
            await client.create(kind, body)
        except AlreadyExists:
            await client.patch(kind, body["metadata"]["name"], {"webhooks": body["webhooks"]})

"""A cluster with everything that a manager does, its webhooks among it, in virtual time.

Around it stand KubeVirt's migrations, which succeed where the launcher pod of the target is let in, and agents that
move ports in no time. Webhooks are asked as the API server asks them.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from random import Random
from typing import Any

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import CRDS, MUTATING_WEBHOOKS, NAMESPACES, NODES, VALIDATING_WEBHOOKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINES, nad_of
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.names import (
    BRIDGES_NAMESPACE,
    CLUSTER_NETWORK_LABEL,
    LANLOOM_NAMESPACE,
    NODE_LABEL,
    NODE_USER_PREFIX,
)
from lanloom.features import FEATURES
from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.features.vlan.rules.desired.names import node_label, report_name
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.events import Recorder
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom.processes.metrics import ManagerMetrics
from lanloom.runtime.context import ManagerContext
from lanloom.runtime.feature import in_order, load, webhooks_of
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom.runtime.webhooks import answer, mutate_all, refer_all, validate_all
from lanloom.runtime.webhooktable import TableAdmission
from lanloom_embedded.engine.calls import SYSTEM, Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.kinds import ServedKind
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.definitions import KINDS, definition
from tests.features.liveupdate.manager.scene import Scene
from tests.features.liveupdate.objects import PLACE
from tests.harness.interceptor import ScriptedClient
from tests.harness.servers.filled import filled
from tests.harness.virtual import run

Raw = dict[str, Any]

NODE_NAMES = ("node1", "node2")
DUMMIES = Flags(default=False, image="registry.example/lanloom@sha256:" + "0" * 64)


@cache
def _first_storage() -> MemoryStorage:
    """A server with all kinds and webhooks, and two nodes."""

    async def fill(admin: LocalClient) -> None:
        for crd in (*manifests(), *map(definition, KINDS)):
            await admin.create(CRDS, crd)
        for name in (PLACE, LANLOOM_NAMESPACE, BRIDGES_NAMESPACE):
            await admin.create(NAMESPACES, {"metadata": {"name": name}})
        for name in NODE_NAMES:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            await admin.create(NODES, {"metadata": {"name": name}, "status": ready})
        mutating, validating = webhook_configurations(
            webhooks_of(FEATURES), lambda path: {"url": f"https://x{path}"}
        )
        await admin.create(MUTATING_WEBHOOKS, mutating)
        await admin.create(VALIDATING_WEBHOOKS, validating)

    return filled(fill)


class DryRuns(LocalClient):
    """A client of whose requests nothing is stored."""

    def _call(self, kind: ServedKind) -> Call:
        return Call(user=self._user, dry_run=True)


class Person(LocalClient):
    """A client for `lanloom vm move`, which asks for dry runs by the path of a request."""

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Create a NetworkSwap, or edit a VirtualMachine, and store nothing."""
        assert query == {"dryRun": "All"}
        client, name = DryRuns(self._engine, self._user), path.rpartition("/")[2]
        if method == "POST":
            return dict(msgspec.to_builtins(await client.create(NETWORK_SWAPS, body, PLACE)))
        return dict(msgspec.to_builtins(await client.json_patch(VIRTUAL_MACHINES, name, body, PLACE)))


class WholeScene(Scene):
    """The cluster. Its manager has no lease to wait for."""

    def __init__(self, storage: MemoryStorage, settings: LiveUpdateSettings) -> None:
        super().__init__(storage, settings)
        self.admissions: tuple[TableAdmission, ...] = ()
        self.in_flight = InFlight()
        self.engine = Engine(storage, webhooks=_Webhooks(self), now=self.now, rng=Random(1))
        self.client = LocalClient(self.engine, SYSTEM)
        self.person = Person(self.engine, msgspec.structs.replace(SYSTEM, username="alice"))
        self.requests = ScriptedClient(LocalClient(self.engine, SYSTEM))
        self._settled = asyncio.Event()

    async def begin(self) -> None:
        """Start the manager, the agents, and KubeVirt."""
        self.lead()
        await self._settled.wait()
        self.serve()
        self._tasks["kubevirt"] = asyncio.create_task(self._kubevirt())

    async def _manage(self, client: Client, with_swaps: bool) -> None:
        rng = Random(1)
        context = ManagerContext(
            client=client,
            recorder=Recorder(client, "lanloom-manager", "test", now=self.now, rng=rng),
            identity="test",
            user=SYSTEM.username,
            now=self.now,
            rng=rng,
            observe=lambda *_: None,
            settings={"liveupdate": self.settings, "dummy": DUMMIES},
            metrics=ManagerMetrics(FEATURES).features,
        )
        self.in_flight = context.in_flight
        parts = {
            feature.name: load(feature.manager)(context) for feature in in_order(FEATURES) if feature.manager
        }
        self.admissions = tuple(
            parts[feature.name].admission
            for feature in reversed(FEATURES)
            if feature.name in parts and parts[feature.name].admission is not None
        )
        informers = context.informers.all()
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            self._settled.set()
            for part in parts.values():
                group.create_task(part.run())

    async def _kubevirt(self) -> None:
        """Carry out every migration whose target pod is let in; the others wait."""
        while True:
            for item in (await self.client.list(MIGRATIONS)).items:
                if not item.is_final and not item.metadata.is_deleting:
                    await self._carry_out(item.spec.vmi_name, item.metadata.name)
            await asyncio.sleep(0.2)

    async def _carry_out(self, name: str, migration: str) -> None:
        vmi = await self.instance(name)
        nads = {item.name: str(nad_of(item.multus, PLACE)) for item in vmi.spec.networks if item.multus}
        try:
            await self.migrate(vmi.metadata.uid, nads, name=name, migration=migration)
        except NotFound:
            return  # it was aborted
        except KubeError as error:
            self.refusals[name] = str(error)

    refusals: dict[str, str] = {}
    """Why launcher pods of targets were not let in, by machine."""


class _Webhooks:
    """Takes reviews to the manager."""

    def __init__(self, scene: WholeScene) -> None:
        self._scene = scene

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """As the port says."""
        admissions = self._scene.admissions
        if not admissions:
            raise WebhookError("connection refused")
        path = webhook["clientConfig"]["url"].rpartition("/")[2]
        decide = {
            "references": refer_all(admissions),
            "mutate": mutate_all(admissions),
            "validate": validate_all(admissions, self._scene.in_flight),
        }[path]
        answered: Raw = msgspec.json.decode(
            await answer(msgspec.json.encode(review), decide, lambda *_: None)
        )
        return answered


def play(story: Callable[[WholeScene], Awaitable[None]], settings: LiveUpdateSettings | None = None) -> None:
    """Play a story in a cluster of its own, in which everything runs."""

    async def main(storage: MemoryStorage) -> None:
        scene = WholeScene(storage, settings or LiveUpdateSettings())
        try:
            await scene.engine.start()
            await scene.begin()
            await story(scene)
        finally:
            await scene.close()

    run(main(copy.deepcopy(_first_storage())))


def agent(scene: WholeScene, node: str) -> LocalClient:
    """The client of a node's agent."""
    return LocalClient(
        scene.engine, UserInfo(username=f"{NODE_USER_PREFIX}{node}", groups=("system:lanloom:agents",))
    )


async def carry(scene: WholeScene, cluster_network: str, vlan_ids: str = "") -> None:
    """A cluster network that both nodes carry."""
    await uplink(scene.client, cluster_network)
    for node in NODE_NAMES:
        await report_ready(agent(scene, node), cluster_network, node, vlan_ids)


async def uplink(client: Client, cluster_network: str) -> None:
    """A cluster network with an uplink on all nodes."""
    await client.create(CLUSTER_NETWORKS, {"metadata": {"name": cluster_network}})
    spec = {"clusterNetwork": cluster_network, "uplink": {"nics": ["eth1"]}}
    await client.create(VLAN_CONFIGS, {"metadata": {"name": cluster_network}, "spec": spec})


async def report_ready(client: Client, cluster_network: str, node: str, vlan_ids: str = "") -> None:
    """A node that carries a cluster network, as its agent reports it."""
    name = report_name(cluster_network, node)
    labels = {CLUSTER_NETWORK_LABEL: cluster_network, NODE_LABEL: node_label(node)}
    await client.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": name, "labels": labels}})
    status = {
        "clusterNetwork": cluster_network,
        "node": node,
        "bridge": f"{cluster_network}-br",
        "vlanIds": vlan_ids,
        "conditions": [{"type": "ready", "status": "True"}],
    }
    await client.patch(CLUSTER_NETWORK_NODES, name, {"status": status}, subresource="status")

"""A cluster with managers that lead under their own account, and words for isolated networks and their users."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Literal, TypeVar

from lanloom.api.core import (
    EVENTS,
    LEASES,
    PODS,
    Pod,
)
from lanloom.api.dummy import (
    BRIDGE_LABEL,
    DUMMY_CLUSTER_NETWORKS,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Object, parse_rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.daemonset import is_ready
from lanloom.features.dummy.rules.flags import Flags
from lanloom.features.dummy.rules.model import daemon_set_name
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import NotFound
from lanloom.kube.http import HttpClient
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.runtime.identity import MANAGER_LEASE
from tests.features.dummy.cluster.ground import (
    PATIENCE,
    Ground,
    eventually,
    stop,
)
from tests.features.dummy.cluster.installed import (
    MANAGER_TOKEN,
    install,
    remove_webhooks,
    uninstall,
    unregister,
)
from tests.features.dummy.cluster.tapped import Tapped
from tests.harness.servers.eventually import reviewed

T = TypeVar("T", bound=Object)

IMAGE = f"registry.example/lanloom@sha256:{'0' * 64}"
RENEWAL_SECONDS = 0.25
"""How often a leader renews its lease, and how often, about, who waits looks at it."""

MADE: tuple[Resource[Any], ...] = (NADS, DAEMON_SETS, PODS, NETWORKS, CLUSTER_NETWORKS)
"""Kinds of what is made for a network, the pods of its DaemonSet among them."""


class Replica:
    """A manager, the client that it has, and the administrator's."""

    def __init__(self, manager: Manager, client: Tapped, task: asyncio.Task[None], admin: HttpClient) -> None:
        self.manager = manager
        self.client = client
        self.task = task
        self._admin = admin

    async def leads(self) -> None:
        """Returns when its controllers work and its webhooks are registered, and asked."""
        async with asyncio.timeout(PATIENCE):
            await self.manager.ready.wait()
        await reviewed(self._admin)

    async def watches(self) -> None:
        """Returns when it knows the machines that there are, whether it leads or not."""
        async with asyncio.timeout(PATIENCE):
            await self.client.followed(VIRTUAL_MACHINES)

    async def kill(self) -> None:
        """Ends it without a word."""
        self.client.died.set()
        await stop(self.task)


class Managed:
    """The cluster; `name` is that of the network that the test's words are about, `place` where its NAD is."""

    def __init__(self, cluster: Ground) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.place = self.name = cluster.place
        self.nad_name = "isolated"
        self.replicas: list[Replica] = []

    async def manager(self, identity: str = "one", *, lease: float = 15.0, **given: Any) -> Replica:
        """A manager that runs until the test's end. `given` are settings of isolated networks."""
        client = await self.cluster.stack.enter_async_context(HttpClient(await self._account()))
        tapped = Tapped(client)
        said = Flags(**{"default": False, "image": IMAGE, **given})
        settings = ManagerSettings(
            identity=identity,
            host="127.0.0.1",
            port=0,
            local=True,
            features={"dummy": said},
            lease=lease,
            retry=RENEWAL_SECONDS,
        )
        manager = Manager(tapped, settings, now=time.time, rng=Random(identity))
        self.replicas.append(Replica(manager, tapped, self.cluster.start(manager.run()), self.client))
        return self.replicas[-1]

    async def _account(self) -> ClusterConfig:
        """The manager's own account; on a real server by a token that is asked for, as a pod gets it."""
        config = self.cluster.config
        if not self.cluster.is_real:
            return ClusterConfig(server=config.server, ca=config.ca, token=MANAGER_TOKEN)
        path = f"/api/v1/namespaces/{LANLOOM_NAMESPACE}/serviceaccounts/lanloom-manager/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await self.client.request("POST", path, body)
        return ClusterConfig(server=config.server, ca=config.ca, token=answer["status"]["token"])

    async def create(self, **spec: Any) -> DummyClusterNetwork:
        """The network, not ready yet."""
        standard = {
            "bridgeName": f"{self.name}-br",
            "nadName": self.nad_name,
            "nadNamespace": self.place,
        }
        body = {"metadata": {"name": self.name}, "spec": standard | spec}
        return await self.client.create(DUMMY_CLUSTER_NETWORKS, body)

    async def create_ready(self, **spec: Any) -> DummyClusterNetwork:
        """The network, once it is ready."""
        await self.create(**spec)
        return await self.reaches("Ready")

    async def get(self) -> DummyClusterNetwork:
        """The network."""
        return await self.client.get(DUMMY_CLUSTER_NETWORKS, self.name)

    async def reaches(
        self,
        phase: str,
        holds: Callable[[DummyClusterNetwork], bool] = lambda _: True,
        seconds: float = PATIENCE,
    ) -> DummyClusterNetwork:
        """The network once it is in that phase, and `holds`."""
        last: list[DummyClusterNetwork] = []

        async def read() -> DummyClusterNetwork:
            last[:] = [await self.get()]
            return last[0]

        try:
            return await eventually(read, lambda dcn: dcn.status.phase == phase and holds(dcn), seconds)
        except TimeoutError:
            raise AssertionError(f"not {phase}: {[dcn.status for dcn in last]}") from None

    async def delete(self, propagation: Literal["Background", "Foreground", "Orphan"] = "Background") -> None:
        """Deletes the network."""
        await self.client.delete(DUMMY_CLUSTER_NETWORKS, self.name, propagation=propagation)

    async def is_gone(self) -> bool:
        """Whether the network is gone."""
        try:
            await self.get()
        except NotFound:
            return True
        return False

    async def gone(self, uid: str) -> None:
        """Returns when the network is gone; then nothing is left of what was made for it."""
        await self.released(uid)
        # A DaemonSet's pods follow it.
        await eventually(partial(self.made, uid), lambda found: found == [])

    async def released(self, uid: str, seconds: float = PATIENCE) -> None:
        """Returns when the network is gone; then at most pods that no kubelet ends are left of what was made for it."""
        try:
            await eventually(self.is_gone, bool, seconds)
        except TimeoutError:
            raise AssertionError(f"still there: {(await self.get()).status}") from None
        assert await self.made(uid, without_pods=True) == []

    async def made(self, uid: str, *, without_pods: bool = False) -> list[str]:
        """What there is that was made for the network of that uid."""
        kinds = [item for item in MADE if item is not PODS or not without_pods]
        listings = [(kind, await self.client.list(kind, labels=f"{UID_LABEL}={uid}")) for kind in kinds]
        return [f"{kind.kind} {item.metadata.name}" for kind, found in listings for item in found.items]

    async def nad(self) -> NetworkAttachmentDefinition:
        """The network's NAD."""
        return await self.client.get(NADS, self.nad_name, self.place)

    async def daemons(self, uid: str) -> DaemonSet:
        """The network's DaemonSet."""
        return await self.client.get(DAEMON_SETS, daemon_set_name(self.name, uid), BRIDGES_NAMESPACE)

    async def bridge_pods(self, uid: str, state: str = "") -> dict[str, Pod]:
        """The pods of the network's DaemonSet by node; those of one state, or of either."""
        more = f",{BRIDGE_LABEL}={state}" if state else ""
        return await self.cluster.pods(BRIDGES_NAMESPACE, f"{UID_LABEL}={uid}{more}")

    async def add_machine(self, name: str = "vm", namespace: str = "") -> None:
        """A virtual machine that uses the network, in its namespace or elsewhere."""
        networks = [{"name": "lan", "multus": {"networkName": f"{self.place}/{self.nad_name}"}}]
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": {"networks": networks}}}}
        await self.client.create(VIRTUAL_MACHINES, body, namespace or self.place)

    async def remove_machine(self, name: str = "vm", namespace: str = "") -> None:
        """The machine's end."""
        await self.client.delete(VIRTUAL_MACHINES, name, namespace or self.place)

    async def unguarded(self) -> None:
        """Removes the webhooks under the manager that leads, which can't register them again: none is asked now."""
        for replica in self.replicas:
            replica.client.registers = False
        await remove_webhooks(self.client)

    async def unattended(self, replica: Replica) -> None:
        """Ends a manager, and removes what it registered: no webhook judges what is written now."""
        await replica.kill()
        await unregister(self.client)

    async def is_later(self, stamp: str | None) -> None:
        """Returns when whatever is written from now on bears a later time than this one: they have no fractions."""

        async def now() -> float:
            return time.time()

        await eventually(now, lambda found: found >= parse_rfc3339(stamp or "") + 1)

    async def runs(self, namespace: str, *pods: str) -> None:
        """Returns when these pods run, and their kubelet has nothing more to report of them."""
        for name in pods:
            await eventually(partial(self.client.get, PODS, name, namespace), is_ready)

    async def passes(self, seconds: float) -> None:
        """Returns when so much time has passed for the manager that leads: it has renewed its lease meanwhile."""

        async def renewed() -> float:
            lease = await self.client.get(LEASES, MANAGER_LEASE, LANLOOM_NAMESPACE)
            return parse_rfc3339(lease.spec.renew_time or "")

        end = await renewed() + seconds
        await eventually(renewed, lambda time: time >= end)

    async def events(self, reason: str) -> list[str]:
        """The messages of Events about the network."""
        found = (await self.client.list(EVENTS, "default")).items
        return [
            item.message
            for item in found
            if item.reason == reason
            and item.involved_object.kind == "DummyClusterNetwork"
            and item.involved_object.name == self.name
        ]


@asynccontextmanager
async def managed(cluster: Ground, *, kubevirt: bool = True) -> AsyncIterator[Managed]:
    """The cluster with Lanloom's kinds and the manager's rights, and with KubeVirt's kinds unless they are absent."""
    await install(cluster.client, kubevirt=kubevirt, accounts=cluster.is_real)
    made = Managed(cluster)
    try:
        yield made
    finally:
        for replica in made.replicas:
            await replica.kill()
        await uninstall(cluster.client)

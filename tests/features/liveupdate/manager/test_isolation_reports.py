"""The condition NamespaceIsolation of nodes' reports, and the Event of a node whose Multus alone isolates."""

import asyncio
from random import Random
from typing import ClassVar

from lanloom.api.core import EVENTS, NODES
from lanloom.api.lan import LAN_NODES
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.manager.isolation import IsolationReports
from lanloom.kube.conditions import find
from lanloom.kube.informers import Informers
from tests.harness import cluster

ISOLATED = NamespaceIsolation(enabled=True)


class ReportCluster(cluster.Cluster):
    """A cluster with reports of nodes."""

    kinds: ClassVar = (LAN_NODES,)

    def lead(self, isolation: NamespaceIsolation, name: str = "manager") -> None:
        """Start a manager with these settings."""
        self.begin(name, self._manage(isolation, name))

    async def _manage(self, isolation: NamespaceIsolation, name: str) -> None:
        rng = Random(name)
        informer = Informers(self.client, rng).get(LAN_NODES, optional=True)
        recorder = self.recorder("lanloom-manager", name, self.client, rng)
        reports = IsolationReports(self.client, informer, recorder, isolation, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            group.create_task(reports.run())

    async def node(self, name: str, **multus: object) -> None:
        """A node with its report."""
        uid = await self.keep(NODES, {"metadata": {"name": name}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        status = {"multus": {"file": "00-multus.conf"} | multus} if multus else {}
        await self.keep(LAN_NODES, {"metadata": {"name": name, "ownerReferences": [owner]}, "status": status})

    async def says(self, name: str, **multus: object) -> None:
        """The agent reports another configuration."""
        patch = {"status": {"multus": {"file": "00-multus.conf"} | multus if multus else None}}
        await self.client.patch(LAN_NODES, name, patch, subresource="status")
        await asyncio.sleep(5.0)

    async def reason(self, name: str) -> str:
        """The reason of the condition, empty where there is none."""
        found = find((await self.client.get(LAN_NODES, name)).status.conditions, "NamespaceIsolation")
        return found.reason if found is not None else ""

    async def events(self) -> list[tuple[str, str]]:
        """What was reported of which node."""
        found = (await self.client.list(EVENTS)).items
        return sorted((item.involved_object.name, item.reason) for item in found)


def test_a_manager_without_the_option() -> None:
    """The node's report says what is missing, once with an Event, until the manager has it or Multus does not."""

    async def story(on: ReportCluster) -> None:
        await on.node("a", namespaceIsolation=True)
        await on.node("b", namespaceIsolation=False)
        await on.node("c")
        on.lead(NO_ISOLATION)
        await asyncio.sleep(5.0)
        assert [await on.reason(name) for name in "abc"] == ["OptionMissing", "Off", ""]
        assert await on.events() == [("a", "NamespaceIsolationOptionMissing")]
        await on.says("c", namespaceIsolation=True)
        assert await on.reason("c") == "OptionMissing"
        await on.says("c")
        assert await on.reason("c") == ""
        await on.kill("manager")
        on.lead(ISOLATED)
        await asyncio.sleep(5.0)
        assert [await on.reason(name) for name in "abc"] == ["Agrees", "Stricter", ""]
        assert len(await on.events()) == 2

    cluster.play(story, ReportCluster)


def test_managers_with_different_settings() -> None:
    """Two that both believe to lead write about once a second, and not as fast as the server answers."""

    async def story(on: ReportCluster) -> None:
        await on.node("a", namespaceIsolation=True)
        before = int((await on.client.get(LAN_NODES, "a")).metadata.resource_version)
        on.lead(ISOLATED, "one")
        on.lead(NO_ISOLATION, "two")
        await asyncio.sleep(10.0)
        assert int((await on.client.get(LAN_NODES, "a")).metadata.resource_version) - before < 80

    cluster.play(story, ReportCluster)

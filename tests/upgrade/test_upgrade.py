"""From 0.1.0 to this version and back on a real kube-apiserver, with managers and agents of both side by side."""

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.api.core import NODES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.names import READY_LABEL
from lanloom.api.resource import Resource
from lanloom.kube.errors import Forbidden, Invalid, NotFound
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.processes.definitions import resources
from lanloom.runtime.identity import MANAGER_LEASE
from tests.harness.servers.eventually import PatientClient, eventually, reviewed
from tests.harness.servers.real import RealServer
from tests.upgrade.compare import losses, title
from tests.upgrade.versions import PRESENT, Processes, Version, released

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.timeout(600)]

Raw = dict[str, Any]
WRITTEN = Path(__file__).with_name("written.yaml")
REPORTED = Path(__file__).with_name("reported.yaml")
RECORDED = Path(__file__).with_name("recorded.jsonl")
NODE_NAMES = ("node1", "node2")
PATIENCE = 120.0
"""Seconds until something is a failure that a process does which has just been started."""

LATER: Raw = {
    "metadata": {"name": "later"},
    "spec": {
        "subnets": [{"cidr": "198.51.100.0/24", "pools": [{"range": "198.51.100.10-198.51.100.20"}]}],
        "stickyFor": {"Pod": "1h"},
        "namespaces": ["default"],
    },
}
"""A Network with fields that 0.1.0 does not know."""


class Upgraded:
    """The server, its processes, and an administrator."""

    def __init__(self, processes: Processes, client: HttpClient, old: Version) -> None:
        self.processes = processes
        self.client = client
        self.old = old

    async def objects(self) -> dict[str, Raw]:
        """All objects of Lanloom's kinds as the server has them."""
        found: dict[str, Raw] = {}
        for kind in resources():
            listing = await self.client.request("GET", kind.path(""))
            for item in listing["items"]:
                item["kind"] = kind.kind
                found[title(item)] = item
        return found

    async def unreported(self) -> list[str]:
        """The objects without the condition for which `kubectl wait` and GitOps tools wait."""
        found = await self.objects()
        return [
            name
            for name, item in found.items()
            if item["kind"] in ("Network", "Nic", "LAN", "DummyClusterNetwork")
            and not any(each["type"] == "Ready" for each in item.get("status", {}).get("conditions", ()))
        ]

    async def leads(self, version: Version) -> None:
        """Wait until the manager of a version leads, and the server asks its webhooks."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/lanloom-system/leases/{MANAGER_LEASE}"

        def is_holder(lease: Raw) -> bool:
            return str(lease["spec"].get("holderIdentity", "")).startswith(version.name)

        await eventually(lambda: self.client.request("GET", path), is_holder, PATIENCE)
        await reviewed(self.client)

    async def addressed(self) -> None:
        """Wait until both nodes have reported an address in VLAN 2012, and its NAD is ready."""

        async def addresses() -> list[str]:
            path = "/apis/network.lanloom.io/v1alpha1/clusternetworknodes"
            reports = (await self.client.request("GET", path))["items"]
            found = [each.get("status", {}).get("interfaces", ()) for each in reports]
            return [
                each["address"] for interfaces in found for each in interfaces if each.get("state") == "Ready"
            ]

        await eventually(addresses, lambda found: len(found) == len(NODE_NAMES), PATIENCE)
        await eventually(
            lambda: self.client.get(NADS, "vlan2012", "default"),
            lambda nad: nad.metadata.labels.get(READY_LABEL) == "true",
        )

    async def settled(self) -> None:
        """Wait until the objects that users wrote are as they have to be."""
        await eventually(
            lambda: self.client.get(NICS, "db1-0", "default"), lambda nic: len(nic.status.ips) == 3
        )
        await eventually(lambda: self.client.get(NADS, "k8slan-veth-web", "default"), bool)
        await eventually(lambda: self.client.get(NADS, "isolated", "default"), bool)
        await self.addressed()

    async def works(self, name: str, number: int) -> None:
        """The cluster does its jobs: it gives addresses, makes NADs, refuses what is wrong, and removes all again."""
        subnet = f"10.200.{number}.0/24"
        pool = {"range": f"10.200.{number}.10-10.200.{number}.20"}
        created: list[tuple[Resource[Any], str, Raw]] = [
            (NETWORKS, "", {"subnets": [{"cidr": subnet, "pools": [pool]}]}),
            (
                NICS,
                "default",
                {"owner": {"kind": "Instance", "name": name}, "network": name, "ips": ["pool4"]},
            ),
            (LANS, "default", lan_spec(name, 1000 + number)),
            (DUMMY_CLUSTER_NETWORKS, "", isolated_spec(name, number)),
        ]
        for kind, namespace, spec in created:
            body = {"metadata": {"name": name}, "spec": spec}
            await eventually(partial(self.client.create, kind, body, namespace), bool)
        await eventually(
            lambda: self.client.get(NICS, name, "default"),
            lambda nic: [each.partition("/")[0] for each in nic.status.ips] == [f"10.200.{number}.10"],
        )
        for nad in (f"k8slan-veth-{name}", f"iso-{name}"):
            await eventually(lambda nad=nad: self.client.get(NADS, nad, "default"), bool)  # type: ignore[misc]
        wrong = {"metadata": {"name": f"{name}-wrong"}, "spec": lan_spec(name, 0)}
        with pytest.raises((Forbidden, Invalid)):
            await self.client.create(LANS, wrong, "default")
        for kind, namespace, _ in reversed(created):
            await self.client.delete(kind, name, namespace)
            await eventually(partial(self._is_gone, kind, name, namespace), bool)

    async def _is_gone(self, kind: Resource[Any], name: str, namespace: str) -> bool:
        with suppress(NotFound):
            await self.client.get(kind, name, namespace)
            return False
        return True


def lan_spec(name: str, vni: int) -> Raw:
    """The spec of a LAN with one spoke."""
    links = {"ns": name, "bridge": "br0", "vxlan": "vx0", "vni": vni, "defaultVxlanDev": "eth0"}
    return links | {"spokes": [name]}


def isolated_spec(name: str, number: int) -> Raw:
    """The spec of an isolated network."""
    spec = {"bridgeName": f"iso{number}-br", "nadName": f"iso-{name}", "nadNamespace": "default"}
    return spec | {"subnet": f"10.201.{number}.0/24"}


@pytest.fixture(scope="module")
def server(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver with the controllers that delete."""
    with RealServer(real_binaries, controllers=("garbagecollector", "namespace")) as running:
        yield running


@pytest.fixture
async def upgraded(server: RealServer, real_binaries: Path, tmp_path: Path) -> AsyncIterator[Upgraded]:
    """The server with 0.1.0, as its page says, and with what users wrote."""
    old = released(tmp_path / "released")
    with Processes(server, real_binaries / "kubectl", tmp_path) as processes:
        async with PatientClient(load(str(server.kubeconfig))) as client:
            made = Upgraded(processes, client, old)
            for name in ("lanloom-system", "lanloom-bridges"):
                processes.kubectl("create", "namespace", name)
            for name in NODE_NAMES:
                labels = {"kubernetes.io/hostname": name}
                await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
            processes.install(old)
            processes.start_manager(old)
            processes.start_agents(old, *NODE_NAMES)
            await made.leads(old)
            for body in yaml.safe_load_all(WRITTEN.read_text()):
                await applied(processes, body)
            await made.settled()
            for body in yaml.safe_load_all(REPORTED.read_text()):
                await reported(client, body)
            yield made


async def reported(client: HttpClient, body: Raw) -> None:
    """Create an object with its status."""
    resource = next(kind for kind in resources() if kind.kind == body["kind"])
    path = resource.path(body["metadata"].get("namespace", ""))
    await client.request("POST", path, body)
    status = {"status": body["status"]}
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    await client.patch(resource, name, status, namespace, subresource="status")


async def applied(processes: Processes, body: Raw) -> None:
    """Apply as a user does who tries again: a NAD waits for its uplink, and a server for its webhooks."""

    async def attempt() -> bool:
        try:
            processes.kubectl("apply", "-f", "-", given=yaml.safe_dump(body))
        except AssertionError:
            return False
        return True

    await eventually(attempt, bool)


async def test_an_upgrade_loses_nothing_and_neither_does_the_way_back(upgraded: Upgraded) -> None:
    """0.1.0 and this version share a cluster in each order of the upgrade and of the rollback.

    Whatever was written is as it was, addresses, bridges and readiness too; the cluster works in every stage; and
    0.1.0 reads what this version has written.
    """
    processes, old = upgraded.processes, upgraded.old
    await upgraded.works("first", 1)
    before = await upgraded.objects()
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        record(upgraded.old, before.values())
    assert {
        "Network /shop",
        "Nic default/db1-0",
        "LAN default/blue",
        "VlanConfig /vlanconfig-1",
    } <= before.keys()

    processes.install(PRESENT)
    processes.start_manager(PRESENT)
    await upgraded.works("beside", 2)
    processes.stop("manager 0.1.0")
    await upgraded.leads(PRESENT)
    await upgraded.works("upgraded", 3)
    await upgraded.settled()
    await kept(upgraded, before)
    await eventually(upgraded.unreported, lambda found: not found)

    processes.stop("agents 0.1.0")
    processes.start_agents(old, NODE_NAMES[0])
    processes.start_agents(PRESENT, NODE_NAMES[1])
    await upgraded.addressed()
    await upgraded.works("mixed", 4)
    await upgraded.client.create(NETWORKS, LATER)

    processes.start_manager(old)
    processes.stop(f"manager {PRESENT.name}")
    processes.stop(f"agents {PRESENT.name}")
    processes.start_agents(old, NODE_NAMES[1])
    processes.install(old)
    await upgraded.leads(old)
    await upgraded.works("back", 5)
    await upgraded.settled()
    await kept(upgraded, before)
    assert processes.script(old, "reading.py", str(processes.kubeconfig)) == "ok\n"
    await upgraded.client.delete(NETWORKS, "later")
    await removed(upgraded)


def record(old: Version, objects: Iterable[Raw]) -> None:
    """Write what 0.1.0 has made of the server for the tests that have no history."""
    files = sorted((old.root / "deploy/crds").rglob("*.yaml"))
    kinds = [yaml.safe_load(path.read_text()) for path in files]
    for item in objects:
        for field in ("managedFields", "resourceVersion", "selfLink"):
            item["metadata"].pop(field, None)
    lines = [json.dumps(item, sort_keys=True) for item in (*kinds, *objects)]
    RECORDED.write_text("".join(f"{line}\n" for line in lines))


async def removed(upgraded: Upgraded) -> None:
    """Delete what users wrote, the last first, and wait until it is gone: 0.1.0 knows each finalizer."""
    disconnected = '{"spec": {"connections": []}}'
    upgraded.processes.kubectl("patch", "networks.ipam.lanloom.io/shop", "--type=merge", "-p", disconnected)
    for body in reversed(list(yaml.safe_load_all(WRITTEN.read_text()))):
        words = (f"{body['kind']}.{body['apiVersion'].partition('/')[0]}", body["metadata"]["name"])
        upgraded.processes.kubectl("delete", *words, "-n", "default", "--timeout=60s")


async def kept(upgraded: Upgraded, before: dict[str, Raw]) -> None:
    """Wait until nothing is missing of what was there."""

    async def lost() -> list[str]:
        after = await upgraded.objects()
        gone = [name for name in before if name not in after]
        return gone + [
            text for name, item in before.items() if name in after for text in losses(item, after[name])
        ]

    try:
        await eventually(lost, lambda found: not found)
    except TimeoutError:
        raise AssertionError("\n".join(await lost())) from None

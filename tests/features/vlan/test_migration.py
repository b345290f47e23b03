"""Migrate a cluster from Harvester's controller to Lanloom and back, with nothing interrupted, from any crash."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import CRDS, NODES, VALIDATING_WEBHOOKS
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    LINK_MONITORS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.migrate import Planner, migrate, read_snapshot
from lanloom.features.vlan.rules.adoptplan import KEEP, plan_adoption, stuck
from lanloom.features.vlan.rules.handover import plan_hand_over
from lanloom.features.vlan.rules.migration import Change, MigrationPlan, Wait
from lanloom.features.vlan.rules.names import interface_name
from lanloom.kube.errors import TransportError
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.node.ports import Link
from tests.features.vlan.cluster import cluster_network, host_network, vlan_config
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.features.vlan.test_beside import network
from tests.harness.harvester import Controller, install, install_account, uninstall
from tests.harness.interceptor import WRITES, Interceptor, Meddled, Request

R = TypeVar("R")
pytestmark = pytest.mark.slow

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"
STORAGE = interface_name("cluster-1", 36)
IPS = {name: f"10.36.0.{10 + index}/24" for index, name in enumerate(sorted(STATIC))}
FINALIZER = f"{names.HARVESTER_FINALIZERS}x-controller"
ADOPT = partial(plan_adoption, namespace="default")
KINDS: tuple[Resource[Any], ...] = (
    VLAN_CONFIGS,
    CLUSTER_NETWORKS,
    NADS,
    VLAN_STATUSES,
    LINK_MONITORS,
    HOST_NETWORK_CONFIGS,
    NODES,
)


async def harvesters(quiet: Quiet) -> None:
    """A cluster of Harvester's: uplinks, a HostNetworkConfig, a NAD with node addresses, finalizers on everything."""
    await install(quiet.admin)
    controller = Controller(quiet.sim.engine, quiet.sim.hosts)
    await asyncio.sleep(5)
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    await quiet.admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1"))
    await controller.carry("cluster-1", "one", "eth1")
    await controller.client.create(VLAN_CONFIGS, vlan_config("mgmt-vlanconfig-node1", "mgmt", nics=("eth0",)))
    await asyncio.sleep(30)
    await network(quiet, controller, "static", addresses=STATIC)
    storage = host_network("storage", vid=36, mode="static")
    await quiet.admin.create(HOST_NETWORK_CONFIGS, {**storage, "spec": {**storage["spec"], "ips": IPS}})
    for name, host in quiet.sim.hosts.items():
        link = Link(name=STORAGE, index=0, kind="vlan", parent=BRIDGE, vlan_id=36, up=True)
        host.plant_link(replace(link, addresses=(IPS[name],)))
        for port, self_ in ((BRIDGE, True), (BOND, False)):
            host.add_vlan(port, 36, self_=self_)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    configuration = {"metadata": {"name": names.HARVESTER_WEBHOOK}, "webhooks": []}
    await controller.client.create(VALIDATING_WEBHOOKS, configuration)
    helm = {"metadata": {"annotations": {"meta.helm.sh/release-name": "harvester"}}}
    await quiet.admin.patch(CRDS, VLAN_CONFIGS.full_name, helm)
    for kind, item in await objects(quiet):
        finalizers = [*item.metadata.finalizers, FINALIZER]
        patch = {"metadata": {"finalizers": finalizers}}
        await controller.client.patch(kind, item.metadata.name, patch, item.metadata.namespace)
    await asyncio.sleep(30)


async def objects(quiet: Quiet) -> list[tuple[Resource[Any], Any]]:
    """Everything that Harvester's controller puts finalizers on."""
    return [(kind, item) for kind in KINDS for item in await list_or_empty(quiet.admin, kind)]


def uplinks(quiet: Quiet) -> dict[tuple[str, str], Link]:
    """The links that must stay the same ones, as far as their makers made them; a mark is no change of them."""
    return {
        (node, name): replace(host.kernel.links[name], alias="")
        for node, host in quiet.sim.hosts.items()
        for name in (BRIDGE, BOND, "eth1")
    }


async def run(
    client: Client, planner: Planner, wait_seconds: float = 600.0
) -> tuple[MigrationPlan, list[Change]]:
    """What is left, and what was done."""
    done: list[Change] = []
    left = await migrate(client, planner, done.append, wait_seconds=wait_seconds)
    return left, done


def texts(plan: MigrationPlan) -> list[str]:
    """The items of a plan, as an operator sees them."""
    return [item.until if isinstance(item, Wait) else f"{item.verb} {item.title}" for item in plan.items]


async def is_adopted(quiet: Quiet) -> None:
    """Nothing is left of Harvester but its objects, and Lanloom has the links and all addresses."""
    assert not [item for _, item in await objects(quiet) if FINALIZER in item.metadata.finalizers]
    assert {item.metadata.name for item in (await quiet.admin.list(VLAN_CONFIGS)).items} == {"one"}
    assert not await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    nad = await quiet.admin.get(NADS, "storage", "default")
    assert json.loads(nad.metadata.annotations[names.NODE_IP_MAP]) == IPS
    assert names.HOST_NETWORK not in nad.metadata.annotations
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert names.ADOPT_LINKS not in found.metadata.annotations
    await quiet.rest()
    for name, host in quiet.sim.hosts.items():
        links = host.kernel.links
        assert links[BRIDGE].ours
        assert links[BOND].ours
        assert links[STORAGE].addresses == (IPS[name],)
        assert quiet.addresses(name) == (STATIC[name],)


@on_a_quiet_cluster
async def test_adopt(quiet: Quiet) -> None:
    """Finalizers stay while the controller is there; when it is gone, Lanloom takes links and addresses as they are."""
    await harvesters(quiet)
    before = uplinks(quiet)
    dry = ADOPT(await read_snapshot(quiet.admin))
    left, done = await run(quiet.admin, ADOPT, wait_seconds=0)
    assert not left.refusals
    assert [item.what for item in done] == ["Helm keeps it, with its objects, when the chart lets go of it"]
    assert texts(dry)[1:] == texts(left)
    assert "are removed" in texts(left)[0]
    assert all(FINALIZER in item.metadata.finalizers for _, item in await objects(quiet))
    assert (await quiet.admin.get(CRDS, VLAN_CONFIGS.full_name)).metadata.annotations[KEEP] == "keep"
    indexes = {name: host.kernel.links[STORAGE].index for name, host in quiet.sim.hosts.items()}
    await uninstall(quiet.admin)
    assert "Node node1" in stuck(await read_snapshot(quiet.admin))
    left, done = await run(quiet.admin, ADOPT)
    assert left == MigrationPlan()
    announced = {text for text in texts(dry) if text.split()[0] in ("create", "change", "delete")}
    assert {f"{item.verb} {item.title}" for item in done} <= announced
    await is_adopted(quiet)
    assert uplinks(quiet) == before
    assert {name: host.kernel.links[STORAGE].index for name, host in quiet.sim.hosts.items()} == indexes
    assert not stuck(await read_snapshot(quiet.admin))
    assert await run(quiet.admin, ADOPT) == (MigrationPlan(), [])


class Dying(Interceptor):
    """Each write has its effect, and its answer is lost."""

    async def _ask(self, request: Request, send: Callable[[], Coroutine[Any, Any, R]]) -> R:
        answer = await send()
        if request.verb in WRITES:
            raise TransportError("died")
        return answer


async def attempts(quiet: Quiet, planner: Planner) -> int:
    """Runs a plan again and again, each time by a process that dies after one write; how many did."""
    for number in range(100):
        try:
            left, _ = await run(Dying(quiet.admin), planner)
        except TransportError:
            continue
        assert left.items == ()
        return number
    raise AssertionError("it does not end")


@on_a_quiet_cluster
async def test_adopt_from_any_crash(quiet: Quiet) -> None:
    """Runs that die after each write reach the same end as one that does not."""
    await harvesters(quiet)
    before = uplinks(quiet)
    await uninstall(quiet.admin)
    assert await attempts(quiet, ADOPT) > 10
    await is_adopted(quiet)
    assert uplinks(quiet) == before


@on_a_quiet_cluster
async def test_hand_over(quiet: Quiet) -> None:
    """Labels come before the controller, marks and conditions go after it came, and addresses stay Lanloom's."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await quiet.leave_alone()
    label: dict[str, Any] = {"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: None}}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", label)
    before = uplinks(quiet)
    left, done = await run(quiet.admin, plan_hand_over, wait_seconds=0)
    assert [item.title for item in done] == ["VlanConfig one"]
    assert texts(left)[0] == "Harvester's network controller is installed"
    quiet.sim.processes["manager-1"].start()
    await install(quiet.admin)
    left, done = await run(quiet.admin, plan_hand_over)
    assert (left.items, len(left.notes)) == ((), 1)
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert {item.type for item in found.status.conditions} == {"ready"}
    assert uplinks(quiet) == before
    assert not any(host.kernel.links[BRIDGE].ours for host in quiet.sim.hosts.values())
    assert quiet.addresses() == (STATIC["node1"],)
    left, done = await run(quiet.admin, partial(plan_hand_over, convert=True))
    assert (left.items, left.notes) == ((), ())
    (config,) = await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    assert (config.spec.vlanID, config.spec.mode, config.spec.ips) == (2012, "static", STATIC)
    assert not quiet.addresses()
    nad = await quiet.admin.get(NADS, "vlan2012", "default")
    assert (
        not {names.L3_CONNECTIVITY, names.NODE_IP_MAP, names.HOST_NETWORK} & nad.metadata.annotations.keys()
    )


@on_a_quiet_cluster
async def test_there_and_back_again(quiet: Quiet) -> None:
    """An adoption that was begun can be handed back, and a hand-over taken back; addresses are lost by neither."""
    await harvesters(quiet)
    await uninstall(quiet.admin)
    client = Meddled(quiet.admin)
    client.fail(TransportError("died"), "delete", of=HOST_NETWORK_CONFIGS)
    with pytest.raises(TransportError):
        await run(client, ADOPT)
    await install_account(quiet.admin)
    left, _ = await run(quiet.admin, plan_hand_over)
    assert left.items == ()
    (config,) = await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    assert config.spec.ips == IPS
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert names.ADOPT_LINKS not in found.metadata.annotations
    await asyncio.sleep(60)
    assert not any(host.kernel.links[BRIDGE].ours for host in quiet.sim.hosts.values())
    await quiet.admin.delete(NADS, "storage", "default")
    await uninstall(quiet.admin)
    assert (await run(quiet.admin, ADOPT))[0] == MigrationPlan()
    await is_adopted(quiet)

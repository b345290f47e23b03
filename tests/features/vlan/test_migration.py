"""Migrate a cluster from Harvester's controller to Lanloom and back, with nothing interrupted, from any crash."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    LINK_MONITORS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
)
from lanloom.api.linknames import interface_name
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.migrate import Planner, migrate, read_snapshot
from lanloom.features.vlan.rules.migration.adopt import KEEP, plan_adoption, stuck
from lanloom.features.vlan.rules.migration.handover import plan_hand_over
from lanloom.features.vlan.rules.migration.plans import Change, MigrationPlan, Wait
from lanloom.kube.errors import TransportError
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Client
from lanloom.node.ports import Link
from tests.features.vlan.cluster import host_network, nad
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.features.vlan.test_beside import network
from tests.harness.harvester import Harvester
from tests.harness.interceptor import WRITES, Interceptor, Request, ScriptedClient

pytestmark = pytest.mark.slow

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"
STORAGE = interface_name("cluster-1", 36)
IPS = {name: f"10.36.0.{10 + index}/24" for index, name in enumerate(sorted(STATIC))}
ADOPT = partial(plan_adoption, namespace="default")
CONVERT = partial(plan_hand_over, convert=True)
KINDS: tuple[Resource[Any], ...] = (
    VLAN_CONFIGS,
    CLUSTER_NETWORKS,
    NADS,
    VLAN_STATUSES,
    LINK_MONITORS,
    HOST_NETWORK_CONFIGS,
    NODES,
)


async def harvesters(quiet: Quiet, mode: str = "static") -> Harvester:
    """A cluster of Harvester's: uplinks, a HostNetworkConfig, a NAD with node addresses, finalizers on everything."""
    harvester = Harvester(quiet.sim)
    await harvester.carry(30)
    await network(quiet, "static", addresses=STATIC)
    quiet.sim.switch.set_dhcp(36, "10.36.0.0/24")
    storage = host_network("storage", vid=36, mode=mode)
    storage["spec"] |= {"ips": IPS} if mode == "static" else {}
    await quiet.admin.create(HOST_NETWORK_CONFIGS, storage)
    hosts = quiet.sim.hosts.values()
    await quiet.until(
        lambda: all(STORAGE in host.kernel.links and host.kernel.links[STORAGE].addresses for host in hosts)
    )
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    helm = {"metadata": {"annotations": {"meta.helm.sh/release-name": "harvester"}}}
    await quiet.admin.patch(CRDS, VLAN_CONFIGS.full_name, helm)
    await asyncio.sleep(30)
    held = [kind.plural for kind, item in await objects(quiet) if is_held(item)]
    assert {kind.plural for kind in KINDS} == set(held)
    return harvester


def is_held(item: Object) -> bool:
    """Whether an object has a finalizer of Harvester's."""
    return any(each.startswith(names.HARVESTER_FINALIZERS) for each in item.metadata.finalizers)


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
    assert not [item for _, item in await objects(quiet) if is_held(item)]
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
    harvester = await harvesters(quiet)
    before = uplinks(quiet)
    dry = ADOPT(await read_snapshot(quiet.admin))
    left, done = await run(quiet.admin, ADOPT, wait_seconds=0)
    assert not left.refusals
    assert [item.what for item in done] == ["Helm keeps it, with its objects, when the chart lets go of it"]
    assert texts(dry)[1:] == texts(left)
    assert "are removed" in texts(left)[0]
    assert [item for _, item in await objects(quiet) if is_held(item)]
    assert (await quiet.admin.get(CRDS, VLAN_CONFIGS.full_name)).metadata.annotations[KEEP] == "keep"
    indexes = {name: host.kernel.links[STORAGE].index for name, host in quiet.sim.hosts.items()}
    await harvester.uninstall()
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

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
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
    harvester = await harvesters(quiet)
    before = uplinks(quiet)
    await harvester.uninstall()
    assert await attempts(quiet, ADOPT) > 10
    await is_adopted(quiet)
    assert uplinks(quiet) == before


async def lanlooms(quiet: Quiet) -> None:
    """A cluster of Lanloom's: NADs with static addresses, with leases, and on a VLAN that Harvester can't serve."""
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(37, "10.37.0.0/24")
    await quiet.network("static", addresses=STATIC)
    await quiet.admin.create(NADS, nad("storage", "cluster-1", 36, mode="static", addresses=IPS), "default")
    await quiet.admin.create(NADS, nad("leased", "cluster-1", 37, mode="dhcp"), "default")
    await have_addresses(quiet, 36, 37)


async def have_addresses(quiet: Quiet, *vids: int) -> None:
    """Waits until all nodes have addresses on these VLANs, by whomever."""
    await quiet.until(
        lambda: all(host_addresses(quiet, name, vid) for name in quiet.sim.hosts for vid in vids)
    )


async def is_handed_over(quiet: Quiet) -> None:
    """Nothing is left to do: Harvester serves what it can, and no NAD asks for the same."""
    configs = {
        item.metadata.name: item.spec for item in await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    }
    assert {name: (spec.vlanID, spec.mode, spec.ips) for name, spec in configs.items()} == {
        "storage": (36, "static", IPS),
        "leased": (37, "dhcp", {}),
    }
    await have_addresses(quiet, 36, 37)
    for name in quiet.sim.hosts:
        assert host_addresses(quiet, name, 36) == (IPS[name],)
        assert host_addresses(quiet, name, 37)[0].startswith("10.37.0.")
        assert quiet.addresses(name) == (STATIC[name],)
    for name in configs:
        found = await quiet.admin.get(NADS, name, "default")
        assert (
            not {names.L3_CONNECTIVITY, names.NODE_IP_MAP, names.HOST_NETWORK}
            & found.metadata.annotations.keys()
        )


def host_addresses(quiet: Quiet, node: str, vid: int) -> tuple[str, ...]:
    """The addresses of a node on the VLAN of a HostNetworkConfig."""
    link = quiet.sim.hosts[node].kernel.links.get(f"{BRIDGE}.{vid}")
    return link.addresses if link is not None else ()


@on_a_quiet_cluster
async def test_hand_over(quiet: Quiet) -> None:
    """Labels come before the controller, marks and conditions go after it came, and addresses stay Lanloom's.

    With HostNetworkConfigs asked for, Harvester serves what it can; what its webhook would refuse is named and stays.
    """
    await lanlooms(quiet)
    await quiet.leave_alone()
    label: dict[str, Any] = {"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: None}}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", label)
    before = uplinks(quiet)
    left, done = await run(quiet.admin, plan_hand_over, wait_seconds=0)
    assert [item.title for item in done] == ["VlanConfig one"]
    assert texts(left)[0] == "Harvester's network controller is installed"
    quiet.sim.processes["manager-1"].start()
    await Harvester(quiet.sim).install()
    left, done = await run(quiet.admin, plan_hand_over)
    assert (left.items, len(left.notes)) == ((), 1)
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert {item.type for item in found.status.conditions} == {"ready"}
    assert uplinks(quiet) == before
    assert not any(host.kernel.links[BRIDGE].ours for host in quiet.sim.hosts.values())
    assert quiet.addresses() == (STATIC["node1"],)
    left, done = await run(quiet.admin, CONVERT)
    assert left.items == ()
    (note,) = left.notes
    assert "default/vlan2012: Harvester's name of its link, cluster-1-br.2012, is longer than 15" in note
    await is_handed_over(quiet)
    assert uplinks(quiet) == before


@on_a_quiet_cluster
async def test_hand_over_from_any_crash(quiet: Quiet) -> None:
    """Runs that die after each write reach the same end as one that does not, and no address is forgotten."""
    await lanlooms(quiet)
    await Harvester(quiet.sim).install()
    before = uplinks(quiet)
    assert await attempts(quiet, CONVERT) > 5
    await is_handed_over(quiet)
    assert uplinks(quiet) == before


@on_a_quiet_cluster
async def test_adopt_leases(quiet: Quiet) -> None:
    """A HostNetworkConfig by DHCP becomes a NAD by DHCP, on the same link; and back with another lease."""
    harvester = await harvesters(quiet, "dhcp")
    indexes = {name: host.kernel.links[STORAGE].index for name, host in quiet.sim.hosts.items()}
    await harvester.uninstall()
    assert (await run(quiet.admin, ADOPT))[0] == MigrationPlan()
    await have_addresses(quiet, 36)
    found = await quiet.admin.get(NADS, "storage", "default")
    assert found.metadata.annotations[names.MODE] == "dhcp"
    for name, host in quiet.sim.hosts.items():
        link = host.kernel.links[STORAGE]
        assert (link.index, len(link.addresses)) == (indexes[name], 1)
    await harvester.come_back()
    assert (await run(quiet.admin, CONVERT))[0].items == ()
    await have_addresses(quiet, 36)
    (config,) = await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    assert (config.metadata.name, config.spec.mode) == ("storage", "dhcp")


@on_a_quiet_cluster
async def test_there_and_back_again(quiet: Quiet) -> None:
    """An adoption that was begun can be handed back, and a hand-over taken back; addresses are lost by neither."""
    harvester = await harvesters(quiet)
    await harvester.uninstall()
    client = ScriptedClient(quiet.admin)
    client.fail(TransportError("died"), "delete", of=HOST_NETWORK_CONFIGS)
    with pytest.raises(TransportError):
        await run(client, ADOPT)
    await harvester.come_back()
    left, _ = await run(quiet.admin, plan_hand_over)
    assert left.items == ()
    (config,) = await list_or_empty(quiet.admin, HOST_NETWORK_CONFIGS)
    assert config.spec.ips == IPS
    found = await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert names.ADOPT_LINKS not in found.metadata.annotations
    await asyncio.sleep(60)
    assert not any(host.kernel.links[BRIDGE].ours for host in quiet.sim.hosts.values())
    await quiet.admin.delete(NADS, "storage", "default")
    await harvester.uninstall()
    assert (await run(quiet.admin, ADOPT))[0] == MigrationPlan()
    await is_adopted(quiet)

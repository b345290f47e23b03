"""What others change on a host is noticed at once, put right and reported; a fight does not wear the host out."""

import asyncio
import json
from collections import Counter
from ipaddress import IPv4Interface
from random import Random

import pytest

from lanloom.api import names
from lanloom.api.core import Event
from lanloom.api.multus import NADS
from lanloom.features.vlan.agent import VlanAgent
from lanloom.features.vlan.informers import agent_informers
from lanloom.kube.informers import Informers
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Host,
    Link,
    LinkState,
    LinkStep,
    Route,
)
from tests.fakes import FakeHost
from tests.features.vlan.cluster import CLUSTER
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)

_BRIDGE = "cluster-1-br"


class Watched:
    """The links of a host, and how often they were looked at and changed."""

    def __init__(self, host: FakeHost) -> None:
        self._links = host.host.links
        self.changes = self._links.changes
        self.calls: Counter[str] = Counter()

    async def dump(self) -> LinkState:
        """Counted."""
        self.calls["dump"] += 1
        return await self._links.dump()

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """Counted."""
        self.calls["apply"] += 1
        await self._links.apply(steps)


class Observed:
    """The agent of node1 with observers, in place of the simulated one."""

    def __init__(self, quiet: Quiet) -> None:
        fake = quiet.sim.hosts["node1"]
        self.links = Watched(fake)
        self.repairs: Counter[str] = Counter()
        ports = fake.host
        host = Host(
            "node1",
            self.links,
            ports.profiles,
            ports.network_manager,
            state=ports.state,
            runtime=ports.runtime,
        )
        self._informers = agent_informers(Informers(quiet.admin, Random(1)), "node1")
        self._agent = VlanAgent(
            quiet.admin,
            host,
            self._informers,
            cluster=CLUSTER,
            now=quiet.sim.now,
            rng=Random(1),
            on_repair=lambda kind, number: self.repairs.update({kind: number}),
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Observed":
        runs = [informer.run() for informer in self._informers.all()]
        self._tasks = [asyncio.create_task(run) for run in (*runs, self._agent.run())]
        await asyncio.sleep(60)
        self.links.calls.clear()
        return self

    async def __aexit__(self, *_error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _static_network(quiet: Quiet) -> None:
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await asyncio.sleep(60)


async def _observed(quiet: Quiet) -> Observed:
    await _static_network(quiet)
    await quiet.sim.processes["node1"].kill()
    return Observed(quiet)


async def _told(quiet: Quiet) -> list[Event]:
    return await quiet.events("DriftRepaired")


async def _beside_others(quiet: Quiet, own: str, others: set[str]) -> None:
    host = quiet.sim.hosts["node1"]
    host.drop_route(DEVICE, str(IPv4Interface(own).network))
    await asyncio.sleep(12)
    assert not host.kernel.lost_routes.get(DEVICE)
    (interface,) = (await quiet.report()).interfaces
    assert (interface.address, set(interface.other_addresses), interface.state) == (own, others, "Ready")
    routes = json.dumps([{"to": "10.9.0.0/16", "via": "192.168.1.2"}])
    await quiet.admin.patch(
        NADS, "vlan2012", {"metadata": {"annotations": {names.ROUTES: routes}}}, "default"
    )
    await asyncio.sleep(30)
    assert any(route.to == "10.9.0.0/16" for route in host.kernel.state().links[DEVICE].routes)
    assert set(quiet.addresses()) == {own, *others}


@pytest.mark.parametrize("mode", ["static", "dhcp"])
def test_addresses_of_other_programs(mode: str) -> None:
    """Addresses of other programs survive repairs and edits, and are never taken for the node's own."""
    others = {"192.168.1.251/32", "172.16.0.250/24", "169.254.20.10/32"}

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        await quiet.rest()
        (own,) = quiet.addresses()
        for other in sorted(others):
            quiet.sim.hosts["node1"].add_address(DEVICE, other)
        await _beside_others(quiet, own, others)

    story()


@on_a_quiet_cluster
async def test_an_address_of_the_nodes_own_subnet(quiet: Quiet) -> None:
    """An address of another program in the subnet of the node's own survives an edit that gives the node another."""
    other, edited = "192.168.1.252/24", "192.168.1.77/24"
    await _static_network(quiet)
    (own,) = quiet.addresses()
    assert IPv4Interface(own).network == IPv4Interface(other).network
    quiet.sim.hosts["node1"].add_address(DEVICE, other)
    await asyncio.sleep(5)
    stated = {names.NODE_IP_MAP: json.dumps({**STATIC, "node1": edited})}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": stated}}, "default")
    await asyncio.sleep(30)
    assert set(quiet.addresses()) == {edited, other}


@on_a_quiet_cluster
async def test_drift_is_repaired_at_once(quiet: Quiet) -> None:
    """A VLAN id, a profile or a bridge that an operator takes away is back within two seconds."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    host.drop_vlan(_BRIDGE, 2012, self_=True)
    await asyncio.sleep(2)
    assert host.kernel.carries(_BRIDGE, 2012)
    host.remove_file(FILE)
    await asyncio.sleep(2)
    assert FILE in host.directory.files
    host.delete_link(_BRIDGE)
    await asyncio.sleep(2)
    assert _BRIDGE in host.kernel.links
    await quiet.rest()


@on_a_quiet_cluster
async def test_drift_is_told_and_counted(quiet: Quiet) -> None:
    """An Event on the Node says what was put right, and an observer hears how much of which kind."""
    async with await _observed(quiet) as agent:
        host = quiet.sim.hosts["node1"]
        host.drop_vlan(_BRIDGE, 2012, self_=True)
        await asyncio.sleep(5)
        host.remove_file(FILE)
        await asyncio.sleep(5)
        host.flush(DEVICE)
        await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
        await asyncio.sleep(5)
        host.delete_link(DEVICE)
        await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
        await asyncio.sleep(5)
        assert agent.repairs == {"vlan-id": 1, "profile": 1, "address": 1, "link": 1}
    events = await _told(quiet)
    assert {(item.involved_object.kind, item.involved_object.name) for item in events} == {("Node", "node1")}
    assert {item.involved_object.uid for item in events} == {"node1"}
    texts = " ".join(item.message for item in events)
    assert "VLAN id 2012 was missing on cluster-1-br" in texts
    assert f"the profile {FILE} was removed" in texts
    assert f"the address {STATIC['node1']} of {DEVICE} was gone" in texts
    assert f"{DEVICE} was gone" in texts


@on_a_quiet_cluster
async def test_a_link_of_others_that_takes_the_packets(quiet: Quiet) -> None:
    """A sub-interface that another program put into a bridge or VRF is not ready; it is soon taken out, and told."""
    await _static_network(quiet)
    kernel = quiet.sim.hosts["node1"].kernel
    kernel.add(Link(name="br9", index=0, kind="bridge", up=True))
    kernel.change(DEVICE, master="br9")

    async def message() -> str:
        (interface,) = (await quiet.report()).interfaces
        return interface.message if interface.state != "Ready" else ""

    await asyncio.sleep(2)
    assert (await message()).startswith(f"{DEVICE} was put into br9, which takes its packets")
    await quiet.until(lambda: not kernel.links[DEVICE].master)
    await asyncio.sleep(5)
    assert not await message()
    assert quiet.addresses() == (STATIC["node1"],)
    assert "br9" in kernel.links
    assert f"{DEVICE} was put into br9" in " ".join(item.message for item in await _told(quiet))


@on_a_quiet_cluster
async def test_a_gateway_is_put_back(quiet: Quiet) -> None:
    """A gateway whose rule or table is deleted is back soon, and an Event tells of it."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    annotations = {"metadata": {"annotations": {names.GATEWAY: "192.168.1.1"}}}
    await quiet.admin.patch(NADS, "vlan2012", annotations, "default")
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    await quiet.until(lambda: host.kernel.links[DEVICE].tables != ())
    await asyncio.sleep(60)
    (table,) = host.kernel.links[DEVICE].tables
    rules = host.kernel.state().rules
    host.drop_rules(table)
    await quiet.until(lambda: host.kernel.state().rules == rules)
    host.drop_table(table)
    await quiet.until(lambda: host.kernel.links[DEVICE].tables == (table,))
    await asyncio.sleep(5)
    assert "the gateway of clust-4afb.2012" in " ".join(item.message for item in await _told(quiet))


@pytest.mark.slow
@on_a_quiet_cluster
async def test_routes_are_put_back(quiet: Quiet) -> None:
    """An address without a route that makes it usable is not ready; the route is back soon, and an Event tells."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    whole = host.kernel.state().links[DEVICE].routes
    for route, name in (
        (Route("192.168.1.0/24", MAIN_TABLE), "the route to 192.168.1.0/24"),
        (Route("192.168.1.10/32", LOCAL_TABLE), "the local route of 192.168.1.10"),
    ):
        host.kernel.lose_routes(DEVICE, [route])
        assert (await quiet.told("RouteMissing")).type == "L3Ready"
        await quiet.until(lambda: host.kernel.state().links[DEVICE].routes == whole)
        await quiet.rest()
        await asyncio.sleep(5)
        assert f"{name} " in " ".join(item.message for item in await _told(quiet))


@on_a_quiet_cluster
async def test_changes_of_users_are_no_drift(quiet: Quiet) -> None:
    """What users change, and what a reboot takes away, is not called drift."""
    await _static_network(quiet)
    await quiet.remap({**STATIC, "node1": "192.168.1.99/24"})
    await quiet.rest()
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].reboot()
    quiet.sim.processes["node1"].start()
    await quiet.rest()
    assert not await _told(quiet)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_an_agent_does_not_wake_itself(quiet: Quiet) -> None:
    """After a change of its own an agent looks once more; at rest it looks every 30 s, and writes nothing."""
    async with await _observed(quiet) as agent:
        await asyncio.sleep(1800)
        assert agent.links.calls["apply"] == 0
        assert agent.links.calls["dump"] <= 1800 / 30 + 1
        quiet.sim.hosts["node1"].drop_vlan(_BRIDGE, 2012, self_=True)
        agent.links.calls.clear()
        await asyncio.sleep(5)
        assert agent.links.calls["apply"] == 1
        assert agent.links.calls["dump"] <= 4


@on_a_quiet_cluster
async def test_the_managers_label_is_no_news(quiet: Quiet) -> None:
    """No agent looks at its node because the manager wrote its label onto a NAD, as it does onto each new one."""
    async with await _observed(quiet) as agent:
        await quiet.leave_alone()
        agent.links.calls.clear()
        for number in range(20):
            patch = {"metadata": {"labels": {names.READY_LABEL: f"{number}"}}}
            await quiet.admin.patch(NADS, "vlan2012", patch, "default")
            await asyncio.sleep(0.1)
        assert agent.links.calls["dump"] <= 1, "one because time has passed"
        agent.links.calls.clear()
        patch = {"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: "other"}}}
        await quiet.admin.patch(NADS, "vlan2012", patch, "default")
        await asyncio.sleep(0.5)
        assert agent.links.calls["dump"] >= 1


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_fight_does_not_loop_hot(quiet: Quiet) -> None:
    """Against a program that undoes every repair at once an agent tries ever more rarely, and never gives up."""
    async with await _observed(quiet) as agent:
        host = quiet.sim.hosts["node1"]

        def undo() -> None:
            link = host.kernel.links.get(_BRIDGE)
            if link is not None and (2012, 2012) in link.self_vlans:
                asyncio.get_running_loop().call_soon(lambda: host.drop_vlan(_BRIDGE, 2012, self_=True))

        host.kernel.watchers.append(undo)
        host.drop_vlan(_BRIDGE, 2012, self_=True)
        await asyncio.sleep(600)
        assert 15 <= agent.links.calls["apply"] <= 40
        assert agent.links.calls["dump"] <= 700  # a look a second, as at anything that is not ready yet
        host.kernel.watchers.remove(undo)
        await asyncio.sleep(60)
        assert host.kernel.carries(_BRIDGE, 2012)
    series = await _told(quiet)
    assert len(series) == 1
    assert series[0].count > 10


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_busy_host_costs_a_look_a_second(quiet: Quiet) -> None:
    """A host where something of others changes all the time is looked at once a second, and not touched."""
    async with await _observed(quiet) as agent:
        kernel = quiet.sim.hosts["node1"].kernel
        for number in range(600):
            kernel.change("foreign-br", mtu=1400 + number % 2)
            await asyncio.sleep(0.1)
        assert agent.links.calls["dump"] <= 65
        assert agent.links.calls["apply"] == 0


@on_a_quiet_cluster
async def test_a_few_changes_are_seen_one_by_one(quiet: Quiet) -> None:
    """On a host at rest, each step of an activation is looked at when it happens, and waits for no spacing."""
    async with await _observed(quiet) as agent:
        kernel = quiet.sim.hosts["node1"].kernel
        for number in range(4):
            before = agent.links.calls["dump"]
            kernel.change("foreign-br", mtu=1400 + number % 2)
            await asyncio.sleep(0.3)
            assert agent.links.calls["dump"] > before

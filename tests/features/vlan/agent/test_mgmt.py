"""What an agent remembers of the installer's bridge: which VLAN ids it added itself."""

import asyncio

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import encode
from lanloom.api.meta import Condition, Key
from lanloom.features.vlan.agent.apply import RECORD
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.features.vlan.rules.desired.owned import NOTHING, recorded
from lanloom.kube.errors import NotFound
from lanloom.node.vlanids import contains
from tests.features.vlan.cluster import cluster_network
from tests.features.vlan.quiet import Quiet, on_a_quiet_cluster

_BRIDGE = "mgmt-br"
_L3 = L3(vid=2014, mode="static", addresses={"node1": "10.118.0.11/24"})
_ADDED = encode(Key("default", "vlan2014"), _L3)


def _ids(quiet: Quiet) -> bool:
    """Whether the installer's bridge of node1 carries VLAN 2014."""
    return contains(quiet.sim.hosts["node1"].kernel.links[_BRIDGE].self_vlans, 2014)


async def _installed(quiet: Quiet) -> None:
    quiet.sim.hosts["node1"].plant_management("172.16.0.11/24")
    await quiet.leave_alone()
    body = cluster_network("mgmt", **{names.MATCHED_NODES: '["node1"]'})
    await quiet.admin.create(CLUSTER_NETWORKS, body)
    await asyncio.sleep(10)


async def _annotate(quiet: Quiet, annotations: dict[str, str | None]) -> None:
    await quiet.admin.patch(CLUSTER_NETWORKS, "mgmt", {"metadata": {"annotations": annotations}})


async def _ready(quiet: Quiet) -> Condition | None:
    try:
        report = await quiet.admin.get(CLUSTER_NETWORK_NODES, report_name("mgmt", "node1"))
    except NotFound:
        return None
    return next(item for item in report.status.conditions if item.type == "ready")


@on_a_quiet_cluster
async def test_ids_are_recorded_until_they_go(quiet: Quiet) -> None:
    """An id that was added is taken away again, also by an agent that was started in between."""
    await _installed(quiet)
    await _annotate(quiet, {**_ADDED})
    await quiet.until(lambda: _ids(quiet))
    records = quiet.sim.hosts["node1"].runtime.contents
    assert contains(recorded(records[RECORD]).get("mgmt", NOTHING).bridge, 2014)
    await quiet.restart()
    await _annotate(quiet, dict.fromkeys(_ADDED))
    await quiet.until(lambda: not _ids(quiet))
    assert not contains(recorded(records[RECORD]).get("mgmt", NOTHING).bridge, 2014)
    assert contains(quiet.sim.hosts["node1"].kernel.links[_BRIDGE].self_vlans, 2021)


@on_a_quiet_cluster
async def test_an_id_of_the_installer_s_stays(quiet: Quiet) -> None:
    """An id that was there before is used and never taken away."""
    await _installed(quiet)
    quiet.sim.hosts["node1"].add_vlan(_BRIDGE, 2014, self_=True)
    await _annotate(quiet, {**_ADDED})
    await quiet.until(lambda: bool(quiet.addresses(device="mgmt-br.2014")))
    await _annotate(quiet, dict.fromkeys(_ADDED))
    await quiet.until(lambda: not quiet.addresses(device="mgmt-br.2014"))
    await asyncio.sleep(60)
    assert _ids(quiet)


@on_a_quiet_cluster
async def test_an_id_that_can_t_be_recorded_is_not_added(quiet: Quiet) -> None:
    """What could not be taken away again is not added, and it is said why."""
    await _installed(quiet)
    runtime = quiet.sim.hosts["node1"].runtime
    runtime.full = True
    await _annotate(quiet, {**_ADDED})

    async def told() -> bool:
        ready = await _ready(quiet)
        return ready is not None and ready.reason == "StateNotWritten"

    await quiet.sim.until(told)
    assert not _ids(quiet)
    runtime.full = False
    await quiet.until(lambda: _ids(quiet))


@on_a_quiet_cluster
async def test_the_management_network_returns_after_a_reboot(quiet: Quiet) -> None:
    """After a reboot without an API server the VLAN on the installer's bridge is back, and can be taken away later."""
    await _installed(quiet)
    await _annotate(quiet, {**_ADDED})
    await quiet.until(lambda: bool(quiet.addresses(device="mgmt-br.2014")))
    await asyncio.sleep(60)
    quiet.sim.faults.away = True
    await quiet.sim.processes["node1"].kill()
    quiet.sim.hosts["node1"].reboot()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: _ids(quiet) and bool(quiet.addresses(device="mgmt-br.2014")), 60)
    quiet.sim.faults.away = False
    await _annotate(quiet, dict.fromkeys(_ADDED))
    await quiet.until(lambda: not _ids(quiet))

"""What an agent does while no API server says what is wanted: it goes by what it remembers, if that is sound."""

import asyncio
import json
from collections.abc import Callable

import pytest

from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.agent.rollback.record import RECORD
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.sim.vlan import NODE_NAMES

_BRIDGE = "cluster-1-br"


async def _static_network(quiet: Quiet) -> None:
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await asyncio.sleep(60)  # until nothing is on trial any more


def _all_addressed(quiet: Quiet) -> bool:
    return all(quiet.addresses(name) == (STATIC[name],) for name in NODE_NAMES)


async def _reboot(quiet: Quiet, *nodes: str) -> None:
    for name in nodes:
        await quiet.sim.processes[name].kill()
        quiet.sim.hosts[name].reboot()
        quiet.sim.processes[name].start()


@on_a_quiet_cluster
async def test_all_nodes_reboot_without_an_api_server(quiet: Quiet) -> None:
    """VLANs and addresses of all nodes return after a reboot although there is no API server."""
    await _static_network(quiet)
    quiet.sim.faults.away = True
    await _reboot(quiet, *NODE_NAMES)
    assert not any(quiet.addresses(name) for name in NODE_NAMES)
    await quiet.until(lambda: _all_addressed(quiet), 30)
    assert all(host.kernel.carries(_BRIDGE, 2012) for host in quiet.sim.hosts.values())
    quiet.sim.faults.away = False
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_node_heals_without_an_api_server(quiet: Quiet) -> None:
    """An agent that started without an API server goes on repairing its host."""
    await _static_network(quiet)
    quiet.sim.faults.away = True
    await _reboot(quiet, "node1")
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    host = quiet.sim.hosts["node1"]
    host.flush(DEVICE)
    host.drop_vlan(_BRIDGE, 2012, self_=True)
    host.remove_file(FILE)
    await asyncio.sleep(60)
    assert quiet.addresses() == (STATIC["node1"],)
    assert host.kernel.carries(_BRIDGE, 2012)
    assert FILE in host.directory.files


@pytest.mark.slow
@on_a_quiet_cluster
async def test_nodes_keep_what_they_have_while_the_api_server_is_away(quiet: Quiet) -> None:
    """Half an hour without an API server changes nothing on any host."""
    await _static_network(quiet)
    writes = [host.writes for host in quiet.sim.hosts.values()]
    quiet.sim.faults.away = True
    await asyncio.sleep(1800)
    assert [host.writes for host in quiet.sim.hosts.values()] == writes
    quiet.sim.faults.away = False
    await quiet.rest()


@on_a_quiet_cluster
async def test_an_agent_waits_for_the_api_server_where_it_remembers_nothing(quiet: Quiet) -> None:
    """Without a memory and without an API server nothing is built and nothing is taken away."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    await quiet.sim.processes["node1"].kill()
    host.state.contents.clear()
    quiet.sim.faults.away = True
    writes = host.writes
    quiet.sim.processes["node1"].start()
    await asyncio.sleep(600)
    assert host.writes == writes
    quiet.sim.faults.away = False
    await quiet.rest()


def _as_another_cluster_s(record: bytes) -> bytes:
    return json.dumps({**json.loads(record), "cluster": "somebody else's"}).encode()


def _with_a_foreign_bridge(record: bytes) -> bytes:
    return record.replace(b'"cluster-1-br"', b'"foreign-br"')


def _with_another_profile(record: bytes) -> bytes:
    saved = json.loads(record)
    saved["memory"]["carried"][0]["network"]["interfaces"][0]["content"] = "W2lwdjRdCm1ldGhvZD1hdXRvCg=="
    return json.dumps(saved).encode()


def _twice(record: bytes) -> bytes:
    saved = json.loads(record)
    saved["memory"]["carried"] *= 2
    return json.dumps(saved).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "tamper",
    [
        lambda _record: b"",
        lambda _record: b"\xff\xfe",
        lambda _record: b"[" * 100_000,
        lambda record: record[: len(record) // 2],
        lambda _record: b'{"cluster": "x", "memory": {"carried": "all"}}',
        _as_another_cluster_s,
        _with_a_foreign_bridge,
        _with_another_profile,
        _twice,
    ],
    ids=[
        "empty",
        "no text",
        "deep",
        "half",
        "other types",
        "another cluster's",
        "bridge",
        "profile",
        "twice",
    ],
)
def test_a_memory_that_is_not_sound_is_dropped(tamper: Callable[[bytes], bytes]) -> None:
    """Nothing of a broken or forged memory reaches the host; the objects rule again when they are known."""

    @on_a_quiet_cluster
    async def forged(quiet: Quiet) -> None:
        await _static_network(quiet)
        host = quiet.sim.hosts["node1"]
        await quiet.sim.processes["node1"].kill()
        host.state.contents[RECORD] = tamper(host.state.contents[RECORD])
        quiet.sim.faults.away = True
        writes = host.writes
        quiet.sim.processes["node1"].start()
        await asyncio.sleep(60)
        assert host.writes == writes
        quiet.sim.faults.away = False
        await quiet.rest()
        assert quiet.addresses() == (STATIC["node1"],)

    forged()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_memory_is_written_only_when_it_changes(quiet: Quiet) -> None:
    """Half an hour of rest writes no record, also across a restart of the agent."""
    await _static_network(quiet)
    records = quiet.sim.hosts["node1"].state.contents
    before = records[RECORD]
    await quiet.restart()
    await asyncio.sleep(1800)
    assert records[RECORD] is before


@on_a_quiet_cluster
async def test_a_change_that_can_t_be_recorded_is_not_made(quiet: Quiet) -> None:
    """On a full disk a node keeps what it has and says why, and takes the change up when there is room."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    host.state.full = True
    moved = {**STATIC, "node1": "192.168.1.99/24"}
    await quiet.remap(moved)
    told = await quiet.told("StateNotWritten")
    assert "No space left on device" in told.message
    await asyncio.sleep(60)
    assert quiet.addresses() == (STATIC["node1"],)
    host.state.full = False
    await quiet.rest()
    assert quiet.addresses() == (moved["node1"],)


@on_a_quiet_cluster
async def test_a_network_whose_removal_can_t_be_recorded_stays(quiet: Quiet) -> None:
    """On a full disk also what should go stays, is reported, and goes when there is room."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    host.state.full = True
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.told("StateNotWritten")
    assert quiet.addresses() == (STATIC["node1"],)
    host.state.full = False
    await quiet.rest()
    assert _BRIDGE not in host.kernel.links


@on_a_quiet_cluster
async def test_what_was_deleted_while_a_node_was_off(quiet: Quiet) -> None:
    """A node that was off when its network was deleted cleans up at its next start."""
    await _static_network(quiet)
    host = quiet.sim.hosts["node1"]
    await quiet.sim.processes["node1"].kill()
    host.power_off()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await asyncio.sleep(60)
    host.power_on()
    quiet.sim.processes["node1"].start()
    await quiet.rest()
    assert FILE not in host.directory.files
    assert DEVICE not in host.kernel.links

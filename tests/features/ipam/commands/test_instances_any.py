"""Any changes of instances, one after another and at once, on any managers."""

import asyncio
from random import Random

import pytest

from lanloom.api.ipam import Nic
from lanloom.features.ipam.cli.grammar.net_option import changes, new_nics
from lanloom.features.ipam.commands import instancechange
from lanloom.features.ipam.commands.instancechange import ApplyOptions, Result
from lanloom.features.ipam.commands.instanceplan import PlanOptions
from lanloom.features.ipam.commands.instances import find_instance
from lanloom.features.ipam.state import State, read_state
from lanloom.refusals import Refusal
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.commands.instances import REAL, as_asked, everything, key, with_


@pytest.mark.slow
@in_a_cluster
async def test_any_changes(cluster: IpamCluster) -> None:
    """Whatever is done in turn: it has what the dry run foretold, or changes nothing; no address is given twice."""
    await cluster.network()
    await cluster.network("net2", {"cidr": "192.0.2.8/29", "pools": [{"range": "192.0.2.8/29", "name": "p"}]})
    rng = Random(4)
    accepted = 0
    for _ in range(120):
        name, before = rng.choice(["a", "b", "c"]), await everything(cluster)
        try:
            foreseen = await _any_change(cluster, rng, name, dry_run=True)
            done = await _any_change(cluster, rng, name, dry_run=False)
        except Refusal:
            await cluster.rest()
            assert await everything(cluster) == before
            continue
        accepted += 1
        assert [view.ips for view in foreseen.after] == [view.ips for view in done.after]
        _check_owners(await read_state(cluster.client))
    assert accepted > 40


_last: dict[str, tuple[str, list[str]]] = {}


async def _any_change(cluster: IpamCluster, rng: Random, name: str, *, dry_run: bool) -> Result:
    """A dry run of something, or that very thing."""
    if dry_run:
        there = find_instance(await read_state(cluster.client), PLACE, name)
        _last[name] = _any_words(rng, len(there.nics) if there is not None else 0)
    what, nets = _last[name]
    how = ApplyOptions(dry_run=dry_run)
    client = as_asked(cluster, how)
    if what == "add":
        return await instancechange.add(client, key(name), new_nics(nets), with_(), how)
    if what == "remove":
        return await instancechange.remove(client, key(name), how)
    return await instancechange.modify(client, key(name), changes(nets), with_(), how)


def _any_words(rng: Random, nics: int) -> tuple[str, list[str]]:
    if nics == 0:
        return "add", [f"{number}:{_new(rng)}" for number in range(rng.randint(1, 3))]
    if rng.random() < 0.1:
        return "remove", []
    nets = [
        rng.choice(["-1:add," + _new(rng), f"{rng.randrange(nics)}:{_changed(rng)}"])
        for _ in range(rng.randint(1, 3))
    ]
    return "modify", [*nets, *["0:remove"] * (rng.random() < 0.1)]


@in_a_cluster
async def test_any_changes_at_once(cluster: IpamCluster) -> None:
    """Many who change the same instances, while managers change: no address or object is left over or given twice."""
    await cluster.network()
    await cluster.network("net2", {"cidr": "192.0.2.8/29", "pools": [{"range": "192.0.2.8/29", "name": "p"}]})
    outcomes = await asyncio.gather(*(_works(cluster, Random(seed)) for seed in range(6)), _managers(cluster))
    await cluster.rest()
    assert sum(outcomes) > 30
    state = await read_state(cluster.client)
    _check_owners(state)
    assert len({nic.spec.mac for nic in state.nics}) == len(state.nics)


async def _works(cluster: IpamCluster, rng: Random) -> int:
    """Change instances as it comes; how often it could."""
    done = 0
    for _ in range(15):
        name = rng.choice(["a", "b", "c", "d"])
        there = find_instance(await read_state(cluster.client), PLACE, name)
        what, nets = _any_words(rng, len(there.nics) if there is not None else 0)
        plan_options = PlanOptions(rng=rng)
        try:
            if what == "add":
                await instancechange.add(cluster.client, key(name), new_nics(nets), plan_options, REAL)
            elif what == "remove":
                await instancechange.remove(cluster.client, key(name), REAL)
            else:
                await instancechange.modify(cluster.client, key(name), changes(nets), plan_options, REAL)
        except Refusal as error:
            assert "got no addresses" not in str(error)
            continue
        done += 1
        await asyncio.sleep(rng.random())
    return done


async def _managers(cluster: IpamCluster) -> int:
    """Another manager takes over, twice."""
    for number in (2, 3):
        await asyncio.sleep(2)
        cluster.lead(f"manager-{number}")
        await asyncio.sleep(1)
        await cluster.kill(f"manager-{number - 1}")
    return 0


def _ip(rng: Random) -> str:
    return rng.choice(["pool", "pool", "pool4", f"192.0.2.{rng.randint(8, 20)}"])


def _new(rng: Random) -> str:
    entries = [f"ip{number}={_ip(rng)}" for number in range(rng.randint(0, 2))]
    return ",".join([*entries, f"network={rng.choice(['net', 'net2'])}"])


def _changed(rng: Random) -> str:
    entries = [f"ip{rng.randint(0, 2)}={rng.choice([_ip(rng), 'none'])}"]
    entries += [f"network={rng.choice(['net', 'net2'])}"] * (rng.random() < 0.3)
    return ",".join(entries)


def _check_owners(state: State) -> None:
    held = [(nic.status.network, ip) for nic in state.nics for ip in nic.status.ips]
    assert len(set(held)) == len(held)
    assert all(_has_all(nic) for nic in state.nics)
    assert {item.metadata.name for item in state.networks} == {"net", "net2"}


def _has_all(nic: Nic) -> bool:
    return len(nic.status.ips) == len(nic.spec.ips)

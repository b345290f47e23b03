"""Instances on a server with a manager: what they get, and that a change is made whole or not at all."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS, NICS, Nic
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.cli.query import Value
from lanloom.features.ipam.cli.grammar.net_option import changes, new_nics
from lanloom.features.ipam.commands import instancechange
from lanloom.features.ipam.commands.instancechange import ApplyOptions, Result
from lanloom.features.ipam.commands.instanceplan import PlanOptions
from lanloom.features.ipam.commands.instances import find_instance, instances
from lanloom.features.ipam.commands.instanceviews import INSTANCE_FIELDS, information, views
from lanloom.features.ipam.rules.ledger import AddressInUse, Exhausted
from lanloom.features.ipam.state import State, read_state
from lanloom.kube.errors import TransportError
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Refusal
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster

DRY, REAL = ApplyOptions(dry_run=True), ApplyOptions()


def key(name: str) -> Key:
    """An instance of the tests' namespace."""
    return Key(PLACE, name)


def with_(*, force: bool = False, seed: int = 1) -> PlanOptions:
    """Repeatable MAC addresses."""
    return PlanOptions(rng=Random(seed), force=force)


async def add(
    client: Client, name: str, *nets: str, how: ApplyOptions = REAL, force: bool = False
) -> list[tuple[str, ...]]:
    """Add an instance; the addresses of its NICs."""
    done = await instancechange.add(client, key(name), new_nics(nets), with_(force=force), how)
    return ips(done)


async def modify(
    client: Client, name: str, *nets: str, how: ApplyOptions = REAL, force: bool = False
) -> list[tuple[str, ...]]:
    """Change an instance; the addresses of its NICs."""
    done = await instancechange.modify(client, key(name), changes(nets), with_(force=force), how)
    return ips(done)


def ips(done: Result) -> list[tuple[str, ...]]:
    """The addresses of the NICs after what was done."""
    return [view.ips for view in done.after]


async def owned(cluster: IpamCluster) -> dict[str, tuple[str, ...]]:
    """What each NIC owns, by its object's name."""
    return {nic.metadata.name: nic.status.ips for nic in (await cluster.client.list(NICS)).items}


async def everything(cluster: IpamCluster) -> dict[str, tuple[Any, ...]]:
    """What each NIC asks for and has."""
    nics = (await cluster.client.list(NICS)).items
    return {
        nic.metadata.name: (nic.metadata.uid, nic.spec, nic.status.network, nic.status.ips) for nic in nics
    }


class Meddled:
    """A client before whose writes something else happens: before the nth (from 0) the nth of these."""

    def __init__(self, client: LocalClient, between: Mapping[int, Callable[[], Awaitable[object]]]) -> None:
        self._client = client
        self._between = dict(between)
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in ("create", "patch", "delete"):
            return call

        async def write(*words: Any, **options: Any) -> Any:
            meddle = self._between.pop(self._writes, None)
            self._writes += 1
            if meddle is not None:
                await meddle()
            return await call(*words, **options)

        return write


def meddled(cluster: IpamCluster, between: Mapping[int, Callable[[], Awaitable[object]]]) -> Client:
    """The administrator, meddled with."""
    client: Any = Meddled(cluster.client, between)
    return client  # type: ignore[no-any-return]


@in_a_cluster
async def test_the_life_of_an_instance(cluster: IpamCluster) -> None:
    """An instance gets what it asks for, is changed by index, and gives everything back."""
    await cluster.network()
    assert await add(cluster.client, "inst1", "0:ip0=192.0.2.4,ip1=pool,network=net") == [
        ("192.0.2.4", "192.0.2.10")
    ]
    assert await modify(cluster.client, "inst1", "0:ip1=192.0.2.12") == [("192.0.2.4", "192.0.2.12")]
    assert await modify(cluster.client, "inst1", "0:ip1=pool", "-1:add,ip=pool,network=net") == [
        ("192.0.2.4", "192.0.2.10"),
        ("192.0.2.11",),
    ]
    assert await modify(cluster.client, "inst1", "0:remove") == [("192.0.2.11",)]
    (only,) = instances(await read_state(cluster.client), PLACE)
    assert [nic.spec.index for nic in only.nics] == [0]
    assert information(only)["name"] == "inst1"
    done = await instancechange.remove(cluster.client, key("inst1"), ApplyOptions())
    assert (len(done.before), done.after) == (1, ())
    assert await owned(cluster) == {}


@in_a_cluster
async def test_a_renewed_address_is_another_one(cluster: IpamCluster) -> None:
    """`pool` on a NIC that has an address gives another one, and the old one is free then; so again and again."""
    await cluster.network()
    assert await add(cluster.client, "inst1", "0:ip=pool,network=net") == [("192.0.2.10",)]
    assert await modify(cluster.client, "inst1", "0:ip=pool") == [("192.0.2.11",)]
    assert await modify(cluster.client, "inst1", "0:ip=pool") == [("192.0.2.10",)]
    assert await modify(cluster.client, "inst1", "0:ip1=pool") == [("192.0.2.10", "192.0.2.11")]


@in_a_cluster
async def test_what_was_given_back_is_free_when_the_command_returns(cluster: IpamCluster) -> None:
    """An address that a command took from a NIC goes to the next one that asks, without a pause between the two."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip0=192.0.2.4,ip1=192.0.2.5,network=net")
    await modify(cluster.client, "inst1", "0:ip1=none")
    assert await add(cluster.client, "inst2", "0:ip=192.0.2.5,network=net") == [("192.0.2.5",)]
    await instancechange.remove(cluster.client, key("inst1"), ApplyOptions())
    assert await add(cluster.client, "inst3", "0:ip=192.0.2.4,network=net") == [("192.0.2.4",)]


@in_a_cluster
async def test_what_a_nic_inherits_shows(cluster: IpamCluster) -> None:
    """Mode, link and VLAN of a network's node groups show as those of its NICs, unless a NIC has its own."""
    await cluster.network()
    way = {"mode": "bridged", "link": "br0", "vlan": "100"}
    groups = [{"group": "default", **way}, {"group": "rack1", **way}]
    await cluster.client.patch(NETWORKS, "net", {"spec": {"connections": groups}})
    await add(cluster.client, "inst1", "0:network=net", "1:network=net")
    await cluster.change("inst1-1", mode="routed", link="rt1")
    fields = INSTANCE_FIELDS.choose("nic.modes,nic.links,nic.vlans,nic.link/0")

    async def shown() -> list[Value]:
        found = find_instance(await read_state(cluster.client), PLACE, "inst1")
        assert found is not None
        described = information(found)["nics"]
        values = [field.value(found) for field in fields]
        assert isinstance(described, list)
        assert [[nic[key] for nic in described] for key in ("mode", "link", "vlan")] == values[:3]
        return values

    assert await shown() == [["bridged", "routed"], ["br0", "rt1"], ["100", None], "br0"]
    groups[1] = {"group": "rack1", "mode": "routed", "link": "rt1"}
    await cluster.client.patch(NETWORKS, "net", {"spec": {"connections": groups}})
    assert await shown() == [[None, "routed"], [None, "rt1"], [None, None], None]


@in_a_cluster
async def test_the_last_nic_takes_the_instance_with_it(cluster: IpamCluster) -> None:
    """A change that removes the last NIC notes that the instance is removed, and so does its dry run."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net", "1:network=net")
    for how in (DRY, REAL):
        done = await instancechange.modify(cluster.client, key("inst1"), changes(["1:remove"]), with_(), how)
        assert done.notes == ()
    for how in (DRY, REAL):
        done = await instancechange.modify(cluster.client, key("inst1"), changes(["0:remove"]), with_(), how)
        assert done.notes == ("instance inst1 has no NIC left and is removed",)
    assert await owned(cluster) == {}


@in_a_cluster
async def test_a_namespace_that_is_not_there(cluster: IpamCluster) -> None:
    """Who names a node after -n, as in Ganeti, is told that it names a namespace."""
    await cluster.network()
    with pytest.raises(
        Denied, match="namespace node1 does not exist; -n names a Kubernetes namespace, not a node"
    ):
        await instancechange.add(
            cluster.client, Key("node1", "inst1"), new_nics(["0:ip=pool,network=net"]), with_(), REAL
        )


@in_a_cluster
async def test_an_address_that_the_same_change_gives_back(cluster: IpamCluster) -> None:
    """An address in use is refused with the number of its NIC, and with what to do if this change releases it."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=192.0.2.4,network=net", "1:ip=192.0.2.5,network=net")
    for words in (("0:remove", "-1:add,ip=192.0.2.4,network=net"), ("0:ip0=none", "1:ip0=192.0.2.4")):
        with pytest.raises(AddressInUse) as caught:
            await modify(cluster.client, "inst1", *words)
        assert str(caught.value).endswith("it is free after this change; request it in another one")
    with pytest.raises(AddressInUse, match="choose another one, or pool"):
        await modify(cluster.client, "inst1", "0:ip0=none", "-1:add,ip=192.0.2.5,network=net")
    await modify(cluster.client, "inst1", "0:remove")
    with pytest.raises(AddressInUse) as caught:
        await add(cluster.client, "inst2", "0:ip=192.0.2.5,network=net")
    assert "(NIC default/inst1-1, which is NIC 0 of instance inst1); choose another one" in str(caught.value)


@in_a_cluster
async def test_a_dry_run_tells_what_would_be_and_writes_nothing(cluster: IpamCluster) -> None:
    """A dry run has the addresses that the change gives afterwards, and leaves every object as it was."""
    await cluster.network()
    net = "0:ip0=pool,ip1=192.0.2.10,network=net"
    foreseen = await instancechange.add(cluster.client, key("inst1"), new_nics([net]), with_(), DRY)
    assert await owned(cluster) == {}
    done = await instancechange.add(cluster.client, key("inst1"), new_nics([net]), with_(), ApplyOptions())
    assert ips(foreseen) == ips(done) == [("192.0.2.11", "192.0.2.10")]
    assert [view.mac for view in foreseen.after] == [view.mac for view in done.after]
    before = await everything(cluster)
    assert await modify(cluster.client, "inst1", "0:ip0=pool,ip1=none", how=DRY) == [("192.0.2.12",)]
    assert ips(await instancechange.remove(cluster.client, key("inst1"), DRY)) == []
    assert await everything(cluster) == before


@in_a_cluster
async def test_explicit_addresses_of_all_nics_come_first(cluster: IpamCluster) -> None:
    """No NIC gets automatically what another one of the operation asks for, however the manager works through them."""
    await cluster.network()
    nets = ("0:ip0=pool,ip1=192.0.2.11,network=net", "1:ip0=192.0.2.10,ip1=pool,network=net")
    assert await add(cluster.client, "inst1", *nets) == [
        ("192.0.2.12", "192.0.2.11"),
        ("192.0.2.10", "192.0.2.13"),
    ]
    await cluster.network("net2", {"cidr": "192.0.2.8/29", "pools": [{"range": "192.0.2.8/29"}]})
    both = ("0:network=net2,ip=pool,ip1=none", "1:network=net2,ip0=192.0.2.9,ip1=pool")
    assert await modify(cluster.client, "inst1", *both, how=DRY) == [
        ("192.0.2.10",),
        ("192.0.2.9", "192.0.2.11"),
    ]
    wanted = ("0:ip0=pool", "1:ip1=192.0.2.14")
    assert await modify(cluster.client, "inst1", *wanted) == [
        ("192.0.2.15", "192.0.2.11"),
        ("192.0.2.10", "192.0.2.14"),
    ]
    assert await modify(cluster.client, "inst1", *both) == [("192.0.2.10",), ("192.0.2.9", "192.0.2.11")]


@in_a_cluster
async def test_what_the_rules_refuse_is_not_written(cluster: IpamCluster) -> None:
    """Nothing is written of a change whose last NIC can't have its address."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net")
    before = await everything(cluster)
    with pytest.raises(Denied, match=r"192.0.2.10 is already used"):
        await add(cluster.client, "inst2", "0:ip=pool,network=net", "1:ip=192.0.2.10,network=net")
    with pytest.raises(Exhausted, match="network net is full"):
        await add(cluster.client, "inst2", *(f"{number}:ip=pool,network=net" for number in range(10)))
    with pytest.raises(Denied, match="instance inst1 already exists"):
        await add(cluster.client, "inst1", "0:ip=pool,network=net")
    with pytest.raises(Denied, match='instance "inst9" does not exist'):
        await modify(cluster.client, "inst9", "0:ip=pool")
    with pytest.raises(Denied, match="network nowhere does not exist"):
        await modify(cluster.client, "inst1", "0:network=nowhere")
    assert await everything(cluster) == before


@in_a_cluster
async def test_somebody_else_is_faster(cluster: IpamCluster) -> None:
    """If another one takes an address before it is written, nothing is left of a new instance."""
    await cluster.network()

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.rest()

    nets = ("0:ip=192.0.2.5,network=net", "1:ip=192.0.2.4,network=net")
    with pytest.raises(
        Denied, match=r"inst1-1 were refused, so nothing was changed: IP 192.0.2.4 is already used"
    ):
        await add(meddled(cluster, {1: take}), "inst1", *nets)
    await cluster.rest()
    assert await owned(cluster) == {"rival": ("192.0.2.4",)}


@in_a_cluster
async def test_a_change_of_several_nics_is_undone_whole(cluster: IpamCluster) -> None:
    """If one NIC is refused, the others have what they had, also where they had given it up for something new."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")
    before = await everything(cluster)

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.nic("hungry", "pool")
        await cluster.rest()

    client = meddled(cluster, {1: take})
    with pytest.raises(Denied, match="inst1-1 were refused"):
        await modify(client, "inst1", "0:ip=192.0.2.5", "1:ip=192.0.2.4", "-1:add,ip=192.0.2.6,network=net")
    await cluster.rest()
    after = await everything(cluster)
    assert after.pop("rival")[-1] == ("192.0.2.4",)
    assert after.pop("hungry")[-1] == ("192.0.2.12",)
    assert after == before


@in_a_cluster
async def test_nobody_gives_addresses(cluster: IpamCluster) -> None:
    """Without a manager a command gives up after half a minute, undoes what it wrote and says what to look at."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net")
    await cluster.kill("manager-1")
    before = await everything(cluster)
    with pytest.raises(Denied, match=r"NIC default/inst2-0 got no addresses .*lanloom manager"):
        await add(cluster.client, "inst2", "0:ip=pool,network=net")
    with pytest.raises(Denied, match="got no addresses"):
        await modify(cluster.client, "inst1", "0:ip1=pool", "0:name=web")
    assert await everything(cluster) == before
    done = await instancechange.add(
        cluster.client, key("inst3"), new_nics(["0:ip=pool,network=net"]), with_(), ApplyOptions(wait=False)
    )
    assert [(view.state, view.ips, view.wanted) for view in done.after] == [("waiting", (), ("pool",))]


@in_a_cluster
async def test_a_manager_that_lags_behind(cluster: IpamCluster) -> None:
    """A refusal that does not hold any more is waited over; one that holds is told at once."""
    await cluster.network()
    await cluster.kill("manager-1")
    late = {
        "type": "Allocated",
        "status": "False",
        "reason": "NetworkMissing",
        "message": "there is no network net",
    }
    task = asyncio.create_task(add(cluster.client, "inst1", "0:ip=pool,network=net"))
    await asyncio.sleep(1)
    await cluster.force("inst1-0", observedGeneration=1, conditions=[late])
    await asyncio.sleep(5)
    assert not task.done()
    cluster.lead("manager-2")
    assert await task == [("192.0.2.10",)]
    await cluster.kill("manager-2")
    task = asyncio.create_task(add(cluster.client, "inst2", "0:ip=pool,network=net"))
    await asyncio.sleep(1)
    await cluster.force("inst2-0", observedGeneration=1, conditions=[late])
    with pytest.raises(Denied, match=r"inst2-0 were refused, .*: there is no network net"):
        await task


@in_a_cluster
async def test_a_command_that_is_interrupted_undoes_what_it_wrote(cluster: IpamCluster) -> None:
    """Ctrl-C while addresses are waited for leaves nothing of a new instance."""
    await cluster.network()
    await cluster.kill("manager-1")
    task = asyncio.create_task(add(cluster.client, "inst1", "0:ip=pool,network=net"))
    await asyncio.sleep(5)
    assert await owned(cluster) == {"inst1-0": ()}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await owned(cluster) == {}


@in_a_cluster
async def test_what_can_not_be_undone_is_told(cluster: IpamCluster) -> None:
    """Where the API server is lost in between, the message names what is left."""
    await cluster.network()

    async def fail() -> None:
        raise TransportError("the server is gone")

    client = meddled(cluster, {1: fail, 2: fail})
    with pytest.raises(Denied, match=r"gone; this could not be undone: NIC default/inst1-0 is changed"):
        await add(client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")


@in_a_cluster
async def test_an_address_that_is_lost_is_told(cluster: IpamCluster) -> None:
    """NICs that move give their addresses up; if another one takes such an address, the message names it."""
    await cluster.network()
    await cluster.network("net2", {"cidr": "192.0.2.8/29", "pools": [{"range": "192.0.2.8/29"}]})
    await add(cluster.client, "inst1", "0:ip=pool,network=net", "1:ip=pool,network=net")

    async def take() -> None:
        await cluster.rest()
        await cluster.nic("rival", "192.0.2.9", network="net2")
        await cluster.nic("thief", "192.0.2.10")
        await cluster.rest()

    with pytest.raises(Denied, match=r"undone: NIC default/inst1-0 is changed \(it had 192.0.2.10\)"):
        await modify(meddled(cluster, {1: take}), "inst1", "0:network=net2", "1:network=net2,ip=192.0.2.9")
    await cluster.rest()
    kept = await owned(cluster)
    assert (kept["inst1-1"], kept["thief"]) == (("192.0.2.11",), ("192.0.2.10",))
    assert kept["inst1-0"] == ("192.0.2.12",)


@in_a_cluster
async def test_a_machine_is_left_no_nic_of_a_refused_change(cluster: IpamCluster) -> None:
    """What was made for a virtual machine and is undone gives its addresses back before it goes."""
    await cluster.network()
    await cluster.client.create(CRDS, manifest(VIRTUAL_MACHINES))
    await cluster.client.create(VIRTUAL_MACHINES, {"metadata": {"name": "vm1"}}, PLACE)

    async def take() -> None:
        await cluster.nic("rival", "192.0.2.4")
        await cluster.rest()

    with pytest.raises(Denied, match="vm1-1 were refused"):
        await add(
            meddled(cluster, {1: take}), "vm1", "0:ip=192.0.2.5,network=net", "1:ip=192.0.2.4,network=net"
        )
    await cluster.rest()
    assert await owned(cluster) == {"rival": ("192.0.2.4",)}


@in_a_cluster
async def test_an_instance_that_others_change(cluster: IpamCluster) -> None:
    """A change is planned anew on what another one wrote in between, as if it had come after it."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip0=pool,ip1=pool,network=net")

    async def rival() -> None:
        await modify(cluster.client, "inst1", "0:ip0=none", "-1:add,name=rival")

    client = meddled(cluster, {0: rival})
    assert await modify(client, "inst1", "0:ip1=192.0.2.4") == [("192.0.2.11", "192.0.2.4"), ()]
    client = meddled(cluster, {0: lambda: modify(cluster.client, "inst1", "0:ip1=none")})
    with pytest.raises(Denied, match="has 1 address, so there is no ip1"):
        await modify(client, "inst1", "0:ip1=none")


@in_a_cluster
async def test_many_at_once(cluster: IpamCluster) -> None:
    """Of many who add instances at once, each gets other addresses; of those with one name, one gets it."""
    await cluster.network()
    names = [f"inst{number}" for number in range(8)]
    found = await asyncio.gather(*(add(cluster.client, name, "0:ip=pool,network=net") for name in names))
    assert sorted(addresses for (addresses,) in found) == [(f"192.0.2.{number}",) for number in range(10, 18)]
    same = await asyncio.gather(
        *(add(cluster.client, "same", "0:ip=pool,network=net") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(item, Denied) for item in same) == 4
    assert ("192.0.2.18",) in [item[0] for item in same if isinstance(item, list)]


@in_a_cluster
async def test_another_network(cluster: IpamCluster) -> None:
    """A NIC takes its address along where that is valid, or gets another one there; the old one is free then."""
    await cluster.network()
    await cluster.network(
        "net2", {"cidr": "192.0.2.0/24", "external": ["192.0.2.4"], "pools": [{"range": "192.0.2.0/28"}]}
    )
    await add(cluster.client, "inst1", "0:ip=192.0.2.4,network=net", "1:ip=192.0.2.20,network=net")
    with pytest.raises(Denied, match="externally reserved"):
        await modify(cluster.client, "inst1", "0:network=net2")
    assert await modify(cluster.client, "inst1", "0:network=net2", force=True) == [
        ("192.0.2.4",),
        ("192.0.2.20",),
    ]
    assert await modify(cluster.client, "inst1", "0:network=net2,ip=pool", "1:network=net2") == [
        ("192.0.2.1",),
        ("192.0.2.20",),
    ]
    assert await add(cluster.client, "inst2", "0:ip=192.0.2.20,network=net") == [("192.0.2.20",)]
    assert await modify(cluster.client, "inst1", "0:network=none,ip=none") == [(), ("192.0.2.20",)]


@in_a_cluster
async def test_a_nic_that_was_refused_is_put_right(cluster: IpamCluster) -> None:
    """A NIC that waits for a reserved address gets it when somebody insists; it does not hinder other changes."""
    await cluster.network("net", {"cidr": "192.0.2.0/24", "external": ["192.0.2.4"]})
    await cluster.nic("inst1-0", "192.0.2.4", owner={"kind": "Instance", "name": "inst1"})
    await cluster.rest()
    found = find_instance(await read_state(cluster.client), PLACE, "inst1")
    assert found is not None
    (view,) = views(found)
    assert (view.state, view.ips, view.wanted) == ("refused", (), ("192.0.2.4",))
    assert await modify(cluster.client, "inst1", "-1:add,ip=192.0.2.5,network=net") == [(), ("192.0.2.5",)]
    assert await modify(cluster.client, "inst1", "0:ip=192.0.2.4", force=True) == [
        ("192.0.2.4",),
        ("192.0.2.5",),
    ]


@in_a_cluster
async def test_a_virtual_machine(cluster: IpamCluster) -> None:
    """NICs belong to the virtual machine of that name, and what is undone of them holds no address."""
    await cluster.network()
    await cluster.client.create(CRDS, manifest(VIRTUAL_MACHINES))
    machine = await cluster.client.create(VIRTUAL_MACHINES, {"metadata": {"name": "vm1"}}, PLACE)
    await add(cluster.client, "vm1", "0:ip=pool,network=net")
    (nic,) = (await cluster.client.list(NICS)).items
    assert (nic.spec.owner.kind, nic.spec.owner.uid) == ("VirtualMachine", machine.metadata.uid)
    done = await instancechange.remove(cluster.client, key("vm1"), ApplyOptions())
    assert done.notes == ("NIC vm1-0 keeps its addresses until VirtualMachine vm1 has ended",)


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
    if what == "add":
        return await instancechange.add(cluster.client, key(name), new_nics(nets), with_(), how)
    if what == "remove":
        return await instancechange.remove(cluster.client, key(name), how)
    return await instancechange.modify(cluster.client, key(name), changes(nets), with_(), how)


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

"""Instances on a server with a manager: what they get, and that a change is made whole or not at all."""

from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.cli.query import Value
from lanloom.features.ipam.cli.grammar.net_option import changes, new_nics
from lanloom.features.ipam.commands import instancechange
from lanloom.features.ipam.commands.instancechange import ApplyOptions
from lanloom.features.ipam.commands.instances import find_instance, instances
from lanloom.features.ipam.commands.instanceviews import INSTANCE_FIELDS, information, views
from lanloom.features.ipam.rules.ledger import AddressInUse, Exhausted
from lanloom.features.ipam.rules.shares import NamespaceNotAllowed
from lanloom.features.ipam.state import read_state
from lanloom.kube.errors import Forbidden
from lanloom.refusals import Denied
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.commands.instances import (
    DRY,
    REAL,
    add,
    as_asked,
    everything,
    ips,
    key,
    modify,
    owned,
    with_,
)
from tests.harness.interceptor import WRITES, Interceptor, Request


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
async def test_a_network_that_no_longer_serves_the_namespace(cluster: IpamCluster) -> None:
    """A NIC keeps what it has and gives it back; none joins, with an address or without one, nor in a dry run."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip0=pool,ip1=pool,network=net")
    await cluster.client.patch(NETWORKS, "net", {"spec": {"namespaces": ["other"]}})
    for how in (DRY, REAL):
        assert await modify(as_asked(cluster, how), "inst1", "0:mac=auto", how=how) == [
            ("192.0.2.10", "192.0.2.11")
        ]
        assert await modify(as_asked(cluster, how), "inst1", "0:ip1=none", how=how) == [("192.0.2.10",)]
        for net in ("0:network=net", "0:ip=pool,network=net"):
            with pytest.raises(NamespaceNotAllowed):
                await add(as_asked(cluster, how), "inst2", net, how=how)
        with pytest.raises(NamespaceNotAllowed):
            await modify(as_asked(cluster, how), "inst1", "-1:add,network=net", how=how)


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
        done = await instancechange.modify(
            as_asked(cluster, how), key("inst1"), changes(["1:remove"]), with_(), how
        )
        assert done.notes == ()
    for how in (DRY, REAL):
        done = await instancechange.modify(
            as_asked(cluster, how), key("inst1"), changes(["0:remove"]), with_(), how
        )
        assert done.notes == ("instance inst1 has no NIC left and is removed",)
    assert await owned(cluster) == {}


@in_a_cluster
async def test_a_namespace_that_is_not_there(cluster: IpamCluster) -> None:
    """A node named after -n, as in Ganeti, is refused because that names a namespace; in a dry run, too."""
    await cluster.network()
    steps, missing = (
        new_nics(["0:ip=pool,network=net"]),
        "namespace node1 does not exist; -n names a Kubernetes namespace",
    )
    for how in (DRY, REAL):
        with pytest.raises(Denied, match=missing):
            await instancechange.add(as_asked(cluster, how), Key("node1", "inst1"), steps, with_(), how)


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
    foreseen = await instancechange.add(as_asked(cluster, DRY), key("inst1"), new_nics([net]), with_(), DRY)
    assert await owned(cluster) == {}
    done = await instancechange.add(cluster.client, key("inst1"), new_nics([net]), with_(), ApplyOptions())
    assert ips(foreseen) == ips(done) == [("192.0.2.11", "192.0.2.10")]
    assert [view.mac for view in foreseen.after] == [view.mac for view in done.after]
    before = await everything(cluster)
    assert await modify(as_asked(cluster, DRY), "inst1", "0:ip0=pool,ip1=none", how=DRY) == [("192.0.2.12",)]
    assert ips(await instancechange.remove(as_asked(cluster, DRY), key("inst1"), DRY)) == []
    assert await everything(cluster) == before


class Closed(Interceptor):
    """A server on which the user may change no NIC."""

    async def send(self, request: Request) -> Any:
        """Refuse writes."""
        if request.verb in WRITES:
            raise Forbidden(403, "Forbidden", f"{request.verb} of {request.resource.plural} is not allowed")
        return await super().send(request)


@in_a_cluster
async def test_the_server_judges_dry_runs(cluster: IpamCluster) -> None:
    """A dry run fails where the server refuses the creation, the change or the deletion of a NIC."""
    await cluster.network()
    await add(cluster.client, "inst1", "0:ip=pool,network=net")
    closed = Closed(as_asked(cluster, DRY))
    with pytest.raises(Forbidden, match="create of nics"):
        await add(closed, "inst2", "0:ip=pool,network=net", how=DRY)
    with pytest.raises(Forbidden, match="patch of nics"):
        await modify(closed, "inst1", "0:ip=192.0.2.4", how=DRY)
    with pytest.raises(Forbidden, match="patch of nics"):
        await instancechange.rename(closed, key("inst1"), "web1", DRY)
    with pytest.raises(Forbidden, match="delete of nics"):
        await instancechange.remove(closed, key("inst1"), DRY)


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
    assert await modify(as_asked(cluster, DRY), "inst1", *both, how=DRY) == [
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
    """A NIC that waits for a reserved address gets it when a user forces it; it does not hinder other changes."""
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

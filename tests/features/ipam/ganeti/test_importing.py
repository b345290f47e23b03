"""Ganeti's networks and NICs on a server with a manager."""

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.features.ipam.ganeti.formats.config import config_of
from lanloom.features.ipam.ganeti.formats.conversion import upgrade_config
from lanloom.features.ipam.ganeti.formats.verify import verify_config
from lanloom.features.ipam.ganeti.importing import PATIENCE, carry_out
from lanloom.features.ipam.ganeti.plan import Import, plan_import
from lanloom.features.ipam.state import State, read_state
from lanloom.kube.errors import TransportError
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    instance,
    network,
    nic,
    python_text,
    uuid,
)

LINK = {"link": "br100", "mode": "bridged", "vlan": ""}


def cluster() -> Json:
    """A cluster with a network of both IP versions, one without a gateway, and NICs of all kinds."""
    one = network(
        "net1", "192.0.2.0/28", used=[2, 3], external=[3], network6="2001:db8::/64", tags=["b", "a"]
    )
    two = network("Net_2", "198.51.100.0/29", gateway=None)
    machines = [
        instance(
            "inst1.example.com", [nic(1, "192.0.2.2", one["uuid"], name="front"), nic(2, None, two["uuid"])]
        ),
        instance("inst2.example.com", [nic(3, "192.0.2.3", one["uuid"]), nic(4, "203.0.113.7")]),
    ]
    return config([one, two], machines, {"net1": LINK})


async def planned(target: IpamCluster, data: Json, *, keep: bool = False) -> Import:
    """What an import would do now."""
    return plan_import(config_of(data), await read_state(target.client), PLACE, keep=keep)


async def bring(target: IpamCluster, data: Json, *, keep: bool = False) -> Import:
    """Import all of it."""
    plan = await planned(target, data, keep=keep)
    await carry_out(target.client, plan, lambda step: None)
    return plan


async def everything(target: IpamCluster) -> list[tuple[Any, ...]]:
    """Every object with what it asks for and has."""
    state = await read_state(target.client)
    networks = [(item.metadata.name, item.metadata.uid, item.spec) for item in state.networks]
    return [
        *networks,
        *((str(nic.metadata.key), nic.metadata.uid, nic.spec, nic.status.ips) for nic in state.nics),
    ]


@in_a_cluster
async def test_import(target: IpamCluster) -> None:
    """Networks keep UUID, tags, connections and what is reserved; NICs their addresses, UUIDs and order."""
    plan = await bring(target, cluster())
    one, two = (await target.net("net1")).spec, await target.net("net-2-" + hashed(plan))
    assert (one.uuid, one.tags, one.connections[0].link) == (uuid("net1"), ("a", "b"), "br100")
    assert [(item.cidr, item.gateway, item.external) for item in one.subnets] == [
        ("192.0.2.0/28", "192.0.2.1", ("192.0.2.3",)),
        ("2001:db8::/64", "", ()),
    ]
    assert [pool.range for item in one.subnets for pool in item.pools] == ["192.0.2.0-192.0.2.15"]
    assert (two.spec.name, two.spec.subnets[0].gateway) == ("Net_2", "")
    assert await target.ips("inst1.example.com-0") == ("192.0.2.2",)
    assert await target.ips("inst2.example.com-0") == ("192.0.2.3",)
    front = (await target.get("inst1.example.com-0")).spec
    assert (front.name, front.uuid, front.mac, front.mode) == ("front", uuid("nic1"), "aa:00:00:00:00:01", "")
    assert (await target.get("inst2.example.com-0")).spec.force and not front.force
    loose = (await target.get("inst2.example.com-1")).spec
    assert (loose.network, loose.ips, loose.mode, loose.link) == ("", (), "bridged", "br0")
    assert plan.notes == (
        "NIC 1 of instance inst2.example.com: 203.0.113.7 belongs to no network and is not imported",
        "to keep an address without a network, add a network with a subnet for it, and put the NIC there: "
        "lanloom instance modify --net N:modify,network=NETWORK,ip=ADDRESS INSTANCE",
    )


def hashed(plan: Import) -> str:
    """The end of the object's name of the second network."""
    return plan.rows[1].object.removeprefix("net-2-")


@in_a_cluster
async def test_twice(target: IpamCluster) -> None:
    """A second import changes nothing, be the file upgraded meanwhile or not."""
    await bring(target, cluster())
    before = await everything(target)
    for data in (cluster(), json.loads(upgrade_config(python_text(cluster())).text)):
        plan = await bring(target, data)
        assert (plan.networks, plan.nics, len(plan.present)) == ({}, {}, 4)
    assert await everything(target) == before


@in_a_cluster
async def test_both_forms(target: IpamCluster) -> None:
    """Both forms of a file are the same import."""
    new = json.loads(upgrade_config(python_text(cluster())).text)
    assert await planned(target, json.loads(python_text(cluster()))) == await planned(target, new)


class Breaking:
    """A client that is cut off after some creations."""

    def __init__(self, target: IpamCluster, left: int) -> None:
        self._admin = target.client
        self._left = left
        self.list = target.client.list

    async def create(self, *arguments: Any) -> Any:
        """Create, or not."""
        self._left -= 1
        if self._left < 0:
            raise TransportError("cut off")
        return await self._admin.create(*arguments)


@in_a_cluster
async def test_interrupted(target: IpamCluster) -> None:
    """An import that was cut off at any point is finished by the next one."""
    for left in (1, 2, 2):
        with pytest.raises(TransportError):
            await carry_out(Breaking(target, left), await planned(target, cluster()), lambda step: None)  # type: ignore[arg-type]
    await bring(target, cluster())
    assert await target.ips("inst2.example.com-0") == ("192.0.2.3",)
    assert len((await target.client.list(NICS)).items) == 4


async def refused(target: IpamCluster, data: Json) -> str:
    """Why an import is refused, which must not change anything."""
    before = await everything(target)
    with pytest.raises(Denied) as caught:
        await bring(target, data)
    assert await everything(target) == before
    return str(caught.value)


@in_a_cluster
async def test_conflicts(target: IpamCluster) -> None:
    """Conflicts with what is there are told, all of them, before anything is written."""
    await bring(target, cluster())
    await target.network("other")
    data = cluster()
    data["networks"][uuid("net1")]["gateway"] = "192.0.2.9"
    data["instances"][uuid("inst1.example.com")]["nics"][0]["mac"] = "aa:00:00:00:00:77"
    data["instances"][uuid("inst1.example.com")]["nics"][1]["uuid"] = uuid("another")
    more = network("other", "203.0.113.0/29", gateway=None)
    data["networks"][more["uuid"]] = more
    message = await refused(target, data)
    assert "nothing was written" in message
    for part in (
        "network net1 exists, but differs; to match the file: "
        "~ subnet 192.0.2.0/28: gateway 192.0.2.1 → 192.0.2.9",
        "another network other exists",
        "NIC default/inst1.example.com-0 (NIC 0 of instance inst1.example.com) exists, but differs; "
        "to match the file: ~ MAC aa:00:00:00:00:01 → aa:00:00:00:00:77",
        "instance inst1.example.com has another NIC 1 already, default/inst1.example.com-1",
    ):
        assert part in message


@in_a_cluster
async def test_the_object_of_a_renamed_network(target: IpamCluster) -> None:
    """A renamed network's object keeps its name, so renaming it once more is not what helps."""
    await target.network("net1")
    await target.client.patch(NETWORKS, "net1", {"spec": {"name": "renamed"}})
    message = await refused(target, cluster())
    assert "the object of network renamed has the immutable name net1; rename net1 in Ganeti first" in message


@in_a_cluster
async def test_address_of_another(target: IpamCluster) -> None:
    """An address that another NIC has got meanwhile is told with that NIC."""
    data = cluster()
    machines = data["instances"]
    data["instances"] = {}
    await bring(target, data)
    await target.nic("thief", "192.0.2.2", network="net1")
    await target.rest()
    data["instances"] = machines
    message = await refused(target, data)
    assert "192.0.2.2 of NIC 0 of instance inst1.example.com is owned by NIC default/thief" in message


@in_a_cluster
async def test_files_in_disorder(target: IpamCluster) -> None:
    """A file in which an address has two owners is refused, and one with networks that can't be is malformed."""
    data = cluster()
    data["instances"][uuid("inst1.example.com")]["nics"][0]["ip"] = "192.0.2.3"
    assert "is also owned by" in await refused(target, data)
    data = cluster()
    data["networks"][uuid("net1")] |= {"gateway": "192.0.2.15", "tags": ["bad tag"]}
    with pytest.raises(Malformed, match="networks that can't be imported"):
        await planned(target, data)


@in_a_cluster
async def test_names(target: IpamCluster) -> None:
    """Names that are not allowed here are adapted and told, and recognised again."""
    one = network("pool", "192.0.2.0/28", used=[2])
    two = network("my network", "198.51.100.0/28")
    data = config([one, two], [instance("inst 1", [nic(1, "192.0.2.2", one["uuid"], name="the nic")])], {})
    plan = await bring(target, data)
    assert len(plan.notes) == 4
    assert 'network "my network" is called my-network here' in plan.notes
    assert (await bring(target, data)).nics == {}


@in_a_cluster
async def test_names_that_become_the_same(target: IpamCluster) -> None:
    """A name that is allowed stays, and another one that would become the same gets a hash: nothing is merged."""
    networks = [network("a net", "192.0.2.0/28"), network("a-net", "192.0.2.16/28")]
    machines = [instance("vm 1", [nic(1)]), instance("vm-1", [nic(2)])]
    await bring(target, config(networks, machines, {}))
    state = await read_state(target.client)
    called = sorted(item.spec.name or item.metadata.name for item in state.networks)
    owners = sorted(item.spec.owner.name for item in state.nics)
    assert called[0] == "a-net" and called[1].startswith("a-net-")
    assert owners[0] == "vm-1" and owners[1].startswith("vm-1-")


@in_a_cluster
async def test_groups(target: IpamCluster) -> None:
    """Node groups whose names are not allowed here are called the same otherwise in each network, and told once."""
    networks = [network(f"net{at}", f"192.0.2.{16 * at}/28") for at in range(2)]
    data = config(networks, [], {"net0": LINK, "net1": LINK})
    (only,) = data["nodegroups"].values()
    only["name"] = "Rack 1"
    data["nodegroups"]["more"] = {"name": "Rack-1", "networks": {uuid("net1"): LINK}}
    plan = await bring(target, data)
    names = [[one.group for one in (await target.net(f"net{at}")).spec.connections] for at in range(2)]
    assert names[0] == names[1][:1] and names[0][0].startswith("rack-1-") and names[1][1] == "Rack-1"
    assert plan.notes == (f'node group "Rack 1" is called {names[0][0]} here',)
    assert (await bring(target, data)).networks == {}


@in_a_cluster
async def test_nics_that_can_never_be(target: IpamCluster) -> None:
    """NICs that a server would refuse are told before anything is written."""
    one = network("net1", "192.0.2.0/28")
    bad = [
        nic(1, nicparams={"link": "a b"}),
        nic(2, nicparams={"mode": "odd"}),
        nic(3, nicparams={"vlan": "x"}),
    ]
    data = config([one], [instance("inst1", bad)], {})
    with pytest.raises(Malformed, match="nothing was written") as caught:
        await bring(target, data)
    for at, part in enumerate(
        ('spec.link: "a b" is not a name', 'spec.mode: "odd" is not a mode', 'vlan: "x" is no')
    ):
        assert f"NIC {at} of instance inst1: " in str(caught.value) and part in str(caught.value)
    assert await everything(target) == []


@in_a_cluster
async def test_vlans(target: IpamCluster) -> None:
    """Connections keep VLAN ids as hooks are told them, so NICs need none of their own."""
    vlans = [".100", ":10:20", ".5:10:20"]
    links = [{"link": "ovs0", "mode": "openvswitch", "vlan": vlan} for vlan in vlans]
    networks = [network(f"net{at}", f"192.0.2.{16 * at}/28", used=[2]) for at in range(3)]
    nics = [
        nic(at, f"192.0.2.{16 * at + 2}", one["uuid"], nicparams=links[at]) for at, one in enumerate(networks)
    ]
    connections = {f"net{at}": link for at, link in enumerate(links)}
    plan = await bring(target, config(networks, [instance("inst1", nics)], connections))
    assert plan.notes == ()
    for at, vlan in enumerate(vlans):
        spec = (await target.get(f"inst1-{at}")).spec
        assert (spec.mode, spec.link, spec.vlan) == ("", "", "")
        assert (await target.net(f"net{at}")).spec.connections[0].vlan == vlan


@in_a_cluster
async def test_endangered(target: IpamCluster) -> None:
    """Addresses that NICs without a network use are told with what keeps a network from giving them to others."""
    one = network("net1", "192.0.2.0/28", used=[2], external=[9])
    loose = [nic(at, f"192.0.2.{at}") for at in (7, 8, 9)]
    plan = await bring(target, config([one], [instance("inst1", loose)], {}))
    assert (
        "network net1 may allocate addresses that NICs without a network use; reserve them: "
        "lanloom network modify --add-reserved-ips 192.0.2.7,192.0.2.8 net1"
    ) in plan.notes


async def reconfigure(target: IpamCluster, **values: Json) -> None:
    """Change the first subnet of the first network."""
    first, *others = (msgspec.to_builtins(one) for one in (await target.net("net1")).spec.subnets)
    await target.configure({**first, **values}, *others, name="net1")


@in_a_cluster
async def test_keep(target: IpamCluster) -> None:
    """What was changed since is left as it is and told; what is new goes into networks as they are."""
    await bring(target, cluster())
    await reconfigure(target, external=["192.0.2.5"], gateway="192.0.2.9")
    await target.change("inst1.example.com-0", ips=["192.0.2.4"])
    await target.change("inst1.example.com-1", ips=["pool"])
    await target.change("inst2.example.com-0", ips=["no-such-pool"])
    await target.rest()
    before = await everything(target)
    data = cluster()
    fresh = [nic(5, "192.0.2.5", uuid("net1")), nic(6, "192.0.2.2", uuid("net1"), mac="aa:00:00:00:00:06")]
    data["instances"]["new"] = instance("inst3", fresh)
    data["instances"][uuid("inst1.example.com")]["nics"][0]["ip"] = "192.0.2.6"
    plan = await bring(target, data, keep=True)
    assert [note for note in plan.notes if "remains unchanged" in note] == [
        "network net1 remains unchanged; in the file: "
        "~ subnet 192.0.2.0/28: gateway 192.0.2.9 → 192.0.2.1; - subnet 192.0.2.0/28: reserved 192.0.2.5; "
        "+ subnet 192.0.2.0/28: reserved 192.0.2.3",
        "NIC 0 of instance inst1.example.com remains unchanged; in the file: ~ addresses 192.0.2.4 → 192.0.2.6",
        "NIC 1 of instance inst1.example.com remains unchanged; in the file: ~ addresses pool → none",
        "NIC 0 of instance inst2.example.com remains unchanged; in the file: "
        "~ addresses no-such-pool → 192.0.2.3",
    ]
    assert await target.ips("inst3-0") == ("192.0.2.5",)
    assert await target.ips("inst3-1") == ("192.0.2.2",)
    assert [item for item in await everything(target) if "inst3" not in item[0]] == before


@in_a_cluster
async def test_keep_what_does_not_fit(target: IpamCluster) -> None:
    """New NICs whose addresses a network that is kept can't give are refused, each with the reason."""
    await bring(target, cluster())
    await reconfigure(target, gateway="192.0.2.9")
    data = cluster()
    data["networks"][uuid("net1")]["network"] = "192.0.2.0/27"
    data["networks"][uuid("net1")] |= {"reservations": "", "ext_reservations": ""}
    machine = instance("inst3", [nic(5, "192.0.2.20", uuid("net1")), nic(6, "192.0.2.9", uuid("net1"))])
    data["instances"]["new"] = machine
    with pytest.raises(Denied) as caught:
        await bring(target, data, keep=True)
    assert "192.0.2.20 of NIC 0 of instance inst3 is in no subnet of network net1; add one" in str(
        caught.value
    )
    assert "192.0.2.9 of NIC 1 of instance inst3 is the gateway of network net1; change" in str(caught.value)


@in_a_cluster
async def test_ganeti_2_7(target: IpamCluster) -> None:
    """NICs without UUIDs are recognised by instance and index."""
    one = network("net1", "192.0.2.0/28", used=[2])
    old = nic(1, "192.0.2.2", "net1")
    del old["uuid"]
    data = config([one], [instance("inst1", [old])], {}, version=2070000)
    await bring(target, data)
    plan = await bring(target, data)
    assert (plan.nics, len(plan.present)) == ({}, 1)


@in_a_cluster
async def test_nobody_gives(target: IpamCluster) -> None:
    """Without a manager the import says so, after a while."""
    await target.kill("manager-1")
    plan = await planned(target, cluster())
    began = asyncio.get_running_loop().time()
    with pytest.raises(Denied, match="check that `lanloom manager` runs"):
        await carry_out(target.client, plan, lambda step: None)
    assert asyncio.get_running_loop().time() - began < PATIENCE + 10
    assert len((await target.client.list(NETWORKS)).items) == 2


@in_a_cluster
async def test_many(target: IpamCluster) -> None:
    """A thousand NICs are brought in one go."""
    used = range(2, 1002)
    one = network("net1", "192.0.0.0/22", used=used)
    machines = [instance(f"vm{at}", [nic(at, f"192.0.{at // 256}.{at % 256}", one["uuid"])]) for at in used]
    plan = await bring(target, config([one], machines, {}))
    assert len(plan.nics) == 1000
    assert (await target.ips("vm1001-0")) == ("192.0.3.233",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uuid": "other"}, '.uuid is "other", not the key under which it is stored'),
        ({"mac_prefix": "zz"}, '"zz" is not a MAC prefix'),
        ({"reservations": None}, ""),
    ],
)
def test_import_and_verify_agree(change: dict[str, Any], message: str) -> None:
    """What an import refuses of a network is told by verify; what it counts anew from the NICs it does not need."""
    data = cluster()
    data["networks"][uuid("net1")].update(change)
    assert not message or any(message in line for line in verify_config(json.dumps(data)))

    def importing() -> object:
        return plan_import(config_of(data), State((), ()), PLACE)

    if message:
        with pytest.raises(Refusal, match=re.escape(message)):
            importing()
    else:
        assert importing()

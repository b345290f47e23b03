"""Ganeti's networks and NICs on a server with a manager."""

import asyncio
import json
from typing import Any

import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.app.ipam.ganetiimport import PATIENCE, carry_out
from lanloom.app.ipam.ganetiplan import Import, plan_import
from lanloom.ipam.rules.errors import Malformed, Refused
from lanloom.ipam.rules.ganeti.config import config_of
from lanloom.ipam.rules.ganeti.upgrade import upgrade_config
from lanloom.ipam.state import read_state
from lanloom.kube.errors import TransportError
from tests.ipam.manager.realm import PLACE, Realm, in_a_realm
from tests.ipam.rules.ganeti.clusters import Json, config, instance, network, nic, python_text, uuid

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


async def planned(realm: Realm, data: Json) -> Import:
    """What an import would do now."""
    return plan_import(config_of(data), await read_state(realm.admin), PLACE)


async def bring(realm: Realm, data: Json) -> Import:
    """Imports all of it."""
    plan = await planned(realm, data)
    await carry_out(realm.admin, plan, lambda step: None)
    return plan


async def everything(realm: Realm) -> list[tuple[Any, ...]]:
    """Every object with what it asks for and has."""
    state = await read_state(realm.admin)
    networks = [(item.metadata.name, item.metadata.uid, item.spec) for item in state.networks]
    return [
        *networks,
        *((str(nic.metadata.key), nic.metadata.uid, nic.spec, nic.status.ips) for nic in state.nics),
    ]


@in_a_realm
async def test_import(realm: Realm) -> None:
    """Networks keep UUID, tags, connections and what is reserved; NICs their addresses, UUIDs and order."""
    plan = await bring(realm, cluster())
    one, two = (await realm.net("net1")).spec, await realm.net("net-2-" + hashed(plan))
    assert (one.uuid, one.tags, one.connections[0].link) == (uuid("net1"), ("a", "b"), "br100")
    assert [(item.cidr, item.gateway, item.external) for item in one.subnets] == [
        ("192.0.2.0/28", "192.0.2.1", ("192.0.2.3",)),
        ("2001:db8::/64", "", ()),
    ]
    assert [pool.range for item in one.subnets for pool in item.pools] == ["192.0.2.0-192.0.2.15"]
    assert (two.spec.name, two.spec.subnets[0].gateway) == ("Net_2", "")
    assert await realm.ips("inst1.example.com-0") == ("192.0.2.2",)
    assert await realm.ips("inst2.example.com-0") == ("192.0.2.3",)
    front = (await realm.get("inst1.example.com-0")).spec
    assert (front.name, front.uuid, front.mac, front.mode) == ("front", uuid("nic1"), "aa:00:00:00:00:01", "")
    assert (await realm.get("inst2.example.com-0")).spec.force and not front.force
    loose = (await realm.get("inst2.example.com-1")).spec
    assert (loose.network, loose.ips, loose.mode, loose.link) == ("", (), "bridged", "br0")
    assert plan.notes == (
        "NIC 1 of instance inst2.example.com: 203.0.113.7 belongs to no network and is not imported",
    )


def hashed(plan: Import) -> str:
    """The end of the object's name of the second network."""
    return plan.rows[1].object.removeprefix("net-2-")


@in_a_realm
async def test_twice(realm: Realm) -> None:
    """A second import changes nothing, be the file upgraded meanwhile or not."""
    await bring(realm, cluster())
    before = await everything(realm)
    for data in (cluster(), json.loads(upgrade_config(python_text(cluster())).text)):
        plan = await bring(realm, data)
        assert (plan.networks, plan.nics, len(plan.present)) == ({}, {}, 4)
    assert await everything(realm) == before


@in_a_realm
async def test_both_forms(realm: Realm) -> None:
    """Both forms of a file are the same import."""
    new = json.loads(upgrade_config(python_text(cluster())).text)
    assert await planned(realm, json.loads(python_text(cluster()))) == await planned(realm, new)


class Breaking:
    """A client that is cut off after some creations."""

    def __init__(self, realm: Realm, left: int) -> None:
        self._admin = realm.admin
        self._left = left
        self.list = realm.admin.list

    async def create(self, *arguments: Any) -> Any:
        """Creates, or not."""
        self._left -= 1
        if self._left < 0:
            raise TransportError("cut off")
        return await self._admin.create(*arguments)


@in_a_realm
async def test_interrupted(realm: Realm) -> None:
    """An import that was cut off at any point is finished by the next one."""
    for left in (1, 2, 2):
        with pytest.raises(TransportError):
            await carry_out(Breaking(realm, left), await planned(realm, cluster()), lambda step: None)  # type: ignore[arg-type]
    await bring(realm, cluster())
    assert await realm.ips("inst2.example.com-0") == ("192.0.2.3",)
    assert len((await realm.admin.list(NICS)).items) == 4


async def refused(realm: Realm, data: Json) -> str:
    """Why an import is refused, which must not change anything."""
    before = await everything(realm)
    with pytest.raises(Refused) as caught:
        await bring(realm, data)
    assert await everything(realm) == before
    return str(caught.value)


@in_a_realm
async def test_conflicts(realm: Realm) -> None:
    """Conflicts with what is there are told, all of them, before anything is written."""
    await bring(realm, cluster())
    await realm.network("other")
    data = cluster()
    data["networks"][uuid("net1")]["gateway"] = "192.0.2.9"
    data["instances"][uuid("inst1.example.com")]["nics"][0]["mac"] = "aa:00:00:00:00:77"
    data["instances"][uuid("inst1.example.com")]["nics"][1]["uuid"] = uuid("another")
    more = network("other", "203.0.113.0/29", gateway=None)
    data["networks"][more["uuid"]] = more
    message = await refused(realm, data)
    assert "nothing was written" in message
    for part in (
        "network net1 is there with the same UUID, but differs",
        "there is another network other",
        "NIC default/inst1.example.com-0 (NIC 0 of instance inst1.example.com) is there, but differs",
        "instance inst1.example.com has another NIC 1 already, default/inst1.example.com-1",
    ):
        assert part in message


@in_a_realm
async def test_address_of_another(realm: Realm) -> None:
    """An address that another NIC has got meanwhile is told with that NIC."""
    data = cluster()
    machines = data["instances"]
    data["instances"] = {}
    await bring(realm, data)
    await realm.nic("thief", "192.0.2.2", network="net1")
    await realm.rest()
    data["instances"] = machines
    message = await refused(realm, data)
    assert "192.0.2.2 of NIC 0 of instance inst1.example.com is owned by NIC default/thief" in message


@in_a_realm
async def test_files_in_disorder(realm: Realm) -> None:
    """A file in which an address has two owners is refused, and one with networks that can't be is malformed."""
    data = cluster()
    data["instances"][uuid("inst1.example.com")]["nics"][0]["ip"] = "192.0.2.3"
    assert "is also owned by" in await refused(realm, data)
    data = cluster()
    data["networks"][uuid("net1")] |= {"gateway": "192.0.2.15", "tags": ["bad tag"]}
    with pytest.raises(Malformed, match="networks that can't be imported"):
        await planned(realm, data)


@in_a_realm
async def test_names(realm: Realm) -> None:
    """Names that are not allowed here are adapted and told, and recognised again."""
    one = network("pool", "192.0.2.0/28", used=[2])
    two = network("my network", "198.51.100.0/28")
    data = config([one, two], [instance("inst 1", [nic(1, "192.0.2.2", one["uuid"], name="the nic")])], {})
    plan = await bring(realm, data)
    assert len(plan.notes) == 4
    assert 'network "my network" is called my-network here' in plan.notes
    assert (await bring(realm, data)).nics == {}


@in_a_realm
async def test_vlans(realm: Realm) -> None:
    """VLAN ids of connections are numbers here; a NIC keeps what its hooks are told."""
    one = network("net1", "192.0.2.0/28", used=[2])
    ovs = {"link": "ovs0", "mode": "openvswitch", "vlan": ".100"}
    machine = instance("inst1", [nic(1, "192.0.2.2", one["uuid"], nicparams=ovs)])
    plan = await bring(realm, config([one], [machine], {"net1": ovs}))
    assert plan.notes == ("VLAN .100 of network net1 in node group default is 100 here",)
    spec = (await realm.get("inst1-0")).spec
    assert (spec.mode, spec.link, spec.vlan) == ("openvswitch", "ovs0", ".100")
    assert (await realm.net("net1")).spec.connections[0].vlan == "100"


@in_a_realm
async def test_ganeti_2_7(realm: Realm) -> None:
    """NICs without UUIDs are recognised by instance and index."""
    one = network("net1", "192.0.2.0/28", used=[2])
    old = nic(1, "192.0.2.2", "net1")
    del old["uuid"]
    data = config([one], [instance("inst1", [old])], {}, version=2070000)
    await bring(realm, data)
    plan = await bring(realm, data)
    assert (plan.nics, len(plan.present)) == ({}, 1)


@in_a_realm
async def test_nobody_gives(realm: Realm) -> None:
    """Without a manager the import says so, after a while."""
    await realm.kill("manager-1")
    plan = await planned(realm, cluster())
    began = asyncio.get_running_loop().time()
    with pytest.raises(Refused, match="see whether `lanloom manager` runs"):
        await carry_out(realm.admin, plan, lambda step: None)
    assert asyncio.get_running_loop().time() - began < PATIENCE + 10
    assert len((await realm.admin.list(NETWORKS)).items) == 2


@in_a_realm
async def test_many(realm: Realm) -> None:
    """A thousand NICs are brought in one go."""
    used = range(2, 1002)
    one = network("net1", "192.0.0.0/22", used=used)
    machines = [instance(f"vm{at}", [nic(at, f"192.0.{at // 256}.{at % 256}", one["uuid"])]) for at in used]
    plan = await bring(realm, config([one], machines, {}))
    assert len(plan.nics) == 1000
    assert (await realm.ips("vm1001-0")) == ("192.0.3.233",)

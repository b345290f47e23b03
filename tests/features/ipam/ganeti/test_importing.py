"""Ganeti's networks and NICs on a server with a manager; `test_import_refusals` is about what is refused."""

import json
from typing import Any

import msgspec
import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.features.ipam.ganeti.formats.conversion import upgrade_config
from lanloom.features.ipam.ganeti.importing import carry_out
from lanloom.features.ipam.ganeti.plan import Import
from lanloom.features.ipam.state import read_state
from lanloom.kube.errors import TransportError
from lanloom.refusals import Denied
from tests.features.ipam.cluster import IpamCluster, in_a_cluster
from tests.features.ipam.ganeti.formats.clusters import (
    config,
    instance,
    network,
    nic,
    python_text,
    uuid,
)
from tests.features.ipam.ganeti.imports import LINK, bring, cluster, everything, planned, reconfigure


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


@in_a_cluster
async def test_names(target: IpamCluster) -> None:
    """Names that are not allowed here are adapted and reported, and recognised again."""
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
    """Node groups whose names are not allowed here are called the same otherwise in each network, and reported once."""
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
async def test_vlans(target: IpamCluster) -> None:
    """Connections keep VLAN ids as hooks get them, so NICs need none of their own."""
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
    """Addresses that NICs without a network use are reported with what keeps a network from giving them to others."""
    one = network("net1", "192.0.2.0/28", used=[2], external=[9])
    loose = [nic(at, f"192.0.2.{at}") for at in (7, 8, 9)]
    plan = await bring(target, config([one], [instance("inst1", loose)], {}))
    assert (
        "network net1 may allocate addresses that NICs without a network use; reserve them: "
        "lanloom network modify --add-reserved-ips 192.0.2.7,192.0.2.8 net1"
    ) in plan.notes


@in_a_cluster
async def test_keep(target: IpamCluster) -> None:
    """What was changed since is left as it is and reported; what is new goes into networks as they are."""
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
async def test_what_no_file_says(target: IpamCluster) -> None:
    """Leases, disabled pools and, for the form without it, DHCP differ from no file."""
    await bring(target, cluster())
    spec = msgspec.to_builtins((await target.net("net1")).spec)
    pools = [{**pool, "disabled": True} for pool in spec["subnets"][0]["pools"]]
    await reconfigure(target, dhcp=True, leaseSeconds=3600, pools=pools)
    assert (await bring(target, cluster())).networks == {}
    new = json.loads(upgrade_config(python_text(cluster())).text)
    with pytest.raises(Denied, match=r"subnet 192\.0\.2\.0/28: dhcp true → false\. Change it"):
        await planned(target, new)


@in_a_cluster
async def test_keep_a_renamed_network(target: IpamCluster) -> None:
    """A network that was renamed is kept, also if another one has its old name since."""
    await bring(target, cluster())
    await target.client.patch(NETWORKS, "net1", {"spec": {"name": "renamed"}})
    await target.client.create(NETWORKS, {"metadata": {"name": "other"}, "spec": {"name": "net1"}})
    plan = await bring(target, cluster(), keep=True)
    assert "network renamed remains unchanged; in the file: ~ name renamed → net1" in plan.notes


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


@pytest.mark.slow
@in_a_cluster
async def test_many(target: IpamCluster) -> None:
    """A thousand NICs are brought in one go."""
    used = range(2, 1002)
    one = network("net1", "192.0.0.0/22", used=used)
    machines = [instance(f"vm{at}", [nic(at, f"192.0.{at // 256}.{at % 256}", one["uuid"])]) for at in used]
    plan = await bring(target, config([one], machines, {}))
    assert len(plan.nics) == 1000
    assert (await target.ips("vm1001-0")) == ("192.0.3.233",)

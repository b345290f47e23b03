"""Imports that are refused: with all reasons, and before anything is written."""

import asyncio
import json
import re
import sys
from typing import Any

import pytest

from lanloom.api.core import NAMESPACES
from lanloom.api.ipam import NETWORKS
from lanloom.features.ipam.ganeti.formats.config import config_of
from lanloom.features.ipam.ganeti.formats.verify import verify_config
from lanloom.features.ipam.ganeti.importing import PATIENCE, carry_out, check_namespace
from lanloom.features.ipam.ganeti.plan import plan_import
from lanloom.features.ipam.state import State
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.ganeti.formats.clusters import (
    Json,
    config,
    instance,
    network,
    nic,
    uuid,
)
from tests.features.ipam.ganeti.imports import bring, cluster, everything, planned, reconfigure


async def refused(target: IpamCluster, data: Json, *, force: bool = False) -> str:
    """Why an import is refused, which must not change anything."""
    before = await everything(target)
    with pytest.raises(Denied) as caught:
        await bring(target, data, force=force)
    assert await everything(target) == before
    return str(caught.value)


@in_a_cluster
async def test_shares(target: IpamCluster) -> None:
    """A network that is there and does not serve the namespace as the file needs it is a conflict."""
    await bring(target, cluster())
    for name in ("inst1.example.com-0", "inst2.example.com-0"):
        await target.delete(name)
    await target.rest()
    for spec, message in (
        ({"namespaces": ["other"]}, "network net1 gives no addresses to namespace default"),
        ({"quota": {"*": 1}}, "network net1 is exceeded: requested 2, used 0, limit 1"),
        ({"forceNamespaces": ["other"]}, "network net1 gives no reserved addresses to namespace default"),
    ):
        unset = dict.fromkeys(("namespaces", "quota", "forceNamespaces"))
        await target.client.patch(NETWORKS, "net1", {"spec": {**unset, **spec}})
        assert message in await refused(target, cluster())
    stated = {"namespaces": ["default"], "quota": {"*": 2}, "forceNamespaces": ["default"]}
    stated["stickyFor"] = {"VirtualMachine": "7d"}
    await target.client.patch(NETWORKS, "net1", {"spec": stated})
    await bring(target, cluster())
    assert (await target.net("net1")).spec.sticky_for == {"VirtualMachine": "7d"}


@in_a_cluster
async def test_conflicts(target: IpamCluster) -> None:
    """Conflicts with what is there are reported, all of them, before anything is written."""
    await bring(target, cluster())
    await target.network("other")
    data = cluster()
    data["networks"][uuid("net1")]["gateway"] = "192.0.2.9"
    data["instances"][uuid("inst1.example.com")]["nics"][0]["mac"] = "aa:00:00:00:00:77"
    data["instances"][uuid("inst1.example.com")]["nics"][1]["uuid"] = uuid("another")
    more = network("other", "203.0.113.0/29", gateway=None)
    data["networks"][more["uuid"]] = more
    message = await refused(target, data, force=True)
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
    """An address that another NIC has got meanwhile is reported with that NIC."""
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
async def test_address_of_a_node(target: IpamCluster) -> None:
    """An address that its network knows to be another's is a conflict, unless the NIC has it or may have it."""
    data = cluster()
    data["instances"][uuid("inst1.example.com")]["nics"].pop()
    machines, data["instances"] = data["instances"], {}
    await bring(target, data)
    await target.kill("manager-1")
    uses = [{"ip": f"192.0.2.{at}", "by": "the address of node", "of": "Node node1"} for at in (2, 3)]
    await target.client.patch(NETWORKS, "net1", {"status": {"inUse": uses}}, subresource="status")
    data["instances"] = machines
    message = await refused(target, data)
    assert "192.0.2.2 of NIC 0 of instance inst1.example.com is the address of node (Node node1)" in message
    assert "192.0.2.3" not in message, "the file says that it is reserved, and the NIC has it by force"
    await target.client.patch(NETWORKS, "net1", {"status": {"inUse": []}}, subresource="status")
    target.lead("manager-2")
    await bring(target, data)
    await target.kill("manager-2")
    await target.client.patch(NETWORKS, "net1", {"status": {"inUse": uses}}, subresource="status")
    assert len((await planned(target, data)).present) == 3


@in_a_cluster
async def test_what_is_being_deleted(target: IpamCluster) -> None:
    """A network that waits for its NICs gives no address away, and a namespace that ends takes no NIC."""
    await bring(target, cluster())
    await target.client.delete(NETWORKS, "net1")
    assert "network net1 is being deleted; try again after its deletion" in await refused(target, cluster())
    await target.client.create(
        NAMESPACES, {"metadata": {"name": "ending", "finalizers": ["example.com/last"]}}
    )
    await check_namespace(target.client, "ending")
    await target.client.delete(NAMESPACES, "ending")
    with pytest.raises(Denied, match="namespace ending is being deleted"):
        await check_namespace(target.client, "ending")


@in_a_cluster
async def test_files_in_disorder(target: IpamCluster) -> None:
    """A file in which an address has two owners is refused, and one with networks that can't be is malformed."""
    data = cluster()
    data["instances"][uuid("inst1.example.com")]["nics"][0]["ip"] = "192.0.2.3"
    assert "is also owned by" in await refused(target, data)
    data = cluster()
    data["networks"][uuid("net1")] |= {"gateway": "192.0.2.15", "tags": ["bad tag"]}
    assert "its gateway 192.0.2.15 is its network or broadcast address" in await refused(target, data)
    with pytest.raises(Malformed, match="networks that can't be imported"):
        await planned(target, data, force=True)


def test_subnets_that_no_nic_can_use() -> None:
    """A network that a server would not create is reported before anything is written."""
    data = config([network("net1", "224.0.0.0/24")], [], {})
    with pytest.raises(Malformed, match=r"224\.0\.0\.0/24 has multicast addresses"):
        plan_import(config_of(data), State((), ()), PLACE)


@in_a_cluster
async def test_nics_that_can_never_be(target: IpamCluster) -> None:
    """NICs that a server would refuse are reported before anything is written."""
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
        await bring(target, data, keep=True, force=True)
    assert "192.0.2.20 of NIC 0 of instance inst3 is in no subnet of network net1; add one" in str(
        caught.value
    )
    assert "192.0.2.9 of NIC 1 of instance inst3 is the gateway of network net1; change" in str(caught.value)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uuid": "other"}, '.uuid is "other", not the key under which it is stored'),
        ({"mac_prefix": "zz"}, '"zz" is not a MAC prefix'),
        ({"reservations": None}, ""),
    ],
)
def test_import_and_verify_agree(change: dict[str, Any], message: str) -> None:
    """What an import refuses of a network is reported by verify, but for what it counts again from the NICs."""
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


def _verified(data: Json) -> tuple[set[str], set[str]]:
    """What `verify` calls wrong in a file, and what an import says of that: by a refusal, or by notes."""
    wrong = set(verify_config(json.dumps(data)))
    try:
        plan = plan_import(config_of(data), State(networks=(), nics=()), PLACE)
        said = set(plan.notes)
    except Refusal as error:
        said = set(str(error).splitlines())
    return wrong, {each for each in wrong if any(each in line for line in said)}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reservations", "1" * 4096),
        ("ext_reservations", "0" * 16),
        ("reservations", "0" * 16),
        ("gateway", "192.0.2.9"),
    ],
)
def test_an_import_says_what_verify_says(field: str, value: str) -> None:
    """What `lanloom ganeti verify` calls wrong is refused or reported by an import, and so by its dry run."""
    data = cluster()
    data["networks"][uuid("net1")][field] = value
    wrong, said = _verified(data)
    assert wrong == said != set()


def test_bits_that_mean_no_address_are_refused() -> None:
    """A string of reservations of a wrong length is refused: it is unknown which addresses its bits mean."""
    data = cluster()
    data["networks"][uuid("net1")]["reservations"] = "1" * 4096
    with pytest.raises(Denied, match="has 4096 bits for 16 addresses"):
        plan_import(config_of(data), State(networks=(), nics=()), PLACE)


def test_twice_the_networks_take_twice_the_steps() -> None:
    """The steps of a plan grow with the networks and NICs of a file, and not with their product."""
    steps = [_steps(count) for count in (100, 400)]
    assert steps[1] < 6 * steps[0]


def _steps(count: int) -> int:
    """The lines of Python that the plan of so many networks, with a NIC each, runs through."""
    networks = [network(f"net{number}", f"10.{number >> 8}.{number & 255}.0/28") for number in range(count)]
    machines = [
        instance(
            f"inst{number}", [nic(number, f"10.{number >> 8}.{number & 255}.5", networks[number]["uuid"])]
        )
        for number in range(count)
    ]
    read = config_of(config(networks, machines))
    lines = 0

    def trace(_frame: object, _event: str, _argument: object) -> Any:
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        plan_import(read, State(networks=(), nics=()), PLACE)
    finally:
        sys.settrace(before)
    return lines

"""The Network of a LAN with subnets of its own: before the NADs that name it, after them, and never another LAN's."""

import json
from typing import Any

import pytest

from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LANS, UID_LABEL
from lanloom.api.multus import NADS
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.errors import Unreachable, from_status
from lanloom.kube.ports import Client
from tests.features.lan.manager.scene import ETH0, NAMES, PLACE, SPEC, Scene, in_a_scene, play
from tests.harness.interceptor import WRITES, Interceptor, Request, ScriptedClient

SUBNETS = [{"cidr": "10.7.0.0/24", "gateway": "10.7.0.1"}, {"cidr": "fd07::/64"}]


class DyingClient(Interceptor):
    """A manager's client that reaches no server after so many writes."""

    def __init__(self, inner: Client, writes: int) -> None:
        super().__init__(inner)
        self._left = writes

    async def send(self, request: Request) -> Any:
        if request.verb in WRITES and request.resource in (LANS, NADS, NETWORKS):
            if not self._left:
                raise Unreachable("the manager is dead")
            self._left -= 1
        return await super().send(request)


async def networks(scene: Scene) -> list[Network]:
    """Every Network."""
    return list((await scene.client.list(NETWORKS)).items)


async def named(scene: Scene) -> set[str]:
    """The Networks that the NADs name, empty for a NAD without addresses."""
    nads = (await scene.client.list(NADS)).items
    return {json.loads(nad.spec.config).get("ipam", {}).get("network", "") for nad in nads}


@in_a_scene
async def test_pods_and_machines_get_addresses(scene: Scene) -> None:
    """All NADs of a LAN with subnets name its Network, which serves the namespaces that the LAN admits."""
    lan = await scene.add(subnets=SUBNETS, namespaces=["team", PLACE])
    await scene.rest()
    (network,) = await networks(scene)
    assert network.metadata.labels == {UID_LABEL: lan.metadata.uid}
    assert [(item.cidr, item.gateway) for item in network.spec.subnets] == [
        ("10.7.0.0/24", "10.7.0.1"),
        ("fd07::/64", ""),
    ]
    assert network.spec.namespaces == (PLACE, "team")
    assert await named(scene) == {network.metadata.name}
    nad = await scene.client.get(NADS, NAMES[0], PLACE)
    assert json.loads(nad.spec.config)["ipam"]["ips"] == ["pool4", "pool6"]
    assert (await scene.get()).status.network == network.metadata.name
    assert await scene.reason() == "True Ready"


@in_a_scene
async def test_two_tenants_have_the_same_subnet(scene: Scene) -> None:
    """LANs of the same name and subnet in two namespaces have a Network each, for their namespace alone."""
    await scene.add(subnets=SUBNETS)
    spec = (await scene.get()).spec
    own = {"ns": "red", "vni": 8, "vxlanGrp": default_group(8), "spokes": ["c"], "subnets": SUBNETS}
    body = {"metadata": {"name": "blue"}, "spec": SPEC | own}
    await scene.client.create(LANS, body, "vms")
    await scene.rest()
    found = await networks(scene)
    assert {item.spec.namespaces for item in found} == {(PLACE,), ("vms",)}
    assert {item.spec.subnets[0].cidr for item in found} == {spec.subnets[0].cidr}
    assert len(await named(scene)) == 2


@in_a_scene
async def test_subnets_come_and_go(scene: Scene) -> None:
    """Subnets may come to a LAN, change, and go: then the NADs give no addresses, and the Network goes."""
    await scene.add()
    await scene.rest()
    await scene.change(spec={"subnets": SUBNETS})
    await scene.rest()
    assert await named(scene) != {""}
    await scene.change(spec={"subnets": [{"cidr": "10.8.0.0/24"}]})
    await scene.rest()
    (network,) = await networks(scene)
    assert [item.cidr for item in network.spec.subnets] == ["10.8.0.0/24"]
    await scene.change(spec={"subnets": [{"cidr": "10.8.0.0/24", "dhcp": True}]})
    await scene.rest()
    assert [item.spec.subnets[0].dhcp for item in await networks(scene)] == [True]
    await scene.change(spec={"subnets": None})
    await scene.rest()
    assert (await networks(scene), await named(scene)) == ([], {""})
    assert (await scene.get()).status.network == ""


@in_a_scene
async def test_what_an_administrator_adds_stays(scene: Scene) -> None:
    """A Network that a user changes is as the LAN says again, and keeps its quota; a deleted one comes back."""
    await scene.add(subnets=SUBNETS)
    await scene.rest()
    (network,) = await networks(scene)
    name = network.metadata.name
    edit = {"metadata": {"labels": None}, "spec": {"namespaces": ["*"], "quota": {"nets": 5}}}
    await scene.client.patch(NETWORKS, name, edit)
    await scene.rest()
    (found,) = await networks(scene)
    assert (found.spec.namespaces, found.spec.quota) == ((PLACE,), {"nets": 5})
    assert found.metadata.labels == network.metadata.labels
    await scene.client.delete(NETWORKS, name)
    await scene.rest()
    assert [item.metadata.name for item in await networks(scene)] == [name]


@in_a_scene
async def test_a_lan_waits_for_its_addresses(scene: Scene) -> None:
    """A LAN that is deleted stays until its Network is gone, which waits for the last address."""
    await scene.add(subnets=SUBNETS)
    await scene.rest()
    (network,) = await networks(scene)
    held = {"metadata": {"finalizers": ["ipam.lanloom.io/addresses"]}}
    await scene.client.patch(NETWORKS, network.metadata.name, held)
    await scene.delete()
    await scene.rest(60.0)
    assert await scene.reason() == "False Terminating"
    assert network.metadata.name in await scene.message()
    await scene.client.patch(NETWORKS, network.metadata.name, {"metadata": {"finalizers": None}})
    await scene.rest(60.0)
    assert await scene.is_gone()
    assert await networks(scene) == []


@in_a_scene
async def test_nothing_is_left_of_a_removal_by_force(scene: Scene) -> None:
    """The Network of a LAN that was removed by force goes, once no NAD names it."""
    await scene.add(subnets=SUBNETS)
    await scene.rest()
    await scene.change(metadata={"finalizers": None})
    await scene.delete()
    await scene.rest(120.0)
    assert (await networks(scene), await scene.nads()) == ([], [])


def test_a_refusal_is_told() -> None:
    """Where address management refuses a Network, no NAD names it, and the LAN says why until it is accepted."""

    async def story(scene: Scene) -> None:
        client = ScriptedClient(scene.counted)
        client.fail(from_status(403, {"message": "no room", "reason": "Forbidden"}), "create", of=NETWORKS)
        scene.lead(client)
        await scene.has_links("agent", ETH0)
        await scene.add(subnets=SUBNETS)
        await scene.rest()
        assert await scene.reason() == "False NetworkRefused"
        assert await scene.message() == "spec.subnets: no room"
        assert await scene.nads() == []
        client.calm()
        await scene.rest(70.0)
        assert await scene.reason() == "True Ready"

    play(story)


@pytest.mark.parametrize("writes", range(9))
def test_a_leader_dies_after_each_write(writes: int) -> None:
    """Whatever write was a leader's last, the next one ends with all of it, and in the end with nothing."""

    async def story(scene: Scene) -> None:
        await scene.has_links("agent", ETH0)
        await scene.add(subnets=SUBNETS)
        for change in ({"spec": {"subnets": [{"cidr": "10.8.0.0/24"}]}}, {"spec": {"subnets": None}}, None):
            scene.lead(DyingClient(scene.counted, writes), "first")
            await scene.rest()
            await scene.end("first")
            scene.lead(name="second")
            await scene.rest(120.0)
            await scene.end("second")
            if change is None:
                break
            found = (await scene.get()).spec.subnets
            assert [item.metadata.name for item in await networks(scene)] == [
                (await scene.get()).status.network
            ]
            assert await scene.nads() == NAMES and found
            await scene.change(**change)
            if change["spec"]["subnets"] is None:
                await scene.delete()
        assert await scene.is_gone()
        assert (await networks(scene), await scene.nads()) == ([], [])

    play(story)

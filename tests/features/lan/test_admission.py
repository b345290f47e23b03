"""The webhooks of LANs and of the reports of nodes; `test_nad_admission` is about NADs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.api.core import PODS
from lanloom.api.lan import FORCE_DELETE, LAN_NODES, LANS, nad_name, resource_name
from lanloom.features.lan.admission import refuse_management
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.patches import merge
from lanloom.refusals import Denied
from tests.features.lan.manager.scene import PLACE, SPEC
from tests.features.lan.reviews import MANAGER, Reviews, raw, review_lan, reviewed
from tests.features.lan.samples import entry
from tests.harness.admission import request

Raw = dict[str, Any]
ROOT = Path(__file__).parents[3]
AGENT = "system:lanloom:node:"


OTHER: Raw = {"ns": "red", "vni": 8, "spokes": ["x"]}


@reviewed
async def test_defaults_are_a_patch(on: Reviews) -> None:
    """Group and port are filled in where they are absent or null, and nothing else; a broken object is left alone."""
    spec = {key: value for key, value in SPEC.items() if key != "vxlanGrp"}
    for absent in ({}, {"vxlanGrp": None, "vxlanPort": None}):
        new = {"metadata": {"name": "blue"}, "spec": spec | absent}
        assert on.admission.mutate(request(LANS, new)).patch == (
            {"op": "add", "path": "/spec/vxlanPort", "value": 4789},
            {"op": "add", "path": "/spec/vxlanGrp", "value": default_group(7)},
        )
    full = {"metadata": {"name": "blue"}, "spec": SPEC | {"vxlanPort": 4789}}
    assert not on.admission.mutate(request(LANS, full)).patch
    broken_ones: tuple[Raw, ...] = ({}, {"spec": None}, {"spec": []}, {"spec": "x"})
    for broken in broken_ones:
        verdict = on.admission.mutate(request(LANS, broken))
        assert verdict.allowed and not verdict.patch


@reviewed
async def test_a_lan_is_judged(on: Reviews) -> None:
    """A valid LAN is let in; of another one the refusal names the object and the field."""
    await on.follow()
    assert (await on.ask(LANS, review_lan())).allowed
    refused = await on.ask(LANS, review_lan("red", vni=0))
    assert refused.message == "LAN nets/red: spec.vni is 0; it must be from 1 to 16777215"
    unreadable = await on.ask(LANS, review_lan("red", vni="seven"))
    assert "can't read LAN red" in unreadable.message


@reviewed
async def test_the_example(on: Reviews) -> None:
    """The LAN of the examples is let in with its defaults, and its pod names one of its NADs and the resource."""
    example, pod = yaml.safe_load_all((ROOT / "examples/lan.yaml").read_text())
    await on.follow()
    filled = on.admission.mutate(request(LANS, example)).patch
    spec = example["spec"] | {item["path"].rpartition("/")[2]: item["value"] for item in filled}
    assert (await on.ask(LANS, example | {"spec": spec})).allowed
    (network,) = pod["metadata"]["annotations"].values()
    (resource,) = pod["spec"]["containers"][0]["resources"]["limits"]
    spoke = example["spec"]["spokes"][0]
    assert (network.partition("@")[0], resource) == (nad_name(spoke, "veth"), resource_name(spoke, "veth"))


@reviewed
async def test_claims_are_judged_on_live_objects(on: Reviews) -> None:
    """A claim is refused for a LAN that is there, not for one that the stores still have."""
    await on.follow()
    await on.add_lan()
    refused = await on.ask(LANS, review_lan("red", **(OTHER | {"vni": 7})))
    assert "spec.vni: 7 at port 4789 is the VNI of LAN nets/blue already" in refused.message
    await on.client.delete(LANS, "blue", PLACE)
    assert (await on.ask(LANS, review_lan("red", **(OTHER | {"vni": 7})))).allowed


@reviewed
async def test_two_at_once(on: Reviews) -> None:
    """A LAN that was let in counts before any watch brings it; one of a dry run does not."""
    await on.follow()
    assert (await on.ask(LANS, review_lan(), dry=True)).allowed
    assert (await on.ask(LANS, review_lan("red", **(OTHER | {"ns": "blue"})))).allowed
    refused = await on.ask(LANS, review_lan("green", **(OTHER | {"vni": 9, "spokes": ["y"], "ns": "blue"})))
    assert "LAN nets/red already" in refused.message


@reviewed
async def test_what_may_change(on: Reviews) -> None:
    """Spokes are added, unused ones removed, others not; everything else stays."""
    lan = await on.add_lan(namespaces=["vms"])
    await on.add_nad(lan)
    await on.add_pod()
    await on.follow()
    old = raw(lan)
    assert (await on.ask(LANS, merge(old, {"spec": {"spokes": ["a", "b", "c"]}}), old)).allowed
    assert (await on.ask(LANS, merge(old, {"spec": {"spokes": ["a"]}}), old)).allowed
    refused = await on.ask(LANS, merge(old, {"spec": {"spokes": ["b"]}}), old)
    assert 'the spoke "a" is used by Pod vms/web' in refused.message
    refused = await on.ask(LANS, merge(old, {"spec": {"bridge": "br9"}}), old)
    assert 'spec.bridge is "br0" and can\'t become "br9"' in refused.message
    await on.client.delete(PODS, "web", "vms", grace=0)
    assert (await on.ask(LANS, merge(old, {"spec": {"spokes": ["b"]}}), old)).allowed


@reviewed
async def test_what_nodes_have_stays(on: Reviews) -> None:
    """A spoke that a node has attached is not removed, nor the underlay of a node that has the LAN ready changed."""
    lan = await on.add_lan()
    old = raw(lan)
    await on.client.create(LAN_NODES, {"metadata": {"name": "node1"}})
    status = {"lans": [raw(entry(lan))]}
    await on.client.patch(LAN_NODES, "node1", {"status": status}, subresource="status")
    await on.follow()
    refused = await on.ask(LANS, merge(old, {"spec": {"spokes": ["b"]}}), old)
    assert 'node node1 has something attached to the spoke "a"' in refused.message
    refused = await on.ask(LANS, merge(old, {"spec": {"vxlanDevMap": {"node1": "eth1"}}}), old)
    assert 'the underlay of node node1 is "eth0" and can\'t become "eth1" while node node1' in refused.message
    assert (await on.ask(LANS, merge(old, {"spec": {"vxlanDevMap": {"node2": "eth1"}}}), old)).allowed


@reviewed
async def test_only_managers_write_statuses(on: Reviews) -> None:
    """The status of a LAN is its manager's."""
    await on.follow()
    assert (await on.ask(LANS, review_lan(), review_lan(), user=MANAGER, sub="status")).allowed
    assert (
        "written by Lanloom's manager only"
        in (await on.ask(LANS, review_lan(), review_lan(), sub="status")).message
    )


@reviewed
async def test_a_deletion_warns(on: Reviews) -> None:
    """Any user may delete a LAN; a warning names the users that keep it, and another one a mistyped annotation."""
    lan = await on.add_lan(namespaces=["vms"])
    await on.add_pod()
    await on.follow()
    verdict = await on.ask(LANS, None, raw(lan))
    assert verdict.allowed
    assert "LAN nets/blue is used by Pod vms/web" in verdict.warnings[0]
    forced = review_lan(metadata={"annotations": {FORCE_DELETE: "yes"}})
    assert 'no effect unless it is "true"' in (await on.ask(LANS, forced, raw(lan))).warnings[0]


@reviewed
async def test_an_agent_writes_its_own_report(on: Reviews) -> None:
    """An agent creates, changes and deletes the LANNode of its own node; others are judged by their rights alone."""
    await on.follow()
    own, foreign = {"metadata": {"name": "node1"}}, {"metadata": {"name": "node2"}}
    user = f"{AGENT}node1"
    for new, old in ((own, None), (own, own), (None, own)):
        assert (await on.ask(LAN_NODES, new, old, user=user)).allowed
        assert (await on.ask(LAN_NODES, new, old)).allowed
    for new, old in ((foreign, None), (foreign, foreign), (None, foreign)):
        refused = await on.ask(LAN_NODES, new, old, user=user)
        assert 'this is the agent of node "node1"' in refused.message
    unknown = "system:serviceaccount:lanloom-system:lanloom-agent"
    assert "try again" in (await on.ask(LAN_NODES, own, user=unknown)).message


HOST_BRIDGE = {"name": "iso-br", "alias": "lanloom-dummy 5e1f4a0c-0000-4000-8000-0000000000aa"}


@reviewed
async def test_joined_to_a_bridge(each: Reviews) -> None:
    """Only a manager joins a LAN to a bridge of the hosts, and lets such a LAN go; it may have no spokes."""
    joined = review_lan(spokes=[], hostBridge=HOST_BRIDGE)
    refused = await each.ask(LANS, joined)
    assert "spec.hostBridge is written by Lanloom's manager only" in refused.message
    assert (await each.ask(LANS, joined, user=MANAGER)).allowed
    assert "spec.spokes has 0 entries" in (await each.ask(LANS, review_lan(spokes=[]), user=MANAGER)).message
    for alias in ("", "lanloom", "lanloom-dummy ../x"):
        odd = review_lan(hostBridge=HOST_BRIDGE | {"alias": alias})
        assert "spec.hostBridge.alias is" in (await each.ask(LANS, odd, user=MANAGER)).message
    odd = review_lan(hostBridge=HOST_BRIDGE | {"name": "a/b"})
    assert "spec.hostBridge.name is" in (await each.ask(LANS, odd, user=MANAGER)).message
    lan = raw(await each.add_lan(spokes=[], hostBridge=HOST_BRIDGE))
    assert "stands on it" in (await each.ask(LANS, None, lan)).message
    assert (await each.ask(LANS, None, lan, user=MANAGER)).allowed
    for change in ({"spokes": ["a"]}, {"mtu": 1400}, {"portSecurity": True}, {"hostBridge": None}):
        changed = lan | {"spec": lan["spec"] | change}
        assert "change the DummyClusterNetwork instead" in (await each.ask(LANS, changed, lan)).message


@reviewed
async def test_options_of_a_joined_lan(each: Reviews) -> None:
    """Options of spokes are refused where users are at a bridge of the hosts; those of the whole LAN hold there too."""
    lan = raw(await each.add_lan(spokes=[], hostBridge=HOST_BRIDGE))
    for change in ({"portSecurity": True}, {"spokes": ["a"], "spokeOptions": {"a": {"isolated": True}}}):
        changed = lan | {"spec": lan["spec"] | change}
        words = "can't be on the LAN of an isolated network: users of that network are at the bridge"
        assert words in (await each.ask(LANS, changed, lan, user=MANAGER)).message
    whole = lan | {"spec": lan["spec"] | {"mtu": 1400, "maxLearnedMacs": 100}}
    assert (await each.ask(LANS, whole, lan, user=MANAGER)).allowed


@reviewed
async def test_uplink(on: Reviews) -> None:
    """A LAN's VLAN must be one that a cluster network can have, and no other LAN's; it may change at any time."""
    await on.follow()
    uplink = {"clusterNetwork": "cluster-1", "vlan": 2012}
    lan = raw(await on.add_lan(uplink=uplink))
    for wrong, words in (
        ({"clusterNetwork": "", "vlan": 5}, 'spec.uplink.clusterNetwork is ""'),
        ({"clusterNetwork": "a-long-cluster", "vlan": 5}, "at most 12"),
        ({"clusterNetwork": "../x", "vlan": 5}, "can't be the name of a ClusterNetwork"),
        ({"clusterNetwork": "cluster-1", "vlan": 1}, "spec.uplink.vlan is 1; it must be from 2 to 4094"),
        ({"clusterNetwork": "cluster-1", "vlan": 4095}, "spec.uplink.vlan is 4095"),
    ):
        assert words in (await on.ask(LANS, review_lan("red", uplink=wrong))).message
    other = review_lan("red", ns="red", vni=9, spokes=["z"], uplink=uplink)
    refused = (await on.ask(LANS, other)).message
    assert (
        f"spec.uplink: VLAN 2012 of cluster network cluster-1 is the uplink of LAN {PLACE}/blue already"
        in refused
    )
    for spec in ({**lan["spec"], "uplink": uplink | {"vlan": 2013}}, {**lan["spec"], "uplink": None}):
        assert (await on.ask(LANS, lan | {"spec": spec}, lan)).allowed
    both = review_lan("green", uplink=uplink, hostBridge=HOST_BRIDGE)
    assert "can't be on the LAN of an isolated network" in (await on.ask(LANS, both, user=MANAGER)).message


@reviewed
async def test_uplinks_are_for_some(each: Reviews) -> None:
    """A LAN is joined to a VLAN by those who may join LANs there; one that is joined already keeps its uplink."""
    uplink = {"clusterNetwork": "mgmt", "vlan": 2021}
    plain = raw(await each.add_lan())
    joined = merge(plain, {"spec": {"uplink": uplink}})
    await each.follow()
    assert (await each.ask(LANS, joined, plain)).allowed
    each.closed.add((PLACE, "mgmt", 2021))
    for new, old in ((joined, plain), (review_lan("green", **(OTHER | {"uplink": uplink})), None)):
        assert "spec.uplink: closed" in (await each.ask(LANS, new, old)).message
    assert (await each.ask(LANS, merge(joined, {"spec": {"spokes": ["a"]}}), joined)).allowed
    assert (await each.ask(LANS, plain, joined)).allowed
    other = merge(joined, {"spec": {"uplink": {"vlan": 300}}})
    assert (await each.ask(LANS, other, joined)).allowed
    assert "spec.uplink: closed" in (await each.ask(LANS, joined, other)).message


def test_without_the_feature_of_vlans() -> None:
    """A manager that does not know which VLAN the nodes are on joins nothing to `mgmt`."""
    asyncio.run(refuse_management("nets", "cluster-1", 2021))
    with pytest.raises(Denied, match="run it with that feature, or name another cluster network"):
        asyncio.run(refuse_management("nets", "mgmt", 300))


@reviewed
async def test_permits_are_asked(each: Reviews) -> None:
    """What a namespace may take counts LANs that were let in a moment ago."""
    await each.add_lan()
    await each.follow()
    assert (
        "spec.vxlanPort is 53"
        in (await each.ask(LANS, review_lan("x", **(OTHER | {"vxlanPort": 53})))).message
    )
    for number in range(2):
        more: Raw = {"ns": f"n{number}", "vni": 20 + number, "spokes": [f"s{number}"]}
        assert (await each.ask(LANS, review_lan(f"m{number}", **more))).allowed
    last = review_lan("last", ns="n9", vni=29, spokes=["s9"])
    assert "namespace nets would have 4 LANs" in (await each.ask(LANS, last)).message
    assert (await each.ask(LANS, merge(last, {"metadata": {"namespace": "vms"}}))).allowed

"""The webhooks of LANs, asked as the API server asks them, beside objects that are there."""

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from lanloom.api.admission import UserInfo, Verdict
from lanloom.api.core import PODS
from lanloom.api.dummy import DRAINING
from lanloom.api.lan import FORCE_DELETE, LAN, LAN_NODES, LANS, UID_LABEL, nad_name, resource_name
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.resource import Resource
from lanloom.features.dummy.manager import SharedUsers
from lanloom.features.dummy.users import Users, user_informers
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.lan.admission import LanAdmission
from lanloom.features.lan.agent.calls import ipam_type
from lanloom.features.lan.manager import lan_informers
from lanloom.features.lan.rules.nads import RESOURCE_NAME, body_of, wanted_nads
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.informer import Informers, all_synced
from lanloom.kube.patches import merge
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.features.lan.manager.scene import PLACE, SPEC, first_storage
from tests.features.lan.samples import entry
from tests.harness.admission import request
from tests.harness.virtual import run

Raw = dict[str, Any]
ROOT = Path(__file__).parents[3]
ADMIN, MANAGER = "kubernetes-admin", "a manager"
AGENT = "system:lanloom:node:"


class Reviews:
    """A cluster and its webhooks. `follow` starts the watches; before, the stores know nothing."""

    def __init__(self, engine: Engine) -> None:
        self.client = LocalClient(engine)
        now = asyncio.get_running_loop().time
        self._shared = Informers(self.client, Random(1))
        users = SharedUsers(self.client, Users(user_informers(self._shared), now), now)

        async def is_manager(user: UserInfo) -> bool:
            return user.username == MANAGER

        self.admission = LanAdmission(
            self.client, lan_informers(self._shared), users, is_manager, lambda pod: ""
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def follow(self) -> None:
        """Lets the stores catch up."""
        self.tasks += [asyncio.create_task(informer.run()) for informer in self._shared.all()]
        await all_synced(self._shared.all())
        await asyncio.sleep(1)

    async def add_lan(self, name: str = "blue", **spec: Any) -> LAN:
        """A LAN that is there."""
        return await self.client.create(LANS, {"metadata": {"name": name}, "spec": SPEC | spec}, PLACE)

    async def add_nad(self, lan: LAN, **marks: str) -> Raw:
        """The NAD of the first spoke for pods, as it is on the server."""
        body = merge(body_of(lan, tuple(wanted_nads(lan))[1]), {"metadata": {"annotations": marks}})
        return raw(await self.client.create(NADS, body, PLACE))

    async def add_pod(self) -> None:
        """A pod at that NAD."""
        meta = {"name": "web", "annotations": {MULTUS_NETWORKS: f"{PLACE}/k8slan-veth-a"}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        await self.client.create(PODS, body, "vms")

    async def ask(
        self,
        resource: Resource[Any],
        new: Raw | None,
        old: Raw | None = None,
        *,
        user: str = ADMIN,
        sub: str = "",
        dry: bool = False,
    ) -> Verdict:
        """A review of a validating webhook."""
        return await self.admission.validate(
            request(resource, new, old, user=user, status=bool(sub), dry_run=dry)
        )


def raw(item: Any) -> Raw:
    """An object as it is on the wire."""
    found: Raw = msgspec.to_builtins(item)
    return found


def review_lan(name: str = "blue", *, metadata: Raw | None = None, **spec: Any) -> Raw:
    """A LAN as its author writes it."""
    return {"metadata": {"name": name, "namespace": PLACE, **(metadata or {})}, "spec": SPEC | spec}


def reviewed(test: Callable[[Reviews], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster with webhooks."""

    def run_it() -> None:
        storage = copy.deepcopy(first_storage())

        async def main() -> None:
            engine = Engine(storage, now=asyncio.get_running_loop().time, rng=Random(1))
            await engine.start()
            each = Reviews(engine)
            try:
                await test(each)
            finally:
                for task in each.tasks:
                    task.cancel()
                await asyncio.gather(*each.tasks, return_exceptions=True)
                await engine.close()

        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it


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
async def test_a_nad_with_addresses(on: Reviews) -> None:
    """The documented NAD of a user, with `ipam` and the spoke's resource, is let in beside the LAN, and may go."""
    page = (ROOT / "docs/lan.md").read_text()
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if '"ipam"' in block)
    example = yaml.safe_load(text)
    config = json.loads(example["spec"]["config"])
    await on.add_lan(spokes=[config["veth"]])
    await on.follow()
    assert example["metadata"]["annotations"] == {RESOURCE_NAME: resource_name(config["veth"], "veth")}
    nad = merge(example, {"metadata": {"namespace": PLACE}})
    assert (await on.ask(NADS, nad)).allowed
    assert (await on.ask(NADS, merge(nad, {"metadata": {"labels": {"a": "b"}}}), nad)).allowed
    assert (await on.ask(NADS, None, nad)).allowed
    assert ipam_type(config) == parse_ipam(config).type == "lanloom-ipam"


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
    lan = await on.add_lan()
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
    """A spoke that a node has attached is not removed, nor the underlay of a node that carries the LAN changed."""
    lan = await on.add_lan()
    old = raw(lan)
    await on.client.create(LAN_NODES, {"metadata": {"name": "node1"}})
    status = {"lans": [raw(entry(lan))]}
    await on.client.patch(LAN_NODES, "node1", {"status": status}, subresource="status")
    await on.follow()
    refused = await on.ask(LANS, merge(old, {"spec": {"spokes": ["b"]}}), old)
    assert 'node node1 has something attached to the spoke "a"' in refused.message
    refused = await on.ask(LANS, merge(old, {"spec": {"vxlanDevMap": {"node1": "eth1"}}}), old)
    assert 'the underlay of node node1 can\'t become "eth1" while the node carries the LAN' in refused.message
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
    """Anybody may delete a LAN; a warning names the users that keep it, and another one a mistyped annotation."""
    lan = await on.add_lan()
    await on.add_pod()
    await on.follow()
    verdict = await on.ask(LANS, None, raw(lan))
    assert verdict.allowed
    assert "LAN nets/blue is used by Pod vms/web" in verdict.warnings[0]
    forced = review_lan(metadata={"annotations": {FORCE_DELETE: "yes"}})
    assert 'no effect unless it is "true"' in (await on.ask(LANS, forced, raw(lan))).warnings[0]


DAMAGE: list[tuple[Raw, str]] = [
    ({"spec": {"config": "{}"}}, "spec.config follows from LAN nets/blue"),
    ({"metadata": {"labels": None, "ownerReferences": None}}, "belongs to LAN nets/blue"),
    ({"metadata": {"labels": {UID_LABEL: "x"}}}, "belongs to LAN nets/blue"),
    ({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "x"}}}, "written by Lanloom's manager"),
    ({"metadata": {"annotations": {DRAINING: "x"}}}, "written by Lanloom's manager"),
    ({"metadata": {"annotations": {"lanloom.io/guarded-for": None}}}, "written by Lanloom's manager"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
@pytest.mark.parametrize("follows", [False, True])
def test_a_nad_is_the_managers(damage: Raw, message: str, follows: bool) -> None:
    """What a NAD of a LAN is made of is changed by managers only, whether the watch has brought the LAN or not."""

    async def story(on: Reviews) -> None:
        old = await on.add_nad(await on.add_lan())
        if follows:
            await on.follow()
        assert message in (await on.ask(NADS, merge(old, damage), old)).message
        assert (await on.ask(NADS, merge(old, damage), old, user=MANAGER)).allowed
        harmless = {"metadata": {"labels": {"team": "net"}, "annotations": {"note": "x"}}}
        assert (await on.ask(NADS, merge(old, harmless), old)).allowed

    reviewed(story)()


@reviewed
async def test_a_place_that_is_a_lans(on: Reviews) -> None:
    """A new NAD takes no name of a LAN's NAD unless it is the same, and names no LAN as its owner by itself."""
    lan = await on.add_lan()
    await on.follow()
    same = merge(body_of(lan, next(iter(wanted_nads(lan)))), {"metadata": {"namespace": PLACE}})
    assert (await on.ask(NADS, same)).allowed
    other = merge(same, {"metadata": {"labels": None, "ownerReferences": None}, "spec": {"config": "{}"}})
    assert "LAN nets/blue makes a NAD of that name here" in (await on.ask(NADS, other)).message
    elsewhere = merge(other, {"metadata": {"namespace": "vms"}})
    assert (await on.ask(NADS, elsewhere)).allowed
    stranger = merge(
        same, {"metadata": {"name": "mine", "labels": {UID_LABEL: "nobody"}, "ownerReferences": None}}
    )
    assert "names a LAN that does not exist" in (await on.ask(NADS, stranger)).message
    mine = merge(same, {"metadata": {"name": "mine"}})
    assert "names LAN nets/blue, which wants no such NAD" in (await on.ask(NADS, mine)).message
    assert (await on.ask(NADS, {"metadata": {"name": "web"}, "spec": {"config": "{}"}})).allowed


@reviewed
async def test_deletions_of_nads(on: Reviews) -> None:
    """A LAN's NAD is deleted by managers only, once it is closed; one without a LAN by anybody, if it is unused."""
    lan = await on.add_lan()
    nad = await on.add_nad(lan)
    await on.add_pod()
    await on.follow()
    assert "it belongs to LAN nets/blue; take" in (await on.ask(NADS, None, nad)).message
    assert not (await on.ask(NADS, None, nad, user=MANAGER)).allowed
    closed = merge(nad, {"metadata": {"annotations": {DRAINING: "2026-01-01T00:00:00Z"}}})
    assert (await on.ask(NADS, None, closed, user=MANAGER)).allowed
    await on.client.delete(LANS, "blue", PLACE)
    assert "it is used by Pod vms/web" in (await on.ask(NADS, None, nad)).message
    await on.client.delete(PODS, "web", "vms", grace=0)
    assert (await on.ask(NADS, None, nad)).allowed


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

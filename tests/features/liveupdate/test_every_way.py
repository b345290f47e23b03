"""Every kind of network to every other, in deletion or not, in each way: it works, or is refused with a reason.

The dry run of `lanloom vm move` says before what comes of it.
"""

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import Policy
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.following import follow
from lanloom.features.liveupdate.moving import carry_out, plan_with, rehearse
from lanloom.features.liveupdate.rules.move import MoveRequest, Plan
from lanloom.features.liveupdate.views import read_machine
from lanloom.kube.errors import KubeError
from lanloom.refusals import Denied
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.objects import PLACE, nad
from tests.features.liveupdate.whole import WholeScene, carry, play

Raw = dict[str, Any]

KINDS = ("vlan", "bridge", "isolated", "lan")
STAYING, GOING = "staying", "going"
HELD = {"finalizers": ["example.org/held"]}

POLICIES: tuple[Policy, ...] = ("migrate", "in-place", "prefer-in-place")


class Case(NamedTuple):
    """A move of the machine of that name: the kind of each network, and whether it is being deleted."""

    name: str
    source: str
    source_state: str
    target: str
    target_state: str

    @property
    def leaves(self) -> str:
        """The NAD on which the machine starts."""
        return _nad(self.source, self.source_state, f"{self.name}s")

    @property
    def enters(self) -> str:
        """The NAD to which it is to move."""
        return _nad(self.target, self.target_state, f"{self.name}t", second=True)


def _nad(kind: str, state: str, spoke: str, *, second: bool = False) -> str:
    if kind == "lan":
        return f"k8slan-veth-{spoke}"
    return f"{kind}-{state}" + ("-2" if second and state == STAYING else "")


CASES = tuple(
    Case(f"m{number}", *words)
    for number, words in enumerate(product(KINDS, (STAYING, GOING), KINDS, (STAYING, GOING)))
    if words[0] == "lan" or (words[0], words[1]) != (words[2], words[3]) or words[1] == STAYING
)


def _plain(kind: str) -> Iterator[Raw]:
    """The NADs of a VLAN or of a bridge of the nodes."""
    for number, name in enumerate((STAYING, f"{STAYING}-2", GOING), 10):
        place = {"bridge": "cluster-1-br", "vlan": number} if kind == "vlan" else {"bridge": f"ext{number}"}
        body = nad(f"{kind}-{name}", **place)
        yield body | {"metadata": body["metadata"] | (HELD if name == GOING else {})}


async def furnish(scene: WholeScene) -> None:
    """Every network, before anything is deleted."""
    await carry(scene, "cluster-1")
    for kind in ("vlan", "bridge"):
        for body in _plain(kind):
            await scene.client.create(NADS, body, PLACE)
    for number, name in enumerate((STAYING, f"{STAYING}-2", GOING)):
        spec = {"bridgeName": f"iso{number}-br", "nadName": f"isolated-{name}", "nadNamespace": PLACE}
        await scene.client.create(
            DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": f"isolated-{name}"}, "spec": spec}
        )
    for number, state in enumerate((STAYING, GOING), 1):
        spokes = [f"{case.name}s" for case in CASES if (case.source, case.source_state) == ("lan", state)]
        spokes += [f"{case.name}t" for case in CASES if (case.target, case.target_state) == ("lan", state)]
        lan: Raw = {
            "ns": f"lan{number}",
            "bridge": "br0",
            "vxlan": "vx0",
            "vni": number,
            "spokes": spokes,
            "defaultVxlanDev": "eth0",
        }
        await scene.client.create(LANS, {"metadata": {"name": f"lan-{state}"}, "spec": lan}, PLACE)
    await scene.rest(30)


async def delete(scene: WholeScene) -> None:
    """What goes is deleted while machines use it. A NAD of a VLAN is refused to all users while webhooks are asked."""
    unasked = LocalClient(scene.engine, unreviewed=frozenset({GroupPlural(NADS.group, NADS.plural)}))
    for kind in ("vlan", "bridge"):
        await unasked.delete(NADS, f"{kind}-{GOING}", PLACE)
    await scene.person.delete(DUMMY_CLUSTER_NETWORKS, f"isolated-{GOING}")
    await scene.person.delete(LANS, f"lan-{GOING}", PLACE)
    await scene.rest(30)
    assert (await scene.client.get(LANS, f"lan-{GOING}", PLACE)).metadata.is_deleting
    assert (await scene.client.get(DUMMY_CLUSTER_NETWORKS, f"isolated-{GOING}")).metadata.is_deleting


async def planned(scene: WholeScene, name: str, enters: str) -> Plan | str:
    """What the dry run of `lanloom vm move` says: the plan, or why there is none."""
    key, (place, _, nad) = Key(PLACE, name), enters.rpartition("/")
    machine = await read_machine(scene.person, key)
    try:
        wish = MoveRequest(machine=key, nic="blue", to=Key(place or PLACE, nad))
        plan = await plan_with(scene.person, machine, wish)
        await rehearse(scene.person, machine, plan)
    except (Denied, KubeError) as error:
        return str(error)
    return plan


async def edited(scene: WholeScene, name: str, enters: str) -> str:
    """What comes of an edit of the machine: empty where it moved, else why not."""
    path = "/spec/template/spec/networks/1/multus/networkName"
    operation = {"op": "replace", "path": path, "value": enters}
    try:
        await scene.person.json_patch(VIRTUAL_MACHINES, name, [operation], PLACE)
    except KubeError as error:
        return str(error)
    await scene.rest(240)
    found = await scene.condition("NetworksCurrent", name)
    assert found is not None, name
    return "" if found.reason == "Current" else f"{found.reason}: {found.message}"


async def moved(scene: WholeScene, case: Case, plan: Plan | str) -> str:
    """What comes of `lanloom vm move --wait`: empty where it moved, else why not."""
    if isinstance(plan, str):
        return plan
    machine = await read_machine(scene.person, Key(PLACE, case.name))
    begun = await carry_out(scene.person, machine, plan)
    result = await follow(scene.person, machine, begun, plan, lambda _text: None, 240)
    return "" if result.outcome == "moved" else f"{result.outcome}: {result.message}"


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("by", ["edit", "move"])
def test_every_way(policy: Policy, by: str) -> None:
    """A machine leaves every network for every other that stays; one that goes is refused, with the reason."""

    async def story(scene: WholeScene) -> None:
        await furnish(scene)
        for case in CASES:
            await scene.start({"blue": case.leaves}, case.name)
            await scene.set_policy(policy, case.name)
        await scene.rest(30)
        await delete(scene)
        plans = {case: await planned(scene, case.name, case.enters) for case in CASES}
        ends = await asyncio.gather(
            *(
                edited(scene, case.name, case.enters) if by == "edit" else moved(scene, case, plans[case])
                for case in CASES
            )
        )
        await scene.rest(60)
        assert scene.refusals == {}
        for case, end in zip(CASES, ends, strict=True):
            assert (end == "") == (case.target_state == STAYING) == (not isinstance(plans[case], str)), (
                case,
                end,
                plans[case],
            )
            assert not end or "is being deleted" in end or "does not accept new users" in end, (case, end)
            assert await scene.nads(case.name) == {"blue": case.enters if not end else case.leaves}

    play(story)

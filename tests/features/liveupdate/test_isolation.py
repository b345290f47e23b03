"""Namespace isolation by every way to another network: the same answer, whether the NAD is there or not.

A row of the matrix is a way (an edit, a NetworkSwap, a request to a webhook), with isolation on or off, and a NAD of
the machine's own, of a global, or of another namespace.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.admission import UserInfo, Verdict
from lanloom.api.core import NAMESPACES
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.admission import LiveUpdateAdmission
from lanloom.features.liveupdate.rules.preflight import Findings, check
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from tests.features.liveupdate import objects
from tests.features.liveupdate.manager.scene import Scene
from tests.features.liveupdate.manager.scene import play as play_scene
from tests.features.liveupdate.rules.test_preflight import facts, nad
from tests.features.liveupdate.swap.scene import FROM, MACHINE, NIC, PLACE, SwapCluster, spec_body
from tests.harness.admission import request
from tests.harness.cluster import play
from tests.harness.interceptor import ScriptedClient

Raw = dict[str, Any]

ISOLATED = NamespaceIsolation(enabled=True, global_namespaces=frozenset({"shared"}))
OWN, GLOBAL, OTHER = "own", "shared", "secret"
"""Namespaces: the machine's, a global one, and another tenant's."""


class Asked:
    """A move to `nad` of the namespace `where`, which is there if it `exists`."""

    def __init__(self, where: str, *, exists: bool, isolation: NamespaceIsolation, own: str) -> None:
        self.nad = Key(own if where == OWN else where, "lan")
        self.exists = exists
        self.isolation = isolation
        self.own = own

    @property
    def settings(self) -> LiveUpdateSettings:
        """The settings of a manager."""
        return LiveUpdateSettings(isolation=self.isolation)

    async def furnish(self, client: Client) -> None:
        """Bring the NAD and its namespace."""
        for name in (GLOBAL, OTHER):
            try:
                await client.create(NAMESPACES, {"metadata": {"name": name}})
            except AlreadyExists:
                continue
        if self.exists:
            body = objects.nad(self.nad.name, place=self.nad.namespace, bridge="cluster-1-br", vlan=20)
            await client.create(NADS, body, self.nad.namespace)


def _found(asked: Asked) -> Findings:
    target = nad(asked.nad.name, vlan=20) if asked.exists else None
    return check(facts(enters=asked.nad, target=target, isolation=asked.isolation))


def by_preflight_of_migrations(asked: Asked) -> str:
    """Look before a migration."""
    return "; ".join(_found(asked).against_migration)


def by_preflight_in_place(asked: Asked) -> str:
    """Look before a move in place."""
    return "; ".join(_found(asked).against_in_place)


def _judged(asked: Asked, ask: Callable[[LiveUpdateAdmission], Awaitable[Verdict]]) -> Verdict:
    """What the webhooks say; only `manager` is a manager."""
    told: list[Verdict] = []

    async def tell(on: SwapCluster) -> None:
        informers = Informers(on.client, Random(1))

        async def is_manager(user: UserInfo) -> bool:
            return user.username == "manager"

        swaps = informers.get(NETWORK_SWAPS, optional=True)
        admission = LiveUpdateAdmission(
            on.client, swaps, is_manager, lambda _pod: "", InFlight(), asked.isolation
        )
        tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
        await all_synced(informers.all())
        told.append(await ask(admission))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(tell, SwapCluster)
    return told[0]


def _machine(*nads: str, default: bool = False) -> Raw:
    networks = [objects.network(f"lan{at}", nad, default=default) for at, nad in enumerate(nads)]
    spec = objects.devices([], networks)
    return {"metadata": {"name": MACHINE, "namespace": PLACE}, "spec": {"template": {"spec": spec}}}


def by_swap_webhook(asked: Asked) -> str:
    """Create a NetworkSwap."""
    spec = {"machine": MACHINE, "uid": "u1", "network": NIC, "from": FROM, "to": str(asked.nad)}
    body = {"metadata": {"name": "move", "namespace": PLACE}, "spec": spec}
    return _judged(asked, lambda admission: admission.validate(request(NETWORK_SWAPS, body))).message


def by_machine_webhook(asked: Asked) -> str:
    """Edit a VirtualMachine."""
    edit = request(VIRTUAL_MACHINES, _machine(str(asked.nad)), _machine("vlan10"))
    return _judged(asked, lambda admission: admission.refer(edit)).message


def by_swap_of_before(asked: Asked) -> str:
    """Carry out a NetworkSwap that no webhook has seen."""
    said: list[str] = []

    async def tell(on: SwapCluster) -> None:
        on.isolation = asked.isolation
        await on.furnish()
        await asked.furnish(on.client)
        on.serve()
        on.lead()
        await on.move(to=str(asked.nad))
        await asyncio.sleep(10.0)
        found = await on.swap()
        moved = found.status.phase == "Succeeded"
        assert set(await on.places()) == {str(asked.nad) if moved else FROM}
        assert on.moves == ([str(asked.nad)] if moved else [])
        said.append("" if moved else found.status.message)

    play(tell, SwapCluster)
    return said[0]


def _edited(asked: Asked, policy: str) -> str:
    said: list[str] = []

    async def story(scene: Scene) -> None:
        await asked.furnish(scene.client)
        await scene.start({"blue": "old"})
        await scene.set_policy(policy)
        scene.serve()
        scene.lead()
        await scene.edit(objects.on({"blue": str(asked.nad)}))
        await scene.rest(30)
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        blocked = found.reason == "PreflightFailed"
        if blocked:
            assert await scene.nads() == {"blue": "old"}
            assert await scene.swaps() == ()
            assert await scene.migrations() == ()
        said.append(found.message if blocked else "")

    play_scene(story, asked.settings)
    return said[0]


def by_edit(asked: Asked) -> str:
    """Edit a machine that migrates."""
    return _edited(asked, "migrate")


def by_edit_in_place(asked: Asked) -> str:
    """Edit a machine that moves in place."""
    return _edited(asked, "in-place")


def by_edit_either_way(asked: Asked) -> str:
    """Edit a machine that moves in place, or else migrates."""
    return _edited(asked, "prefer-in-place")


def by_edit_beside_kubevirt(asked: Asked) -> str:
    """Edit a machine whose instance KubeVirt changes."""
    said: list[str] = []

    async def story(scene: Scene) -> None:
        await asked.furnish(scene.client)
        await scene.start({"blue": "old"})
        kubevirt = {
            "metadata": {"name": "kubevirt", "namespace": objects.PLACE},
            "spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]}},
            "status": {"observedKubeVirtVersion": "v1.9.0"},
        }
        await scene.client.create(KUBEVIRTS, kubevirt, objects.PLACE)
        scene.lead()
        await scene.edit(objects.on({"blue": str(asked.nad)}))
        step = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": str(asked.nad)}
        await scene.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", [step], objects.PLACE)
        await scene.rest(30)
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        said.append(found.message if found.reason == "PreflightFailed" else "")

    play_scene(story, asked.settings)
    return said[0]


WAYS: dict[Callable[[Asked], str], str] = {
    by_preflight_of_migrations: PLACE,
    by_preflight_in_place: PLACE,
    by_swap_webhook: PLACE,
    by_machine_webhook: PLACE,
    by_swap_of_before: PLACE,
    by_edit: objects.PLACE,
    by_edit_in_place: objects.PLACE,
    by_edit_either_way: objects.PLACE,
    by_edit_beside_kubevirt: objects.PLACE,
}
"""The ways, and the namespace of each one's machine."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("where", [OWN, GLOBAL, OTHER])
@pytest.mark.parametrize("isolation", [NO_ISOLATION, ISOLATED], ids=["off", "on"])
def test_every_way_gives_the_same_answer(
    way: Callable[[Asked], str], where: str, isolation: NamespaceIsolation
) -> None:
    """A NAD of another namespace is refused with isolation, with one text whether it is there; nothing else is."""
    there, missing = (
        Asked(where, exists=exists, isolation=isolation, own=WAYS[way]) for exists in (True, False)
    )
    refused = isolation.enabled and where == OTHER
    text = way(there)
    if refused:
        assert isolation.against(there.own, there.nad) in text
        assert way(missing) == text
    else:
        assert text == ""
        assert "isolation" not in way(missing)


def _edit_of(*before: str, to: tuple[str, ...], user: str = "jane", default: bool = False) -> Verdict:
    new = _machine(*to, default=default)
    old = _machine(*before, default=default) if before else None
    asked = Asked(OTHER, exists=False, isolation=ISOLATED, own=PLACE)
    return _judged(asked, lambda admission: admission.refer(request(VIRTUAL_MACHINES, new, old, user=user)))


@pytest.mark.parametrize(
    ("before", "to", "allowed"),
    [
        (("secret/a",), ("secret/a",), True),
        (("secret/a",), ("b",), True),
        (("secret/a",), ("/b",), True),
        (("secret/a", "b"), ("secret/a", "c"), True),
        (("secret/a",), ("secret/b",), False),
        (("secret/a", "b"), ("secret/a", "secret/a"), False),
        (("b",), ("b", "secret/a"), False),
        (("b",), ("secret/a/c",), False),
        (("b",), ("secret/",), False),
        (("b",), (f"{PLACE}/c",), True),
        (("b",), ("shared/c",), True),
    ],
)
def test_a_machine_keeps_what_it_has(before: tuple[str, ...], to: tuple[str, ...], allowed: bool) -> None:
    """A machine may stay on the NAD of another namespace and leave it; it may not come to one."""
    assert _edit_of(*before, to=to).allowed is allowed


def test_a_new_machine_is_warned() -> None:
    """A machine that is created so, from a backup for one, is Multus' to judge when it starts."""
    verdict = _edit_of(to=("secret/a",))
    assert verdict.allowed
    assert "namespace isolation" in verdict.warnings[0]


def test_the_manager_gives_a_network_back() -> None:
    """A move that fails is taken back, though the machine was on the NAD of another namespace."""
    assert _edit_of("b", to=("secret/a",), user="manager").allowed


def test_a_network_in_place_of_the_pod_network() -> None:
    """Multus judges the networks of its annotation, not the one that takes the pod network's place; nor do we."""
    assert _edit_of("b", to=("secret/a",), default=True).allowed
    spec = spec_body("vlan10")
    spec["networks"][1]["multus"]["default"] = True
    known = facts(enters=Key("secret", "a"), target=nad("a", vlan=20), isolation=ISOLATED)
    machine = known.machine
    assert machine is not None
    multus = replace(machine.spec.networks[1].multus, default=True)  # type: ignore[type-var]
    networks = (machine.spec.networks[0], replace(machine.spec.networks[1], multus=multus))
    found = check(replace(known, machine=replace(machine, spec=replace(machine.spec, networks=networks))))
    assert "isolation" not in "; ".join(found.against_migration)


@pytest.mark.parametrize("writes", range(9))
def test_isolation_that_is_switched_on_during_a_move(writes: int) -> None:
    """After whatever write the former manager ended, the next one takes the move back, and records nothing of it."""

    async def tell(on: SwapCluster) -> None:
        await on.furnish()
        await Asked(OTHER, exists=True, isolation=ISOLATED, own=PLACE).furnish(on.client)
        former = ScriptedClient(on.client)
        former.before(asyncio.Event().wait, "create", "patch", skip=writes, times=None)
        on.serve()
        on.lead(client=former)
        await on.move(to="secret/lan")
        await asyncio.sleep(5.0)
        await on.kill("manager")
        ended = (await on.swap()).status.phase == "Succeeded"
        on.isolation = ISOLATED
        on.lead("next")
        await asyncio.sleep(30.0)
        found = await on.swap()
        assert found.status.phase == ("Succeeded" if ended else "Reverted")
        assert set(await on.places()) == {"secret/lan" if ended else FROM}
        assert ended or "namespace isolation" in found.status.message

    play(tell, SwapCluster)

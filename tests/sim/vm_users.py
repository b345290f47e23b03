"""What people do with running machines, from a seed: edits, their reversal, moves in place, migrations, deletions."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    nad_of,
)
from lanloom.api.liveupdate import FINAL, NETWORK_SWAPS, POLICY, Policy
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.moving import carry_out, read_findings
from lanloom.features.liveupdate.rules.move import POLICIES, MoveRequest, plan_move
from lanloom.features.liveupdate.rules.updates import MACHINE_LABEL
from lanloom.features.liveupdate.views import read_machine
from lanloom.kube.errors import KubeError
from lanloom.refusals import Refusal
from tests.sim.vm_state import BRIDGE, ODD, PLACE

if TYPE_CHECKING:
    from tests.sim.vm import VmCluster

MACHINES = ("web", "db")
NETS = ("red", "green", "blue")
"""NADs that can be swapped for each other; ODD has another CNI type, and TYPO does not exist."""

TYPO = "typo"

Raw = dict[str, Any]


class Users:
    """All owners of machines."""

    def __init__(self, cluster: "VmCluster", rng: Random) -> None:
        self._cluster = cluster
        self._admin = cluster.admin
        self._rng = rng
        self._before: dict[str, list[str]] = {}

    async def begin(self) -> None:
        """The networks, and the machines on them."""
        for name in (*NETS, ODD):
            await self._admin.create(NADS, nad(name), PLACE)
        for name in MACHINES:
            await self._admin.create(VIRTUAL_MACHINES, self._body(name), PLACE)

    async def act(self, times: int) -> None:
        """Do so many things, at any moment."""
        acts: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self._edit: 14,
            self._revert: 6,
            self._move_in_place: 10,
            self._delete_swap: 4,
            self._set_policy: 4,
            self._plug: 3,
            self._migrate: 2,
            self._abort: 1,
            self._restart: 2,
            self._delete_nad: 2,
            self._restore_nads: 3,
            self._replace: 1,
        }
        happenings, weights = list(acts), list(acts.values())
        for _ in range(times):
            await asyncio.sleep(self._rng.choice((0.1, 1.0, 5.0)) * self._rng.expovariate(1.0))
            with suppress(KubeError, Refusal):
                await self._rng.choices(happenings, weights)[0]()

    async def rest(self) -> None:
        """No user does anything more, and what was taken away is there again; what could not start is restarted."""
        await self._restore_nads()
        for key, vmi in list(self._cluster.state.instances.items()):
            if vmi.status.phase != "Running":
                await self._admin.delete(VIRTUAL_MACHINE_INSTANCES, key.name, PLACE)

    def _body(self, name: str) -> Raw:
        meta: Raw = {"name": name}
        policy = self._rng.choice(("", "", *POLICIES))
        if policy:
            meta["annotations"] = {POLICY: policy}
        nets = [self._rng.choice(NETS), self._rng.choice(NETS)]
        spec = {
            "domain": {"devices": {"interfaces": [{"name": "a", "bridge": {}}, {"name": "b", "bridge": {}}]}},
            "networks": [network("a", nets[0]), network("b", nets[1])],
        }
        return {"metadata": meta, "spec": {"template": {"spec": spec}}}

    async def _one(self) -> VirtualMachine:
        return await self._admin.get(VIRTUAL_MACHINES, self._rng.choice(MACHINES), PLACE)

    def _net(self) -> str:
        return self._rng.choice((*NETS, *NETS, *NETS, *NETS, ODD, TYPO))

    async def _edit(self) -> None:
        """One or both NICs get another NAD."""
        vm = await self._one()
        old = titles(vm)
        new = [self._net() if self._rng.random() < 0.6 else title for title in old]
        self._before[vm.metadata.name] = old
        await self._rename(vm, new)

    async def _revert(self) -> None:
        """A user takes back the last edit."""
        vm = await self._one()
        old = self._before.get(vm.metadata.name)
        if old is not None and len(old) == len(titles(vm)):
            await self._rename(vm, old)

    async def _rename(self, vm: VirtualMachine, new: list[str]) -> None:
        self._cluster.note(f"users: {vm.metadata.name} is to be on {new}")
        steps = [
            {
                "op": "replace",
                "path": f"/spec/template/spec/networks/{place}/multus/networkName",
                "value": title,
            }
            for place, title in enumerate(new)
        ]
        await self._admin.json_patch(VIRTUAL_MACHINES, vm.metadata.name, steps, PLACE)

    async def _move_in_place(self) -> None:
        """`lanloom vm move`, with all that it checks before it writes."""
        machine = await read_machine(self._admin, Key(PLACE, self._rng.choice(MACHINES)))
        policy: Policy | None = self._rng.choice((None, "in-place", "in-place", "prefer-in-place"))
        nic, to = self._rng.choice([item.name for item in machine.wanted]), Key(PLACE, self._net())
        chance = self._rng.random()
        wish = MoveRequest(
            machine=machine.key,
            nic=nic,
            to=to,
            policy=policy,
            force=chance < 0.7,
            until_restart=0.1 < chance < 0.9,
        )
        plan = plan_move(wish, machine, await read_findings(self._admin, machine, wish))
        self._cluster.note(f"users: lanloom vm move {machine.key.name} {nic} --to {wish.to.name}: {plan.way}")
        await asyncio.sleep(self._rng.random() * 0.3)
        await carry_out(self._admin, machine, plan)

    async def _delete_swap(self) -> None:
        """A user deletes a swap, mostly one that has not ended."""
        found = list((await self._admin.list(NETWORK_SWAPS, PLACE)).items)
        running = [item for item in found if item.status.phase not in FINAL]
        if found:
            chosen = self._rng.choice(running or found)
            self._cluster.note(
                f"users: delete the swap {chosen.metadata.name}, {chosen.status.phase or 'new'}"
            )
            await self._admin.delete(NETWORK_SWAPS, chosen.metadata.name, PLACE)

    async def _set_policy(self) -> None:
        vm = await self._one()
        policy = self._rng.choice((None, *POLICIES))
        self._cluster.note(f"users: {vm.metadata.name} has the policy {policy}")
        patch = {"metadata": {"annotations": {POLICY: policy}}}
        await self._admin.patch(VIRTUAL_MACHINES, vm.metadata.name, patch, PLACE)

    async def _plug(self) -> None:
        """A NIC more and another NAD in one edit; or the one more is unplugged."""
        vm = await self._one()
        template = vm.spec.template
        assert template is not None
        at = "/spec/template/spec"
        if len(template.spec.networks) > 2:
            self._cluster.note(f"users: unplug c of {vm.metadata.name}")
            steps: list[Raw] = [
                {"op": "add", "path": f"{at}/domain/devices/interfaces/2/state", "value": "absent"}
            ]
        else:
            self._cluster.note(f"users: plug c into {vm.metadata.name}, and change its networks")
            steps = [
                {
                    "op": "add",
                    "path": f"{at}/domain/devices/interfaces/-",
                    "value": {"name": "c", "bridge": {}},
                },
                {"op": "add", "path": f"{at}/networks/-", "value": network("c", self._rng.choice(NETS))},
                {
                    "op": "replace",
                    "path": f"{at}/networks/0/multus/networkName",
                    "value": self._rng.choice(NETS),
                },
            ]
        await self._admin.json_patch(VIRTUAL_MACHINES, vm.metadata.name, steps, PLACE)

    async def _migrate(self) -> None:
        name = self._rng.choice(MACHINES)
        self._cluster.note(f"users: migrate {name}")
        meta = {"generateName": "by-hand-", "labels": {MACHINE_LABEL: name}}  # as KubeVirt's webhook sets it
        body = {"metadata": meta, "spec": {"vmiName": name}}
        await self._admin.create(MIGRATIONS, body, PLACE)

    async def _abort(self) -> None:
        found = [item for item in (await self._admin.list(MIGRATIONS, PLACE)).items if not item.is_final]
        if found:
            self._cluster.note(f"users: abort {found[0].metadata.name}")
            await self._admin.delete(MIGRATIONS, found[0].metadata.name, PLACE)

    async def _restart(self) -> None:
        name = self._rng.choice(MACHINES)
        self._cluster.note(f"users: restart {name}")
        await self._admin.delete(VIRTUAL_MACHINE_INSTANCES, name, PLACE)

    async def _delete_nad(self) -> None:
        name = self._rng.choice(NETS)
        self._cluster.note(f"users: delete the NAD {name}")
        await self._admin.delete(NADS, name, PLACE)

    async def _restore_nads(self) -> None:
        there = {item.metadata.name for item in (await self._admin.list(NADS, PLACE)).items}
        for name in (*NETS, ODD):
            if name not in there:
                self._cluster.note(f"users: the NAD {name} is there again")
                await self._admin.create(NADS, nad(name), PLACE)

    async def _replace(self) -> None:
        """A machine is deleted, and another one of its name made."""
        name = self._rng.choice(MACHINES)
        self._cluster.note(f"users: replace {name}")
        await self._admin.delete(VIRTUAL_MACHINES, name, PLACE)
        self._before.pop(name, None)
        await asyncio.sleep(self._rng.random() * 3)
        await self._admin.create(VIRTUAL_MACHINES, self._body(name), PLACE)


def titles(vm: VirtualMachine) -> list[str]:
    """The networks that a machine names, in order."""
    template = vm.spec.template
    assert template is not None
    return [nad_of(item.multus, PLACE).name for item in template.spec.networks if item.multus is not None]


def network(name: str, title: str) -> Raw:
    """A network of a machine."""
    return {"name": name, "multus": {"networkName": title}}


def nad(name: str) -> Raw:
    """A NAD of CNI's bridge plugin, or of another one for ODD."""
    config: Raw = {"type": "ovs"} if name == ODD else {"type": "bridge", "bridge": BRIDGE.name}
    if name in NETS:
        config["vlan"] = 10 + NETS.index(name)
    return {"metadata": {"name": name}, "spec": {"config": json.dumps(config | {"cniVersion": "0.3.1"})}}

"""Writes of the manager that the API server does not take: the object that wanted them says so, of every feature."""

import asyncio
import copy
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest

from lanloom.api.core import EVENTS, PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.liveupdate import NETWORK_SWAPS, POLICY
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.errors import ApiError, Forbidden, Invalid, ServerError
from lanloom.kube.refusals import LASTING_SECONDS, REPEAT_SECONDS
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.manager.scene import first_storage
from tests.features.liveupdate.objects import PLACE, instance, launcher, machine, on
from tests.harness.interceptor import WRITES, Interceptor, Request, Verb
from tests.harness.leader import lead
from tests.harness.virtual import run

Raw = dict[str, Any]


class Refusing(Interceptor):
    """An API server that answers some writes with an error, while there is one."""

    def __init__(self, inner: LocalClient, which: Callable[[Request], bool], error: ApiError | None) -> None:
        super().__init__(inner)
        self._which = which
        self.error = error
        self.refused = 0

    async def send(self, request: Request) -> Any:
        if self.error is not None and request.verb in WRITES and self._which(request):
            self.refused += 1
            raise self.error
        return await super().send(request)


def to(resource: Resource[Any], *verbs: Verb, field: str = "") -> Callable[[Request], bool]:
    """Which writes: to objects of a kind, with that field of the metadata, or of the object, in their body."""

    def which(request: Request) -> bool:
        if request.resource is not resource or request.verb not in verbs:
            return False
        return not field or field in json.dumps(request.body, default=str)

    return which


def nad(name: str, **annotations: str) -> Raw:
    """A NAD with node addresses in VLAN 30 of the cluster network."""
    config = {
        "cniVersion": "0.3.1",
        "name": name,
        "type": "bridge",
        "bridge": "c1-br",
        "vlan": 30,
        "ipam": {},
    }
    meta = {
        "name": name,
        "annotations": {f"network.harvesterhci.io/{key}": text for key, text in annotations.items()},
    }
    return {"metadata": meta, "spec": {"config": json.dumps(config)}}


L3 = {
    "l3-connectivity": "true",
    "mode": "static",
    "node-ip-map": json.dumps({"node1": "192.0.2.1/24"}),
}


OWNER = {"kind": "VirtualMachine", "name": "other"}


class Actions:
    """What the tests do."""

    def __init__(self, client: LocalClient) -> None:
        self.client = client

    async def vlan(self) -> None:
        """A cluster network with node addresses."""
        await self.client.create(CLUSTER_NETWORKS, {"metadata": {"name": "c1"}})
        spec = {"clusterNetwork": "c1", "uplink": {"nics": ["eth1"]}}
        await self.client.create(VLAN_CONFIGS, {"metadata": {"name": "config"}, "spec": spec})
        await self.client.create(NADS, nad("l3", **L3), PLACE)

    async def network(self) -> None:
        """A network of address management, and a NIC on it."""
        await self.client.create(
            NETWORKS, {"metadata": {"name": "pool"}, "spec": {"subnets": [{"cidr": "192.0.2.0/28"}]}}
        )
        await self.client.create(
            NICS, {"metadata": {"name": "nic"}, "spec": {"network": "pool", "owner": OWNER}}, PLACE
        )

    async def isolated(self) -> None:
        """An isolated network."""
        spec = {"bridgeName": "iso-br", "nadName": "iso", "nadNamespace": PLACE}
        await self.client.create(DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": "iso"}, "spec": spec})

    async def lan(self) -> None:
        """A LAN."""
        spec = {
            "ns": "blue",
            "bridge": "br0",
            "vxlan": "vx0",
            "vni": 7,
            "defaultVxlanDev": "eth0",
            "vxlanGrp": default_group(7),
            "spokes": ["a"],
        }
        await self.client.create(LANS, {"metadata": {"name": "blue"}, "spec": spec}, PLACE)

    async def edited(self, **annotations: str) -> None:
        """A running machine whose network was edited."""
        body = machine(on({"blue": "new"}), annotations=annotations)
        made = await self.client.create(VIRTUAL_MACHINES, body, PLACE)
        raw = instance(on({"blue": "old"}), owner=made.metadata.uid)
        uid = (await self.client.create(VIRTUAL_MACHINE_INSTANCES, raw, PLACE)).metadata.uid
        await self.client.create(
            PODS, launcher(uid, {"blue": f"{PLACE}/old"}, name="vm", node="node1"), PLACE
        )

    async def edited_in_place(self) -> None:
        """The same, of a machine that moves in place."""
        await self.edited(**{POLICY: "in-place"})


class Case(NamedTuple):
    """A write that is refused, the object that wanted it, and the condition by which it says so."""

    make: Callable[[Actions], Coroutine[Any, Any, None]]
    which: Callable[[Request], bool]
    resource: Resource[Any]
    key: Key
    condition: str = "WritesAccepted"
    reasons: tuple[str, ...] = ("WriteRefused",)


ISO, VMI = Key("", "iso"), Key(PLACE, "vm")

CASES: dict[str, Case] = {
    "vlan annotations": Case(
        Actions.vlan, to(CLUSTER_NETWORKS, "patch", field="annotations"), CLUSTER_NETWORKS, Key("", "c1")
    ),
    "vlan label of a NAD": Case(Actions.vlan, to(NADS, "patch"), NADS, Key(PLACE, "l3"), condition=""),
    "ipam network": Case(
        Actions.network, to(NETWORKS, "patch", field="finalizers"), NETWORKS, Key("", "pool")
    ),
    "ipam NIC, told by its network": Case(Actions.network, to(NICS, "patch"), NETWORKS, Key("", "pool")),
    "ipam NIC": Case(Actions.network, to(NICS, "patch"), NICS, Key(PLACE, "nic"), condition=""),
    "dummy NAD": Case(
        Actions.isolated,
        to(NADS, "create"),
        DUMMY_CLUSTER_NETWORKS,
        ISO,
        "NADReady",
        ("ErrorEnsuringNAD",),
    ),
    "lan NAD": Case(Actions.lan, to(NADS, "create"), LANS, Key(PLACE, "blue"), "Ready", ("NADRefused",)),
    "live update, instance": Case(
        Actions.edited,
        to(VIRTUAL_MACHINE_INSTANCES, "patch", field="networkName"),
        VIRTUAL_MACHINE_INSTANCES,
        VMI,
        "NetworksCurrent",
        ("Refused", "NetworksRefused"),
    ),
    "live update, migration": Case(
        Actions.edited,
        to(MIGRATIONS, "create"),
        VIRTUAL_MACHINE_INSTANCES,
        VMI,
        "NetworksCurrent",
        ("Refused", "NetworksRefused"),
    ),
    "live update, swap": Case(
        Actions.edited_in_place,
        to(NETWORK_SWAPS, "create"),
        VIRTUAL_MACHINE_INSTANCES,
        VMI,
        "NetworksCurrent",
        ("Refused", "NetworksRefused"),
    ),
}

ERRORS: dict[str, ApiError] = {
    "500": ServerError(500, "InternalError", "failed calling webhook: connection refused"),
    "503": ServerError(503, "ServiceUnavailable", "apiserver not ready"),
    "403": Forbidden(403, "Forbidden", "admission webhook denied the request"),
    "422": Invalid(422, "Invalid", "it is invalid"),
}


def play(
    case: Case, error: ApiError, story: Callable[[Actions, Refusing], Coroutine[Any, Any, None]]
) -> None:
    """Play a story in a cluster with a leader whose writes are refused."""

    async def main(storage: MemoryStorage) -> None:
        engine = Engine(storage, now=asyncio.get_running_loop().time, rng=random.Random(1))
        refusing = Refusing(LocalClient(engine), case.which, error)
        leader = asyncio.create_task(lead(refusing))
        await asyncio.sleep(1)
        world = Actions(LocalClient(engine))
        await case.make(world)
        await story(world, refusing)
        assert refusing.refused
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        await engine.close()

    run(main(copy.deepcopy(first_storage())))


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_object_says_it(case: Case, error: ApiError) -> None:
    """A write that is refused, or fails for long, is an Event and a condition of the object, until it is taken."""

    async def story(world: Actions, refusing: Refusing) -> None:
        await asyncio.sleep(4 * LASTING_SECONDS)
        mine = [
            item.reason
            for item in (await world.client.list(EVENTS)).items
            if item.involved_object.name == case.key.name and error.message in item.message
        ]
        assert set(mine) & set(case.reasons)
        assert await says(world, case, error) or not case.condition
        refusing.error = None
        await asyncio.sleep(200)
        assert not await says(world, case, error)

    play(case, error, story)


@pytest.mark.parametrize("case", ["vlan annotations", "ipam network"])
def test_a_refusal_that_lasts_is_written_once(case: str) -> None:
    """The same refusal, reported again and again, is one write of the status, also where each write counts a
    generation.
    """
    found, error = CASES[case], ERRORS["403"]

    async def version(world: Actions) -> str:
        return str((await world.client.get(found.resource, found.key.name)).metadata.resource_version)

    async def story(world: Actions, refusing: Refusing) -> None:
        await asyncio.sleep(4 * LASTING_SECONDS)
        assert await says(world, found, error)
        before = await version(world)
        await asyncio.sleep(5 * REPEAT_SECONDS)
        assert await version(world) == before

    play(found, error, story)


def test_a_moment_of_trouble_is_not_told() -> None:
    """A server that answers with an error for a moment, as one that starts, leaves no Event and no condition."""
    case, error = CASES["vlan annotations"], ERRORS["503"]

    async def story(world: Actions, refusing: Refusing) -> None:
        await asyncio.sleep(LASTING_SECONDS / 2)
        refusing.error = None
        await asyncio.sleep(60)
        assert "WriteRefused" not in {item.reason for item in (await world.client.list(EVENTS)).items}
        assert not await says(world, case, error)

    play(case, error, story)


async def says(world: Actions, case: Case, error: ApiError) -> bool:
    """Whether a condition of the object says that the write is refused."""
    item = await world.client.get(case.resource, case.key.name, case.key.namespace)
    found = [each for each in item.status.conditions if each.type == case.condition] if case.condition else []
    return any(each.status == "False" and error.message in each.message for each in found)

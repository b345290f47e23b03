"""No request is refused because the manager's view of the cluster lags behind."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.core import CRDS, NAMESPACES
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NADS
from lanloom.api.names import EXCLUSIVE_VLAN_LABEL, HARVESTER_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.features.vlan.live import LiveReader
from lanloom.features.vlan.reader import ClusterReader, reader_of
from lanloom.kube.errors import NotFound
from lanloom.kube.inflight import InFlight
from lanloom.kube.ports import Listing
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import Raw, admission, machine, network, static, vm, world
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.admission import request
from tests.harness.virtual import run

Present = tuple[Resource[Any], Raw]

NOTHING = reader_of()
"""What a manager has seen whose watches bring nothing."""


def answer(
    asked: AdmissionRequest, *present: Present, seen: ClusterReader = NOTHING, kubevirt: bool = True
) -> Verdict:
    """The verdict of a manager that has seen `seen`, on a server that has these objects."""

    async def ask() -> Verdict:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        extra = [manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)] if kubevirt else []
        for crd in [*manifests(), *extra]:
            await client.create(CRDS, crd)
        for kind, body in present:
            await client.create(kind, body, body["metadata"].get("namespace", ""))
        verdict = await VlanAdmission(client, seen, lambda _pod: "").validate(asked)
        await engine.close()
        return verdict

    return run(ask())


class Starting:
    """A server that has KubeVirt's definitions and serves its kinds not yet."""

    async def list(self, resource: Resource[Any], **_selectors: str) -> Listing[Any]:
        """Nothing of any kind."""
        if resource.group == VIRTUAL_MACHINES.group:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return Listing((), "1")

    async def get(self, resource: Resource[Any], _name: str, _namespace: str = "") -> None:
        """A definition."""
        if resource.group == VIRTUAL_MACHINES.group:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")


def test_an_object_of_a_moment_ago_is_seen() -> None:
    """What was created just before counts, although no watch has brought it."""
    present = (CLUSTER_NETWORKS, cluster_network("cluster-1"))
    assert answer(request(VLAN_CONFIGS, vlan_config("one", "cluster-1")), present).allowed
    assert answer(request(NADS, network(mode="")), present).allowed


class Late:
    """A server whose answer is overtaken by a watch."""

    async def get(self, resource: Resource[Any], name: str, _namespace: str = "") -> Any:
        """The object as it was."""
        return resource.type(metadata=ObjectMeta(name=name, resource_version="5"))


def test_a_watch_may_be_faster_than_an_answer() -> None:
    """Of what was read and what the watch brought meanwhile, the newer counts."""
    newer = ClusterNetwork(metadata=ObjectMeta(name="bare", resource_version="7"))

    async def ask(stored: ClusterNetwork) -> ClusterNetwork | None:
        client: Any = Late()
        live = LiveReader(client, reader_of(networks=(stored,)), InFlight(lambda: 0.0))
        live.cluster_network("bare")
        await live.read()
        return live.cluster_network("bare")

    assert run(ask(newer)) == newer
    older = replace(newer, metadata=replace(newer.metadata, resource_version="3"))
    found = run(ask(older))
    assert found is not None
    assert found.metadata.version == 5


def test_what_is_not_there_is_refused() -> None:
    """A second look that finds nothing either refuses, also where the name could be no label's value."""
    for name in ("cluster-1", "no+label"):
        asked = network(cluster_network=name)
        del asked["metadata"]["labels"]
        verdict = answer(request(NADS, asked))
        assert f'its cluster network "{name}" does not exist' in verdict.message


IN_USE = request(NADS, None, network())


def test_a_vm_that_stopped_a_moment_ago_hinders_nobody() -> None:
    """A VM that is gone from the server does not count, although no watch has reported it."""
    assert answer(IN_USE, seen=world(vm("web", "net"))).allowed


def test_a_vm_that_runs_is_seen_twice() -> None:
    """A VM that a second look finds too refuses."""
    present = (VIRTUAL_MACHINE_INSTANCES, vm("web", "net"))
    verdict = answer(IN_USE, present, seen=world(vm("web", "net")))
    assert verdict.message.endswith("because the VMs default/web use it; stop them first")


NAMED = world(machine("web", "net"))


def test_a_machine_that_is_stopped_is_seen_twice() -> None:
    """A VirtualMachine that names the network refuses only if it is still there and does so at a second look."""
    because = "because the VirtualMachines default/web name it in spec.template.spec.networks"
    assert because in answer(IN_USE, (VIRTUAL_MACHINES, machine("web", "net")), seen=NAMED).message
    assert answer(IN_USE, (VIRTUAL_MACHINES, machine("web", "other")), seen=NAMED).allowed
    assert answer(IN_USE, seen=NAMED).allowed
    assert answer(IN_USE, seen=NAMED, kubevirt=False).allowed


def test_machines_that_are_not_served_yet_may_be_there() -> None:
    """A server that starts knows a kind by its definition only: that is no proof that no VM uses the network."""
    client = Starting()
    for seen in (NAMED, world(vm("web", "net"))):
        verdict = run(VlanAdmission(client, seen, lambda _pod: "").validate(IN_USE))  # type: ignore[arg-type]
        assert not verdict.allowed
        assert verdict.message.startswith("the request can't be validated now because ")
        assert verdict.message.endswith("; try again")


def test_a_storage_network_of_a_moment_ago_is_not_there_any_more() -> None:
    """A VLAN whose exclusive storage network is gone from the server is free, although no watch has reported it."""
    storage = nad("storagenetwork-a", "bare", 100, namespace=HARVESTER_NAMESPACE)
    storage["metadata"]["labels"][EXCLUSIVE_VLAN_LABEL] = "true"
    asked, present = request(NADS, nad("net", "bare", 100)), (CLUSTER_NETWORKS, cluster_network("bare"))
    assert answer(asked, present, seen=world(storage)).allowed
    namespace = (NAMESPACES, {"metadata": {"name": HARVESTER_NAMESPACE}})
    verdict = answer(asked, namespace, present, (NADS, storage), seen=world(storage))
    assert "the VLAN id of the storage network" in verdict.message


def test_a_cluster_without_kubevirt_is_judged_as_one_without_vms() -> None:
    """Where KubeVirt is not installed, or was removed, a second look finds no VMs and goes on."""
    assert answer(IN_USE, seen=world(vm("web", "net")), kubevirt=False).allowed
    verdict = answer(request(NADS, network(cluster_network="nowhere")), kubevirt=False)
    assert "does not exist" in verdict.message


def test_a_network_without_labels_is_not_overlooked() -> None:
    """A network from before Lanloom, which no label selector finds, counts in the second look too."""
    old = network(cluster_network="bare")
    old["metadata"]["labels"] = {}
    deletion = request(CLUSTER_NETWORKS, None, cluster_network("bare"))
    present: tuple[Present, ...] = ((CLUSTER_NETWORKS, cluster_network("bare")), (NADS, old))
    verdict = answer(deletion, *present, seen=world(old))
    assert "the networks default/net use it" in verdict.message


@pytest.mark.parametrize(
    "asked",
    [
        request(NADS, network(config="{")),
        request(NADS, static("{"), network()),
        request(VLAN_CONFIGS, vlan_config("two", "bare", uplink={"linkAttributes": {"hardwareAddr": "x"}})),
        request(VLAN_CONFIGS, vlan_config("two", "bare", uplink={"nics": 5})),
    ],
    ids=["config", "map", "hardware address", "type"],
)
def test_what_is_malformed_costs_no_second_look(asked: AdmissionRequest) -> None:
    """An object that no cluster could carry is refused without a request to the API server."""
    verdict = run(admission().validate(asked))
    assert not verdict.allowed

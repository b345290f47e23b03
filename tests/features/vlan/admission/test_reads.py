"""A refusal reads no more than the rule asked about."""

from random import Random
from typing import Any

import pytest

from lanloom.api.admission import AdmissionRequest
from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import VlanAdmission
from lanloom.kube.ports import Listing
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import Raw, annotated, network, renamed, static, vm, world
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.admission import request
from tests.harness.virtual import run

PLAIN = tuple(nad(f"plain-{number}", "cluster-1", 3000 + number) for number in range(40))
"""Networks that are in no way."""

OWNER = renamed(network(), "owner")


class Counted(LocalClient):
    """Notes what is read: `get KIND/NAME` or `list KIND`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.reads: list[str] = []

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """One object."""
        self.reads.append(f"get {resource.kind}/{name}")
        return await super().get(resource, name, namespace)

    async def list(self, resource: Resource[Any], *arguments: Any, **selectors: Any) -> Listing[Any]:
        """All objects."""
        self.reads.append(f"list {resource.kind}")
        return await super().list(resource, *arguments, **selectors)


def reads_of(asked: AdmissionRequest, *more: Raw) -> list[str]:
    """What a refusal read, of a server that has all that the manager has seen."""

    async def ask() -> list[str]:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client = Counted(engine)
        for crd in [*manifests(), manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)]:
            await client.create(CRDS, crd)
        present: tuple[tuple[Resource[Any], Raw], ...] = (
            (CLUSTER_NETWORKS, cluster_network("cluster-1")),
            (VLAN_CONFIGS, vlan_config("one", "cluster-1")),
            *((NADS if body["kind"] == NADS.kind else VIRTUAL_MACHINE_INSTANCES, body) for body in more),
        )
        for kind, body in present:
            await client.create(kind, body, body["metadata"].get("namespace", ""))
        client.reads.clear()
        verdict = await VlanAdmission(client, world(*more), lambda _pod: "").validate(asked)
        assert not verdict.allowed
        await engine.close()
        return sorted(client.reads)

    return run(ask())


def test_a_vlan_that_is_taken_costs_two_objects() -> None:
    """A second owner of a VLAN is refused for one network, whatever others there are."""
    assert reads_of(request(NADS, network()), OWNER, *PLAIN) == [
        "get ClusterNetwork/cluster-1",
        "get NetworkAttachmentDefinition/owner",
    ]


def test_a_cluster_network_that_is_not_there_costs_one_object() -> None:
    """Whether a ClusterNetwork exists is asked by its name."""
    asked = request(NADS, network(cluster_network="nowhere"))
    assert reads_of(asked, *PLAIN) == ["get ClusterNetwork/nowhere"]


def test_a_network_in_use_costs_its_vms() -> None:
    """VMs that stand against a deletion are read one by one."""
    assert reads_of(request(NADS, None, network()), network(), vm("web", "net"), vm("db", "other")) == [
        "get VirtualMachineInstance/web"
    ]


def test_many_vms_cost_one_list() -> None:
    """Many objects in the way are read at once."""
    machines = (vm(f"web-{number}", "net") for number in range(40))
    assert reads_of(request(NADS, None, network()), network(), *machines) == ["list VirtualMachineInstance"]


def test_a_map_costs_the_vlan_configs() -> None:
    """Which nodes a map must name depends on VlanConfigs that may be missing, and on no other network."""
    asked = request(NADS, static({"node1": "192.168.1.10/24"}))
    assert reads_of(asked, *PLAIN) == ["get ClusterNetwork/cluster-1", "list VlanConfig"]


@pytest.mark.parametrize(
    "asked",
    [
        request(NADS, network(cluster_network="bare"), network()),
        request(NADS, annotated(network(), mode="never")),
        request(VLAN_CONFIGS, vlan_config("one", "bare"), vlan_config("one", "cluster-1")),
    ],
    ids=["an immutable field", "a wrong word", "another cluster network"],
)
def test_what_no_cluster_would_allow_costs_nothing(asked: AdmissionRequest) -> None:
    """A verdict that depends on no other object reads none."""
    assert reads_of(asked, *PLAIN) == []

"""Who counts as a user of an isolated network and who does not, and what of a network is refused, on either cluster."""

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from lanloom.api.core import CRDS, NAMESPACES, PODS
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NETWORK_STATUS
from lanloom.kube.errors import Forbidden
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.installed import KUBEVIRT
from tests.features.dummy.cluster.managed import Managed, managed

pytestmark = pytest.mark.slow

Raw = dict[str, Any]

ASKED = "k8s.v1.cni.cncf.io/networks"
INSTEAD = "v1.multus-cni.io/default-network"


async def add_pod(net: Managed, name: str, annotations: Raw, namespace: str = "", **meta: Any) -> None:
    """A pod that no kubelet runs."""
    body = {
        "metadata": {"name": name, "annotations": annotations} | meta,
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "image"}]},
    }
    await net.client.create(PODS, body, namespace or net.place)


def on(*titles: str) -> Raw:
    """The spec of an instance of a machine on these networks."""
    return {
        "networks": [{"name": f"n{at}", "multus": {"networkName": title}} for at, title in enumerate(titles)]
    }


async def elsewhere(net: Managed) -> str:
    """Another namespace."""
    name = f"{net.name}-other"
    await net.client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


async def add_users(net: Managed, other: str) -> set[str]:
    """One user of each form; what they are called."""
    nad = f"{net.place}/{net.nad_name}"
    spec = on(nad)
    instance = {"metadata": {"name": "instance"}, "spec": spec}
    await net.client.create(VIRTUAL_MACHINE_INSTANCES, instance, other)
    stopped = {"metadata": {"name": "stopped"}, "spec": {"template": {"spec": on(net.nad_name)}}}
    await net.client.create(VIRTUAL_MACHINES, stopped, net.place)
    listed = json.dumps([{"name": net.nad_name, "namespace": net.place, "interface": "net1"}])
    pods: dict[str, tuple[Raw, str]] = {
        "short": ({ASKED: f"{net.nad_name}@net1"}, net.place),
        "long": ({ASKED: f"x/y, {nad}@net1"}, other),
        "list": ({ASKED: listed}, other),
        "instead": ({INSTEAD: nad}, other),
        "edited": ({NETWORK_STATUS: json.dumps([{"name": nad, "interface": "net1"}])}, other),
        "unreadable": ({ASKED: "[{"}, other),
    }
    for name, (annotations, namespace) in pods.items():
        await add_pod(net, name, annotations, namespace)
    for name, (_, namespace) in pods.items():
        await net.runs(namespace, name)
    named = {f"Pod {namespace}/{name}" for name, (_, namespace) in pods.items()}
    return {
        *named,
        f"VirtualMachineInstance {other}/instance",
        f"VirtualMachine {net.place}/stopped",
    }


async def add_namesakes(net: Managed, other: str) -> None:
    """Those who name something that only looks like the network's NAD."""
    machine = {"metadata": {"name": "bare"}, "spec": {"template": {"spec": on(net.nad_name)}}}
    await net.client.create(VIRTUAL_MACHINES, machine, other)
    await add_pod(net, "bare", {ASKED: net.nad_name}, other)
    await add_pod(net, "suffix", {ASKED: f"{other}/{net.nad_name}"})
    await add_pod(net, "longer", {ASKED: f"{net.nad_name}-2"})
    await add_pod(net, "none", {})


async def take_users(net: Managed, other: str) -> None:
    """The users end or go, each in another way."""
    ended = {"status": {"phase": "Failed"}}
    await net.client.patch(VIRTUAL_MACHINE_INSTANCES, "instance", ended, other)
    left: Raw = {"spec": {"template": {"spec": {"networks": []}}}}
    await net.client.patch(VIRTUAL_MACHINES, "stopped", left, net.place)
    mended: Raw = {"metadata": {"annotations": {ASKED: None}}}
    await net.client.patch(PODS, "unreadable", mended, other)
    await net.client.patch(PODS, "list", ended, other, subresource="status")
    for name in ("long", "instead", "edited"):
        await net.client.delete(PODS, name, other, grace=0)
    await net.client.delete(PODS, "short", net.place, grace=0)


async def test_every_form_of_use_keeps_it(cluster: Ground) -> None:
    """An object that names the NAD, or may, is listed and keeps the network; one that names another does not."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        other = await elsewhere(net)
        await add_namesakes(net, other)
        users = await add_users(net, other)
        await net.delete()
        dcn = await net.reaches("DeletionBlocked", lambda dcn: len(dcn.status.users) >= len(users))
        assert {text.partition(" (")[0] for text in dcn.status.users} == users
        await take_users(net, other)
        await net.gone(uid)


OLD_MACHINES = msgspec.structs.replace(VIRTUAL_MACHINES, version="v1alpha3")
"""Virtual machines as clients of former versions of KubeVirt write them."""


async def serve_old_machines(net: Managed) -> None:
    """The server takes machines in the former version, too."""
    crd = KUBEVIRT[0]
    (version,) = crd["spec"]["versions"]
    versions = [version, version | {"name": OLD_MACHINES.version, "storage": False}]
    await net.client.patch(CRDS, crd["metadata"]["name"], {"spec": {"versions": versions}})
    await eventually(partial(net.client.list, OLD_MACHINES), lambda _: True)


async def test_a_machine_of_a_former_version(cluster: Ground) -> None:
    """Whatever version of the API a machine is written in, it keeps the network, and is not let in once that goes."""
    async with managed(cluster) as net:
        await serve_old_machines(net)
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        spec = {"template": {"spec": on(net.nad_name)}}
        await net.client.create(OLD_MACHINES, {"metadata": {"name": "vm"}, "spec": spec}, net.place)
        await net.delete()
        await net.reaches(
            "DeletionBlocked", lambda dcn: f"VirtualMachine {net.place}/vm" in dcn.status.message
        )
        await eventually(net.nad, lambda nad: DRAINING in nad.metadata.annotations)
        with pytest.raises(Forbidden, match="is being deleted"):
            await net.client.create(OLD_MACHINES, {"metadata": {"name": "late"}, "spec": spec}, net.place)
        await net.remove_machine()
        await net.gone(uid)


REFUSED: dict[str, tuple[Raw, str]] = {
    "bridge": ({"bridgeName": "other-br"}, "spec.bridgeName"),
    "name": ({"nadName": "other"}, "spec.nadName"),
    "namespace": ({"nadNamespace": "default"}, "spec.nadNamespace"),
    "scope": ({"scope": "cluster"}, "spec.scope"),
    "subnet": ({"subnet": "10.0.0.0/16"}, "overlaps"),
}


async def test_what_may_not_change(cluster: Ground) -> None:
    """Names and scope of a network stay, its subnet is no service's, and only the manager writes its status."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        before = await net.create_ready()
        changes = {key: item for key, item in REFUSED.items() if key != "subnet" or cluster.is_real}
        for change, words in changes.values():
            with pytest.raises(Forbidden, match=words):
                await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, {"spec": change})
        with pytest.raises(Forbidden, match="written by Lanloom's manager only"):
            forged = {"status": {"phase": "Terminating"}}
            await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, forged, subresource="status")
        assert (await net.get()).spec == before.spec


async def test_a_network_that_was_spoilt_goes_with_all_that_was_made(cluster: Ground) -> None:
    """A network that was made invalid by force keeps what was made under its users, and takes it along in the end."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        await net.unguarded()
        await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, {"spec": {"bridgeName": "no bridge"}})
        await net.reaches("InvalidSpec")
        await net.delete()
        await net.reaches("DeletionBlocked", lambda dcn: len(dcn.status.users) == 1)
        assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}
        await net.remove_machine()
        await net.gone(uid)

"""What others do to an isolated network's objects is put right, or said, on either cluster."""

import json
from functools import partial
from typing import Any, Literal

import pytest

from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DRIFTED, DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.names import BRIDGES_NAMESPACE, READY_LABEL
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.conditions import find
from lanloom.kube.errors import Forbidden, NotFound
from tests.features.dummy.cluster.ground import Ground, eventually
from tests.features.dummy.cluster.managed import IMAGE, Managed, managed

pytestmark = pytest.mark.slow

NAMESPACE_PATIENCE = 200.0
"""Seconds: who ends a namespace and was refused tries again twice as late each time, after a minute at the most."""


def is_as_made(daemons: DaemonSet) -> bool:
    """Whether a DaemonSet has the manager's image and sees no processes of the host."""
    pod = daemons.spec.template["spec"]
    return pod["containers"][0]["image"] == IMAGE and not pod.get("hostPID")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"hostPID": True}, id="hostPID"),
        pytest.param({"containers": [{"name": "bridge", "image": "another"}]}, id="image"),
    ],
)
async def test_an_edited_daemon_set_is_repaired(cluster: Ground, change: dict[str, Any]) -> None:
    """A DaemonSet that a user edits becomes again what it was, and its pods with it."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        name = (await net.daemons(uid)).metadata.name
        patch = {"spec": {"template": {"spec": change}}}
        edited = await net.client.patch(DAEMON_SETS, name, patch, BRIDGES_NAMESPACE)
        generation = edited.metadata.generation

        def is_repaired(daemons: DaemonSet) -> bool:
            status = daemons.status
            rolled = status.observed_generation == daemons.metadata.generation > generation
            return (
                is_as_made(daemons) and rolled and status.updated_number_scheduled == status.number_ready == 3
            )

        await eventually(partial(net.daemons, uid), is_repaired)
        await net.reaches("Ready")


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_a_deleted_daemon_set_comes_again(
    cluster: Ground, propagation: Literal["Background", "Foreground", "Orphan"]
) -> None:
    """A DaemonSet that a user deletes is made again, and the network is ready again."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        old = await net.daemons(uid)
        await net.client.delete(DAEMON_SETS, old.metadata.name, BRIDGES_NAMESPACE, propagation=propagation)
        await eventually(
            partial(net.daemons, uid),
            lambda daemons: daemons.metadata.uid != old.metadata.uid and daemons.status.number_ready == 3,
        )
        await net.reaches("Ready")
        assert (await net.bridge_pods(uid)).keys() == {"n1", "n2", "n3"}
        await net.delete()
        await net.gone(uid)


async def test_a_daemon_set_deleted_while_bridges_are_removed_comes_again(cluster: Ground) -> None:
    """No user skips the removal of the bridges by deleting the DaemonSet that does it."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        cluster.kubelets.verdict = lambda pod: "bridge has a port: veth1"
        await net.delete()
        await net.reaches("Terminating", lambda dcn: "veth1" in dcn.status.message)
        old = await net.daemons(uid)
        await net.client.delete(DAEMON_SETS, old.metadata.name, BRIDGES_NAMESPACE)
        await eventually(partial(net.daemons, uid), lambda found: found.metadata.uid != old.metadata.uid)
        assert not await net.is_gone()
        cluster.kubelets.verdict = lambda pod: None
        cluster.kubelets.look_again()
        await net.gone(uid)


async def test_its_nad_is_not_for_others_to_change(cluster: Ground) -> None:
    """No user deletes or edits the NAD of a network; the refusal names its owner."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await net.create_ready()
        with pytest.raises(Forbidden, match=f"delete dcn {net.name}"):
            await net.client.delete(NADS, net.nad_name, net.place)
        with pytest.raises(Forbidden, match=f"DummyClusterNetwork {net.name}"):
            await edit(net, promiscMode=True)
        with pytest.raises(
            Forbidden, match=f"DummyClusterNetwork {net.name}.*create another DummyClusterNetwork"
        ):
            await edit(net, bridge="mgmt-br")
        assert (await net.nad()).metadata.labels[READY_LABEL] == "true"


@pytest.mark.parametrize("used", [False, True])
async def test_a_deleted_nad_comes_again(cluster: Ground, used: bool) -> None:
    """A NAD that a user deletes by force is made again, whether the network is used or not."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await net.create_ready()
        if used:
            await net.add_machine()
        await net.unguarded()
        old = await net.nad()
        await net.client.delete(NADS, net.nad_name, net.place)
        await eventually(net.nad, lambda nad: nad.metadata.uid != old.metadata.uid)
        await net.reaches("Ready")


def bridge_of(nad: NetworkAttachmentDefinition) -> str:
    """The bridge that a NAD names."""
    return str(json.loads(nad.spec.config)["bridge"])


async def edit(net: Managed, **members: Any) -> None:
    """A user changes the NAD's configuration."""
    config = json.loads((await net.nad()).spec.config) | members
    await net.client.patch(NADS, net.nad_name, {"spec": {"config": json.dumps(config)}}, net.place)


async def test_an_edited_nad_is_repaired(cluster: Ground) -> None:
    """A NAD that was edited by force while it was not in use becomes again what it was."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await net.create_ready()
        await net.unguarded()
        before = (await net.nad()).metadata.generation
        await edit(net, bridge=f"{net.name}-x-br")
        await eventually(
            net.nad, lambda nad: nad.metadata.generation > before + 1 and bridge_of(nad) == f"{net.name}-br"
        )
        await net.reaches("Ready", lambda dcn: find(dcn.status.conditions, DRIFTED) is None)


async def test_an_edited_nad_is_repaired_by_the_next_manager(cluster: Ground) -> None:
    """A NAD that was edited while no manager was there becomes again what it was when one leads."""
    async with managed(cluster) as net:
        replica = await net.manager()
        await replica.leads()
        await net.create_ready()
        await net.unattended(replica)
        await edit(net, bridge=f"{net.name}-x-br")
        await (await net.manager("two")).leads()
        await eventually(net.nad, lambda nad: bridge_of(nad) == f"{net.name}-br")
        await net.reaches("Ready")


async def test_an_edited_nad_that_is_used_is_only_told_of(cluster: Ground) -> None:
    """A NAD that was edited by force while in use stays until it has no users; the network says so meanwhile."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        await net.create_ready()
        await net.add_machine()
        await net.unguarded()
        await edit(net, bridge=f"{net.name}-x-br")

        def tells(dcn: DummyClusterNetwork) -> bool:
            found = find(dcn.status.conditions, DRIFTED)
            return found is not None and found.status == "True"

        await eventually(net.get, tells)
        assert bridge_of(await net.nad()) == f"{net.name}-x-br"
        await net.remove_machine()
        await eventually(net.nad, lambda nad: bridge_of(nad) == f"{net.name}-br")
        await eventually(net.get, lambda dcn: not tells(dcn))


async def test_orphans_of_a_forced_deletion_stay_while_they_are_used(cluster: Ground) -> None:
    """With the finalizer removed by force, what was made stays while it is used, and then goes in the same order."""
    async with managed(cluster) as net:
        await (await net.manager()).leads()
        uid = (await net.create_ready()).metadata.uid
        await net.add_machine()
        before = sorted(await net.made(uid))
        await net.delete()
        await net.reaches("DeletionBlocked")

        async def forced() -> bool:
            await net.client.patch(DUMMY_CLUSTER_NETWORKS, net.name, {"metadata": {"finalizers": None}})
            return await net.is_gone()

        await eventually(forced, bool)
        await net.passes(2)
        assert sorted(await net.made(uid)) == before
        await net.remove_machine()
        await eventually(partial(net.made, uid), lambda found: found == [])


async def create_in_own_namespace(net: Managed) -> str:
    """A ready network with its NAD in a namespace of its own; the namespace of before, and the network's uid."""
    net.place = f"{net.name}-own"
    await net.client.create(NAMESPACES, {"metadata": {"name": net.place}})
    await (await net.manager()).leads()
    return (await net.create_ready()).metadata.uid


async def namespace_is_gone(net: Managed) -> bool:
    """Whether the NAD's namespace is gone."""
    try:
        await net.client.get(NAMESPACES, net.place)
    except NotFound:
        return True
    return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("used", [False, True])
async def test_its_namespace_waits_for_the_network(cluster: Ground, used: bool) -> None:
    """A deleted namespace keeps a network's NAD, and itself, until the network is deleted and unused."""
    async with managed(cluster) as net:
        home = net.place
        uid = await create_in_own_namespace(net)
        if used:
            await net.add_machine(namespace=home)
        await net.client.delete(NAMESPACES, net.place)
        await net.passes(2)
        assert (await net.nad()).metadata.deletion_timestamp is None
        await net.reaches("Ready")
        await net.delete()
        if used:
            await net.reaches(
                "DeletionBlocked", lambda dcn: f"VirtualMachine {home}/vm" in dcn.status.message
            )
            assert (await net.nad()).metadata.deletion_timestamp is None
            await net.remove_machine(namespace=home)
        await net.gone(uid)
        await eventually(partial(namespace_is_gone, net), bool, NAMESPACE_PATIENCE)


async def test_its_namespace_goes_by_force(cluster: Ground) -> None:
    """A network whose namespace went while no webhook was there says so, keeps its bridges under users, and can go."""
    async with managed(cluster) as net:
        home = net.place
        uid = await create_in_own_namespace(net)
        await net.add_machine(namespace=home)
        await net.unguarded()
        await net.client.delete(NAMESPACES, net.place)
        told = await net.reaches("ErrorEnsuringNAD")
        assert net.place in told.status.message
        await net.delete()
        await net.reaches("DeletionBlocked", lambda dcn: f"VirtualMachine {home}/vm" in dcn.status.message)
        assert (await net.bridge_pods(uid, "present")).keys() == {"n1", "n2", "n3"}
        await net.remove_machine(namespace=home)
        await net.gone(uid)

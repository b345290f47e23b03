"""The definitions of kinds that Lanloom brings along, and those of others, which it leaves alone."""

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.processes.checks import check_cluster
from lanloom.processes.definitions import (
    foreign,
    install,
    own,
    resources,
)
from lanloom_embedded.local import LocalClient
from lanloom_lab.harvester.definitions import definitions
from tests.embedded.engine.running import running_engine


async def test_a_cluster_gets_what_it_lacks() -> None:
    """An empty cluster gets every kind once; a look alone changes nothing, and a second time there is nothing to do."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        assert {item.outcome for item in await install(client, dry_run=True)} == {"created"}
        assert (await client.list(CRDS)).items == ()
        assert [item.name for item in await install(client)] == [kind.full_name for kind in resources()]
        assert {item.outcome for item in await install(client)} == {"unchanged"}


async def test_definitions_of_others_are_left_alone() -> None:
    """Where Harvester defines its kinds, these stay as they are, and the output says so; the rest is brought along."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        for definition in definitions():
            definition["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
            await client.create(CRDS, definition)
        before = {item.metadata.name: item for item in (await client.list(CRDS)).items}
        found = {item.name: (item.outcome, item.maker) for item in await install(client)}
        others = {NADS.full_name, LANS.full_name}
        harvesters = {kind.full_name for kind in foreign()} - others
        assert {name for name, each in found.items() if each == ("left alone", "Helm")} == harvesters
        assert {name for name, each in found.items() if each == ("created", "")} == {
            *others,
            *(kind.full_name for kind in own()),
        }
        after = {item.metadata.name: item for item in (await client.list(CRDS)).items}
        assert {name: after[name].spec for name in before} == {
            name: item.spec for name, item in before.items()
        }


async def test_own_definitions_are_brought_up_to_date() -> None:
    """A definition of an older version of Lanloom is mended, whatever project's kind it is."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await install(client)
        for kind in (CLUSTER_NETWORKS, VLAN_CONFIGS):
            spec = manifest(kind)["spec"]
            older = [version | {"subresources": {"status": {}}} for version in spec["versions"]]
            await client.patch(CRDS, kind.full_name, {"spec": {"versions": older}})
        found = {item.name: item.outcome for item in await install(client)}
        assert {name for name, each in found.items() if each == "updated"} == {
            CLUSTER_NETWORKS.full_name,
            VLAN_CONFIGS.full_name,
        }
        assert (await client.get(CRDS, CLUSTER_NETWORKS.full_name)).spec["versions"] == manifest(
            CLUSTER_NETWORKS
        )["spec"]["versions"]


async def test_a_definition_in_deletion_is_no_installed_one() -> None:
    """A kind whose definition waits for its objects is named, and nothing is written to it."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await install(client)
        body = {"metadata": {"name": "x", "finalizers": ["example.com/wait"]}, "spec": {"subnets": []}}
        await client.create(NETWORKS, body)
        await client.delete(CRDS, NETWORKS.full_name)
        before = await client.get(CRDS, NETWORKS.full_name)
        for dry_run in (True, False):
            found = {item.name: item.outcome for item in await install(client, dry_run=dry_run)}
            assert found.pop(NETWORKS.full_name) == "being deleted"
            assert set(found.values()) == {"unchanged"}
        assert await client.get(CRDS, NETWORKS.full_name) == before
        (check,) = [item for item in await check_cluster(client) if item.name == NETWORKS.full_name]
        assert check.result == "failed"
        assert "being deleted" in check.found
        assert "lanloom crds --apply" in check.remedy

"""Objects of the engine, through the client that simulations use."""

import asyncio
import copy
from contextlib import aclosing

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    PODS,
    ConfigMap,
)
from lanloom.api.meta import ObjectMeta
from lanloom.kube import errors
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.cleanup import NAME_LABEL
from lanloom_embedded.engine.reads import Selection
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.kinds import GroupPlural
from lanloom_embedded.local import LocalClient
from tests.embedded.engine.running import (
    WIDGETS,
    kind_of,
    running_engine,
    until,
)


def config_map(name: str, **data: str) -> ConfigMap:
    """A config map as the client takes it."""
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


async def test_created_object_is_read_back_with_what_the_server_adds() -> None:
    """A created object gets a uid, a version and a time, and reads back equal."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        made = await client.create(CONFIG_MAPS, config_map("a", k="v"), "default")
        assert made.metadata.uid
        assert int(made.metadata.resource_version) > 1
        assert made.metadata.creation_timestamp
        assert await client.get(CONFIG_MAPS, "a", "default") == made


async def test_json_patch_changes_everything_or_nothing() -> None:
    """A JSON patch is applied whole; one with a test that fails raises Invalid and changes nothing."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await client.create(CONFIG_MAPS, config_map("a", k="1"), "default")
        test, change = (
            {"op": "test", "path": "/data/k", "value": "1"},
            {"op": "replace", "path": "/data/k", "value": "2"},
        )
        done = await client.json_patch(CONFIG_MAPS, "a", [test, change], "default")
        assert done.data == {"k": "2"}
        with pytest.raises(errors.Invalid):
            await client.json_patch(CONFIG_MAPS, "a", [change | {"value": "3"}, test], "default")
        assert (await client.get(CONFIG_MAPS, "a", "default")).data == {"k": "2"}


async def test_applied_crd_is_served_at_once() -> None:
    """A custom resource can be created as soon as its CRD's creation has returned."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        for manifest in manifests():
            await client.create(CRDS, manifest)
        made = await client.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": "s"}})
        assert made.metadata.generation == 1
        patched = await client.patch(
            CLUSTER_NETWORK_NODES,
            "s",
            {"status": {"conditions": [{"type": "ready", "status": "True"}]}},
            subresource="status",
        )
        assert patched.status.conditions[0].status == "True"
        assert patched.metadata.generation == 1


async def test_deleted_crd_takes_its_objects_along() -> None:
    """Deleting a CRD deletes its objects, and then its resource is no longer served."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        for manifest in manifests():
            await client.create(CRDS, manifest)
        await client.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": "s"}})
        await client.delete(CRDS, CLUSTER_NETWORK_NODES.full_name)
        await until(
            lambda: engine.registry.find("network.lanloom.io", "v1alpha1", "clusternetworknodes") is None
        )
        with pytest.raises(errors.NotFound):
            await client.get(CLUSTER_NETWORK_NODES, "s")


async def test_namespace_takes_its_content_along() -> None:
    """Deleting a namespace deletes what is in it, and accepts nothing new meanwhile."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await client.create(NAMESPACES, {"metadata": {"name": "n"}})
        held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await client.create(CONFIG_MAPS, held, "n")
        await client.delete(NAMESPACES, "n")
        with pytest.raises(errors.Forbidden, match="being terminated"):
            await client.create(CONFIG_MAPS, config_map("b"), "n")
        await until(
            lambda: bool(engine.get(kind_of(engine, "configmaps"), "n", "a").meta().deletion_timestamp)
        )
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, "n")
        await until(
            lambda: (
                engine.list_page(kind_of(engine, "namespaces"), Selection(fields="metadata.name=n")).items
                == []
            )
        )


async def test_a_namespace_says_what_it_waits_for() -> None:
    """A namespace that waits for objects says in its conditions for which, and for whose finalizers."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await client.create(NAMESPACES, {"metadata": {"name": "n"}})
        held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await client.create(CONFIG_MAPS, held, "n")
        await client.delete(NAMESPACES, "n")
        namespaces = kind_of(engine, "namespaces")
        await until(lambda: "conditions" in engine.get(namespaces, "", "n").raw()["status"])
        told = {item.type: item for item in (await client.get(NAMESPACES, "n")).status.conditions}
        assert {name: (item.status, item.message) for name, item in told.items()} == {
            "NamespaceDeletionContentFailure": ("False", "Every object could be deleted, or is about to go"),
            "NamespaceContentRemaining": ("True", "Objects are left: configmaps (1)"),
            "NamespaceFinalizersRemaining": ("True", "Objects have finalizers: example.com/hold (1)"),
        }


async def test_watch_tells_what_happens_after_its_version() -> None:
    """A watch from a list's version yields what happened since, and what happens then."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        listing = await client.list(CONFIG_MAPS, "default")
        await client.create(CONFIG_MAPS, config_map("a"), "default")
        seen: list[tuple[str, str]] = []

        def note(kind: str, name: str) -> None:
            seen.append((kind, name))

        async def follow() -> None:
            watch = client.watch(CONFIG_MAPS, "default", resource_version=listing.resource_version)
            async with aclosing(watch) as events:
                async for event in events:
                    note(event.type, event.object.metadata.name)

        task = asyncio.create_task(follow())
        await until(lambda: len(seen) == 1)
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, "default")
        await client.delete(CONFIG_MAPS, "a", "default")
        await until(lambda: len(seen) == 3)
        task.cancel()
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_status_of_a_kind_without_one_is_not_found() -> None:
    """A patch of the status of a kind that has none raises NotFound, as over HTTP."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await client.create(CONFIG_MAPS, config_map("a"), "default")
        with pytest.raises(errors.NotFound):
            await client.patch(CONFIG_MAPS, "a", {"status": {}}, "default", subresource="status")


async def test_namespace_of_a_cluster_scoped_object_is_ignored() -> None:
    """Kinds of the whole cluster are the same from everywhere."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        await client.create(NAMESPACES, {"metadata": {"name": "n"}}, "default")
        assert (await client.get(NAMESPACES, "n", "kube-system")).metadata.namespace == ""


async def test_crd_takes_no_built_in_names() -> None:
    """A CRD under the names of a built-in kind is not accepted, and the kind is served as before."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        crd = copy.deepcopy(WIDGETS)
        group = "rbac.authorization.k8s.io"
        crd["metadata"] = {
            "name": f"roles.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        }
        crd["spec"] |= {"group": group, "names": {"plural": "roles", "kind": "Role"}}
        await client.create(CRDS, crd)
        conditions = (await client.get(CRDS, f"roles.{group}")).status["conditions"]
        assert {each["type"]: each["status"] for each in conditions} == {
            "NamesAccepted": "False",
            "Established": "False",
        }
        await client.delete(CRDS, f"roles.{group}")
        await until(lambda: not engine.ledger.table(GroupPlural("apiextensions.k8s.io", CRDS.plural)).objects)
        assert kind_of(engine, "roles", group).builtin


async def test_a_pod_that_two_delete_at_once_goes_once() -> None:
    """Of two deletions of a pod at the same time, one removes it; its watchers see one end of it, and more after it."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        spec = {"containers": [{"name": "main", "image": "image"}]}
        body = {"metadata": {"name": "a"}, "spec": spec}
        await client.create(PODS, body, "default")
        watch = engine.watch(kind_of(engine, "pods"), Selection(), str(engine.ledger.version))
        deletions = (client.delete(PODS, "a", "default") for _ in range(3))
        await asyncio.gather(*deletions, return_exceptions=True)
        await client.create(PODS, body, "default")
        assert [event.type for event in watch.take() if event.type != "MODIFIED"] == ["DELETED", "ADDED"]


async def test_namespaces_have_their_name_as_a_label() -> None:
    """Selectors can name a namespace: its name is a label, whatever a client wants there, and when it is generated."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        first = await client.get(NAMESPACES, "default")
        assert first.metadata.labels == {NAME_LABEL: "default"}
        made = await client.create(
            NAMESPACES, {"metadata": {"generateName": "a-", "labels": {NAME_LABEL: "b"}}}
        )
        assert made.metadata.labels == {NAME_LABEL: made.metadata.name}
        kept = await client.patch(NAMESPACES, made.metadata.name, {"metadata": {"labels": None}})
        assert kept.metadata.labels == {NAME_LABEL: made.metadata.name}


async def test_namespaces_of_an_older_database_get_the_label() -> None:
    """Namespaces that were stored before the label existed have it when the server has started."""
    storage = MemoryStorage()
    async with running_engine(storage) as engine:
        state = engine.get(kind_of(engine, "namespaces"), "", "default")
        namespace = state.raw()
        del namespace["metadata"]["labels"]
        await engine.ledger.write(GroupPlural("", "namespaces"), state.key, namespace)
    async with running_engine(storage) as engine:
        found = await LocalClient(engine).get(NAMESPACES, "default")
        assert found.metadata.labels == {NAME_LABEL: "default"}


async def test_a_pods_generation_counts_what_is_wanted() -> None:
    """A pod's generation begins at 1, and grows with its specification and with its deletion, not with its labels."""
    async with running_engine() as engine:
        client = LocalClient(engine)
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "example.org/c:1"}]}
        made = await client.create(PODS, {"metadata": {"name": "a"}, "spec": spec}, "default")
        assert made.metadata.generation == 1
        labelled = await client.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, "default")
        assert labelled.metadata.generation == 1
        image = [{"name": "c", "image": "example.org/c:2"}]
        changed = await client.patch(PODS, "a", {"spec": {"containers": image}}, "default")
        assert changed.metadata.generation == 2
        await client.delete(PODS, "a", "default")
        assert (await client.get(PODS, "a", "default")).metadata.generation == 3

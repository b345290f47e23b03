"""What was made for a network that is not there: because it was taken away by force, or not seen yet."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.ports import WatchEvent
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.local import LocalClient
from tests.features.dummy.manager.judge import Judge
from tests.features.dummy.manager.scene import Scene, in_a_scene, play

T = TypeVar("T", bound=Object)


class StaleClient(LocalClient):
    """A client on which no news of networks arrives."""

    async def watch(
        self, resource: Resource[T], namespace: str = "", **options: Any
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """As the port says, but late."""
        if resource.kind == DUMMY_CLUSTER_NETWORKS.kind:
            await asyncio.sleep(3600)
        async with aclosing(super().watch(resource, namespace, **options)) as events:
            async for event in events:
                yield event


def test_what_belongs_to_a_network_that_the_watch_has_not_brought() -> None:
    """A manager that sees a NAD before its network asks whether there is one, and leaves it alone."""

    async def story(each: Scene) -> None:
        drained: list[str] = []

        def notice(change: Change) -> None:
            body = change.after.raw() if change.after is not None else {"metadata": {}}
            if DRAINING in body["metadata"].get("annotations", {}):
                drained.append(body["metadata"]["name"])

        each.engine.ledger.listen(notice)
        each.lead(StaleClient(each.engine), "deaf")
        await each.whole.wait()
        each.lead()
        await each.add()
        await each.rest(60)
        assert drained == []
        assert (await each.get()).status.phase == "Ready"
        assert any("-" in key and key != "net" for key in each.reconciled)  # it did look

    play(story, "n1")


async def _orphan(each: Scene) -> None:
    """A user removes the finalizer of a network that is being deleted and used."""
    await each.add_machine()
    await each.delete()
    await each.rest()
    await each.client.patch(DUMMY_CLUSTER_NETWORKS, "net", {"metadata": {"finalizers": []}})
    await each.rest()
    assert await each.is_gone()


@in_a_scene("n1")
async def test_a_finalizer_that_is_removed_by_force(each: Scene) -> None:
    """What is left keeps its users, says so on the NAD, and goes when they have gone."""
    judge = Judge(each.engine)
    await each.add(subnet="10.52.0.0/16")
    await each.rest()
    await _orphan(each)
    nad = await each.nad()
    assert nad is not None
    assert DRAINING in nad.metadata.annotations
    (told,) = await each.events("isolated")
    assert "DummyClusterNetwork net" in told
    assert "VirtualMachine vms/vm" in told
    await each.rest(3600)
    assert len(await each.daemon_sets()) == 1
    await each.remove_machine()
    await each.rest(30)
    assert await each.left() == []
    assert not [text for text in judge.wrong if "under" in text or "open" in text]


@in_a_scene("n1")
async def test_a_new_network_beside_what_an_old_one_left(each: Scene) -> None:
    """A network of the same name does not take over what is left of another one, and works once that is gone."""
    await each.add()
    await each.rest()
    await _orphan(each)
    await each.add()
    await each.rest()
    status = (await each.get()).status
    assert status.phase == "ErrorEnsuringNAD"
    await each.remove_machine()
    await each.rest(60)
    assert (await each.get()).status.phase == "Ready"

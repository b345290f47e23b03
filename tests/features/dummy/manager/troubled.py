"""Managers of isolated networks whose client meets trouble."""

from lanloom_embedded.local import LocalClient
from tests.features.dummy.manager.scene import Scene
from tests.harness.interceptor import ScriptedClient


def troubled(each: Scene) -> ScriptedClient:
    """A client of a manager that leads in the scene."""
    client = ScriptedClient(LocalClient(each.engine))
    each.lead(client)
    return client


async def ready(each: Scene) -> ScriptedClient:
    """A network that works, and the client of its manager."""
    client = troubled(each)
    await each.whole.wait()
    await each.add()
    await each.rest()
    assert (await each.get()).status.phase == "Ready"
    return client

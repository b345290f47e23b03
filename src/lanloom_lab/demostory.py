"""What the demo's parts about pods have in common: pods that start, conditions that come true, and what went wrong."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.meta import Key
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.runtime.connect import connect
from lanloom_lab.demo import Verifier
from lanloom_lab.errors import DemoFailed
from lanloom_lab.layout import Layout
from lanloom_lab.processes import until_done

STEP_TIMEOUT = 60.0
PAUSE = 0.2

Progress = Callable[[str], None]
Ask = Callable[[str], None]


class Story(ABC):
    """A part of the demo on a running lab. `ask` gets commands as users type them; `show` is the one for details."""

    show = ""

    def __init__(self, client: Client, verifier: Verifier, progress: Progress, ask: Ask) -> None:
        self.client = client
        self.verifier = verifier
        self.progress = progress
        self.ask = ask

    @abstractmethod
    async def run(self) -> None:
        """Tell the story. Raises DemoFailed, and KubeError when the server refuses something."""

    async def state(self) -> str:
        """Return the state of what the story is about, for an error."""
        return ""

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until something is there. Raises DemoFailed."""
        try:
            async with asyncio.timeout(STEP_TIMEOUT):
                await until_done(condition, PAUSE)
        except TimeoutError:
            state = await self.state()
            raise DemoFailed(
                f"after {STEP_TIMEOUT:.0f} s there is not {what}" + (f"\n  {state}" if state else ""),
                f"Run the demo with --keep, then see `lanloom {self.show}`.",
            ) from None

    async def started(self, key: Key) -> str:
        """Return the node of a pod once the pod is ready."""

        async def is_ready() -> bool:
            found = await get_or_none(self.client, PODS, key)
            return found is not None and is_true(found.status.conditions, "Ready")

        await self.until(f"the pod {key}", is_ready)
        return (await self.client.get(PODS, key.name, key.namespace)).spec.node_name


async def tell(story: type[Story], layout: Layout, progress: Progress, ask: Ask) -> None:
    """Tell a story on a running lab. Raises DemoFailed."""
    try:
        async with connect(str(layout.kubeconfig)) as client:
            await story(client, Verifier(layout), progress, ask).run()
    except KubeError as error:
        raise DemoFailed(
            f"the API server refused or is silent: {error}", "See `lanloom lab status`."
        ) from error


def like(body: dict[str, Any], key: Key, node: str) -> dict[str, Any]:
    """Return a pod once more, under another name on a certain node."""
    metadata = body["metadata"] | {"name": key.name}
    return body | {"metadata": metadata, "spec": body["spec"] | {"nodeName": node}}

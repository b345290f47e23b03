"""A host in memory on which isolated bridges are kept, and keepers on it."""

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from lanloom.features.dummy.agent.bridge import BridgeReconciler
from lanloom.features.dummy.rules.hostbridge import Assignment, State, alias_of
from lanloom.node.errors import LinkError
from lanloom.node.ports import (
    Link,
    Links,
    LinkState,
    LinkStep,
)
from tests.fakes import FakeHost, FakeSwitch
from tests.harness import virtual

BRIDGE = "dummy-br"
OWNER, OTHER = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001", "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f002"


PLUGINS = Link(name=BRIDGE, index=0, kind="bridge", up=True, ignores_routers=True)
"""The bridge as CNI's plugin makes it."""

FOREIGN = {
    "": "Lanloom did not create the link of this name; rename or delete it, or choose another spec.bridgeName",
    "lanloom": "it belongs to a cluster network; choose another spec.bridgeName",
    alias_of(OTHER): f"it belongs to the DummyClusterNetwork with the uid {OTHER}; delete that one first",
}
"""Aliases of bridges that are others', and what a reconciler says of them."""

HOUR = 3600.0


def bridge(name: str = BRIDGE, alias: str = alias_of(OWNER), *, up: bool = True) -> Link:
    """A bridge as another program has left it."""
    return Link(name=name, index=0, kind="bridge", alias=alias, up=up)


class Counting:
    """The links port that counts looks, and whose watch may be broken."""

    def __init__(self, links: Links, *, broken: bool = False) -> None:
        self.dumps = 0
        self._links = links
        self._broken = broken

    async def dump(self) -> LinkState:
        """As the port says."""
        self.dumps += 1
        return await self._links.dump()

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """As the port says."""
        await self._links.apply(steps)

    def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        if self._broken:
            raise LinkError("can't watch the kernel's links: No buffer space available")
        return self._links.changes()


class Kept:
    """A reconciler that runs: what it shows, and what it has shown, in order."""

    def __init__(self, links: Links, task: Assignment) -> None:
        self.shown: list[bool] = []
        reconciler = BridgeReconciler(links, task, self.shown.append)
        self.task = asyncio.create_task(reconciler.run())

    @property
    def ready(self) -> bool:
        """Whether it says now that all is well."""
        return bool(self.shown) and self.shown[-1]

    async def until_ready(self, seconds: float = 1.0) -> None:
        """Waits until it is; fails if that takes longer."""
        await until(lambda: self.ready, seconds)

    async def failure(self) -> str:
        """The message with which it gives up."""
        try:
            await self.task
        except ExceptionGroup as errors:
            return str(errors.exceptions[0])
        raise AssertionError("it ended without an error")

    async def kill(self) -> None:
        """Ends it where it is."""
        self.task.cancel()
        await asyncio.wait((self.task,))


class Scene:
    """A host with the NICs eth0 and eth1."""

    def __init__(self) -> None:
        self.fake = FakeHost("node1", switch=FakeSwitch(), now=asyncio.get_running_loop().time)
        self._running: list[Kept] = []

    @property
    def found(self) -> dict[str, Link]:
        """The links that are there."""
        return self.fake.kernel.links

    def keep(
        self,
        state: State = "present",
        owner: str = OWNER,
        bridge: str = BRIDGE,
        links: Links | None = None,
        gateways: tuple[str, ...] = (),
    ) -> Kept:
        """Starts a reconciler; the scene's end ends it."""
        task = Assignment(bridge=bridge, owner=owner, state=state, gateways=gateways)
        kept = Kept(links or self.fake.host.links, task)
        self._running.append(kept)
        return kept

    def attach(self, link: str, bridge: str = BRIDGE) -> None:
        """A pod's or machine's link joins a bridge."""
        if link not in self.found:
            self.fake.kernel.add(Link(name=link, index=0, kind="veth", up=True, leads_away=True))
        self.fake.kernel.change(link, master=bridge)

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """Ends every reconciler at the end."""
        try:
            yield
        finally:
            for kept in self._running:
                await kept.kill()
                if not kept.task.cancelled():
                    kept.task.exception()


def on_a_host(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test with a host, in virtual time."""

    async def main() -> None:
        scene = Scene()
        async with scene.ending():
            await test(scene)

    @functools.wraps(test)
    def run() -> None:
        virtual.run(main())

    del run.__wrapped__
    return run


async def until(condition: Callable[[], bool], seconds: float = 1.0) -> None:
    """Waits, in virtual time, until a condition holds; fails after so many seconds."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not become so in time"
        await asyncio.sleep(0.01)

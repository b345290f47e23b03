"""Keepers, a sweeper, users and accidents on one host, from a seed: no user loses a bridge, and all ends well."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.features.dummy.rules.hostbridge import alias_of
from lanloom.kube.errors import TransportError
from lanloom.node.marks import is_unfinished_name
from lanloom.node.ports import Link
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.dummy.agent.hosts import PLUGINS, Kept, until
from tests.features.dummy.agent.test_garbage import Swept
from tests.harness import virtual
from tests.harness.examples import seeds

BRIDGES = ("a-br", "b-br", "c-br")
FOREIGN = (
    Link(name="x-br", index=0, kind="bridge", up=True),
    Link(name="y-br", index=0, kind="bridge", alias="lanloom-dummy", up=True),
)

NAMES = (*BRIDGES, *(link.name for link in FOREIGN))


class Chaos(Swept):
    """What may happen to a host, and who watches over it that the one thing that must not happen does not."""

    def __init__(self, engine: Engine, seed: int) -> None:
        super().__init__(engine)
        self.rng = Random(f"chaos {seed}")
        self.kept: dict[str, Kept] = {}
        self.owners: dict[str, str] = {}
        self.harm: list[str] = []
        self._before = dict(self.found)
        self._by_hand = False
        self.fake.kernel.watchers.append(self._look)

    def _look(self) -> None:
        """Called at every single change of the kernel."""
        now = dict(self.found)
        for name, link in self._before.items():
            users = [port.name for port in self._before.values() if port.master == name]
            if name in now or self._by_hand or not (link.owner_uid or name in NAMES):
                continue
            if users or not link.owner_uid:
                self.harm.append(f"{name} was deleted with {users}")
            if self.owners.get(name) == link.owner_uid:
                self.harm.append(f"{name} was deleted, and its network is there")
        self._before = now

    def by_hand(self, action: Callable[[], None]) -> None:
        """An operator does what Lanloom never may."""
        self._by_hand = True
        action()
        self._by_hand = False

    async def happen(self) -> None:
        """Something happens."""
        bridge = self.rng.choice(BRIDGES)
        happening = self.rng.choice(
            (
                self._create,
                self._delete,
                self._kill,
                self._break,
                self._join,
                self._join,
                self._leave,
                self._leave,
            )
        )
        await happening(bridge)
        for swaying in (self.asked, self.watching):
            swaying.error = TransportError("connection reset") if self.rng.random() < 0.2 else None
        await asyncio.sleep(self.rng.choice((0.0, 0.01, 0.3, 3.0, 90.0)))
        self._restart()

    async def _create(self, bridge: str) -> None:
        if bridge not in self.owners:
            self.owners[bridge] = await self.network(bridge)
            self.kept[bridge] = self.keep(owner=self.owners[bridge], bridge=bridge)

    async def _delete(self, bridge: str) -> None:
        """The network goes: its reconciler takes the bridge away, or is killed, and nothing waits for it."""
        if bridge not in self.owners:
            return
        await self.kept.pop(bridge).kill()
        owner = self.owners.pop(bridge)
        if self.rng.random() < 0.5:
            kept = self.keep("absent", owner=owner, bridge=bridge)
            await asyncio.sleep(self.rng.choice((0.0, 0.5)))
            await kept.kill()
        await self.admin.delete(DUMMY_CLUSTER_NETWORKS, f"of-{bridge}")

    async def _kill(self, bridge: str) -> None:
        if bridge in self.kept:
            await self.kept[bridge].kill()

    async def _break(self, bridge: str) -> None:
        if bridge in self.found and self.rng.random() < 0.5:
            self.by_hand(lambda: self.fake.delete_link(bridge))
        elif bridge in self.found:
            self.fake.set_link_up(bridge, False)

    async def _join(self, bridge: str) -> None:
        """A pod starts; where the network has no bridge yet CNI's plugin makes one."""
        if bridge in self.owners and bridge not in self.found:
            self.fake.kernel.add(replace(PLUGINS, name=bridge))
        if bridge in self.found:
            self.attach(f"veth{self.rng.randrange(9)}", bridge)

    async def _leave(self, _bridge: str) -> None:
        self.fake.delete_link(f"veth{self.rng.randrange(9)}")

    def _restart(self) -> None:
        """A DaemonSet's pod that ended is started again."""
        for bridge, owner in self.owners.items():
            if self.kept[bridge].task.done():
                self.kept[bridge] = self.keep(owner=owner, bridge=bridge)

    async def calm(self) -> None:
        """No other program interferes any more; the last users go."""
        self.asked.error = self.watching.error = None
        for number in range(9):
            self.fake.delete_link(f"veth{number}")
        for _ in range(20):
            await asyncio.sleep(30)
            self._restart()
        await until(lambda: all(kept.ready for kept in self.kept.values()), 5)


async def story(seed: int) -> None:
    """One host's life."""
    engine = Engine(MemoryStorage(), now=asyncio.get_running_loop().time, rng=Random(seed))
    await engine.start()
    chaos = Chaos(engine, seed)
    async with chaos.ending():
        await chaos.serve()
        for link in FOREIGN:
            chaos.fake.plant_link(link)
        chaos.start()
        for _ in range(60):
            await chaos.happen()
        await chaos.calm()
        assert not chaos.harm
        expected = {bridge: alias_of(owner) for bridge, owner in chaos.owners.items()}
        bridges = {link.name: link.alias for link in chaos.found.values() if link.kind == "bridge"}
        unseen = {name: "" for name in bridges if name in BRIDGES and not bridges[name]}
        assert not unseen.keys() & expected.keys()
        assert bridges == expected | unseen | {link.name: link.alias for link in FOREIGN}
        assert not any(is_unfinished_name(name) for name in chaos.found)
        assert chaos.task is not None and not chaos.task.done()
    chaos.task.cancel()
    await asyncio.wait((chaos.task,))
    await engine.close()


@pytest.mark.parametrize("seed", seeds(50))
def test_chaos(seed: int) -> None:
    """In whatever order, no bridge goes from under a user or a network, and what is wanted is there at last."""
    virtual.run(story(seed), rng=Random(f"order {seed}"))

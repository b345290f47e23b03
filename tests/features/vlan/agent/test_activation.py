"""How often NetworkManager is asked for what it does not do."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping

import pytest
from msgspec.structs import replace

from lanloom.api.subnets import IPV6_MTU_MIN
from lanloom.features.vlan.agent.activation import RETRY_SECONDS, Activator
from lanloom.features.vlan.rules.desired.network import Interface
from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import (
    Connection,
    ConnectionPhase,
    Link,
    LinkState,
)
from tests.features.vlan.agent.rollback.test_revisions import NEW, OLD
from tests.features.vlan.rules.test_holds import FAILED, SIX
from tests.harness.virtual import run

MINUTES = 10


class Stubborn:
    """A NetworkManager whose profile stays as it is, whatever it is asked."""

    def __init__(self, phase: ConnectionPhase, *, applied: bool, device: str) -> None:
        self.calls: Counter[str] = Counter()
        self._state = Connection(uuid="", phase=phase, applied=applied, device=device)

    async def version(self) -> str:
        """Unused."""
        return ""

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """Always the same."""
        return dict.fromkeys(uuids, self._state)

    async def load(self, names: tuple[str, ...]) -> None:
        """Counted."""
        self.calls["load"] += 1

    async def activate(self, uuid: str) -> None:
        """Counted."""
        self.calls["activate"] += 1

    async def deactivate(self, uuid: str) -> None:
        """Counted."""
        self.calls["deactivate"] += 1

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """Counted, and refused."""
        self.calls["reapply"] += 1
        raise NetworkManagerError("the change can't be applied in place")

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        """Unused."""

    async def changes(self) -> AsyncGenerator[None, None]:
        """None come."""
        await asyncio.Event().wait()
        yield


class Recovering(Stubborn):
    """A NetworkManager whose profile failed, and begins again when it is asked to."""

    def __init__(self, reason: str) -> None:
        super().__init__("failed", applied=True, device="")
        self._state = replace(self._state, reason=reason)

    async def activate(self, uuid: str) -> None:
        """Counted; the failure is forgotten."""
        await super().activate(uuid)
        self._state = replace(self._state, phase="activating", reason="")


def _asked(manager: Stubborn, *interfaces: Interface) -> Counter[str]:
    """What it is asked within MINUTES by an agent that looks every tenth of a second."""

    async def main() -> None:
        activator = Activator(manager)
        for interface in interfaces:
            for _ in range(MINUTES * 600):
                await activator.settle((interface,))
                await asyncio.sleep(0.1)

    run(main())
    return manager.calls


_ITEM = OLD.network.interfaces[0]
_EDITED = NEW.network.interfaces[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manager", "verb"),
    [
        (Stubborn("absent", applied=True, device=""), "load"),
        (Stubborn("inactive", applied=True, device=""), "activate"),
        (Stubborn("active", applied=True, device=_ITEM.name), "activate"),
        (Stubborn("active", applied=False, device=_ITEM.name), "reapply"),
    ],
    ids=["not loaded", "inactive", "without address", "edited"],
)
def test_what_does_not_help_is_asked_for_rarely(manager: Stubborn, verb: str) -> None:
    """Every request is repeated after half a minute, not at every look."""
    most = MINUTES * 60 / RETRY_SECONDS
    assert most - 1 <= _asked(manager, _ITEM)[verb] <= most + 1


class Unable(Stubborn):
    """One that can't activate its profile until it is `able`."""

    able = False

    def __init__(self) -> None:
        super().__init__("inactive", applied=True, device="")
        self._state = replace(self._state, uuid=_ITEM.uuid)

    async def activate(self, uuid: str) -> None:
        """Counted, and refused."""
        await super().activate(uuid)
        if not self.able:
            raise NetworkManagerError("NetworkManager refused ActivateConnection: File exists")


def test_a_refused_activation_is_the_reason() -> None:
    """What NetworkManager says when it refuses to activate a profile is its failure, until it accepts that."""
    manager = Unable()

    async def seen(activator: Activator, seconds: float) -> tuple[str, str]:
        await asyncio.sleep(seconds)
        found = await activator.settle((_ITEM,))
        assert found is not None
        return found[_ITEM.uuid].phase, found[_ITEM.uuid].reason

    async def main() -> None:
        activator = Activator(manager)
        assert await seen(activator, 0) == ("inactive", "")
        for _ in range(3):
            phase, reason = await seen(activator, RETRY_SECONDS)
            assert (phase, reason) == ("failed", "NetworkManager refused ActivateConnection: File exists")
        manager.able = True
        assert await seen(activator, RETRY_SECONDS) == ("inactive", "")

    run(main())


def test_another_edit_is_applied_at_once() -> None:
    """An edit does not wait for the pause after the one before."""
    manager = Stubborn("active", applied=False, device=_ITEM.name)

    async def main() -> None:
        activator = Activator(manager)
        for item in (_ITEM, _ITEM, _EDITED, _EDITED):
            await activator.settle((item,))

    run(main())
    assert manager.calls["reapply"] == 2


def test_a_lease_that_was_asked_for_too_early_is_asked_for_anew() -> None:
    """What is still activating some seconds after its uplink was built is activated once more, and then left alone."""
    manager = Stubborn("activating", applied=True, device=_ITEM.name)
    lease = replace(_ITEM, mode="dhcp", address="")

    async def main() -> None:
        activator = Activator(manager)
        activator.uplink_built((lease, _EDITED))
        for _ in range(MINUTES * 600):
            await activator.settle((lease,))
            await asyncio.sleep(0.1)

    run(main())
    assert manager.calls == {"activate": 1}


@pytest.mark.slow
def test_an_activation_without_end_is_begun_anew() -> None:
    """What is activating for longer than it may on a link with a carrier is activated again, and no more often."""
    manager = Stubborn("activating", applied=True, device=_ITEM.name)
    link = Link(name=_ITEM.name, index=1, kind="vlan", up=True, operstate="UP")
    dark = Link(name=_ITEM.name, index=1, kind="vlan", up=True, operstate="LOWERLAYERDOWN")

    async def main() -> None:
        activator = Activator(manager)
        for observed in (dark, link):
            assert not manager.calls
            for _ in range(MINUTES * 600):
                await activator.settle((_ITEM,), LinkState({link.name: observed}))
                await asyncio.sleep(0.1)

    run(main())
    most = MINUTES * 60 / RETRY_SECONDS
    assert most - 2 <= manager.calls["activate"] <= most
    assert set(manager.calls) == {"activate"}


def test_what_does_not_come_back_in_place_is_activated() -> None:
    """An address that a reapply does not restore is restored by an activation some seconds later."""
    manager = Refusing("active", applied=True, device=_ITEM.name)

    async def main() -> None:
        activator = Activator(manager)
        for _ in range(120):
            await activator.settle((_ITEM,))
            await asyncio.sleep(0.1)

    run(main())
    assert manager.calls == {"reapply": 1, "activate": 1}


class Refusing(Stubborn):
    """One that says that it did it."""

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """Counted."""
        self.calls["reapply"] += 1


def test_a_failure_of_a_bridge_that_was_too_small() -> None:
    """When the MTU grows to the minimum of IPv6, the profile is tried at once, and no other host is blamed."""
    manager = Recovering(FAILED)
    bridge = Link(name="cluster-1-br", index=1, kind="bridge", mtu=IPV6_MTU_MIN - 1)
    small, grown = (LinkState({bridge.name: replace(bridge, mtu=bridge.mtu + more)}) for more in (0, 1))

    async def main() -> None:
        activator = Activator(manager)
        await activator.settle((SIX,), small)
        found = await activator.settle((SIX,), grown)
        assert found is not None and found[SIX.uuid].reason == ""
        assert not activator.conflicts((replace(OLD.network, interfaces=(SIX,)),))

    run(main())
    assert manager.calls == {"activate": 1}
